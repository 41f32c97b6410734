"""What an instruction does beside taking its pipe: memory (`memory_pipe`), bulk copies, products, barriers."""

import numpy as np

from ..jit import inlined
from .memory_pipe import come_from_beyond, fetch, pass_shared
from .tables import (
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
    COPY,
    COPY_COMMIT,
    EXPECT,
    FLUSH,
    GROUP,
    KIND,
    LATENCY,
    LEADER,
    LOAD,
    MATMUL,
    OUT_FREE,
    QUEUED,
    READ,
    READS,
    RING,
    ROOM,
    SHARED,
    SHARED_MEMORY,
    SMEM,
    TAIL,
    WRITE,
    WRITES,
    Latencies,
    State,
)


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
        arrival = fetch(state, sent, latencies.bulk, smem, latencies.fill, smem)
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
    smem = rates[i, SMEM]
    if kind in (SHARED, WRITE, AGAIN):
        finish, read = pass_shared(state, code, rates, i, warp, now, latencies)
    elif kind in (LOAD, COPY):
        finish, read = come_from_beyond(state, code, rates, i, warp, now, latencies)
    elif kind == BULK_WRITE:
        if warp - slot * width == code[i, LEADER]:
            state.links[OUT_FREE] = max(now + rates[i, LATENCY], state.links[OUT_FREE]) + smem * latencies.out
            state.links[ROOM] = np.inf
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
