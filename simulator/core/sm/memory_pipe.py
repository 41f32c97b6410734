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
    LSU_QUEUED,
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

MOST_BUSY, BEGUN_CYCLES = 0.92, 1000.0
"""Share of shared memory that products take from others at most; cycles before which there is no share to speak of.
Beside m64n64k16 with both operands there, which take all of it, LDS, LDSM and STS get 10 to 12 of 128 B a cycle, loads
9 (one H200, CUDA 13.0, 2026-11-22, docs/lab/data/sm-sharing-h200-2026-11-22.json.xz)."""
TAKEN_FROM_READS = 0.74
"""What they take at least where others read: beside products with A in registers, which read half of the time, LDS and
LDSM get 33.5 to 35.5 B a cycle and STS 56 to 58; with both operands in shared memory both get 34 to 36 (n = 128; the
same data)."""
WHOLE, LINE_HOLDS = 0.95, 0.5
"""Where products take more than that of shared memory, the others go when one ends; each line holds one up so long.
Beside m64n64k16 with both operands there, 34 cycles each, a warp's LDS or STS of four lines takes 138 cycles, its SHFL
69, those of four warps 199 and 70; three lines a product make it 1.5 longer (the same data)."""
COPY_ISSUE = 0.25
"""LDGSTS: its turn in cycles for one of its data; those are written when nobody stores. ncu counts a wavefront an
instruction; LDGSTS and LDS together move 193 B a cycle, LDGSTS and STS 105 (the same data)."""


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
def _share_taken(state: State, stores: bool) -> float:
    """Of shared memory, by the product that runs, from others' stores or from their reads."""
    share = state.links[SMEM_SHARE] if stores else max(state.links[SMEM_SHARE], TAKEN_FROM_READS)
    return min(share, MOST_BUSY)


@inlined
def _beside_product(smem: float, beside: float, share: float) -> float:
    """How long lines take, for so many cycles beside a product that takes a share of shared memory, then without."""
    return min(smem / (1.0 - share), smem + beside * share)


@inlined
def push_back(state: State, code: np.ndarray, rates: np.ndarray, width: int) -> None:
    """A product begins, and comes before the lines that wait for shared memory."""
    links = state.links
    clock, length = links[CLOCK], links[LENGTH]
    waiting = links[SMEM_FREE] - clock
    if waiting <= 0.0:
        return
    for warp in range(len(state.pc)):
        core = warp % SUB_CORES
        # What still queues in front of L1, behind stores, has not come to shared memory.
        if state.place[warp] < 0 or state.gone[core, (state.sent[core] - 1) % LSU_QUEUED] > links[SMEM_FREE]:
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
                share = _share_taken(state, code[i, KIND] == WRITE or code[i, ARGUMENT] != 0)
                late = _beside_product(before, length, share) - before
                if links[SMEM_SHARE] >= WHOLE:
                    late = max(late, length - 1.0)
                state.boards[warp, board, 0] += late
                state.wake[warp // width] = 1
    stored = min(max(0.0, links[WRITTEN] - clock), waiting)
    reads, stores = _share_taken(state, False), _share_taken(state, True)
    share = reads + (stores - reads) * stored / waiting
    links[SMEM_FREE] = clock + _beside_product(waiting, length, share)
    links[WRITTEN] += _beside_product(stored, length, stores) - stored


@inlined
def _turn(state: State, core: int, now: float) -> float:
    """When what a sub-core issues comes to L1: behind all that it has issued."""
    return max(now, state.gone[core, (state.sent[core] - 1) % LSU_QUEUED])


@inlined
def _come(state: State, core: int, turn: float, pipe: int) -> None:
    """An instruction comes to L1; as long as the queue in front of it is full, no other of its pipe issues.

    What goes elsewhere by that pipe (TMA, mbarriers) is held up with them, and does not wait in line.
    """
    if pipe == LSU:
        state.gone[core, state.sent[core] % LSU_QUEUED] = turn
        state.sent[core] += 1
        state.pipe_free[core, LSU] = max(state.pipe_free[core, LSU], state.gone[core, state.sent[core] % LSU_QUEUED])


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
        smem = _beside_product(smem, beside, _share_taken(state, stores))
        if state.links[SMEM_SHARE] >= WHOLE:
            ends = min(rates[i, PASSES], float(state.queue[TAIL] - state.queue[HEAD]))
            wait = end_of_product(state) - now + (ends - 1.0) * state.links[LENGTH]
            for other in range(SUB_CORES):
                state.product_end[other] += rates[i, SMEM] * LINE_HOLDS
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
    _come(state, core, begin, code[i, PIPE])
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
        state.links[SMEM_FREE] = free + _beside_product(taken, beside, _share_taken(state, False))
        busy = (state.used[SHARED_MEMORY] - state.links[COPIED]) / max(now, BEGUN_CYCLES)
        fill = max(fill, 1.0 / (1.0 - min(MOST_BUSY, busy)))
    state.links[TAGS_FREE] = free + rates[i, TAGS]
    begin = max(turn, free)
    sent = begin if argument else max(begin, min(state.links[OUT_FREE], begin + state.links[ROOM]))
    finish = fetch(state, sent, latency, smem, fill, taken)
    if kind == LOAD and argument:
        state.used[FETCHED] += smem
    elif kind == LOAD:
        state.fetched[warp] = max(state.fetched[warp], finish)
    else:
        state.links[SMEM_FREE] = max(now, state.links[SMEM_FREE]) + smem * COPY_ISSUE
        state.links[WRITTEN] = max(now, state.links[WRITTEN]) + smem * (1.0 + COPY_ISSUE)
        state.pending[warp] = max(state.pending[warp], finish)
    _come(state, core, begin, code[i, PIPE])
    return finish, begin + rates[i, READ]
