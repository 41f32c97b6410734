"""What an instruction does beside taking its pipe: shared memory, copies, products, barriers."""

import numpy as np

from .compiled import inlined
from .sm_tables import (
    AGAIN,
    ARGUMENT,
    ARRIVE,
    AT_BARRIER,
    BARRIER,
    BARRIERS,
    BULK,
    BULK_WAIT,
    BULK_WRITE,
    CHANNELS,
    CLOCK,
    COPIED,
    COPY,
    COPY_COMMIT,
    COPY_FREE,
    EXPECT,
    FETCHED,
    FLUSH,
    GROUP,
    HEAD,
    KIND,
    LATENCY,
    LEADER,
    LENGTH,
    LOAD,
    LSU,
    MATMUL,
    MULTIPLYING,
    OUT_FREE,
    PASSES,
    QUEUED,
    READ,
    READS,
    RING,
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
from .sm_waits import end_of_product

MOST_BUSY, BEGUN_CYCLES = 0.92, 1000.0
"""Share of shared memory that products take from others at most; cycles before which there is no share to speak of.
Beside m64n64k16 with both operands there, which take all of it, LDS, LDSM and STS get 10 to 12 of 128 B a cycle, loads
9 (one H200, CUDA 13.0, 2026-11-22, docs/validation/sm-sharing-h200-2026-11-22.json)."""
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
def _fetch(state: State, sent: float, latency: float, smem: float, fill: float, taken: float) -> float:
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
        if state.place[warp] < 0:
            continue
        for board in range(SCOREBOARDS):
            i = int(state.boards[warp, board, 1])
            if state.boards[warp, board, 0] <= clock or code[i, KIND] not in (SHARED, WRITE):
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
def _arrive(state: State, slot: int, channel: int, time: float) -> None:
    """A phase of an mbarrier is complete."""
    number = state.complete[slot, channel] + 1
    state.complete[slot, channel] = number
    state.channel_time[slot, channel, number % RING] = max(time, state.channel_time[slot, channel, number % RING])
    state.wake[slot] = 1


@inlined
def _mbarrier(
    state: State, kind: int, argument: int, warp: int, slot: int, now: float, finish: float, smem: float,
    latencies: Latencies, leads: bool,
) -> float:  # fmt: skip
    """EXPECT, BULK, BULK_WAIT, ARRIVE. Returns: when a wait that passes what is not announced yet is over."""
    if kind == BULK_WAIT:
        if argument >= 0:
            state.waited[warp, argument % CHANNELS] += 1
            return finish
        channel = -argument - 1
        state.waited[warp, channel] += 1
        number = state.waited[warp, channel]
        if number <= state.announced[slot, channel]:
            return max(finish, state.channel_time[slot, channel, number % RING])
    elif leads and kind == BULK:
        channel = state.channel[slot]
        sent = now
        if state.links[OUT_FREE] > now:
            sent = state.links[OUT_FREE] + latencies.turn
        arrival = _fetch(state, sent, latencies.bulk, smem, latencies.fill, smem)
        number = state.announced[slot, channel] % RING
        state.channel_time[slot, channel, number] = max(state.channel_time[slot, channel, number], arrival)
        state.coming[slot, channel] -= 1
        if state.coming[slot, channel] == 0:
            _arrive(state, slot, channel, arrival)
    elif leads:
        channel = argument % CHANNELS
        state.announced[slot, channel] += 1
        state.channel_time[slot, channel, state.announced[slot, channel] % RING] = now
        copies = argument // CHANNELS
        if kind == EXPECT:
            state.channel[slot] = channel
            state.coming[slot, channel] = copies
        if kind == ARRIVE or copies == 0:
            _arrive(state, slot, channel, finish)
    return finish


@inlined
def _barrier(state: State, argument: int, warp: int, slot: int, width: int, now: float, latencies: Latencies) -> None:
    alone = argument < 0
    if alone:
        argument = -argument - 1
    barrier, expected = argument % BARRIERS, argument // BARRIERS
    if expected == 0:
        expected = state.running[slot]
    state.arrived[slot, barrier] += 1
    state.released[slot, barrier] = max(now, state.released[slot, barrier]) + latencies.arrival
    if not alone:
        state.at_barrier[warp] = barrier
        state.earliest[warp] = np.inf
    state.why[warp, 1] = AT_BARRIER
    if state.arrived[slot, barrier] >= expected:
        state.arrived[slot, barrier] = 0
        for other in range(slot * width, (slot + 1) * width):
            if state.at_barrier[other] == barrier:
                state.at_barrier[other] = -1
                state.earliest[other] = state.released[slot, barrier] + latencies.barrier
        state.wake[slot] = 1


@inlined
def take_effect(
    state: State, code: np.ndarray, rates: np.ndarray, i: int, warp: int, slot: int, group: int, width: int,
    now: float, latencies: Latencies,
) -> None:  # fmt: skip
    """An instruction has issued: what it brings about, and when its scoreboards are free."""
    kind, argument = code[i, KIND], code[i, ARGUMENT]
    finish = now + rates[i, LATENCY]
    read = now + rates[i, READ]
    smem, wait = rates[i, SMEM], 0.0
    if kind == AGAIN and state.fetched[warp] > finish:
        # L1 serves what is under way when it comes, line by line.
        finish = _fetch(state, state.fetched[warp], 0.0, smem, 1.0, smem)
    elif kind in (SHARED, WRITE, AGAIN):
        # Products come first: beside one that reads its operands, shared memory serves the others with what is left.
        stores = kind == WRITE or argument != 0
        if state.queue[MULTIPLYING]:
            beside = max(0.0, end_of_product(state) - max(now, state.links[SMEM_FREE]))
            smem = _beside_product(smem, beside, _share_taken(state, stores))
            if state.links[SMEM_SHARE] >= WHOLE:
                ends = min(rates[i, PASSES], float(state.queue[TAIL] - state.queue[HEAD]))
                wait = end_of_product(state) - now + (ends - 1.0) * state.links[LENGTH]
                for core in range(SUB_CORES):
                    state.product_end[core] += rates[i, SMEM] * LINE_HOLDS
        begin = max(now, state.links[SMEM_FREE])
        if stores:
            begin = max(begin, state.links[WRITTEN])
        if smem > 0.0:  # a fence waits, and holds up nobody
            state.links[SMEM_FREE] = begin + smem
            if stores:
                state.links[WRITTEN] = begin + smem
        state.used[SHARED_MEMORY] += rates[i, SMEM]
        finish += max(begin + smem - now, wait)
        read += max(begin - now, wait)
        if kind == WRITE:
            if argument:
                state.used[SPILLED] += rates[i, SMEM]
            # L1 writes through. What finds no room among what waits on the way out holds up what comes after.
            state.links[OUT_FREE] = max(now, state.links[OUT_FREE]) + rates[i, SMEM] * latencies.out
            late = now + max(0.0, state.links[OUT_FREE] - now - rates[i, WAITING] * latencies.out)
            read = max(read, late)
            core = warp % SUB_CORES
            state.pipe_free[core, LSU] = max(state.pipe_free[core, LSU], late)
    elif kind in (LOAD, COPY):
        # They leave behind what is written, but for spilled registers. What goes to registers passes shared memory line
        # by line, like what is there, and waits for its turn when it comes; copies are written beside products.
        begin = max(now, state.links[TAGS_FREE])
        fill, latency, taken = latencies.fill, latencies.copy, smem
        if kind == LOAD:
            latency, taken = latencies.load, rates[i, TAGS]
            begin = max(begin, state.links[SMEM_FREE])
            beside = max(0.0, end_of_product(state) - begin) if state.queue[MULTIPLYING] else 0.0
            state.links[SMEM_FREE] = begin + _beside_product(taken, beside, _share_taken(state, False))
            busy = (state.used[SHARED_MEMORY] - state.links[COPIED]) / max(now, BEGUN_CYCLES)
            fill = max(fill, 1.0 / (1.0 - min(MOST_BUSY, busy)))
        state.links[TAGS_FREE] = begin + rates[i, TAGS]
        read += begin - now
        sent = begin if argument else max(begin, state.links[OUT_FREE])
        finish = _fetch(state, sent, latency, smem, fill, taken)
        if kind == LOAD and argument:
            state.used[FETCHED] += smem
        elif kind == LOAD:
            state.fetched[warp] = max(state.fetched[warp], finish)
        if kind == COPY:
            state.links[SMEM_FREE] = max(now, state.links[SMEM_FREE]) + smem * COPY_ISSUE
            state.links[WRITTEN] = max(now, state.links[WRITTEN]) + smem * (1.0 + COPY_ISSUE)
            state.pending[warp] = max(state.pending[warp], finish)
    elif kind == BULK_WRITE:
        if warp - slot * width == code[i, LEADER]:
            state.links[OUT_FREE] = max(now + rates[i, LATENCY], state.links[OUT_FREE]) + smem * latencies.out
            state.used[SHARED_MEMORY] += smem
    elif kind == FLUSH:
        if warp - slot * width == code[i, LEADER]:
            finish = max(finish, state.links[OUT_FREE])
        state.committed[warp, state.commits[warp] % RING] = finish
        state.commits[warp] += 1
    elif kind == COPY_COMMIT:
        finish = max(finish, state.pending[warp])
        state.committed[warp, state.commits[warp] % RING] = finish
        state.commits[warp] += 1
    elif kind in (EXPECT, BULK, BULK_WAIT, ARRIVE):
        leads = warp - slot * width == code[i, LEADER]
        finish = _mbarrier(state, kind, argument, warp, slot, now, finish, smem, latencies, leads)
    elif kind == MATMUL:
        number = state.issued[warp]
        state.issued[warp] += 1
        if argument:
            commit = state.product_commits[warp, RING]
            state.product_commits[warp, commit % RING] = number + 1
            state.product_commits[warp, RING] = commit + 1
        state.joined[group, number % RING] += 1
        if state.joined[group, number % RING] == min(GROUP, width):
            state.joined[group, number % RING] = 0
            tail = state.queue[TAIL] % QUEUED
            state.queued[tail, 0], state.queued[tail, 1], state.queued[tail, 2] = group, number, i
            state.queue[TAIL] += 1
    elif kind == BARRIER:
        _barrier(state, argument, warp, slot, width, now, latencies)
    board = code[i, WRITES]
    if board >= 0 and finish > state.boards[warp, board, 0]:
        state.boards[warp, board, 0] = finish
        state.boards[warp, board, 1] = i
    board = code[i, READS]
    if board >= 0 and read > state.boards[warp, board, 0]:
        state.boards[warp, board, 0] = read
        state.boards[warp, board, 1] = i
