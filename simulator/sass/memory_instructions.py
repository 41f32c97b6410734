"""Instructions that touch memory, by family: which memory, at which of their operands, how many bytes a lane moves."""

from dataclasses import replace

from ..limits import WORD_BYTES
from .decode import Instruction
from .opcodes import vector_bytes
from .operands import PAIR, Address, Constant, Register
from .registers import result_operands

GLOBAL_LOADS = frozenset({"LDG", "LD"})
PLAIN_GLOBAL = GLOBAL_LOADS | {"STG", "ST"}
ATOMICS = frozenset({"RED", "REDG", "ATOMG", "ATOM"})
COPY = "LDGSTS"
"""From global to shared memory."""
LOADS_AND_COPIES = GLOBAL_LOADS | {COPY}
GLOBAL = PLAIN_GLOBAL | {COPY} | ATOMICS
TILE_LOAD, BULK_COPY = "UTMALDG", "UBLKCP"
BULK_COPIES = frozenset({BULK_COPY, "UBLKRED"})
"""Of neighbouring bytes, without a descriptor; their first modifiers say where to and from: G(lobal), S(hared)."""
BOX_REDUCTIONS = frozenset({"UTMAREDG", "UBLKRED"})
BOX_COPIES = frozenset({TILE_LOAD, "UTMASTG", "UTMAREDG"}) | BULK_COPIES
"""Copies of boxes of tensors, or of bytes, between global and shared memory, by TMA."""
GLOBAL_MEMORY, FROM_GLOBAL = "G", ("S", "G")
GLOBAL_STORES = frozenset({"STG", "ST", "UTMASTG", BULK_COPY})
SHARED_LOADS = frozenset({"LDS"})
MATRIX_STORE = "STSM"
MATRIX_ROWS = frozenset({"LDSM", MATRIX_STORE})
"""Each lane gives the address of a row of a matrix."""
ROW_BYTES, ROW_LANES = 16, 8
"""Of such a row; rows, each of one lane, of a matrix."""
PLAIN_SHARED = SHARED_LOADS | MATRIX_ROWS | {"STS"}
SHARED_STORES = frozenset({"STS", "ATOMS", MATRIX_STORE})
BARRIERS = frozenset({"BAR"})
GIVE_BACK = frozenset({"ATOMG", "ATOM"})
"""Atomics that can return the old value to a warp."""
EXCHANGE = "EXCH"
AFTER_EACH_OTHER = ("F16", "F32", "F64", "BF16")
"""Modifiers of atomics that wait for the one before at the same place."""
COMPARE = "CAS"
EVICT_FIRST = frozenset({"EF", "NA"})
"""Modifiers of accesses whose lines L2 drops before others: `evict_first`, `.cs`; `no_allocate`."""
BEYOND_L1 = frozenset({"GPU", "SYS"})
"""Scopes of loads that must see what other SMs have written."""
BYTES = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "64": 8, "128": 16, "256": 32}
SIGNED = frozenset({"S8", "S16"})


def addressed(instruction: Instruction) -> tuple[Address, ...]:
    """Where an instruction touches memory. Of the base of a compare-and-swap the lower register alone is printed."""
    addresses = tuple(operand for operand in instruction.operands if isinstance(operand, Address))
    return tuple(map(_with_pair, addresses)) if instruction.family in ATOMICS else addresses


def constant_indexes(instruction: Instruction) -> tuple[Register, ...]:
    """Registers that a load from a constant bank adds to the place; lanes may have different ones."""
    if instruction.family != "LDC":
        return ()
    return tuple(word.index for word in instruction.operands if isinstance(word, Constant) and word.index is not None)


def _with_pair(address: Address) -> Address:
    match address.terms:
        case (Register(file="R") as base, *others):
            return replace(address, terms=(replace(base, form=PAIR), *others))
    return address


def addresses_of(instruction: Instruction) -> tuple[str, ...]:
    """Registers of the addresses of an instruction, those of a descriptor aside."""
    return tuple(name for operand in instruction.operands if isinstance(operand, Address) for name in operand.names)


def bytes_of(instruction: Instruction) -> int:
    """What a lane moves [B]."""
    named = next((BYTES[word] for word in instruction.modifiers if word in BYTES), WORD_BYTES)
    return vector_bytes(instruction) or named


def matrices_of(instruction: Instruction) -> int:
    """How many matrices a warp loads or stores row by row."""
    return next((int(word) for word in instruction.modifiers if word in ("2", "4")), 1)


def stays_in_l1(instruction: Instruction) -> bool:
    """Whether L1 keeps what is loaded."""
    return instruction.family in GLOBAL_LOADS and BEYOND_L1.isdisjoint(instruction.modifiers)


def is_box_copy(instruction: Instruction) -> bool:
    """Whether an instruction copies boxes, or bytes, between global and shared memory."""
    moves = instruction.family not in BULK_COPIES or GLOBAL_MEMORY in instruction.modifiers[:2]
    return instruction.family in BOX_COPIES and moves and not instruction.never_runs


def is_box_load(instruction: Instruction) -> bool:
    """Whether it does so to shared memory."""
    loads = instruction.family == BULK_COPY and instruction.modifiers[:2] == FROM_GLOBAL
    return (loads or instruction.family == TILE_LOAD) and not instruction.never_runs


def is_access(instruction: Instruction) -> bool:
    """Whether an instruction touches global memory."""
    return (instruction.family in GLOBAL and not instruction.never_runs) or is_box_copy(instruction)


def is_atomic(instruction: Instruction) -> bool:
    """Whether L2 updates what is in memory."""
    return instruction.family in ATOMICS or instruction.family in BOX_REDUCTIONS


def is_plain_exchange(instruction: Instruction) -> bool:
    """Whether it writes like a store: an exchange whose result, the old value, is not used."""
    results = instruction.operands[: result_operands(instruction)]
    unused = any(isinstance(operand, Register) and operand.number is None for operand in results)
    return instruction.family in GIVE_BACK and EXCHANGE in instruction.modifiers and unused


def gives_back(instruction: Instruction) -> bool:
    """Whether L2 returns the old value to a warp; an addition does so even where it is not used."""
    return instruction.family in GIVE_BACK and not is_plain_exchange(instruction)


def sums_integers(instruction: Instruction) -> bool:
    """Whether L2 adds, compares or exchanges integers: floats name their type."""
    return is_read_at_l2(instruction) and not any(word.startswith(AFTER_EACH_OTHER) for word in instruction.modifiers)


def is_evicted_first(instruction: Instruction) -> bool:
    """Whether L2 drops what is loaded or stored before other lines."""
    return instruction.family in PLAIN_GLOBAL and not EVICT_FIRST.isdisjoint(instruction.modifiers)


def is_read_at_l2(instruction: Instruction) -> bool:
    """Whether L2 reads the old value."""
    return is_atomic(instruction) and not is_plain_exchange(instruction)
