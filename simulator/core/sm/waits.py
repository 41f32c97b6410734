"""What a warp waits for before its next instruction may issue."""

import numpy as np

from ..jit import inlined
from .tables import (
    ARGUMENT,
    BULK_WAIT,
    CHANNELS,
    COPIES,
    COPY_WAIT,
    KIND,
    MATMUL,
    MATMUL_WAIT,
    MATMULS,
    QUEUE,
    RING,
    SCOREBOARD,
    SCOREBOARDS,
    WAITS,
    Latencies,
    State,
)


@inlined
def find_ready(state: State, code: np.ndarray, warp: int, slot: int, group: int, latencies: Latencies) -> None:
    """When a warp's next instruction may issue as far as the warp itself goes; infinity while nobody knows."""
    i = state.pc[warp]
    time = state.earliest[warp]
    reason, setter = state.why[warp, 1], -1
    mask = code[i, WAITS]
    if mask:
        for board in range(SCOREBOARDS):
            if mask >> board & 1 and state.boards[warp, board, 0] > time:
                time = state.boards[warp, board, 0]
                reason, setter = SCOREBOARD, int(state.boards[warp, board, 1])
    kind = code[i, KIND]
    argument = code[i, ARGUMENT]
    if kind == COPY_WAIT:
        number = state.commits[warp] - argument
        if number > 0 and state.committed[warp, (number - 1) % RING] > time:
            time = state.committed[warp, (number - 1) % RING]
            reason = COPIES
    elif kind == BULK_WAIT and argument >= 0:
        channel = argument % CHANNELS
        number = state.waited[warp, channel] + 1 - argument // CHANNELS
        if number > state.complete[slot, channel]:
            time = np.inf
            reason = COPIES
        elif number > 0 and state.channel_time[slot, channel, number % RING] > time:
            time = state.channel_time[slot, channel, number % RING]
            reason = COPIES
    elif kind == MATMUL_WAIT:
        number = state.product_commits[warp, RING] - argument
        if number > 0:
            product = state.product_commits[warp, (number - 1) % RING]
            if product > state.finished[group]:
                time = np.inf
                reason = MATMULS
            elif product > 0:
                end = state.times[group, (product - 1) % RING, 1] + latencies.matmul_wait
                if end > time:
                    time = end
                    reason = MATMULS
    elif kind == MATMUL:
        before = state.issued[warp] - latencies.matmul_queue
        if before >= 0:
            if before >= state.started[group]:
                time = np.inf
                reason = QUEUE
            elif state.times[group, before % RING, 0] > time:
                time = state.times[group, before % RING, 0]
                reason = QUEUE
    state.why[warp, 0] = reason
    state.blamed[warp] = setter
    state.ready[warp] = time


@inlined
def end_of_product(state: State) -> float:
    """When the last sub-core has done with the product that runs."""
    ends = state.product_end
    return max(ends[0], ends[1], ends[2], ends[3])


@inlined
def port_credit(state: State, core: int, time: float, left: float, slack: float) -> float:
    """Instructions that a sub-core's tensor core can wait for: what it leaves of the register port adds up."""
    credit: float = min(slack, state.credit[core] + (time - state.credit_time[core]) * left)
    return credit
