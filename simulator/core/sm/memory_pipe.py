"""Memory instructions of an SM: they reach L1 in order per sub-core, and share shared memory with matmuls."""

import numpy as np

from ...limits import SCOREBOARDS, SUB_CORES
from ..jit import inlined
from .instruction import LOAD, LSU, REUSED_LOAD, SHARED, STORE, SmInstruction
from .latencies import Latencies
from .state import LSU_RING, RELOADED, SHARED_MEMORY, SPILLED, State
from .waits import end_of_matmul

BEGUN_CYCLES = 1000.0
"""Cycles before which there is no share of shared memory to speak of: a guard of the division, not a time of a GPU."""


@inlined
def fill(state: State, sent: float, latency: float, lines: float, per_line: float, smem_cycles: float) -> float:
    """Lines arrive from L2, one after the other.

    Args:
        sent: when they are requested.
        latency: until the first of them is there, if nothing else comes.
        per_line: cycles from one to the next.
        smem_cycles: that they take of shared memory.

    Returns:
        When the last has arrived.
    """
    sm, arrival = state.sm[0], sent + latency
    if arrival > sm.fill_free:
        sm.fill_free = arrival
    sm.fill_free += lines * per_line
    sm.filled_cycles += smem_cycles
    state.used[SHARED_MEMORY] += smem_cycles
    return sm.fill_free


@inlined
def _share_of_matmul(state: State, stores: bool, latencies: Latencies) -> float:
    """Share of shared-memory bandwidth that the running matmul takes, seen by others' stores or by their reads."""
    share = state.sm[0].matmul_smem_share
    if not stores:
        share = max(share, latencies.matmul_smem_from_reads)
    return min(share, latencies.matmul_smem_most)


@inlined
def _beside_matmul(lines: float, beside: float, share: float) -> float:
    """Cycles that lines take at shared memory while a matmul uses a share of it for `beside` cycles and then ends."""
    return min(lines / (1.0 - share), lines + beside * share)


@inlined
def delay_for_matmul(state: State, code: np.ndarray, width: int, latencies: Latencies) -> None:
    """A matmul begins: delay the accesses that wait for shared memory.

    Args:
        width: warps of a CTA.
    """
    sm = state.sm[0]
    clock, length = sm.clock, sm.matmul_cycles
    waiting = sm.smem_free - clock
    if waiting <= 0.0:
        return
    for warp in range(len(state.pc)):
        core = warp % SUB_CORES
        # What still queues in front of L1, behind stores, has not come to shared memory.
        if state.stretch[warp] < 0 or _last_at_l1(state, core) > sm.smem_free:
            continue
        for board in range(SCOREBOARDS):
            held = code[int(state.scoreboards[warp, board, 1])]
            if state.scoreboards[warp, board, 0] <= clock or held.kind not in (SHARED, STORE, REUSED_LOAD):
                continue
            if held.kind == REUSED_LOAD and state.loaded[warp] > sm.smem_free:
                continue
            after = held.latency_cycles if board == held.write_scoreboard else held.operand_cycles
            before = min(state.scoreboards[warp, board, 0] - after - clock, waiting)
            if before > 0.0:
                share = _share_of_matmul(state, held.kind == STORE or held.stores != 0, latencies)
                delay = _beside_matmul(before, length, share) - before
                if sm.matmul_smem_share >= latencies.matmul_smem_all:
                    delay = max(delay, length - 1.0)
                state.scoreboards[warp, board, 0] += delay
                state.wake[warp // width] = 1
    stored = min(max(0.0, sm.stores_done - clock), waiting)
    reads, stores = _share_of_matmul(state, False, latencies), _share_of_matmul(state, True, latencies)
    share = reads + (stores - reads) * stored / waiting
    sm.smem_free = clock + _beside_matmul(waiting, length, share)
    sm.stores_done += _beside_matmul(stored, length, stores) - stored


@inlined
def _last_at_l1(state: State, core: int) -> float:
    """When the last memory instruction of a sub-core reaches L1."""
    last: float = state.lsu_done[core, (state.lsu_sent[core] - 1) & (LSU_RING - 1)]
    return last


@inlined
def lsu_queue_free_at(state: State, core: int, latencies: Latencies) -> float:
    """When the queue in front of L1 has room for another memory instruction of a sub-core."""
    free: float = state.lsu_done[core, (state.lsu_sent[core] - latencies.lsu_queue) & (LSU_RING - 1)]
    return free


@inlined
def _leave_lsu_queue(state: State, core: int, time: float, pipe: int, latencies: Latencies) -> None:
    """An instruction leaves the queue in front of L1; while that queue is full, nothing of its pipe can issue.

    Instructions of the pipe that go elsewhere (TMA, mbarriers) stall with it, but take no place in the queue.
    """
    if pipe == LSU:
        state.lsu_done[core, state.lsu_sent[core] & (LSU_RING - 1)] = time
        state.lsu_sent[core] += 1
        state.pipe_free[core, LSU] = max(state.pipe_free[core, LSU], lsu_queue_free_at(state, core, latencies))


@inlined
def access_smem(
    state: State, instruction: SmInstruction, warp: int, now: float, latencies: Latencies
) -> tuple[float, float]:
    """Execute SHARED, STORE or REUSED_LOAD: accesses of shared memory, or of L1, which is the same memory.

    Returns:
        When the result is there; when its operands are read.
    """
    sm, kind = state.sm[0], instruction.kind
    core, lines, cycles, wait = warp % SUB_CORES, instruction.smem_lines, instruction.smem_lines, 0.0
    turn = max(now, _last_at_l1(state, core))
    stores = kind == STORE or instruction.stores != 0
    # While it queues, L1 serves the other sub-cores.
    free = max(now, sm.smem_free)
    if stores:
        free = max(free, sm.stores_done)
    begin = max(turn, free)
    if sm.matmul_runs:
        # Matmuls come first: beside one that reads its operands, shared memory serves the others with what is left.
        beside = max(0.0, end_of_matmul(state) - max(turn, sm.smem_free))
        cycles = _beside_matmul(lines, beside, _share_of_matmul(state, stores, latencies))
        if sm.matmul_smem_share >= latencies.matmul_smem_all:
            ends = min(instruction.smem_passes, float(sm.queue_tail - sm.queue_head))
            wait = end_of_matmul(state) - now + (ends - 1.0) * sm.matmul_cycles
            for other in range(SUB_CORES):
                state.matmul_end[other] += lines * latencies.line_hold
    if cycles > 0.0:  # a fence waits, and holds up nobody
        sm.smem_free = free + cycles
        if stores:
            sm.stores_done = free + cycles
    state.used[SHARED_MEMORY] += lines
    finish = now + instruction.latency_cycles + max(begin + cycles - now, wait)
    if kind == REUSED_LOAD and state.loaded[warp] > begin:
        # L1 serves what is on its way when it comes, line by line.
        state.loaded[warp] += cycles
        finish = max(finish, state.loaded[warp])
    if kind == STORE:
        if instruction.spills:
            state.used[SPILLED] += lines
        # L1 writes through. What finds no room among what waits on the link to L2 waits in front of L1.
        sm.store_free = max(now, sm.store_free) + lines * latencies.store_per_line
        sm.store_room = instruction.queued_lines * latencies.store_per_line
        # What an atomic gives back comes from L2, as a load does; nobody waits for a store.
        finish = max(finish, sm.store_free + latencies.atomic)
        begin = max(begin, sm.store_free - sm.store_room)
    _leave_lsu_queue(state, core, begin, instruction.pipe, latencies)
    return finish, now + instruction.operand_cycles + max(begin - now, wait)


@inlined
def access_l2(
    state: State, instruction: SmInstruction, warp: int, now: float, latencies: Latencies
) -> tuple[float, float]:
    """Execute LOAD or COPY: accesses that miss L1.

    Stores of the SM go first, those of spilled registers apart. Data for registers pass shared memory line by line,
    like hits, and queue there when they arrive; copies are written beside matmuls.

    Returns:
        When the data have arrived; when the operands are read.
    """
    sm, kind = state.sm[0], instruction.kind
    core, lines = warp % SUB_CORES, instruction.smem_lines
    turn, free = max(now, _last_at_l1(state, core)), max(now, sm.tags_free)
    per_line, latency, smem_cycles = latencies.fill_per_line, latencies.copy, lines
    if kind == LOAD:
        latency, smem_cycles = latencies.load, instruction.tag_lines
        free = max(free, sm.smem_free)
        beside = max(0.0, end_of_matmul(state) - max(turn, free)) if sm.matmul_runs else 0.0
        sm.smem_free = free + _beside_matmul(smem_cycles, beside, _share_of_matmul(state, False, latencies))
        busy = (state.used[SHARED_MEMORY] - sm.filled_cycles) / max(now, BEGUN_CYCLES)
        per_line = max(per_line, 1.0 / (1.0 - min(latencies.matmul_smem_most, busy)))
    sm.tags_free = free + instruction.tag_lines
    begin = max(turn, free)
    sent = begin if instruction.spills else max(begin, min(sm.store_free, begin + sm.store_room))
    finish = fill(state, sent, latency, lines, per_line, smem_cycles)
    if kind == LOAD and instruction.spills:
        state.used[RELOADED] += lines
    elif kind == LOAD:
        state.loaded[warp] = max(state.loaded[warp], finish)
    else:
        sm.smem_free = max(now, sm.smem_free) + lines * latencies.copy_turn
        sm.stores_done = max(now, sm.stores_done) + lines * (1.0 + latencies.copy_turn)
        state.copied[warp] = max(state.copied[warp], finish)
    _leave_lsu_queue(state, core, begin, instruction.pipe, latencies)
    return finish, begin + instruction.operand_cycles
