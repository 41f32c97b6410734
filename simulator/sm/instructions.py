"""From decoded instructions to the tables that the simulation of an SM walks: what each one is, takes, and waits for.

Pipes, intervals and latencies are those of the table of opcodes (`sass.opcodes`); fixed latencies stand in the code
itself (stall counts). Here is what makes an instruction more than the use of a pipe:
what goes through shared memory, copies, tile products of a warpgroup, and what is waited for.
"""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..core.sm import tables as sm
from ..device.sm_numbers import SmNumbers
from ..limits import LINE_SECTORS, SMEM_LINE_BYTES, WARP_THREADS, WORD_BYTES
from ..sass.decode import Instruction
from ..sass.matrix import Product, product_of, tensor_cycles
from ..sass.opcodes import Rule, find_rule, interval_cycles, rules, thread_bytes

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
STORES = frozenset({"STG", "ST", "RED", "ATOMG", "ATOM"})
LOADS = frozenset({"LDG", "LD"})
READS_REGISTERS = frozenset({"fma", "fma_heavy", "half", "alu", "mufu", "fp64", "lsu"})
NEVER = frozenset({"!PT", "!UPT"})
ARRIVALS = frozenset({"ART0", "A1T0"})
"""Of an mbarrier: threads report, and announce no copy."""

NARROW = {"U16": 16.0, "S16": 16.0, "U8": 8.0, "S8": 8.0}
"""Sectors that a warp's load or store of less than a word a thread touches, where its addresses are not known.
Triton gives a thread eight elements in a row, so lanes lie 8 elements apart; it moves one at a time where it cannot
tell that rows are aligned.
ncu, H200, row kernels with N = 1000 and 3000: 5.5 to 8 times the bytes of the tiles are written. L1's tags take 4.0
cycles for such a load, one a line (docs/lab/data/store-queue-h200-2026-11-22.json.xz)."""
BULK_KINDS = {"UTMALDG": sm.BULK, "UTMASTG": sm.BULK_WRITE, "UTMACMDFLUSH": sm.FLUSH}


class Row(NamedTuple):
    """Real columns of an instruction, as in `core.sm.tables`."""

    interval: float = 1.0
    latency: float = 0.0
    read: float = 0.0
    smem: float = 0.0
    tensor: float = 0.0
    port: float = 0.0
    passes: float = 0.0


def lower_code(
    instructions: Sequence[Instruction], capability: int, sm_numbers: SmNumbers
) -> tuple[np.ndarray, np.ndarray, Counter[str]]:
    """Translate instructions to the tables of `core.sm`.

    Args:
        capability: of the architecture whose opcodes they are, e.g. 90; sm_numbers: of its SMs.

    Returns:
        (int64 table, float64 table, opcodes without a rule -> how often they stand in the code).
    """
    table = rules(capability)
    code = np.zeros((len(instructions), sm.COLUMNS), dtype=np.int64)
    rates = np.zeros((len(instructions), sm.RATES))
    unknown: Counter[str] = Counter()
    for i, one in enumerate(instructions):
        rule = find_rule(one, table)
        if rule is None:
            unknown[one.opcode] += 1
        kind, pipe, argument, rates[i] = _describe(one, rule, sm_numbers)
        stall = max(one.stall_cycles, sm_numbers.bsync_cycles) if one.family == "BSYNC" else one.stall_cycles
        waits = stall, one.write_barrier, one.read_barrier, one.wait_mask
        code[i] = (kind, pipe, *waits, argument, 0)
    return code, rates, unknown


def _describe(one: Instruction, rule: Rule | None, its: SmNumbers) -> tuple[int, int, int, Row]:
    """Kind, pipe, argument, and the row of real numbers of an instruction. Args: its: numbers of the SM."""
    least, operand_read = its.lsu_interval_cycles, its.memory_operand_read_cycles
    # The compiler puts such loads in front of LDGSTS; they read nothing, but take their turn at shared memory.
    if one.predicate in NEVER and one.family in SHARED:
        return sm.SHARED, sm.LSU, 0, Row(interval=least, read=operand_read, smem=1.0, passes=1.0)
    if one.predicate in NEVER or rule is None:
        return sm.PLAIN, sm.NO_PIPE, 0, Row()
    product = product_of(one)
    if product and product.warps > 1:
        return sm.MATMUL, sm.NO_PIPE, _commits(one), _product_row(product, rule, its)
    pipe = PIPES.get(rule.pipe, sm.NO_PIPE)
    port = its.mufu_port_reads if rule.pipe == "mufu" else float(rule.pipe in READS_REGISTERS)
    latency = rule.latency_cycles if rule.scoreboard else 0.0
    lines = WARP_THREADS * thread_bytes(one) / SMEM_LINE_BYTES
    moving = Row(
        interval=max(least, lines),
        latency=latency - 1.0,
        read=operand_read,
        smem=lines,
        port=port,
        passes=its.shfl_smem_passes if one.family == "SHFL" else max(1.0, lines),
    )
    sectors = next((NARROW[word] for word in one.modifiers if word in NARROW), 0.0)
    if one.family == "STL" or one.family in STORES:
        moved = moving._replace(tensor=its.l2_write_queue_lines)
        if one.family in STORES and sectors:
            lines = sectors / LINE_SECTORS * its.l2_write_part_sector_factor
            moved = moving._replace(interval=max(least, lines), smem=lines, tensor=its.l2_write_queue_narrow_lines)
        return sm.WRITE, pipe, int(one.family == "STL"), moved
    if one.family == "LDL" or one.family in LOADS:
        return sm.LOAD, pipe, int(one.family == "LDL"), moving._replace(tensor=max(lines, sectors / LINE_SECTORS))
    if one.family in SHARED:
        if one.family not in SHARED_STORES:
            return sm.SHARED, pipe, 0, moving
        further = max(0.0, thread_bytes(one) / WORD_BYTES - 1.0)
        return sm.SHARED, pipe, 1, moving._replace(read=operand_read + its.smem_store_word_read_cycles * further)
    if one.family in FENCES:
        return sm.SHARED, sm.NO_PIPE, 1, Row(latency=latency - 1.0, read=latency - 1.0, passes=1.0)
    if one.family == "LDGSTS":
        return sm.COPY, pipe, 0, moving._replace(tensor=lines)
    kind, argument = _waits(one)
    if rule.pipe in ("lsu", "tma"):
        interval = least
    elif rule.pipe == "uniform":
        interval = its.uniform_interval_cycles
    else:
        interval = interval_cycles(one, rule)
    read = min(latency, operand_read)
    return kind, pipe, argument, Row(interval=interval, latency=latency, read=read, port=port)


def _waits(one: Instruction) -> tuple[int, int]:
    """Kind and argument of what waits, or is waited for; PLAIN for all else."""
    if one.opcode.startswith("WARPGROUP.DEPBAR"):
        return sm.MATMUL_WAIT, _number(one.operands[-1])
    if one.family == "LDGDEPBAR":
        return sm.COPY_COMMIT, 0
    if one.family == "DEPBAR":
        return sm.COPY_WAIT, _number(one.operands[1]) if len(one.operands) > 1 else 0
    if one.family == "BAR":
        return sm.BARRIER, _barrier(one)
    if one.family in BULK_KINDS:
        return BULK_KINDS[one.family], 0
    if one.family == "SYNCS" and "TRYWAIT" in one.modifiers:
        return sm.BULK_WAIT, 0
    if one.family == "SYNCS" and "ARRIVE" in one.modifiers:
        return (sm.EXPECT if ARRIVALS.isdisjoint(one.modifiers) else sm.ARRIVE), 0
    return sm.PLAIN, 0


def _product_row(product: Product, rule: Rule, its: SmNumbers) -> Row:
    """A warpgroup's product: its accumulators pass the register port for N / 2 cycles, however long it takes."""
    cycles = max(product.n / 2.0, its.wgmma_registers_least_cycles)
    smem = product.smem_bytes / SMEM_LINE_BYTES
    whole = max(cycles, tensor_cycles(product, rule.interval_cycles))
    return Row(smem=smem, tensor=whole, port=product.n / 2.0)


def _commits(one: Instruction) -> int:
    return int(any("gsb0" in operand for operand in one.operands))


def _barrier(one: Instruction) -> int:
    """Number of a named barrier, and warps that it waits for, as `core.sm` packs them."""
    numbers = [_number(operand) for operand in one.operands if operand[:1].isdigit()]
    barrier = numbers[0] if numbers else 0
    warps = numbers[1] // WARP_THREADS if len(numbers) > 1 else 0
    packed = barrier % sm.BARRIERS + sm.BARRIERS * warps
    return -packed - 1 if "ARV" in one.modifiers else packed


def _number(text: str) -> int:
    return int(text, 0)
