"""What instructions do to the state of the threads.

`compile_instruction` turns an instruction into a function of the threads, once, before it runs many times.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import islice

import numpy as np

from ..sass.decode import Instruction
from ..sass.flow import BRANCHES
from ..sass.memory_instructions import SHARED_STORES
from ..sass.operands import Immediate, Name, Operand, Predicate, Register
from ..sass.registers import PREDICATES, flags_before, result_operands, source_registers, spilled, written
from .compute.by_opcode import find_operation, is_try
from .compute.warp_lanes import EXCHANGES, Exchange, by_warp, of_whole_warps
from .constant_banks import load_of_constants
from .known_bits import bytes_of, keep_unwritten, logic_of
from .read_operands import float_of, number_of, pair_of, predicate_of, words_of
from .shared_accesses import load_of, store_of
from .thread_values import (
    FALSE,
    TRUE,
    UNKNOWN,
    UNKNOWN_FLAG,
    UNSET,
    Array,
    Known,
    Value,
    both,
    holds_for_all,
    merged,
    narrowed_to,
    word,
)
from .threads import Step, Threads

STEPS_KEPT = 1 << 14
"""Instructions whose steps are kept: the code of a launch is gone through for each class of its CTAs."""
LOGIC, BYTES = frozenset({"LOP3", "ULOP3"}), frozenset({"PRMT", "UPRMT"})
FOLLOWED = frozenset(
    (
        "LDC", "LDCU", "ULDC", "S2R", "S2UR", "CS2R", "LDS", "LDL", "STL", "P2R", "R2P", "HFMA2", "LDG", "LD", "LDGSTS",
        "STS", "STSM",
    )
)  # fmt: skip
"""Families beside those of `operations` whose results may be known."""
FLOATS = frozenset({"FADD", "FMUL", "FFMA", "FSETP", "FMNMX", "FSEL", "FRND", "F2I", "MUFU"})
"""Whose sources are floats."""
Results = Callable[[Threads, Array], list[Value]]
"""The values that an instruction writes, of threads that a mask selects."""


@lru_cache(maxsize=STEPS_KEPT)
def compile_instruction(instruction: Instruction) -> Step:
    """What an instruction does to the threads that a mask selects."""
    family = instruction.family
    guard = predicate_of(instruction.guard) if instruction.guard else None
    if family in SHARED_STORES and not written(instruction):
        return store_of(instruction, guard)
    step = _writing(instruction, guard, _result(instruction), () if guard else _moved(instruction))
    if family in SHARED_STORES:
        store = store_of(instruction, guard)

        def exchange(threads: Threads, mask: Array) -> None:
            store(threads, mask)
            step(threads, mask)

        return exchange
    if family in BYTES:
        return bytes_of(instruction, guard, step)
    return logic_of(instruction, guard, step) if family in LOGIC else step


@lru_cache(maxsize=STEPS_KEPT)
def havoc(instruction: Instruction) -> Step:
    """What an instruction does whose results are never known: its registers are not, either."""
    guard = predicate_of(instruction.guard) if instruction.guard else None
    return _writing(instruction, guard, lambda threads, mask: [], ())


def _writing(
    instruction: Instruction,
    guard: Callable[[Threads], Value] | None,
    compute: Results,
    moved: Sequence[tuple[str, str]],
) -> Step:
    """A step that writes what is computed. Args: moved: registers that get words of others, of some known bits."""
    flags = [name.lstrip("U").startswith("P") for name in written(instruction)]
    names = [
        (name, UNKNOWN_FLAG if flag else UNKNOWN, FALSE if flag else UNSET)
        for name, flag in zip(written(instruction), flags, strict=True)
    ]

    uniform = all(name.startswith("U") for name, _, _ in names)

    def step(threads: Threads, mask: Array) -> None:
        known: Known = True
        if guard:
            holds, known = guard(threads)
            # Where the guard is not known, neither is the result.
            mask = narrowed_to(mask, (holds, known))
        results = compute(threads, mask)
        registers, every = threads.registers, holds_for_all(mask)
        # A uniform register is one for all lanes of a warp, whichever of them execute the instruction.
        written_by = by_warp(mask, threads.whole) if uniform and not every else mask
        for place, (name, unknown, unset) in enumerate(names):
            value = results[place] if place < len(results) else unknown
            if known is not True:
                value = value[0], value[1] & known
            registers[name] = value if every else merged(written_by, value, registers.get(name, unset))
            if threads.unknown_bits:
                keep_unwritten(threads, name, None if every else written_by)
        for name, source in moved:
            if source in threads.unknown_bits:
                threads.unknown_bits[name] = threads.unknown_bits[source]

    return step


def is_followed(instruction: Instruction) -> bool:
    """Whether results of an instruction are ever known: of what computes with data that were not given they are not."""
    return (
        instruction.family in FOLLOWED
        or instruction.family in EXCHANGES
        or find_operation(instruction.opcode) is not None
    )


def of_half_pair(instruction: Instruction) -> bool:
    """Whether it is HFMA2 of zeros and two numbers."""
    sources = instruction.operands[result_operands(instruction) :]
    zeros = [operand for operand in sources[:2] if isinstance(operand, Register) and operand.number is None]
    return instruction.family == "HFMA2" and len(sources) == 4 and len(zeros) == 2


def _moved(instruction: Instruction) -> tuple[tuple[str, str], ...]:
    """Registers that get the word of another one: of the stack, or from there."""
    if instruction.family == "LDL":
        return tuple(zip(written(instruction), spilled(instruction, instruction.operands[-1]), strict=False))
    if instruction.family == "STL":
        names = written(instruction)
        words = words_of(instruction.operands[-1], len(names))
        return tuple((name, word.name) for name, word in zip(names, words, strict=True) if isinstance(word, Register))
    return ()


def condition_of(instruction: Instruction) -> Callable[[Threads], Value]:
    """When a thread takes a jump: its guard, and the predicates among the operands of a branch."""
    sources = [predicate_of(instruction.guard)] if instruction.guard else []
    if instruction.family in BRANCHES:
        sources += [predicate_of(operand) for operand in instruction.operands[:-1] if isinstance(operand, Predicate)]
    if "DIV" in instruction.modifiers:
        # Taken where threads of a warp have diverged, which the reconvergence before it has ended.
        sources = [lambda threads: FALSE]

    def condition(threads: Threads) -> Value:
        holds: Array
        known: Known
        holds, known = TRUE
        for source in sources:
            is_true, source_known = source(threads)
            holds, known = holds & is_true, both(known, source_known)
        return holds, known

    return condition


def _result(instruction: Instruction) -> Results:
    """The values that an instruction writes, one for each name in `written`."""
    family, modifiers = instruction.family, instruction.modifiers
    sources = instruction.operands[result_operands(instruction) :]
    if family in ("LDC", "LDCU", "ULDC"):
        return load_of_constants(instruction, sources[0])
    if family in ("S2R", "S2UR", "CS2R"):
        return _special(sources[0], len(written(instruction)))
    if family == "LDS":
        return load_of(instruction, sources[0])
    if family == "LDL":
        names = spilled(instruction, sources[-1])
        return lambda threads, mask: [threads.registers.get(name, UNSET) for name in names]
    if family == "STL":
        words = [number_of(operand) for operand in words_of(sources[-1], len(written(instruction)))]
        return lambda threads, mask: [read(threads) for read in words]
    if family == "P2R":
        return _packed(sources)
    if family == "R2P":
        return _unpacked(sources)
    if of_half_pair(instruction):
        return _half_pair(sources[2], sources[3])
    if exchange := EXCHANGES.get(family):
        return _exchanged(instruction, exchange)
    operation = find_operation(instruction.opcode)
    if operation is None:
        return lambda threads, mask: []
    readers = _readers(instruction)
    ordered = _order_of(instruction)
    results = instruction.operands[: result_operands(instruction)]
    named = [bool(result.names) for result in results if isinstance(result, Predicate)]
    wanted = len(named) - named[::-1].index(True) if True in named else 0

    def compute(threads: Threads, mask: Array) -> list[Value]:
        known: Known = True
        arrays = []
        for reader in readers:
            array, source_known = reader(threads)
            if source_known is False:
                return []
            known = both(known, source_known)
            arrays.append(array)
        try:
            numbers, flags = operation(modifiers, arrays)
        except (NotImplementedError, IndexError):
            return []
        return ordered([(number, known) for number in numbers], [(flag, known) for flag in islice(flags, wanted)])

    return compute


def _exchanged(instruction: Instruction, exchange: Exchange) -> Results:
    """The values that an instruction writes whose sources are those of other lanes, too."""
    readers, ordered, modifiers = _readers(instruction), _order_of(instruction), instruction.modifiers
    flags = [name.lstrip("U").startswith("P") for name in written(instruction)]
    compared = of_whole_warps(exchange, not all(flags), any(flags))

    def compute(threads: Threads, mask: Array) -> list[Value]:
        sources = [reader(threads) for reader in readers]
        if any(known is False for _, known in sources):
            return []
        on_progress = exchange if threads.whole else compared
        try:
            words, flags = on_progress(modifiers, sources, mask, threads.special["SR_LANEID"][0])
        except (NotImplementedError, IndexError):
            return []
        return ordered(words, flags)

    return compute


def _order_of(instruction: Instruction) -> Callable[[list[Value], list[Value]], list[Value]]:
    """From words and predicates that are computed to the values of the names in `written`."""
    words = len([name for name in written(instruction) if name.lstrip("U").startswith("R")])
    results = instruction.operands[: result_operands(instruction)]

    def ordered(numbers: list[Value], flags: list[Value]) -> list[Value]:
        values: list[Value] = []
        following = iter(flags)
        for operand in results:
            if isinstance(operand, Predicate):
                flag = next(following, UNKNOWN_FLAG)
                values += [flag] if operand.names else []
            elif words and operand.registers:
                values += numbers
                values += [UNKNOWN] * (words - len(numbers))
        return values

    return ordered


def _readers(instruction: Instruction) -> list[Callable[[Threads], Value]]:
    if is_try(instruction.opcode):
        return []
    readers: list[Callable[[Threads], Value]] = []
    for place, operand in enumerate(instruction.operands[result_operands(instruction) :]):
        if isinstance(operand, Predicate):
            readers.append(predicate_of(operand))
        elif source_registers(instruction, place) == 2:
            readers.append(pair_of(operand))
        elif instruction.family in FLOATS:
            readers.append(float_of(operand))
        else:
            readers.append(number_of(operand))
    return [*readers, *map(predicate_of, flags_before(instruction))]


def _special(operand: Operand, count: int) -> Results:
    name = operand.text if isinstance(operand, Name) else ""
    if name == "SRZ":
        return lambda threads, mask: [(word(0), True)] * count
    return lambda threads, mask: [threads.special.get(name, UNKNOWN)]


def _packed(sources: tuple[Operand, ...]) -> Results:
    """P2R: all predicates as bits of a word, those that the mask names; the others from a register."""
    match sources:
        case (Name("PR"), register, Immediate(int(chosen))):
            base = number_of(register)
        case _:
            return lambda threads, mask: []

    def pack(threads: Threads, mask: Array) -> list[Value]:
        array, known = base(threads)
        array = array & ~chosen
        for place, name in enumerate(PREDICATES):
            if chosen >> place & 1:
                holds, flag_known = threads.registers.get(name, FALSE)
                array, known = array | holds.astype(np.int64) << place, both(known, flag_known)
        return [(array, known)]

    return pack


def _unpacked(sources: tuple[Operand, ...]) -> Results:
    """R2P: bits of a word as predicates, those that the mask names."""
    match sources:
        case (*_, register, Immediate(int(chosen))):
            reader = number_of(register)
        case _:
            return lambda threads, mask: []

    def unpack(threads: Threads, mask: Array) -> list[Value]:
        array, known = reader(threads)
        return [((array >> place & 1) != 0, known) for place in range(len(PREDICATES)) if chosen >> place & 1]

    return unpack


def _half_pair(high: Operand, low: Operand) -> Results:
    """HFMA2 of zeros and two numbers: how a constant gets into a register by another pipe."""
    if not isinstance(low, Immediate) or not isinstance(high, Immediate):
        return lambda threads, mask: []
    words = np.array([low.value, high.value], dtype=np.float16).view(np.uint16).astype(np.int64)
    value: Value = (word(int(words[0]) | int(words[1]) << 16), True)
    return lambda threads, mask: [value]
