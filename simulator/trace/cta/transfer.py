"""Transfer functions of a data-flow analysis: which results of an instruction may be known, given what it reads.

A word that is computed may be known where all of its sources may be; one that is loaded from memory without values is
never known.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import NamedTuple

from ...emulator.compute.by_opcode import find_operation, is_try
from ...emulator.compute.floats import FUNCTIONS
from ...emulator.compute.warp_lanes import EXCHANGES
from ...emulator.known_bits import is_byte_choice
from ...emulator.read_operands import words_of
from ...emulator.semantics import BYTES, LOGIC, of_half_pair
from ...emulator.thread_values import WORD_MASK
from ...limits import WORD_BYTES
from ...sass.decode import Instruction
from ...sass.memory_instructions import COPY, MATRIX_STORE, SHARED_LOADS, addresses_of, bytes_of, matrices_of
from ...sass.operands import Operand, Predicate, Register, integer_of, is_uniform, launch_offset
from ...sass.registers import named_predicates, read, result_operands, spilled, written

GIVEN = frozenset({"LDC", "LDCU", "ULDC", "S2R", "S2UR", "CS2R"})
"""Families that read constants and special registers."""
GLOBAL_LOADS = frozenset({"LDG", "LD"})


class State(NamedTuple):
    """What may be known of registers. A set of registers is an integer of one bit for each.

    Args:
        known: registers whose value may be known in some thread; partly: of which some bits may be (see `known_bits`);
        pointers: that may hold one of the words of an address in memory with values.
    """

    known: int = 0
    partly: int = 0
    pointers: int = 0

    def joined(self, other: "State") -> "State":
        """State where two paths meet."""
        return State(self.known | other.known, self.partly | other.partly, self.pointers | other.pointers)


Transfer = Callable[[State], State]
"""From the state before an instruction to the state of the registers that it writes."""


class Rule(NamedTuple):
    """What an instruction does to a state.

    Args:
        results: registers that it writes; guarded: whether under a predicate; transfer: as above;
        data: registers that it stores to shared memory; known_data: whether it stores something known in any case;
        pointers: registers of a copy's address: if one points to memory with values, what is copied may be known.
    """

    results: int
    guarded: bool
    transfer: Transfer
    data: int = 0
    known_data: bool = False
    pointers: int = 0


NOTHING = State()
NO_RULE = Rule(results=0, guarded=False, transfer=lambda before: NOTHING)
"""Of an instruction that is left out."""
ALWAYS = Predicate(file="P", number=None)


@dataclass(slots=True)
class TransferRules:
    """Makes the rule of each instruction.

    Args:
        pointer_words: addresses in constant bank 0 [B] of the words of pointers to memory with values;
        values_point: whether values in memory may be such pointers, too;
        shared: whether anything that may be known is stored to shared memory; bits: register -> its bit.
    """

    pointer_words: frozenset[int]
    values_point: bool
    shared: bool = False
    bits: dict[str, int] = field(default_factory=dict)

    @property
    def all_registers(self) -> int:
        """The set of all registers so far."""
        return (1 << len(self.bits)) - 1

    def set_of(self, names: Iterable[str]) -> int:
        """The set of some registers. Args: names: e.g. `R4`."""
        total = 0
        for name in names:
            total |= self.bits.setdefault(name, 1 << len(self.bits))
        return total

    def rule_of(self, instruction: Instruction) -> Rule:
        """The rule of an instruction."""
        names = written(instruction)
        rule = Rule(self.set_of(names), bool(instruction.predicate), self._transfer_of(instruction, names))
        if instruction.family == COPY:
            # Masked lanes copy zeros.
            masked = any(operand != ALWAYS for operand in instruction.operands[2:])
            return rule._replace(known_data=masked, pointers=self.set_of(addresses_of(instruction)))
        if instruction.family in ("STS", MATRIX_STORE):
            of_matrices = instruction.family == MATRIX_STORE
            count = matrices_of(instruction) if of_matrices else max(1, bytes_of(instruction) // WORD_BYTES)
            data = words_of(instruction.operands[-1], count)
            registers = [register.name for operand in data for register in operand.registers]
            return rule._replace(known_data=len(registers) < len(data), data=self.set_of(registers))
        return rule

    def _transfer_of(self, instruction: Instruction, names: Sequence[str]) -> Transfer:
        family, reads = instruction.family, self.set_of(read(instruction))
        results = self.set_of(names)
        flags = self.set_of([name for name in names if name.lstrip("U").startswith("P")])
        if family in LOGIC:
            return self._of_logic(instruction, results, flags)
        if family in BYTES and is_byte_choice(instruction):
            return self._of_bytes(instruction, results)
        if family == "LDL":
            return self._of_moves(names, spilled(instruction, instruction.operands[-1]))
        if family == "STL":
            words = words_of(instruction.operands[-1], len(names))
            return self._of_moves(names, [word.name for word in words if isinstance(word, Register)])
        points = self._points(instruction)
        if family in GLOBAL_LOADS:
            loaded = State(known=results, pointers=results if self.values_point else 0)
            return lambda before: loaded if points or reads & before.pointers else NOTHING
        always, sources = self._computed(instruction, results, flags)

        def transfer(before: State) -> State:
            known = results if sources is not None and not sources & ~before.known else always
            return State(known=known, pointers=known if points or reads & before.pointers else 0)

        return transfer

    def _computed(self, instruction: Instruction, results: int, flags: int) -> tuple[int, int | None]:
        """Results that may be known in any case; sources that have to be for all results to be (None: never)."""
        family = instruction.family
        if family in SHARED_LOADS:
            # Where nothing has been stored, shared memory reads as 0, at addresses that all lanes share.
            return (results if self.shared or is_uniform(instruction.operands[-1]) else 0), None
        if is_try(instruction.opcode) or family in GIVEN or family == "ELECT":
            return results, None
        if family == "HFMA2":
            return (results if of_half_pair(instruction) else 0), None
        if family == "MUFU" and instruction.modifiers[-1:] not in [(name,) for name in FUNCTIONS]:
            return 0, None
        sources = self._sources(instruction)
        if family in EXCHANGES:
            return flags, sources
        if family in ("P2R", "R2P"):
            return 0, sources | (self.set_of(named_predicates(instruction)) if family == "P2R" else 0)
        return 0, sources if find_operation(instruction.opcode) is not None else None

    def _sources(self, instruction: Instruction) -> int:
        """Registers and predicates that an instruction reads for sure; of a wide operand the first one."""
        operands = instruction.operands[result_operands(instruction) :]
        registers = [operand for operand in operands if isinstance(operand, Register) and operand.is_whole]
        predicates = [operand for operand in operands if isinstance(operand, Predicate)]
        names = [register.name for operand in registers for register in operand.registers]
        return self.set_of([*names, *(name for predicate in predicates for name in predicate.names)])

    def _points(self, instruction: Instruction) -> bool:
        """Whether an instruction reads a word of a pointer to memory with values from the launch's arguments."""
        if not self.pointer_words:
            return False
        firsts = [offset for operand in instruction.operands if (offset := launch_offset(operand)) is not None]
        count = 1
        if instruction.family in ("LDC", "LDCU", "ULDC"):
            if not firsts:
                return True  # from a computed address
            count = len(written(instruction))
        return any(first + WORD_BYTES * place in self.pointer_words for first in firsts for place in range(count))

    def _of_moves(self, names: Sequence[str], sources: Sequence[str]) -> Transfer:
        """Each result gets the value of one source. Args: names, sources: registers, in the same order."""
        moves = [(self.set_of([name]), self.set_of([source])) for name, source in zip(names, sources, strict=False)]

        def moved(registers: int) -> int:
            return sum(name for name, source in moves if source & registers)

        return lambda before: State(moved(before.known), moved(before.partly), moved(before.pointers))

    def _of_bytes(self, instruction: Instruction, results: int) -> Transfer:
        """PRMT: bytes of the result may be known where others are not."""
        words = (instruction.operands[1], instruction.operands[3])
        sources = self.set_of(register.name for operand in words for register in operand.registers)
        reads, points = self.set_of(read(instruction)), self._points(instruction)
        holds_number = any(_number(operand) is not None for operand in words)

        def transfer(before: State) -> State:
            known = results if not sources & ~before.known else 0
            partly = results if holds_number or sources & (before.known | before.partly) else 0
            return State(known=known, partly=partly, pointers=known if points or reads & before.pointers else 0)

        return transfer

    def _of_logic(self, instruction: Instruction, results: int, flags: int) -> Transfer:
        """LOP3, by its truth table: bits of the result may be known where those of a source are not."""
        *operands, table = instruction.operands[result_operands(instruction) :][:4]
        reads, points = self.set_of(read(instruction)), self._points(instruction)
        numbers = [_number(operand) for operand in operands]
        registers = [isinstance(operand, Register) and operand.is_whole for operand in operands]
        sources = self.set_of(register.name for operand in operands for register in operand.registers)
        readable = all(number is not None or register for number, register in zip(numbers, registers, strict=True))
        unknown, word = _unknown_bits(integer_of(table) or 0, numbers) if readable else (0, 0)
        words = results & ~flags
        known = (words if unknown == 0 else 0) | (flags if unknown == 0 or word & ~unknown else 0)
        without_sources = State(known=known, partly=words if unknown != WORD_MASK else 0)
        with_sources = State(known=results, partly=words)

        def transfer(before: State) -> State:
            open_sources = not readable or not sources or sources & (before.known | before.partly)
            state = with_sources if open_sources else without_sources
            return state._replace(pointers=state.known if points or reads & before.pointers else 0)

        return transfer


def _number(operand: Operand) -> int | None:
    """Value of an immediate or of RZ, as a word of 32 bits; None for other operands."""
    number = integer_of(operand)
    if isinstance(operand, Register) and operand.number is None and not operand.negative:
        return WORD_MASK if operand.inverted else 0
    return None if number is None else number & WORD_MASK


def _unknown_bits(table: int, words: Sequence[int | None]) -> tuple[int, int]:
    """Bits of a LOP3 that depend on unknown sources, and its value were these 0. Args: words: None: not known."""
    results = [
        _lop3(table, [word if word is not None else WORD_MASK * bit for word, bit in zip(words, bits, strict=True)])
        for bits in product((0, 1), repeat=3)
    ]
    unknown = 0
    for result in results:
        unknown |= result ^ results[0]
    return unknown, results[0]


def _lop3(table: int, words: Sequence[int]) -> int:
    """LOP3 of three words. Args: table: truth table of 8 bits."""
    total = 0
    for row in range(8):
        if table >> row & 1:
            term = WORD_MASK
            for place, word in enumerate(words):
                term &= word if row & 4 >> place else word ^ WORD_MASK
            total |= term
    return total
