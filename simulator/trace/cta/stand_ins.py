"""CTAs that stand for others, so that all threads are followed in a few alone: those that decide by the same numbers.

What a CTA adds to an address is the same for all of its threads, whatever else they add: such sums are not looked at.
Wherever something else is done with a number that depends on the CTA and on the thread, or a thread takes part by one,
the CTA's part of it is kept, by a few of its threads. CTAs of which all of these are equal touch alike.
"""

from collections.abc import Mapping

import numpy as np

from ...sass.decode import Instruction
from ...sass.registers import guard_of, read, result_operands, written
from ..compute.lanes import LanesDiffer
from ..operands import REGISTER, Threads
from ..values import UNSET, Array, Value
from .bases import probed
from .doubts import Doubts
from .every_thread import warps_by_way
from .given import Subject
from .knowing import GLOBAL_LOADS
from .one_cta import OneCta
from .sites import Slice
from .walking import Walk

FEWEST = 64
"""CTAs of which it is worth it to look for some that stand for all."""
SUMS = frozenset({"IADD", "IADD3", "VIADD", "LEA", "MOV", "LDL", "STL"})
"""Families of instructions whose results are sums of their sources, and carries of these."""
PRODUCT, LEA, SHIFT = "IMAD", "LEA", "SHF"
SIGN_MODIFIERS, SIGN_SHIFT = ("R", "S32", "HI"), "0x1f"
FIRST_NUMBERS = np.uint64(0x9E3779B97F4A7C15)


def stand_ins(
    subject: Subject, found: Slice, one: OneCta, ctas: Array, trips: Mapping[int, Array], doubts: Doubts
) -> tuple[Array, Array]:
    """Ranks of CTAs that stand for all, and which of these stands for each: int64 (stand-ins,) and (CTAs,).

    Args:
        ctas: numbers of CTAs that go the same way, int64 (CTAs,); trips: region -> iterations of a stay, int64 (CTAs,).
    """
    everyone = np.arange(len(ctas))
    if len(ctas) < FEWEST or found.shared or found.together or found.copying:
        return everyone, everyone
    marks = _Marks(subject, found, len(ctas))
    for region in sorted(trips):
        marks.add(trips[region].reshape(-1, 1, 1))
    walk: Walk | None = None
    try:
        for way, warps in warps_by_way(one, together=False):
            walk = Walk(
                subject,
                found,
                doubts,
                trips,
                one.ways.region_of[one.ways.warps.index(way)],
                probed(subject, ctas, warps),
                lambda *_: None,
                tail=max(1, subject.called.num_stages),
                together=False,
                before=walk,
                watch=marks.look,
            )
            walk.along(way)
    except LanesDiffer:
        return everyone, everyone
    _, first, which = np.unique(marks.numbers, return_index=True, return_inverse=True)
    return first, which.reshape(-1)


class _Marks:
    """Numbers that are equal for CTAs that decide alike. `numbers`: uint64 (CTAs,)."""

    def __init__(self, subject: Subject, found: Slice, ctas: int) -> None:
        self._code, self._unknown, self._touching = subject.flow.instructions, subject.unknown, found.touching
        self._loads = GLOBAL_LOADS if subject.memory.has_values else frozenset()
        self.numbers = np.full(ctas, FIRST_NUMBERS)
        self._mask: Array | None = None

    def add(self, values: Array) -> None:
        """Tell CTAs apart by values of (CTAs, threads, 1) or fewer."""
        if values.shape[0] == 1:
            return
        for column in values.reshape(len(values), -1).T.astype(np.uint64):
            self.numbers = (self.numbers ^ column) * FIRST_NUMBERS
            self.numbers ^= self.numbers >> np.uint64(29)

    def look(self, place: int, threads: Threads, mask: Array) -> None:
        """Look at an instruction before it is run. Args: as of a `Step`."""
        instruction = self._code[place]
        if mask is not self._mask:
            self.add(mask)
            self._mask = mask
        guards = [threads.registers[name] for name in guard_of(instruction) if name in threads.registers]
        for guard in guards:
            self._add(guard)
        if place in self._unknown or (place in self._touching and instruction.family not in self._loads):
            return
        sources = [threads.registers.get(name, UNSET) for name in read(instruction)]
        apart = _by_thread(mask) or any(_by_thread(array) for array, _ in guards)
        results = [threads.registers.get(name, UNSET) for name in written(instruction)] if apart else []
        if apart or not _is_sum(instruction, threads):
            every = [*sources, *results]
            if apart or any(_by_thread(array) for array, _ in every):
                for value in every:
                    self._add(value)

    def _add(self, value: Value) -> None:
        array, known = value
        self.add(array)
        if np.ndim(known) == array.ndim:
            self.add(np.asarray(known))


def _by_thread(array: Array) -> bool:
    return bool(array.shape[1] > 1 or array.shape[2] > 1)


def _is_sum(instruction: Instruction, threads: Threads) -> bool:
    """Whether what depends on the CTA and what depends on the thread add up in the results as in the sources."""
    family = instruction.family.removeprefix("U")
    if family in (LEA, PRODUCT) and {"HI", "X"}.intersection(instruction.modifiers) == {"HI"}:
        return False  # a quotient, and not the upper half of a sum of two words
    if family in SUMS:
        return True
    operands = instruction.operands[result_operands(instruction) :]
    if family == PRODUCT:
        factors = [_word(operand, threads) for operand in operands[:2]]
        of_cta, of_thread = (not any(_by_thread(word) for word in factors), all(len(word) == 1 for word in factors))
        return of_cta or of_thread or any(word.size == 1 for word in factors)
    if family != SHIFT:
        return False
    if instruction.modifiers == SIGN_MODIFIERS and operands[1] == SIGN_SHIFT:
        return True  # the upper half of an index, which wraps in no thread
    return instruction.modifiers[:1] == ("L",) and _word(operands[1], threads).size == 1


def _word(operand: str, threads: Threads) -> Array:
    """A register as it is, or something that is the same for all threads of all CTAs."""
    register = REGISTER.match(operand)
    return threads.registers.get(register[2] + register[3], UNSET)[0] if register else UNSET[0]
