"""What memory instructions do on an SM: they come to L1 in order, sub-core by sub-core, and pass it beside products."""

import numpy as np

from ..jit import inlined
from .tables import (
    AGAIN,
    ARGUMENT,
    CLOCK,
    COPIED,
    COPY_FREE,
    FETCHED,
    HEAD,
    KIND,
    LATENCY,
    LENGTH,
    LOAD,
    LSU,
    LSU_RING,
    MULTIPLYING,
    OUT_FREE,
    PASSES,
    PIPE,
    READ,
    ROOM,
    SCOREBOARDS,
    SHARED,
    SHARED_MEMORY,
    SMEM,
    SMEM_FREE,
    SMEM_SHARE,
    SPILLED,
    SUB_CORES,
    TAGS,
    TAGS_FREE,
    TAIL,
    WAITING,
    WRITE,
    WRITES,
    WRITTEN,
    Latencies,
    State,
)
from .waits import end_of_product

BEGUN_CYCLES = 1000.0
"""Cycles before which there is no share of shared memory to speak of: a guard of the division, not a time of a GPU."""


@inlined
def fetch(state: State, sent: float, latency: float, smem: float, fill: float, taken: float) -> float:
    """Data from beyond L1 come one after the other, and take so much of shared memory. Returns: when all are there."""
    links, arrival = state.links, sent + latency
    if arrival > links[COPY_FREE]:
        links[COPY_FREE] = arrival
    links[COPY_FREE] += smem * fill
    links[COPIED] += taken
    state.used[SHARED_MEMORY] += taken
    return links[COPY_FREE]


@inlined
def _share_taken(state: State, stores: bool, latencies: Latencies) -> float:
    """Of shared memory, by the product that runs, from others' stores or from their reads."""
    share = state.links[SMEM_SHARE] if stores else max(state.links[SMEM_SHARE], latencies.taken_from_reads)
    return min(share, latencies.most_taken)


@inlined
def _beside_product(smem: float, beside: float, share: float) -> float:
    """How long lines take, for so many cycles beside a product that takes a share of shared memory, then without."""
    return min(smem / (1.0 - share), smem + beside * share)


@inlined
def push_back(state: State, code: np.ndarray, rates: np.ndarray, width: int, latencies: Latencies) -> None:
    """A product begins, and comes before the lines that wait for shared memory."""
    links = state.links
    clock, length = links[CLOCK], links[LENGTH]
    waiting = links[SMEM_FREE] - clock
    if waiting <= 0.0:
        return
    for warp in range(len(state.pc)):
        core = warp % SUB_CORES
        # What still queues in front of L1, behind stores, has not come to shared memory.
        if state.place[warp] < 0 or state.gone[core, (state.sent[core] - 1) & (LSU_RING - 1)] > links[SMEM_FREE]:
            continue
        for board in range(SCOREBOARDS):
            i = int(state.boards[warp, board, 1])
            if state.boards[warp, board, 0] <= clock or code[i, KIND] not in (SHARED, WRITE, AGAIN):
                continue
            if code[i, KIND] == AGAIN and state.fetched[warp] > links[SMEM_FREE]:
                continue
            after = rates[i, LATENCY] if board == code[i, WRITES] else rates[i, READ]
            before = min(state.boards[warp, board, 0] - after - clock, waiting)
            if before > 0.0:
                share = _share_taken(state, code[i, KIND] == WRITE or code[i, ARGUMENT] != 0, latencies)
                late = _beside_product(before, length, share) - before
                if links[SMEM_SHARE] >= latencies.takes_all:
                    late = max(late, length - 1.0)
                state.boards[warp, board, 0] += late
                state.wake[warp // width] = 1
    stored = min(max(0.0, links[WRITTEN] - clock), waiting)
    reads, stores = _share_taken(state, False, latencies), _share_taken(state, True, latencies)
    share = reads + (stores - reads) * stored / waiting
    links[SMEM_FREE] = clock + _beside_product(waiting, length, share)
    links[WRITTEN] += _beside_product(stored, length, stores) - stored


@inlined
def _turn(state: State, core: int, now: float) -> float:
    """When what a sub-core issues comes to L1: behind all that it has issued."""
    return max(now, state.gone[core, (state.sent[core] - 1) & (LSU_RING - 1)])


@inlined
def queue_free_at(state: State, core: int, latencies: Latencies) -> float:
    """When the queue in front of L1 has room for another memory instruction of a sub-core."""
    free: float = state.gone[core, (state.sent[core] - latencies.lsu_queue) & (LSU_RING - 1)]
    return free


@inlined
def _come(state: State, core: int, turn: float, pipe: int, latencies: Latencies) -> None:
    """An instruction comes to L1; as long as the queue in front of it is full, no other of its pipe issues.

    What goes elsewhere by that pipe (TMA, mbarriers) is held up with them, and does not wait in line.
    """
    if pipe == LSU:
        state.gone[core, state.sent[core] & (LSU_RING - 1)] = turn
        state.sent[core] += 1
        state.pipe_free[core, LSU] = max(state.pipe_free[core, LSU], queue_free_at(state, core, latencies))


@inlined
def pass_shared(
    state: State, code: np.ndarray, rates: np.ndarray, i: int, warp: int, now: float, latencies: Latencies
) -> tuple[float, float]:
    """SHARED, WRITE, AGAIN. Returns: when the result is there; when its operands are read."""
    kind, argument = code[i, KIND], code[i, ARGUMENT]
    core, smem, wait = warp % SUB_CORES, rates[i, SMEM], 0.0
    turn = _turn(state, core, now)
    stores = kind == WRITE or argument != 0
    # While it queues, L1 serves the other sub-cores.
    free = max(now, state.links[SMEM_FREE])
    if stores:
        free = max(free, state.links[WRITTEN])
    begin = max(turn, free)
    if state.queue[MULTIPLYING]:
        # Products come first: beside one that reads its operands, shared memory serves the others with what is left.
        beside = max(0.0, end_of_product(state) - max(turn, state.links[SMEM_FREE]))
        smem = _beside_product(smem, beside, _share_taken(state, stores, latencies))
        if state.links[SMEM_SHARE] >= latencies.takes_all:
            ends = min(rates[i, PASSES], float(state.queue[TAIL] - state.queue[HEAD]))
            wait = end_of_product(state) - now + (ends - 1.0) * state.links[LENGTH]
            for other in range(SUB_CORES):
                state.product_end[other] += rates[i, SMEM] * latencies.line_holds
    if smem > 0.0:  # a fence waits, and holds up nobody
        state.links[SMEM_FREE] = free + smem
        if stores:
            state.links[WRITTEN] = free + smem
    state.used[SHARED_MEMORY] += rates[i, SMEM]
    finish = now + rates[i, LATENCY] + max(begin + smem - now, wait)
    if kind == AGAIN and state.fetched[warp] > begin:
        # L1 serves what is under way when it comes, line by line.
        state.fetched[warp] += smem
        finish = max(finish, state.fetched[warp])
    if kind == WRITE:
        if argument:
            state.used[SPILLED] += rates[i, SMEM]
        # L1 writes through. What finds no room among what waits on the way out waits in front of L1.
        state.links[OUT_FREE] = max(now, state.links[OUT_FREE]) + rates[i, SMEM] * latencies.out
        state.links[ROOM] = rates[i, WAITING] * latencies.out
        begin = max(begin, state.links[OUT_FREE] - state.links[ROOM])
    _come(state, core, begin, code[i, PIPE], latencies)
    return finish, now + rates[i, READ] + max(begin - now, wait)


@inlined
def come_from_beyond(
    state: State, code: np.ndarray, rates: np.ndarray, i: int, warp: int, now: float, latencies: Latencies
) -> tuple[float, float]:
    """LOAD, COPY. Returns: when data are there; when the operands are read.

    They leave behind what is on the way out, but for spilled registers. What goes to registers passes shared memory
    line by line, like what is there, and waits for its turn when it comes; copies are written beside products.
    """
    kind, argument = code[i, KIND], code[i, ARGUMENT]
    core, smem = warp % SUB_CORES, rates[i, SMEM]
    turn, free = _turn(state, core, now), max(now, state.links[TAGS_FREE])
    fill, latency, taken = latencies.fill, latencies.copy, smem
    if kind == LOAD:
        latency, taken = latencies.load, rates[i, TAGS]
        free = max(free, state.links[SMEM_FREE])
        beside = max(0.0, end_of_product(state) - max(turn, free)) if state.queue[MULTIPLYING] else 0.0
        state.links[SMEM_FREE] = free + _beside_product(taken, beside, _share_taken(state, False, latencies))
        busy = (state.used[SHARED_MEMORY] - state.links[COPIED]) / max(now, BEGUN_CYCLES)
        fill = max(fill, 1.0 / (1.0 - min(latencies.most_taken, busy)))
    state.links[TAGS_FREE] = free + rates[i, TAGS]
    begin = max(turn, free)
    sent = begin if argument else max(begin, min(state.links[OUT_FREE], begin + state.links[ROOM]))
    finish = fetch(state, sent, latency, smem, fill, taken)
    if kind == LOAD and argument:
        state.used[FETCHED] += smem
    elif kind == LOAD:
        state.fetched[warp] = max(state.fetched[warp], finish)
    else:
        state.links[SMEM_FREE] = max(now, state.links[SMEM_FREE]) + smem * latencies.copy_turn
        state.links[WRITTEN] = max(now, state.links[WRITTEN]) + smem * (1.0 + latencies.copy_turn)
        state.pending[warp] = max(state.pending[warp], finish)
    _come(state, core, begin, code[i, PIPE], latencies)
    return finish, begin + rates[i, READ]
