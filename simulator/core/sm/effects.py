"""What an instruction does beyond occupying its pipe: memory (`memory_pipe`), bulk copies, matmuls, barriers."""

import numpy as np

from ...limits import WARPGROUP_WARPS
from ..jit import inlined
from .instruction import (
    ARRIVE,
    BARRIER,
    BULK_COMMIT,
    BULK_COPY,
    BULK_STORE,
    CONSTANT,
    COPY,
    COPY_COMMIT,
    EXPECT,
    LOAD,
    MATMUL,
    MATMUL_COMMIT,
    MBARRIER_WAIT,
    REUSED_LOAD,
    SHARED,
    STORE,
    TENSOR_MEMORY_MATMUL,
    SmInstruction,
)
from .latencies import Latencies
from .memory_pipe import access_l2, access_smem, fill
from .state import AT_BARRIER, CONSTANTS, QUEUED, RING, SHARED_MEMORY, State


@inlined
def complete_phase(state: State, slot: int, channel: int, time: float) -> None:
    """A phase of an mbarrier is complete."""
    number = state.complete[slot, channel] + 1
    state.complete[slot, channel] = number
    state.phase_time[slot, channel, number % RING] = max(time, state.phase_time[slot, channel, number % RING])
    state.wake[slot] = 1


@inlined
def _mbarrier(
    state: State, instruction: SmInstruction, warp: int, slot: int, now: float, finish: float, latencies: Latencies,
    leads: bool,
) -> float:  # fmt: skip
    """Execute EXPECT, BULK_COPY, MBARRIER_WAIT or ARRIVE.

    Returns:
        When it is done; for a wait on the copies announced so far, when the last of them arrives.
    """
    kind = instruction.kind
    if kind == MBARRIER_WAIT:
        channel = instruction.channel
        state.waited[warp, channel] += 1
        number = state.waited[warp, channel]
        if instruction.in_order and number <= state.announced[slot, channel]:
            return max(finish, state.phase_time[slot, channel, number % RING])
    elif leads and kind == BULK_COPY:
        channel = state.channel[slot]
        sent, store_free = now, state.sm[0].store_free
        if store_free > now:
            sent = store_free + latencies.copy_after_store
        lines = instruction.smem_lines
        arrival = fill(state, sent, latencies.bulk_copy, lines, latencies.fill_per_line, lines)
        number = state.announced[slot, channel] % RING
        state.phase_time[slot, channel, number] = max(state.phase_time[slot, channel, number], arrival)
        state.coming[slot, channel] -= 1
        if state.coming[slot, channel] == 0:
            complete_phase(state, slot, channel, arrival)
    elif leads and instruction.arrivals > 1:
        channel = instruction.channel
        state.waited[warp, channel] += 1
        number = state.waited[warp, channel] % RING
        state.given[slot, channel, number] += 1
        if state.given[slot, channel, number] == instruction.arrivals:
            state.given[slot, channel, number] = 0
            complete_phase(state, slot, channel, finish)
    elif leads:
        channel = instruction.channel
        state.announced[slot, channel] += 1
        state.phase_time[slot, channel, state.announced[slot, channel] % RING] = now
        if kind == EXPECT:
            state.channel[slot] = channel
            state.coming[slot, channel] = instruction.copies
        if kind == ARRIVE or instruction.copies == 0:
            complete_phase(state, slot, channel, finish)
    return finish


@inlined
def _arrive_at_barrier(
    state: State, instruction: SmInstruction, warp: int, slot: int, width: int, now: float, latencies: Latencies
) -> None:
    """A warp arrives at a named barrier; the last arrival releases all warps that wait there."""
    barrier, expected = instruction.barrier, instruction.barrier_warps
    if instruction.arriving != 0 and instruction.arriving >> (warp - slot * width) & 1 == 0:
        return
    if instruction.barrier_ring > 1:
        state.met[warp, barrier] += 1
        barrier += (state.met[warp, barrier] - 1) % instruction.barrier_ring
    if expected == 0:
        expected = state.running[slot]
    sm = state.sm[0]
    sm.barrier_free = max(now, sm.barrier_free) + latencies.barrier_arrival
    sm.smem_free = max(now, sm.smem_free) + instruction.smem_lines
    state.used[SHARED_MEMORY] += instruction.smem_lines
    state.arrived[slot, barrier] += 1
    if not instruction.only_arrives:
        state.at_barrier[warp] = barrier
        state.earliest[warp] = np.inf
    state.reasons[warp, 1] = AT_BARRIER
    if state.arrived[slot, barrier] >= expected:
        state.arrived[slot, barrier] = 0
        for other in range(slot * width, (slot + 1) * width):
            if state.at_barrier[other] == barrier:
                state.at_barrier[other] = -1
                state.earliest[other] = sm.barrier_free + latencies.barrier_release
        state.wake[slot] = 1


@inlined
def _commit_copies(state: State, warp: int, time: float) -> None:
    """Commit a group of copies or of bulk stores, which completes at `time`."""
    state.group_time[warp, state.groups[warp] % RING] = time
    state.groups[warp] += 1


@inlined
def _issue_matmul(state: State, commits: bool, i: int, warp: int, group: int, issuers: int) -> None:
    """A warp issues a matmul, or what waits for those before; it queues for the tensor cores once all its warps have.

    Args:
        issuers: warps that issue it together.
    """
    number = state.issued[warp]
    state.issued[warp] += 1
    if commits:
        commit = state.matmul_groups[warp, RING]
        state.matmul_groups[warp, commit % RING] = number + 1
        state.matmul_groups[warp, RING] = commit + 1
    state.joined[group, number % RING] += 1
    if state.joined[group, number % RING] == issuers:
        state.joined[group, number % RING] = 0
        sm = state.sm[0]
        tail = sm.queue_tail % QUEUED
        state.matmul_queue[tail, 0], state.matmul_queue[tail, 1], state.matmul_queue[tail, 2] = group, number, i
        sm.queue_tail += 1


@inlined
def _hold_scoreboard(state: State, warp: int, board: int, until: float, i: int) -> None:
    """Instruction `i` holds a scoreboard of a warp until `until`."""
    if board >= 0 and until > state.scoreboards[warp, board, 0]:
        state.scoreboards[warp, board, 0] = until
        state.scoreboards[warp, board, 1] = i


@inlined
def take_effect(
    state: State, code: np.ndarray, i: int, warp: int, group: int, width: int, now: float, latencies: Latencies
) -> None:
    """An instruction has issued: apply its effects and set when its scoreboards are released.

    Args:
        i: its number in the code.
        group: the warp's warpgroup, among those of all slots.
        width: warps of a CTA.
    """
    sm, slot, instruction = state.sm[0], warp // width, code[i]
    kind = instruction.kind
    finish = now + instruction.latency_cycles
    read = now + instruction.operand_cycles
    leads = warp - slot * width == instruction.leader
    if kind == ARRIVE and instruction.arriving != 0:
        leads = instruction.arriving >> (warp - slot * width) & 1 == 1
    if kind in (SHARED, STORE, REUSED_LOAD):
        finish, read = access_smem(state, instruction, warp, now, latencies)
    elif kind in (LOAD, COPY):
        finish, read = access_l2(state, instruction, warp, now, latencies)
    elif kind == BULK_STORE:
        if leads:
            lines = instruction.smem_lines
            begin = max(now + instruction.latency_cycles, sm.store_free)
            sm.store_free = begin + lines * latencies.store_per_line
            sm.store_room = np.inf
            state.used[SHARED_MEMORY] += lines
    elif kind == BULK_COMMIT:
        if leads:
            finish = max(finish, sm.store_free)
        _commit_copies(state, warp, finish)
    elif kind == COPY_COMMIT:
        finish = max(finish, state.copied[warp])
        _commit_copies(state, warp, finish)
    elif kind in (EXPECT, BULK_COPY, MBARRIER_WAIT, ARRIVE):
        finish = _mbarrier(state, instruction, warp, slot, now, finish, latencies, leads)
    elif kind == MATMUL:
        _issue_matmul(state, instruction.commits != 0, i, warp, group, min(WARPGROUP_WARPS, width))
    elif kind in (TENSOR_MEMORY_MATMUL, MATMUL_COMMIT):
        if leads:
            _issue_matmul(state, False, i, warp, group, 1)
    elif kind == CONSTANT:
        sm.constant_free = max(now, sm.constant_free) + instruction.interval_cycles
        state.used[CONSTANTS] += instruction.interval_cycles
        finish = sm.constant_free + instruction.latency_cycles
    elif kind == BARRIER:
        _arrive_at_barrier(state, instruction, warp, slot, width, now, latencies)
    _hold_scoreboard(state, warp, instruction.write_scoreboard, finish, i)
    _hold_scoreboard(state, warp, instruction.read_scoreboard, read, i)
