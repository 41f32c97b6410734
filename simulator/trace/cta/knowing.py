"""What may be known of the registers that an instruction writes, by what may be known of those that it reads.

A word that is computed may be known where all of its sources may be; loads from memory without values never are.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import NamedTuple

from ...sass.decode import Instruction
from ...sass.registers import named_predicates, read, result_operands, spilled, written
from ..accesses import COPY
from ..compute.lanes import EXCHANGES
from ..deciding import COMMON_ADDRESS, SHARED_LOADS, addresses_of
from ..operands import CONSTANT, NUMBER, PREDICATE, REGISTER, following
from ..operations import find_operation, is_try
from ..shared_accesses import size_of
from ..threads import LOGIC, of_half_pair
from ..values import WORD_MASK

GIVEN = frozenset({"LDC", "LDCU", "ULDC", "S2R", "S2UR", "CS2R"})
"""Families that read what a launch or a thread is given."""
GLOBAL_LOADS = frozenset({"LDG", "LD"})
WORD_BYTES = 4


class State(NamedTuple):
    """What may be known of registers; a set is a number of one bit per register.

    Args:
        known: those whose word some thread may know; partly: of which it may know some bits (see `bits`);
        leading: that may hold a part of an address of memory with values.
    """

    known: int = 0
    partly: int = 0
    leading: int = 0

    def joined(self, other: "State") -> "State":
        """What may be known where two ways meet."""
        return State(self.known | other.known, self.partly | other.partly, self.leading | other.leading)


Made = Callable[[State], State]
"""From what may be known before an instruction to what may be known of the registers that it writes."""


class Rule(NamedTuple):
    """What an instruction does to a state.

    Args:
        results: registers that it writes; guarded: not by all threads; made: as above; data: registers that it leaves
        in shared memory; known_data: whether what it leaves there may be known anyway; leading: registers, of which
        any that leads to memory with values makes it so.
    """

    results: int
    guarded: bool
    made: Made
    data: int = 0
    known_data: bool = False
    leading: int = 0


NOTHING = State()


@dataclass(slots=True)
class Knowing:
    """Makes rules of instructions.

    Args:
        pointers: addresses in constant bank 0 of the words of pointers to memory with values;
        pointing: whether any values there may be such pointers;
        shared: whether anything that may be known is stored to shared memory; bits: register -> its bit.
    """

    pointers: frozenset[int]
    pointing: bool
    shared: bool = False
    bits: dict[str, int] = field(default_factory=dict)

    @property
    def every(self) -> int:
        """All registers."""
        return (1 << len(self.bits)) - 1

    def set_of(self, names: Iterable[str]) -> int:
        """Registers as a set."""
        total = 0
        for name in names:
            total |= self.bits.setdefault(name, 1 << len(self.bits))
        return total

    def rule_of(self, instruction: Instruction) -> Rule:
        """What an instruction does to a state."""
        names = written(instruction)
        rule = Rule(self.set_of(names), bool(instruction.predicate), self._made_of(instruction, names))
        if instruction.family == COPY:
            # What is masked arrives as zeros.
            masked = any(operand != "PT" for operand in instruction.operands[2:])
            return rule._replace(known_data=masked, leading=self.set_of(addresses_of(instruction)))
        if instruction.family == "STS":
            data = following(instruction.operands[-1], max(1, size_of(instruction) // WORD_BYTES))
            registers = [name for name in data if REGISTER.match(name) and not name.endswith("Z")]
            return rule._replace(known_data=len(registers) < len(data), data=self.set_of(registers))
        return rule

    def _made_of(self, instruction: Instruction, names: Sequence[str]) -> Made:
        family, reads = instruction.family, self.set_of(read(instruction))
        results = self.set_of(names)
        flags = self.set_of([name for name in names if name.lstrip("U").startswith("P")])
        if family in LOGIC:
            return self._of_logic(instruction, results, flags)
        if family == "LDL":
            return self._of_moves(names, spilled(instruction, instruction.operands[-1]))
        if family == "STL":
            return self._of_moves(names, following(instruction.operands[-1], len(names)))
        leads = self._leads(instruction)
        if family in GLOBAL_LOADS:
            known = State(known=results, leading=results if self.pointing else 0)
            return lambda before: known if leads or reads & before.leading else NOTHING
        always, sources = self._computed(instruction, results, flags)

        def made(before: State) -> State:
            known = results if sources is not None and not sources & ~before.known else always
            return State(known=known, leading=known if leads or reads & before.leading else 0)

        return made

    def _computed(self, instruction: Instruction, results: int, flags: int) -> tuple[int, int | None]:
        """Results that may be known in any case, and sources that must be for all to be; None: never."""
        family = instruction.family
        if family in SHARED_LOADS:
            # Below what is stored there lies what the system has cleared, at addresses that are the same for all.
            return (results if self.shared or COMMON_ADDRESS.match(instruction.operands[-1]) else 0), None
        if is_try(instruction.opcode) or family in GIVEN or family == "ELECT":
            return results, None
        if family == "HFMA2":
            return (results if of_half_pair(instruction) else 0), None
        if family == "MUFU" and instruction.modifiers != ("RCP",):
            return 0, None
        sources = self._sources(instruction)
        if family in EXCHANGES:
            return flags, sources
        if family in ("P2R", "R2P"):
            return 0, sources | (self.set_of(named_predicates(instruction)) if family == "P2R" else 0)
        return 0, sources if find_operation(instruction.opcode) is not None else None

    def _sources(self, instruction: Instruction) -> int:
        """Sources that an instruction reads for sure, of each the first register."""
        names = []
        for operand in instruction.operands[result_operands(instruction) :]:
            register = REGISTER.match(operand) or PREDICATE.match(operand)
            if register and register[3] not in ("Z", "T"):
                names.append(register[2] + register[3])
        return self.set_of(names)

    def _leads(self, instruction: Instruction) -> bool:
        """Whether an instruction reads a part of an address of memory with values from the launch's arguments."""
        if not self.pointers:
            return False
        constants = [found for operand in instruction.operands if (found := CONSTANT.match(operand))]
        count = 1
        if instruction.family in ("LDC", "LDCU", "ULDC"):
            if not constants:
                return True  # from an address that is computed
            count = len(written(instruction))
        firsts = [int(found[2], 16) for found in constants]
        return any(first + WORD_BYTES * place in self.pointers for first in firsts for place in range(count))

    def _of_moves(self, names: Sequence[str], sources: Sequence[str]) -> Made:
        """Registers that get the words of others, in the same order."""
        moves = [(self.set_of([name]), self.set_of([source])) for name, source in zip(names, sources, strict=False)]

        def moved(among: int) -> int:
            return sum(name for name, source in moves if source & among)

        return lambda before: State(moved(before.known), moved(before.partly), moved(before.leading))

    def _of_logic(self, instruction: Instruction, results: int, flags: int) -> Made:
        """LOP3: bits of its result may be known where those of a source are not."""
        *operands, table = instruction.operands[result_operands(instruction) :][:4]
        reads, leads = self.set_of(read(instruction)), self._leads(instruction)
        numbers = [_number(operand) for operand in operands]
        registers = [REGISTER.match(operand) for operand in operands]
        sources = self.set_of([found[2] + found[3] for found in registers if found and found[3] != "Z"])
        settled = all(number is not None or found for number, found in zip(numbers, registers, strict=True))
        unknown, word = _doubts(int(table, 16), numbers) if settled else (0, 0)
        words = results & ~flags
        known = (words if unknown == 0 else 0) | (flags if unknown == 0 or word & ~unknown else 0)
        some = State(known=known, partly=words if unknown != WORD_MASK else 0)
        every = State(known=results, partly=words)

        def made(before: State) -> State:
            state = every if not settled or sources & (before.known | before.partly) or not sources else some
            return state._replace(leading=state.known if leads or reads & before.leading else 0)

        return made


def _number(operand: str) -> int | None:
    """A word that stands in the code."""
    if found := NUMBER.match(operand):
        return int(found[2], 16) * (-1 if found[1] else 1) & WORD_MASK
    register = REGISTER.match(operand)
    if register and register[3] == "Z" and register[1] in ("", "~"):
        return WORD_MASK if register[1] else 0
    return None


def _doubts(table: int, words: Sequence[int | None]) -> tuple[int, int]:
    """Bits that are not known of a function of three words, of which some are not; and the word, were these 0."""
    answers = [
        _looked_up(
            table, [word if word is not None else WORD_MASK * bit for word, bit in zip(words, bits, strict=True)]
        )
        for bits in product((0, 1), repeat=3)
    ]
    unknown = 0
    for answer in answers:
        unknown |= answer ^ answers[0]
    return unknown, answers[0]


def _looked_up(table: int, words: Sequence[int]) -> int:
    """Bits of three words through a truth table."""
    total = 0
    for row in range(8):
        if table >> row & 1:
            term = WORD_MASK
            for place, word in enumerate(words):
                term &= word if row & 4 >> place else word ^ WORD_MASK
            total |= term
    return total
