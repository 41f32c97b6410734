"""From decoded instructions to those that the simulated SM runs: what each one is, takes, and waits for.

Pipes, intervals and latencies are those of the table of opcodes (`sass.opcodes`); fixed latencies stand in the code
itself (stall counts). Here is what makes an instruction more than the use of a pipe:
what goes through shared memory, copies, matmuls of a warpgroup, and what is waited for.
"""

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from ..core.sm import instruction as sm
from ..core.sm.instruction import SmInstruction, code_table
from ..device.sm_numbers import SmNumbers
from ..limits import LINE_SECTORS, SMEM_LINE_BYTES, WARP_THREADS, WORD_BYTES
from ..sass.decode import Instruction
from ..sass.flow import FLOWS_KEPT, Flow
from ..sass.matrix import MatmulShape, matmul_shape_of, tensor_cycles
from ..sass.memory_instructions import is_box_copy, is_box_load
from ..sass.opcodes import Rule, find_rule, interval_cycles, rules, thread_bytes
from ..sass.operands import Name, Register, integer_of
from ..sass.registers import result_operands

PIPES = {
    "fma": sm.FMA,
    "fma_heavy": sm.HEAVY,
    "half": sm.HALF,
    "alu": sm.ALU,
    "mufu": sm.MUFU,
    "fp64": sm.FP64,
    "tensor": sm.TENSOR_PIPE,
    "lsu": sm.LSU,
    "tma": sm.LSU,
    "uniform": sm.UNIFORM,
}
"""Pipes of a sub-core; others take an issue slot alone."""
SHARED = frozenset({"LDS", "LDSM", "STS", "STSM", "ATOMS", "MOVM", "SHFL"})
SHARED_STORES = frozenset({"STS", "STSM"})
FENCES = frozenset({"MEMBAR", "FENCE"})
"""They wait until what was stored before has passed shared memory: a lone CTA 15 to 40 and 26 to 30 cycles, 59 to 107
and 48 to 151 where others store as well (stall samples of eight kernels, one H200, 2026-11-22)."""
WIDE = frozenset({"GPU", "SYS"})
"""Scopes of a MEMBAR that other SMs see: its warp stalls until L2 has what was stored before."""
STORES = frozenset({"STG", "ST", "RED", "REDG", "ATOMG", "ATOM"})
LOADS = frozenset({"LDG", "LD"})
SPILL_LOAD, SPILL_STORE, ASYNC_COPY = "LDL", "STL", "LDGSTS"
READS_REGISTERS = frozenset({"fma", "fma_heavy", "half", "alu", "mufu", "fp64", "lsu"})
ARRIVALS = frozenset({"ART0", "A1T0"})
"""Of an mbarrier: threads report, and announce no copy."""

NARROW = {"U16": 16.0, "S16": 16.0, "U8": 8.0, "S8": 8.0}
"""Sectors that a warp's load or store of less than a word a thread touches, where its addresses are not known.
Triton gives a thread eight elements in a row, so lanes lie 8 elements apart; it moves one at a time where it cannot
tell that rows are aligned.
ncu, H200, row kernels with N = 1000 and 3000: 5.5 to 8 times the bytes of the tiles are written. L1's tags take 4.0
cycles for such a load, one a line (validate/data/store-queue-h200-2026-11-22.json.xz)."""
WARPGROUP_COMMIT = Name("gsb0")
"""A warpgroup's matmul names it if those that were issued so far, with itself, can be waited for."""
COMMIT = "UTCBAR"
"""Matmuls in tensor memory that were issued before it arrive at an mbarrier when they are done."""
COMMIT_COPIES = "UTMACMDFLUSH"


@lru_cache(maxsize=FLOWS_KEPT)
def lowered_table(flow: Flow, capability: int, sm_numbers: SmNumbers) -> tuple[np.ndarray, Counter[str]]:
    """What `lower_code` makes of code, as a table that is read only: it serves all launches of the code."""
    lowered, unknown = lower_code(flow.instructions, capability, sm_numbers)
    table = code_table(lowered)
    table.flags.writeable = False
    return table, unknown


def lower_code(
    instructions: Sequence[Instruction], capability: int, sm_numbers: SmNumbers
) -> tuple[list[SmInstruction], Counter[str]]:
    """Translate instructions, each by itself: without addresses, control paths or other instructions.

    Args:
        capability: of the architecture whose opcodes they are, e.g. 90.
        sm_numbers: of its SMs.

    Returns:
        (instructions, opcodes without a rule -> how often they stand in the code).
    """
    table = rules(capability)
    lowered: list[SmInstruction] = []
    unknown: Counter[str] = Counter()
    for instruction in instructions:
        rule = find_rule(instruction, table)
        if rule is None:
            unknown[instruction.opcode] += 1
        stall_cycles = instruction.stall_cycles
        if instruction.family == "BSYNC":
            stall_cycles = max(stall_cycles, sm_numbers.bsync_cycles)
        if instruction.family == "MEMBAR" and WIDE & set(instruction.modifiers):
            stall_cycles = max(stall_cycles, sm_numbers.membar_gpu_cycles)
        if instruction.opcode.startswith("IMAD.WIDE") and _adds_pair(instruction):
            stall_cycles += sm_numbers.imad_wide_pair_cycles
        lowered.append(
            _describe(instruction, rule, sm_numbers)._replace(
                stall_cycles=stall_cycles,
                write_scoreboard=instruction.write_barrier,
                read_scoreboard=instruction.read_barrier,
                wait_mask=instruction.wait_mask,
            )
        )
    return lowered, unknown


def _adds_pair(instruction: Instruction) -> bool:
    """Whether an IMAD.WIDE multiplies two registers and adds two more: it reads four."""
    sources = instruction.operands[result_operands(instruction) :]
    return all(isinstance(source, Register) and source.number is not None for source in sources[:3])


def _describe(instruction: Instruction, rule: Rule | None, numbers: SmNumbers) -> SmInstruction:
    """What an instruction is, but for its control bits. Args: numbers: of the SM."""
    family = instruction.family
    least, operand_cycles = numbers.lsu_interval_cycles, numbers.memory_operand_read_cycles
    # The compiler puts such loads in front of LDGSTS; they read nothing, but occupy shared memory as others do.
    if instruction.never_runs and family in SHARED:
        return SmInstruction(
            kind=sm.SHARED,
            pipe=sm.LSU,
            interval_cycles=least,
            operand_cycles=operand_cycles,
            smem_lines=1.0,
            smem_passes=1.0,
        )
    if instruction.never_runs or rule is None:
        return SmInstruction()
    matmul = matmul_shape_of(instruction)
    if matmul and matmul.instruction == "wgmma":
        return _matmul(instruction, matmul, rule, numbers)
    if matmul and matmul.instruction == "tcgen05":
        return SmInstruction(
            kind=sm.TENSOR_MEMORY_MATMUL,
            smem_lines=matmul.smem_bytes / SMEM_LINE_BYTES,
            tensor_cycles=tensor_cycles(matmul, rule.interval_cycles),
        )
    latency = rule.latency_cycles if rule.scoreboard else 0.0
    if matmul and rule.scoreboard:
        latency += interval_cycles(instruction, rule)
    if family == COMMIT:
        return SmInstruction(kind=sm.MATMUL_COMMIT, latency_cycles=latency)
    if family in FENCES:
        waits = latency - 1.0
        return SmInstruction(kind=sm.SHARED, stores=1, latency_cycles=waits, operand_cycles=waits, smem_passes=1.0)
    if family in SHARED or family in LOADS or family in STORES or family in (SPILL_LOAD, SPILL_STORE, ASYNC_COPY):
        return _memory(instruction, rule, latency, numbers)
    if rule.pipe in ("lsu", "tma"):
        interval = least
    elif rule.pipe == "uniform":
        interval = numbers.uniform_interval_cycles
    else:
        interval = interval_cycles(instruction, rule)
    return _synchronising(instruction)._replace(
        pipe=PIPES.get(rule.pipe, sm.NO_PIPE),
        interval_cycles=interval,
        fma_cycles=interval * rule.fma_share,
        alu_cycles=interval * rule.alu_share,
        latency_cycles=latency,
        operand_cycles=min(latency, operand_cycles),
        port_reads=_port_reads(rule),
    )


def _memory(instruction: Instruction, rule: Rule, latency: float, numbers: SmNumbers) -> SmInstruction:
    """Loads, stores and copies, as if the lanes of a warp touched neighbouring words."""
    family, least, operand_cycles = instruction.family, numbers.lsu_interval_cycles, numbers.memory_operand_read_cycles
    lines = WARP_THREADS * thread_bytes(instruction) / SMEM_LINE_BYTES
    moving = SmInstruction(
        pipe=PIPES.get(rule.pipe, sm.NO_PIPE),
        interval_cycles=max(least, lines),
        latency_cycles=latency - 1.0,
        operand_cycles=operand_cycles,
        smem_lines=lines,
        port_reads=_port_reads(rule),
        smem_passes=numbers.shfl_smem_passes if family == "SHFL" else max(1.0, lines),
    )
    sectors = next((NARROW[word] for word in instruction.modifiers if word in NARROW), 0.0)
    if family in STORES and sectors:
        narrow = sectors / LINE_SECTORS * numbers.l2_write_part_sector_factor
        return moving._replace(
            kind=sm.STORE,
            interval_cycles=max(least, narrow),
            smem_lines=narrow,
            queued_lines=numbers.l2_write_queue_narrow_lines,
        )
    if family in STORES or family == SPILL_STORE:
        return moving._replace(
            kind=sm.STORE, spills=int(family == SPILL_STORE), queued_lines=numbers.l2_write_queue_lines
        )
    if family in LOADS or family == SPILL_LOAD:
        tag_lines = max(lines, sectors / LINE_SECTORS)
        return moving._replace(kind=sm.LOAD, spills=int(family == SPILL_LOAD), tag_lines=tag_lines)
    if family == ASYNC_COPY:
        return moving._replace(kind=sm.COPY, tag_lines=lines)
    if family not in SHARED_STORES:
        return moving._replace(kind=sm.SHARED)
    further = max(0.0, thread_bytes(instruction) / WORD_BYTES - 1.0)
    operand_cycles += numbers.smem_store_word_read_cycles * further
    return moving._replace(kind=sm.SHARED, stores=1, operand_cycles=operand_cycles)


def _port_reads(rule: Rule) -> float:
    """Turns at the register port."""
    return float(rule.pipe in READS_REGISTERS)


def _synchronising(instruction: Instruction) -> SmInstruction:
    """Kind and fields of what waits, or is waited for; PLAIN for all else."""
    family, modifiers, operands = instruction.family, instruction.modifiers, instruction.operands
    if instruction.opcode.startswith("WARPGROUP.DEPBAR"):
        return SmInstruction(kind=sm.MATMUL_WAIT, pending=integer_of(operands[-1]) or 0)
    if family == "LDGDEPBAR":
        return SmInstruction(kind=sm.COPY_COMMIT)
    if family == "DEPBAR":
        return SmInstruction(kind=sm.COPY_WAIT, pending=integer_of(operands[1]) or 0 if len(operands) > 1 else 0)
    if family == "BAR":
        return _barrier(instruction)
    if is_box_copy(instruction):
        return SmInstruction(kind=sm.BULK_COPY if is_box_load(instruction) else sm.BULK_STORE)
    if family == COMMIT_COPIES:
        return SmInstruction(kind=sm.BULK_COMMIT)
    if family == "SYNCS" and "TRYWAIT" in modifiers:
        return SmInstruction(kind=sm.MBARRIER_WAIT)
    if family == "SYNCS" and "ARRIVE" in modifiers:
        return SmInstruction(kind=sm.EXPECT if ARRIVALS.isdisjoint(modifiers) else sm.ARRIVE)
    return SmInstruction()


def _matmul(instruction: Instruction, matmul: MatmulShape, rule: Rule, numbers: SmNumbers) -> SmInstruction:
    """A warpgroup's matmul: it holds its share of the register port as long as it runs, also where operands are late.

    validate/lab/wgmma_narrow.cu: arithmetic between m64n32k16 of other CTAs is as slow as between m64n128k16.
    """
    cycles = max(tensor_cycles(matmul, rule.interval_cycles), numbers.wgmma_registers_least_cycles)
    return SmInstruction(
        kind=sm.MATMUL,
        commits=int(WARPGROUP_COMMIT in instruction.operands),
        smem_lines=matmul.smem_bytes / SMEM_LINE_BYTES,
        tensor_cycles=cycles,
        port_reads=cycles,
    )


def _barrier(instruction: Instruction) -> SmInstruction:
    """A named barrier: its number, and how many warps have to arrive. An arrival passes L1, as an idle access does."""
    known = [integer_of(operand) for operand in instruction.operands]
    numbers = [number or 0 for number in known[:1] or [0]]
    numbers += [number for number in known[1:] if number is not None]
    return SmInstruction(
        kind=sm.BARRIER,
        barrier=numbers[0] % sm.BARRIERS,
        barrier_warps=numbers[1] // WARP_THREADS if len(numbers) > 1 else 0,
        only_arrives=int("ARV" in instruction.modifiers),
        smem_lines=1.0,
    )
