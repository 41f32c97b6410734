"""What a step costs an SM: cycles on each pipe, and the least time it takes a lone CTA.

This is the estimate from the tile program; a cost from compiled code has the same form.
Pipes are shared by the SM's CTAs. The critical path is what one CTA cannot overlap with itself:
its matmuls and its softmax follow each other. Barriers keep several warpgroups in step,
so that one's matmuls hide behind the other's only while they queue for the tensor cores;
those of specialised warps keep no step.
"""

from dataclasses import dataclass

from ..device.device import Device
from ..launch.program import ASYNCHRONOUS, Launch, Matmul, Step
from ..launch.walk import moved_bytes
from ..limits import SUB_CORES, WARP_THREADS, WARPGROUP_WARPS, WORD_BYTES
from ..residency.registers_and_smem import MMA_ROWS, WGMMA_ROWS, tensor_instruction

PIPES = ("tensor", "mufu", "fma", "alu", "issue", "smem")

MMA_COLUMNS = 8
"""Fewest columns of C that a tensor instruction takes: n of mma.sync m16n8k16, and the least n of wgmma (PTX ISA)."""
MMA_FLOP = 2 * MMA_ROWS * MMA_COLUMNS * 16
"""One mma.sync m16n8k16 [FLOP]."""
WIDE_ACCESS_BYTES = 16 * WARP_THREADS
"""The most that an instruction of a warp moves: 16 B a lane by cp.async, ldmatrix.x4, ld and st (PTX ISA) [B]."""
SPILL_ACCESS_BYTES = WORD_BYTES * WARP_THREADS
"""A spilled register of a warp: a word of each lane, by an instruction of its own [B]."""
LOAD_INSTRUCTIONS = 6.0
"""Instructions per `WIDE_ACCESS_BYTES` that a warp loads: the copy itself, 64-bit address, predicate."""
LOOP_INSTRUCTIONS = 20.0
"""Instructions a warp takes for a step besides its data: counter, waits, barriers, buffer index."""
ROW_SHUFFLES = 2
"""The four lanes that share a row of an accumulator combine in two shuffles, one after the other."""
ROW_LANES = 4
"""Lanes of a warp that hold a share of the same accumulator row, so that work per row is done so often."""
ROW_OPERATIONS = 5
"""Of a lane, for each row that it reduces. An assumption: two shuffles, two that combine, one that applies it."""
EXCHANGE_BARRIERS = 4
"""Of a matmul whose warps share rows. An assumption: one before and one after the reduction over each other's rows, and
the same for P."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepCost:
    """Cost of one execution of a step.

    Args:
        pipe_cycles: use of each of `PIPES` [cycles].
        global_smem_fraction: of the `smem` pipe's, the share that accesses to global memory take; 0 where not known.
        critical_path_cycles: least time for a lone CTA [cycles].
        smem_read_bytes, smem_write_bytes: through shared memory [B].
        executed_flop: of matmuls [FLOP].
        other_flop: all others [FLOP].
        exp_count: MUFU operations.
        local_read_bytes, local_write_bytes: spilled registers that come from L2, and go there [B].
        local_bytes: different bytes of spilled registers that it touches [B].
        local_kept_bytes: those of them that it reads before it writes them [B].
        local_written, local_kept: the same as sets of parts of the stack, a bit for each, where the parts are known.
        local_part_bytes: of such a part; 0: they are unknown, and every step touches the stack from its begin [B].
        local_parts: of the whole stack.
        local_written_turn, local_kept_turn: of arrays that code indexes, parts that an execution moves on by: each
            touches the next places, and comes round to the first.
        restarts: of a lone CTA, how often its matmuls begin after a pause in which the clock of its SM has risen; short
            pauses count in part.
        rested_cycles: how long the clock had been risen by then, in all [cycles].
        covers_l2: whether the cycles include what loaded data take from L2: the latency of a hit, and the SM's port.
        slack_cycles: extra latency beyond an L2 hit that a pipelined loop hides; negative if it stalls even on L2
            hits [cycles].
        waits: how often, one after the other, the step waits for what it loads.
        slowdown_by_age: of each CTA of a full SM, the oldest first: how many times as long as the mean the step takes
            it while a pipe is oversubscribed; empty: all the same.
    """

    pipe_cycles: tuple[float, ...]
    critical_path_cycles: float
    smem_read_bytes: int
    smem_write_bytes: int
    executed_flop: int
    other_flop: int
    exp_count: int
    local_read_bytes: int = 0
    local_write_bytes: int = 0
    local_bytes: int = 0
    local_kept_bytes: int = 0
    local_written: int = 0
    local_kept: int = 0
    local_part_bytes: int = 0
    local_parts: int = 0
    local_written_turn: float = 0.0
    local_kept_turn: float = 0.0
    restarts: float = 0.0
    rested_cycles: float = 0.0
    covers_l2: bool = False
    slack_cycles: float = 0.0
    waits: int = 1
    slowdown_by_age: tuple[float, ...] = ()
    global_smem_fraction: float = 0.0


def operand_smem_bytes(matmul: Matmul, element_bytes: int, num_warps: int, instruction: str, warp_split: str) -> int:
    """Bytes that the warps read from shared memory for one matmul of a tile, re-reads included [B].

    Every warp (mma.sync) or warpgroup (wgmma) reads the operands of its share of C.
    Split-Q gives each its own rows, so that all of them read B; split-K gives each its own columns, so that all read A.
    """
    a_bytes = matmul.m * matmul.k * element_bytes if matmul.a_source == "smem" else 0
    b_bytes = matmul.k * matmul.n * element_bytes
    if instruction == "mma":
        workers, smallest_m = num_warps, MMA_ROWS
    else:
        workers, smallest_m = num_warps // WARPGROUP_WARPS, WGMMA_ROWS
    if warp_split == "q":
        along_m = max(1, min(workers, matmul.m // smallest_m))
        along_n = workers // along_m
    else:
        along_n = max(1, min(workers, matmul.n // MMA_COLUMNS))
        along_m = workers // along_n
    # A warpgroup that owns more than 64 rows issues one wgmma per 64 of them, and each streams B again.
    passes = 1 if instruction == "mma" else max(1, matmul.m // (along_m * smallest_m))
    return a_bytes * along_n + b_bytes * along_m * passes


def step_cost(step: Step, launch: Launch, device: Device) -> StepCost:
    """Estimate one step's cost from its tiles.

    Args:
        step: of the launch's program.
        launch: whose warps divide the work.
        device: gives rates, and latencies of the SM.

    Source: counts from the tile program; rates from the device file; latencies from its SM (`tiles_...`).
    """
    work, warps, sm = step.work, launch.compute_warps, device.sm
    smem_read, smem_write = work.smem_read_bytes, work.smem_write_bytes
    loaded = 0
    for tile in step.loads:
        moved = moved_bytes(launch.program.tensor(tile.tensor), tile.rows, tile.cols)
        # A thread starts a TMA copy, and no warp's instructions carry it.
        loaded += moved if tile.path != "tma" else 0
        if tile.path in ASYNCHRONOUS:
            smem_write += moved
    tensor_cycles = matmul_latency = mma_instructions = 0.0
    redundancy, extra_issue, groups, barriers = 1.0, 0.0, 1, work.barriers
    for matmul in work.matmuls:
        instruction = tensor_instruction(device, matmul.m, warps)
        operand_bytes = operand_smem_bytes(matmul, launch.element_bytes, warps, instruction, launch.warp_split)
        smem_read += operand_bytes
        matmul_latency += getattr(sm, f"tiles_{instruction}_latency_cycles")
        if instruction == "mma":
            mma_instructions += matmul.flop / MMA_FLOP + operand_bytes / WIDE_ACCESS_BYTES
            if warps * MMA_ROWS > matmul.m:
                # Warps that share rows reduce over each other, and pass P, through shared memory.
                barriers += EXCHANGE_BARRIERS
                smem_write += matmul.m * matmul.k * launch.element_bytes
                smem_read += matmul.m * matmul.k * launch.element_bytes * warps * MMA_ROWS // matmul.m
        else:
            groups = warps // WARPGROUP_WARPS
            # Warpgroups that find no 64 rows of their own repeat those of others.
            redundancy = max(redundancy, groups * WGMMA_ROWS / matmul.m)
            extra_issue = sm.tiles_wgmma_extra_issue_slots
        # What a warpgroup cannot multiply (FP64), warps do.
        rate = device.tensor_flop_per_cycle(instruction, launch.dtype) or device.fastest_flop_per_cycle(launch.dtype)
        tensor_cycles += redundancy * matmul.flop / rate
    arithmetic = redundancy * (work.fma_count + work.alu_count) / WARP_THREADS
    reduced_rows = work.row_reductions * max((matmul.m for matmul in work.matmuls), default=0)
    arithmetic += ROW_LANES * ROW_OPERATIONS * reduced_rows / WARP_THREADS
    other = redundancy * work.exp_count / WARP_THREADS + mma_instructions + LOOP_INSTRUCTIONS * warps
    passed_bytes = work.smem_write_bytes + work.smem_read_bytes
    other += LOAD_INSTRUCTIONS * loaded / WIDE_ACCESS_BYTES + passed_bytes / WIDE_ACCESS_BYTES
    # Every spilled register is stored and loaded once where the matmuls need the registers.
    spilled = 2 * launch.resources.spilled_bytes_per_thread * launch.threads_per_cta if work.matmuls else 0
    other += spilled / SPILL_ACCESS_BYTES
    slots = (1.0 + extra_issue) * arithmetic + other
    mufu = redundancy * work.exp_count / device.mufu_per_cycle
    fma = redundancy * work.fma_count / device.fma_per_cycle
    alu = redundancy * work.alu_count / device.alu_per_cycle
    issue = slots / device.issue_per_cycle
    smem = (smem_read + smem_write + spilled) / device.smem_bytes_per_cycle
    # A warp has the pipes of its own sub-core alone.
    reached = min(1.0, warps / SUB_CORES)
    elementwise = max(
        max(mufu, fma, alu) / reached,
        spilled / device.smem_bytes_per_cycle + slots / min(device.issue_per_cycle, warps),
    )
    # Specialised groups meet at no barrier, so one has the other pipes while another has the tensor cores.
    apart = groups if launch.consumer_warps else 1
    latency = (
        matmul_latency
        + work.row_reductions * ROW_SHUFFLES * sm.tiles_shuffle_cycles
        + (sm.tiles_mufu_latency_cycles if work.exp_count else 0.0)
        + barriers * sm.tiles_barrier_cycles
    )
    return StepCost(
        pipe_cycles=(tensor_cycles, mufu, fma, alu, issue, smem),
        critical_path_cycles=tensor_cycles / (groups * reached) + elementwise / apart + latency,
        smem_read_bytes=smem_read,
        smem_write_bytes=smem_write,
        executed_flop=sum(matmul.flop for matmul in work.matmuls),
        other_flop=work.fma_flop,
        exp_count=work.exp_count,
    )
