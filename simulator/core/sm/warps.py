"""CTAs start and end, and their warps advance along their traces."""

import numpy as np

from ...limits import WARPGROUP_WARPS
from ..jit import inlined
from .latencies import Latencies
from .state import EXIT, FIXED, LOG_MARK, LOG_SLOT, LOG_TIME, START, State


@inlined
def _log(state: State, slot: int, mark: int, time: float) -> None:
    """Log a mark; entries beyond the log's room are counted, so that the caller can run again with more."""
    sm = state.sm[0]
    entry = sm.logged
    sm.logged += 1
    state.laps[slot] += mark == sm.watched
    if entry < len(state.log):
        state.log[entry, LOG_SLOT], state.log[entry, LOG_MARK], state.log[entry, LOG_TIME] = slot, mark, time


@inlined
def start_cta(state: State, trace: np.ndarray, roles: np.ndarray, slot: int) -> None:
    """A slot's next CTA begins."""
    sm = state.sm[0]
    width = len(roles)
    per_cta = (width + WARPGROUP_WARPS - 1) // WARPGROUP_WARPS
    begin = state.starting[slot]
    state.starting[slot] = np.inf
    state.running[slot] = width
    _log(state, slot, START, begin)
    state.arrived[slot] = 0
    state.announced[slot] = state.complete[slot] = 0
    state.given[slot] = 0
    state.phase_time[slot] = 0.0
    for group in range(slot * per_cta, (slot + 1) * per_cta):
        state.started[group] = state.finished[group] = 0
        state.joined[group] = 0
    for member in range(width):
        warp = slot * width + member
        state.stretch[warp] = roles[member, 0]
        state.age[warp] = sm.begun
        sm.begun += 1
        state.pc[warp] = trace[state.stretch[warp], 0]
        state.earliest[warp] = state.last_issue[warp] = begin
        state.reasons[warp, 1] = FIXED
        state.at_barrier[warp] = state.line[warp] = -1
        state.groups[warp] = state.issued[warp] = 0
        state.waited[warp] = 0
        state.met[warp] = 0
        state.copied[warp] = state.loaded[warp] = 0.0
        state.matmul_groups[warp] = 0
        state.scoreboards[warp] = 0.0
        if member == 0 and trace[state.stretch[warp], 2] >= 0:
            _log(state, slot, trace[state.stretch[warp], 2], begin)
    state.wake[slot] = 1


@inlined
def go_on(
    state: State, trace: np.ndarray, roles: np.ndarray, latencies: Latencies, warp: int, slot: int, now: float
) -> bool:
    """Advance a warp to its next instruction. Returns: whether it was the last warp of its CTA, and has exited."""
    member = warp - slot * len(roles)
    state.pc[warp] += 1
    if state.pc[warp] < trace[state.stretch[warp], 1]:
        return False
    state.stretch[warp] += 1
    if state.stretch[warp] < roles[member, 1]:
        state.pc[warp] = trace[state.stretch[warp], 0]
        if member == 0 and trace[state.stretch[warp], 2] >= 0:
            _log(state, slot, trace[state.stretch[warp], 2], now)
        return False
    state.ready[warp] = np.inf
    state.stretch[warp] = -1
    state.running[slot] -= 1
    if state.running[slot] > 0:
        return False
    _log(state, slot, EXIT, now)
    state.done[slot] += 1
    state.starting[slot] = now + latencies.replacement
    return True
