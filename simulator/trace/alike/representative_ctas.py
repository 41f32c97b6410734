"""Stand-ins: a few CTAs that stand for all of a group, so that every thread is followed in these few alone.

What a CTA adds to the addresses of its threads is the same for all of these, and sums are not looked at. Where anything
else is done with values that depend on the CTA and on the thread, or a guard depends on them, they are hashed for the
probe threads of each CTA. CTAs with equal hashes touch alike: the same threads, at the same distances; and at the same
addresses where sums are looked at, too.

Where threads exchange values, what they give is hashed; CTAs that give the same get the same. So what probe threads get
may be anything that is the same in all CTAs.
"""

from dataclasses import replace

import numpy as np

from ...emulator.compute.warp_lanes import EXCHANGES, LanesDiffer
from ...emulator.read_operands import predicate_of
from ...emulator.thread_values import FALSE, UNSET, Array, Value, merged
from ...emulator.threads import Step, Threads
from ...refusal import Refused
from ...sass.decode import Instruction
from ...sass.memory_instructions import COPY, GLOBAL_LOADS, SHARED_LOADS, SHARED_STORES
from ...sass.operands import Immediate, Operand, Register
from ...sass.registers import guard_of, read, result_operands, written
from ..cta.address_slice import Tracer
from ..cta.block_counts import PROBES
from ..cta.group import CtaGroup, walk_group
from ..cta.unknown_values import UnknownValues

FEWEST = 64
"""CTAs of a group from which on it saves time to look for stand-ins."""
SUMS = frozenset({"IADD", "IADD3", "VIADD", "LEA", "MOV", "LDL", "STL"})
"""Families of instructions whose results are sums of their sources, or carries of such sums."""
PRODUCT, LEA, SHIFT = "IMAD", "LEA", "SHF"
SIGN_MODIFIERS, SIGN_SHIFT = ("R", "S32", "HI"), Immediate(31)
PLAIN_STORES = frozenset({"STS", "STSM"})
SOMETHING = 977
"""What probe threads get of others instead of what these have: multiples of it, and more."""
HASH_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


def stand_ins(tracer: Tracer, group: CtaGroup, same_places: bool = False) -> tuple[Array, Array]:
    """CTAs that stand for all of a group.

    Args:
        same_places: in every iteration at the very addresses of those that they stand for.

    Returns:
        Ranks of the stand-ins in the group, int64 (stand-ins,); index of its stand-in, of each CTA, int64 (CTAs,).
    """
    everyone = np.arange(len(group))
    code_slice = tracer.code_slice
    exchanges = _exchanges(tracer)
    if len(group) < FEWEST or exchanges is None or code_slice.copying:
        return everyone, everyone
    code = tracer.subject.flow.instructions
    if exchanges:
        code_slice = replace(code_slice, exchanging=frozenset(), all_threads=False)
        tracer = replace(tracer, code_slice=code_slice, doubts=UnknownValues(tracer.subject))
    hashes = _DecisionHashes(tracer, len(group), same_places, exchanges)
    given = {place: _giving(code[place], number) for number, place in enumerate(sorted(exchanges))}
    for region in sorted(group.trips):
        hashes.add(group.trips[region].reshape(-1, 1, 1))
    tail = max(1, tracer.subject.kernel.num_stages)
    try:
        in_full = group.all_regions if same_places else frozenset[int]()
        walk_group(tracer, group, lambda _: _ignore, False, in_full, tail, watch=hashes.look, replaced=given)
    except (LanesDiffer, Refused):
        return everyone, everyone
    _, first, which = np.unique(hashes.by_cta, return_index=True, return_inverse=True)
    return first, which.reshape(-1)


def _exchanges(tracer: Tracer) -> frozenset[int] | None:
    """Places of a slice where threads exchange values; None where copies or atomics are among them."""
    code_slice, code, stored = tracer.code_slice, tracer.subject.flow.instructions, tracer.subject.stored
    if not code_slice.all_threads:
        return frozenset()
    inside = {place for block in code_slice.places for place in block} - tracer.subject.unknown
    kept = {place for place in inside if stored is None or place in stored} if code_slice.shared else set[int]()
    if any(code[place].family == COPY or (code[place].family in SHARED_STORES - PLAIN_STORES) for place in kept):
        return None
    through_memory = {place for place in inside if code[place].family in SHARED_LOADS | PLAIN_STORES}
    return frozenset(through_memory | {place for place in inside if code[place].family in EXCHANGES})


def _giving(instruction: Instruction, number: int) -> Step:
    """Gives threads something in the place of what others have. Args: number: that tells it from other places."""
    guard = predicate_of(instruction.guard) if instruction.guard else None
    probes = np.arange(PROBES, dtype=np.int64).reshape(1, PROBES, 1)

    def step(threads: Threads, mask: Array) -> None:
        if guard:
            mask = mask & guard(threads)[0]
        for word, name in enumerate(written(instruction)):
            flag = name.lstrip("U").startswith("P")
            words = probes * SOMETHING + (number * 8 + word) * PROBES
            value: Value = (words % 2 == 0 if flag else words, True)
            threads.registers[name] = merged(mask, value, threads.registers.get(name, FALSE if flag else UNSET))
            threads.unknown_bits.pop(name, None)

    return step


def _ignore(*_: object) -> None:
    """Record no access."""


class _DecisionHashes:
    """Hashes that are equal for CTAs that decide alike. `by_cta`: uint64 (CTAs,).

    Args:
        tracer: what follows the CTAs; ctas: how many there are; same_places: whether sums are looked at, too;
        exchanges: places where threads give what they have to others.
    """

    def __init__(self, tracer: Tracer, ctas: int, same_places: bool, exchanges: frozenset[int]) -> None:
        self._same_places, self._exchanges = same_places, exchanges
        subject = tracer.subject
        self._code, self._unknown = subject.flow.instructions, subject.unknown
        self._touching = tracer.code_slice.touching
        self._loads = GLOBAL_LOADS if subject.memory.has_values else frozenset()
        self.by_cta = np.full(ctas, HASH_MULTIPLIER)
        self._mask: Array | None = None

    def add(self, values: Array) -> None:
        """Hash values of each CTA. Args: values: (CTAs, threads, 1), or (1, ...) if the same in all: not hashed."""
        if values.shape[0] == 1:
            return
        for column in values.reshape(len(values), -1).T.astype(np.uint64):
            self.by_cta = (self.by_cta ^ column) * HASH_MULTIPLIER
            self.by_cta ^= self.by_cta >> np.uint64(29)

    def look(self, place: int, threads: Threads, mask: Array) -> None:
        """Hash what an instruction is about to read, where it is no sum. Args: as in `path_replay.Watch`."""
        instruction = self._code[place]
        if mask is not self._mask:
            self.add(mask)
            self._mask = mask
        guards = [threads.registers[name] for name in guard_of(instruction) if name in threads.registers]
        for guard in guards:
            self._add(guard)
        if place in self._exchanges:
            for name in read(instruction):
                self._add(threads.registers.get(name, UNSET))
            return
        accesses = place in self._touching
        if place in self._unknown or (accesses and not self._same_places and instruction.family not in self._loads):
            return
        names = self._touching[place].names if accesses and self._same_places else read(instruction)
        sources = [threads.registers.get(name, UNSET) for name in names]
        diverged = _by_thread(mask) or any(_by_thread(array) for array, _ in guards)
        results = [threads.registers.get(name, UNSET) for name in written(instruction)] if diverged else []
        if diverged or self._same_places or not _is_sum(instruction, threads):
            values = [*sources, *results]
            if diverged or (accesses and self._same_places) or any(_by_thread(array) for array, _ in values):
                for value in values:
                    self._add(value)

    def _add(self, value: Value) -> None:
        array, known = value
        self.add(array)
        if np.ndim(known) == array.ndim:
            self.add(np.asarray(known))


def _by_thread(array: Array) -> bool:
    """Whether values differ by thread. Args: array: (CTAs, warps, lanes), 1 along axes that make no difference."""
    return bool(array.shape[1] > 1 or array.shape[2] > 1)


def _is_sum(instruction: Instruction, threads: Threads) -> bool:
    """Whether results are a part that depends on the CTA plus one that depends on the thread, if the sources are."""
    family = instruction.family.removeprefix("U")
    if family in (LEA, PRODUCT) and {"HI", "X"}.intersection(instruction.modifiers) == {"HI"}:
        return False  # a division by multiplication, and not the upper word of a sum
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
        return True  # sign extension of an index, which overflows in no thread
    return instruction.modifiers[:1] == ("L",) and _word(operands[1], threads).size == 1


def _word(operand: Operand, threads: Threads) -> Array:
    """Value of a register; zero of shape (1, 1, 1) for what is the same in all threads of all CTAs."""
    return threads.registers.get(operand.name, UNSET)[0] if isinstance(operand, Register) else UNSET[0]
