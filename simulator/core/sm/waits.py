"""When a warp's next instruction may issue: stall counts, scoreboards, barriers, groups of copies and matmuls."""

import numpy as np

from ...limits import SCOREBOARDS
from ..jit import inlined
from .instruction import COPY_WAIT, MATMUL, MATMUL_WAIT, MBARRIER_WAIT
from .latencies import Latencies
from .state import COPIES, MATMUL_END, MATMUL_QUEUE, RING, SCOREBOARD, State


@inlined
def find_ready(state: State, code: np.ndarray, warp: int, slot: int, group: int, latencies: Latencies) -> None:
    """When a warp's next instruction may issue, its pipe and issue slot apart; infinite while that is unknown."""
    instruction = code[state.pc[warp]]
    time = state.earliest[warp]
    reason, producer = state.reasons[warp, 1], -1
    mask = instruction.wait_mask
    if mask:
        for board in range(SCOREBOARDS):
            if mask >> board & 1 and state.scoreboards[warp, board, 0] > time:
                time = state.scoreboards[warp, board, 0]
                reason, producer = SCOREBOARD, int(state.scoreboards[warp, board, 1])
    kind = instruction.kind
    if kind == COPY_WAIT:
        number = state.groups[warp] - instruction.pending
        if number > 0 and state.group_time[warp, (number - 1) % RING] > time:
            time = state.group_time[warp, (number - 1) % RING]
            reason = COPIES
    elif kind == MBARRIER_WAIT and not instruction.in_order:
        channel = instruction.channel
        number = state.waited[warp, channel] + 1 - instruction.free_phases
        if number > state.complete[slot, channel]:
            time = np.inf
            reason = COPIES
        elif number > 0 and state.phase_time[slot, channel, number % RING] > time:
            time = state.phase_time[slot, channel, number % RING]
            reason = COPIES
    elif kind == MATMUL_WAIT:
        number = state.matmul_groups[warp, RING] - instruction.pending
        if number > 0:
            last = state.matmul_groups[warp, (number - 1) % RING]
            if last > state.finished[group]:
                time = np.inf
                reason = MATMUL_END
            elif last > 0:
                end = state.matmul_times[group, (last - 1) % RING, 1] + latencies.matmul_release
                if end > time:
                    time = end
                    reason = MATMUL_END
    elif kind == MATMUL:
        before = state.issued[warp] - latencies.matmul_queue
        if before >= 0:
            if before >= state.started[group]:
                time = np.inf
                reason = MATMUL_QUEUE
            elif state.matmul_times[group, before % RING, 0] > time:
                time = state.matmul_times[group, before % RING, 0]
                reason = MATMUL_QUEUE
    state.reasons[warp, 0] = reason
    state.producer[warp] = producer
    state.ready[warp] = time


@inlined
def end_of_matmul(state: State) -> float:
    """When the last sub-core finishes the running matmul."""
    ends = state.matmul_end
    return max(ends[0], ends[1], ends[2], ends[3])


@inlined
def port_credit(state: State, core: int, time: float, left: float, most: float) -> float:
    """Reads of registers that a sub-core's tensor core, which shares the port, has room for.

    A token bucket: it fills at the rate that the tensor core leaves of the port, up to `most` reads.
    """
    credit: float = min(most, state.credit[core] + (time - state.credit_time[core]) * left)
    return credit
