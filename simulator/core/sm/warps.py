"""CTAs start and end, and their warps go on along their traces."""

import numpy as np

from ..jit import inlined
from .tables import BEGUN, EXIT, FIXED, GROUP, LOG_MARK, LOG_SLOT, LOG_TIME, LOGGED, START, Latencies, State


@inlined
def _note(state: State, slot: int, mark: int, time: float) -> None:
    logged = state.queue[LOGGED]
    if logged < len(state.log):
        state.log[logged, LOG_SLOT], state.log[logged, LOG_MARK], state.log[logged, LOG_TIME] = slot, mark, time
        state.queue[LOGGED] += 1


@inlined
def start_cta(state: State, trace: np.ndarray, roles: np.ndarray, slot: int) -> None:
    """A slot's next CTA begins."""
    width = len(roles)
    per_cta = (width + GROUP - 1) // GROUP
    begin = state.starting[slot]
    state.starting[slot] = np.inf
    state.running[slot] = width
    _note(state, slot, START, begin)
    state.arrived[slot] = 0
    state.released[slot] = 0.0
    state.announced[slot] = state.complete[slot] = 0
    state.channel_time[slot] = 0.0
    for group in range(slot * per_cta, (slot + 1) * per_cta):
        state.started[group] = state.finished[group] = 0
        state.joined[group] = 0
    for member in range(width):
        warp = slot * width + member
        state.place[warp] = roles[member, 0]
        state.age[warp] = state.queue[BEGUN]
        state.queue[BEGUN] += 1
        state.pc[warp] = trace[state.place[warp], 0]
        state.earliest[warp] = state.last_issue[warp] = begin
        state.why[warp, 1] = FIXED
        state.at_barrier[warp] = -1
        state.commits[warp] = state.issued[warp] = 0
        state.waited[warp] = 0
        state.pending[warp] = state.fetched[warp] = 0.0
        state.product_commits[warp] = 0
        state.boards[warp] = 0.0
        if member == 0 and trace[state.place[warp], 2] >= 0:
            _note(state, slot, trace[state.place[warp], 2], begin)
    state.wake[slot] = 1


@inlined
def go_on(
    state: State, trace: np.ndarray, roles: np.ndarray, latencies: Latencies, warp: int, slot: int, now: float
) -> bool:
    """A warp comes to its next instruction. Returns: whether it was the last warp of its CTA, and has ended."""
    member = warp - slot * len(roles)
    state.pc[warp] += 1
    if state.pc[warp] < trace[state.place[warp], 1]:
        return False
    state.place[warp] += 1
    if state.place[warp] < roles[member, 1]:
        state.pc[warp] = trace[state.place[warp], 0]
        if member == 0 and trace[state.place[warp], 2] >= 0:
            _note(state, slot, trace[state.place[warp], 2], now)
        return False
    state.ready[warp] = np.inf
    state.place[warp] = -1
    state.running[slot] -= 1
    if state.running[slot] > 0:
        return False
    _note(state, slot, EXIT, now)
    state.done[slot] += 1
    state.starting[slot] = now + latencies.dispatch
    return True
