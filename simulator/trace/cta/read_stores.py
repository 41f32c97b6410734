"""Stores to shared memory whose bytes are read: all others need not be followed, nor what their addresses need.

A layout is converted through shared memory that the tiles of a pipelined loop fill as well. Which store left the bytes
that a load finds is looked up in one CTA, followed whole. Stores that this CTA does not come to count as read.
"""

import numpy as np

from ...emulator.compile_blocks import compile_blocks
from ...emulator.run_blocks import run_blocks
from ...emulator.semantics import compile_instruction
from ...emulator.shared_memory import MOST_BYTES, SharedMemory
from ...emulator.thread_values import Array, Value
from ...emulator.threads import Step, Threads
from ...refusal import CannotFollow
from ...sass.memory_instructions import COPY, SHARED_LOADS, SHARED_STORES
from .access_steps import access_steps
from .address_slice import AddressSlice
from .traced_kernel import TracedKernel
from .unknown_values import UnknownValues

NOBODY = -1
"""Instead of a place in the code: no store has left anything."""


def find_sources(subject: TracedKernel, code_slice: AddressSlice) -> frozenset[int] | None:
    """Places of the stores to shared memory, copies included, whose bytes loads of a slice may read.

    Args:
        code_slice: with all stores.

    Returns:
        None where that is not known, or leaves out nothing.
    """
    code = subject.flow.instructions
    inside = [place for block in code_slice.places for place in block]
    stores = {place for place in inside if code[place].family in SHARED_STORES or code[place].family == COPY}
    loads = {place for place in inside if code[place].family in SHARED_LOADS and place not in subject.unknown}
    if not loads:
        return None
    for cta in sorted({0, subject.kernel.ctas // 2}):
        seen = _Seen()
        try:
            _follow(subject, code_slice, cta, stores | loads, seen)
        except (CannotFollow, ValueError):
            return None
        if loads <= seen.executed:
            kept = frozenset(seen.sources | stores - seen.executed)
            return kept if seen.sure and kept < stores else None
    return None


class _Seen(SharedMemory):
    """Shared memory of a CTA that keeps which store has left each byte.

    `place`: of the instruction that is executed; `executed`: of all so far; `sources`: of stores whose bytes were read;
    `sure`: whether all addresses are known.
    """

    def __init__(self) -> None:
        super().__init__()
        self.place, self.sure = NOBODY, True
        self.executed: set[int] = set()
        self.sources: set[int] = set()
        self._left_by = np.full(MOST_BYTES, NOBODY, dtype=np.int64)

    def store(self, address: Value, words: list[Value], size: int, mask: Array) -> None:  # type: ignore[override]
        """As of `SharedMemory`."""
        self._left_by[self._bytes_of(address, size, mask)] = self.place
        super().store(address, words, size, mask)

    def load(self, address: Value, size: int, mask: Array) -> list[Value]:
        """As of `SharedMemory`."""
        self.sources |= set(self._left_by[self._bytes_of(address, size, mask)].reshape(-1).tolist()) - {NOBODY}
        return super().load(address, size, mask)

    def _bytes_of(self, address: Value, size: int, mask: Array) -> Array:
        """Bytes that threads touch, int64 (threads, bytes)."""
        places, known = address
        self.sure = self.sure and bool(np.all(np.asarray(known) | ~mask))
        taking = mask & (places >= 0) & (places + size <= MOST_BYTES)
        shape = np.broadcast_shapes(places.shape, taking.shape)
        touched: Array = np.broadcast_to(places, shape)[np.broadcast_to(taking, shape)][:, None] + np.arange(size)
        return touched


def _follow(subject: TracedKernel, code_slice: AddressSlice, cta: int, watched: set[int], seen: _Seen) -> None:
    """Follow a CTA. Args: watched: places of stores and loads. Raises: CannotFollow, ValueError."""
    kernel, flow = subject.kernel, subject.flow
    doubts = UnknownValues(subject)
    steps = access_steps(subject, code_slice, doubts, lambda *_: None)

    def watching(place: int, step: Step) -> Step:
        def watch(threads: Threads, mask: Array) -> None:
            seen.place = place
            seen.executed.add(place)
            step(threads, mask)

        return watch

    steps |= {
        place: watching(place, steps.get(place) or compile_instruction(flow.instructions[place])) for place in watched
    }
    special = kernel.special_registers(np.array([cta]))
    threads = Threads(constants=subject.constants, special=special, shared=seen)
    run_blocks(flow, compile_blocks(flow, code_slice.places, steps, doubts.settle), threads, 1, kernel.warps)
