"""Memory that a launch is given: storages, and the data of those with values.

Loads from storages with values return them; what all others return is not known.
"""

from collections.abc import Iterable

import numpy as np

from ..limits import WORD_BYTES
from ..sass.decode import Instruction
from ..sass.flow import Flow
from ..sass.memory_instructions import GLOBAL_LOADS, SIGNED, addressed, bytes_of
from ..sass.registers import written
from .read_operands import address_of, global_address_of, predicate_of
from .semantics import compile_instruction
from .shared_accesses import copied
from .storage import STORAGE_SHIFT, Storage
from .thread_values import SHAPE, TRUE, UNSET, Array, Value, merged, sign_extended
from .threads import Step, Threads


class Memory:
    """Storages of a launch. `storages`: by number; `read`: numbers of those whose values were looked at."""

    def __init__(self, storages: Iterable[Storage]) -> None:
        self.storages = {storage.number: storage for storage in storages}
        self.read: set[int] = set()
        self._given = {
            storage.number: np.frombuffer(storage.values or storage.fill * WORD_BYTES, dtype=np.uint8)
            for storage in self.storages.values()
            if storage.values or storage.fill
        }

    @property
    def has_values(self) -> bool:
        """Whether any storage has."""
        return bool(self._given)

    def number_of(self, address: int) -> int:
        """Number of the storage that an address names; -1 where there is none."""
        number = (address >> STORAGE_SHIFT) - 1
        return number if number in self.storages else -1

    def fetch(self, addresses: Array, size: int) -> tuple[list[Array], Array]:
        """What lies at some addresses.

        Args:
            size: bytes from each [B].

        Returns:
            Words of 32 bits (of less where there is less), and where they are known.
        """
        words = [np.zeros(SHAPE, dtype=np.int64)] * max(1, size // 4)
        known = np.zeros(SHAPE, dtype=np.bool_)
        low, high = int(addresses.min()), int(addresses.max())
        for number, data in self._given.items():
            storage = self.storages[number]
            begin, given = storage.address, storage.size_bytes if storage.fill else len(data)
            if high < begin or low >= begin + given:
                continue
            offsets = addresses - begin
            inside = (offsets >= 0) & (offsets + size <= given)
            if not inside.any():
                continue
            self.read.add(number)
            at = np.where(inside, offsets, 0)
            # Whole words where all of them lie as words do, else byte by byte.
            unit = 4 if size % 4 == 0 and not (at % 4).any() else 1
            parts = data[: len(data) // unit * unit].view(f"u{unit}")
            for place in range(len(words)):
                for byte in range(0, min(4, size), unit):
                    part = parts[(at + 4 * place + byte) // unit % len(parts)].astype(np.int64)
                    words[place] = words[place] | np.where(inside, part << 8 * byte, 0)
            known = known | inside
        return words, known


def load_of_memory(instruction: Instruction, memory: Memory) -> Step:
    """What a load from global memory does to the threads: as `compile_instruction`, but that values are returned."""
    plain = compile_instruction(instruction)
    names = [name for name in written(instruction) if not name.lstrip("U").startswith("P")]
    if not memory.has_values or not names or instruction.family == "LDGSTS":
        return plain
    address = global_address_of(addressed(instruction)[0])
    guard = predicate_of(instruction.guard) if instruction.guard else None
    size = bytes_of(instruction)
    signed = not SIGNED.isdisjoint(instruction.modifiers)

    def step(threads: Threads, mask: Array) -> None:
        places, known = address(threads)
        taking = mask
        if guard:
            holds, sure = guard(threads)
            taking = mask & (holds | ~np.asarray(sure))
        words, fetched = memory.fetch(places, size) if known is not False else ([], np.zeros((1, 1, 1), dtype=np.bool_))
        fetched = fetched & np.asarray(known)
        plain(threads, mask)
        if not fetched.any():
            return
        for name, word in zip(names, words, strict=False):
            value: Value = (sign_extended(word, size) if signed else word, True if fetched.all() else fetched)
            threads.registers[name] = merged(taking, value, threads.registers.get(name, UNSET))

    return step


def loads_of_memory(flow: Flow, memory: Memory) -> dict[int, Step]:
    """Place of each load from global memory -> what it does to the threads; none where no storage has values."""
    loads = {place: load for place, load in enumerate(flow.instructions) if load.family in GLOBAL_LOADS}
    return {place: load_of_memory(load, memory) for place, load in loads.items()} if memory.has_values else {}


def copy_of_memory(instruction: Instruction, memory: Memory) -> Step:
    """What a copy from global to shared memory leaves there."""
    to, source, *conditions = instruction.operands
    place, address = address_of(to), global_address_of(source)
    guard = predicate_of(instruction.guard) if instruction.guard else None
    wanted = predicate_of(conditions[0]) if conditions else lambda threads: TRUE
    size = bytes_of(instruction)

    def step(threads: Threads, mask: Array) -> None:
        places, known = address(threads)
        if guard:
            holds, sure = guard(threads)
            mask = mask & (holds | ~np.asarray(sure))
            known = np.asarray(known) & sure
        words, fetched = memory.fetch(places, size) if known is not False else ([], np.zeros(SHAPE, dtype=np.bool_))
        fetched = fetched & np.asarray(known)
        copied(threads.shared, place(threads), [(word, fetched) for word in words], size, mask, wanted(threads))

    return step
