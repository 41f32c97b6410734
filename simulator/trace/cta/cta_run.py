"""What one CTA does, by all of its threads: the blocks that it runs, and every access, with addresses and iteration."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ...emulator.compile_blocks import compile_blocks
from ...emulator.leap.leaper import Leaper
from ...emulator.leap.stack import Stack
from ...emulator.run_blocks import Order, run_blocks
from ...emulator.thread_values import Array, holds_for_all
from ...emulator.threads import Step, Threads
from ...emulator.tma.boxes import Boxes
from ...emulator.tma.descriptor import Descriptor
from ...limits import WARP_THREADS
from ...refusal import Refused
from ...sass.memory_instructions import COPY, bytes_of, is_box_load
from ..paths import CtaPaths, find_paths
from ..positions import Position, positions_of
from .access_steps import access_steps
from .address_slice import Tracer
from .traced_kernel import TracedKernel

MOST_ACCESSES = 1 << 20
"""Accesses of warps that one CTA may make, each with the addresses of its lanes."""


class Box(NamedTuple):
    """A box of a tensor. Args: place: corner [elements], innermost axis first; descriptor: of its tensor."""

    place: tuple[int, ...]
    descriptor: Descriptor


@dataclass(frozen=True)
class CtaAccess:
    """One execution of an access by the warps of a CTA. Without slots: what is asked of it several times stays.

    Args:
        visit: index of the execution of its block among all of the CTA; place: of the instruction in the code;
        addresses: int64 (warps, lanes) [B]; active: which of them take part, bool;
            of a copy by TMA both are (1, rows of the box inside the tensor);
        size_bytes: moved at each address [B];
        anchor: address of the first thread, or of the corner of a box [B], whose changes are the access's strides;
        box: copied by TMA.
    """

    visit: int
    place: int
    addresses: Array
    active: Array
    size_bytes: int
    anchor: int
    box: Box | None = None

    @cached_property
    def lanes(self) -> int:
        """How many take part."""
        return int(np.count_nonzero(self.active))

    @cached_property
    def taken(self) -> Array:
        """Addresses of those that take part, int64 (lanes,) [B]."""
        return self.addresses.reshape(-1) if self.lanes == self.active.size else self.addresses[self.active]


@dataclass(frozen=True, slots=True)
class CtaCopy:
    """One execution of a copy to shared memory, even where all threads are masked.

    Args:
        visit, place: as of `CtaAccess`; storage: number of the storage at the first thread's address.
    """

    visit: int
    place: int
    storage: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CtaRun:
    """What a CTA did.

    Args:
        cta: its number in the grid; blocks: per warp those that it ran, in order; paths: the same as loops;
        accesses: in order; copies: those to shared memory, masked ones too; positions: by index of the visit;
        issued: int64 (blocks,), how often warps of the CTA issued each;
        reconverged: int64 (blocks,), how often the BSYNC at its begin was issued once more, as the warp had diverged.
    """

    cta: int
    blocks: tuple[tuple[int, ...], ...]
    paths: CtaPaths
    accesses: tuple[CtaAccess, ...]
    copies: tuple[CtaCopy, ...]
    positions: tuple[Position, ...]
    issued: Array
    reconverged: Array


def follow_cta(tracer: Tracer, cta: int) -> CtaRun:
    """Follow all threads of a CTA through the code. Raises: as `follow_ctas`."""
    return follow_ctas(tracer, [cta])[0]


def follow_ctas(tracer: Tracer, ctas: Sequence[int]) -> list[CtaRun]:
    """Follow all threads of some CTAs through the code, each as if it were alone. Args: ctas: numbers in the grid.

    Raises:
        Refused: an address or a branch depends on what is not known.
        ValueError: loops of specialised warps do not run side by side; one line.
    """
    subject, code_slice, doubts = tracer.subject, tracer.code_slice, tracer.doubts
    if code_slice.copying and len(ctas) > 1:  # the state holds the TMA descriptors of one CTA
        return [follow_cta(tracer, cta) for cta in ctas]
    warps = subject.kernel.warps
    recorder = _Recorder(subject, ctas)
    steps = access_steps(subject, code_slice, doubts, recorder.record)
    watched = {place: recorder.watched(step) for place, step in steps.items()}
    code = compile_blocks(subject.flow, code_slice.places, watched, doubts.settle)
    special = subject.kernel.special_registers(np.array(ctas))
    threads = Threads(constants=subject.constants, special=special)
    leaper = Leaper(subject.flow, code, code_slice.places, len(ctas), tracer.may_leap, recorder, code_slice.exchanging)
    counts, reconvergences = run_blocks(subject.flow, code, threads, len(ctas), warps, recorder.order, leaper=leaper)
    return [recorder.run_of(number, counts[number], reconvergences[number]) for number in range(len(ctas))]


@dataclass(frozen=True, slots=True)
class _Held:
    """An access in all iterations of a leap.

    Args:
        position: of its block; mask: of the threads; the rest as `address_slice.Record`.
    """

    position: int
    place: int
    addresses: Array
    active: Array
    boxes: Boxes | None
    mask: Array


class _Recorder:
    """Records what each of some CTAs does. `order`: blocks in the order of execution, each with the warps there."""

    def __init__(self, subject: TracedKernel, ctas: Sequence[int]) -> None:
        self.order: Order = []
        self._subject, self._ctas = subject, ctas
        self._accesses: list[list[CtaAccess]] = [[] for _ in ctas]
        self._copies: list[list[CtaCopy]] = [[] for _ in ctas]
        self._mask: Array = np.ones((1, 1, 1), dtype=np.bool_)
        self._visits, self._counted = np.zeros(len(ctas), dtype=np.int64), 0
        self._last = np.zeros((len(ctas), subject.kernel.warps), dtype=np.int64)  # the visit that each warp is in
        self._position: int | None = None
        self._held: list[_Held] = []

    def watched(self, step: Step) -> Step:
        """A step that first keeps the mask of the threads that execute it."""

        def run(threads: Threads, mask: Array) -> None:
            self._mask = mask
            step(threads, mask)

        return run

    def record(self, place: int, addresses: Array, active: Array, boxes: Boxes | None) -> None:
        """Record an access: as `address_slice.Record`."""
        if self._position is not None:
            self._held.append(_Held(self._position, place, addresses, active, boxes, self._mask))
            return
        for _, present in self.order[self._counted :]:
            self._pass(present)
        self._keep(place, addresses, active, boxes)

    def hold(self, position: int) -> None:
        """As of `leaper.Log`."""
        self._position = position

    def let_go(self, blocks: Sequence[tuple[int, Array]], stack: Stack, iterations: int) -> None:
        """As of `leaper.Log`; the blocks come into the order of execution afterwards."""
        for _, present in self.order[self._counted :] if iterations else ():
            self._pass(present)
        held: list[list[tuple[_Held, list[Array]]]] = [[] for _ in blocks]
        for access in self._held if iterations else ():
            apart = [stack.apart(array) for array in (access.mask, access.addresses, access.active)]
            if access.boxes is None:
                shape = self._subject.kernel.warps, WARP_THREADS
                apart[1:] = [np.broadcast_to(array, (*array.shape[:2], *shape)) for array in apart[1:]]
            held[access.position].append((access, apart))
        for iteration in range(iterations):
            for (_, present), accesses in zip(blocks, held, strict=True):
                self._pass(present)
                for access, apart in accesses:
                    self._mask, addresses, active = (of_all[min(iteration, len(of_all) - 1)] for of_all in apart)
                    boxes = access.boxes and access.boxes.of(
                        lambda array, number=iteration: stack.of(array, number)  # type: ignore[misc]
                    )
                    self._keep(access.place, addresses, active, boxes)
        self._position, self._held = None, []

    def _pass(self, present: Array) -> None:
        """A block is executed. Args: present: warps that do."""
        np.copyto(self._last, self._visits[:, None], where=present[:, :, 0])
        self._visits += present.any(axis=(1, 2))
        self._counted += 1

    def _keep(self, place: int, addresses: Array, active: Array, boxes: Boxes | None) -> None:
        ctas = [True] if holds_for_all(self._mask) else np.logical_or.reduce(self._mask, axis=(1, 2)).tolist()
        for number in range(len(self._ctas)):
            if not ctas[number if len(ctas) > 1 else 0]:
                continue
            self._check(number)
            # Others may have gone on while this warp waited at a barrier inside its block.
            warp = self._first_warp(number)
            visit = int(self._last[number, warp])
            if boxes is not None:
                self._record_boxes(visit, place, active, boxes)
            else:
                taking, where = self._of(active, number), self._of(addresses, number)
                self._record_lanes(number, visit, place, where, taking, int(where[warp, 0]))

    def _first_warp(self, number: int) -> int:
        """The first warp of a CTA that executes an access."""
        mask = self._mask[number if len(self._mask) > 1 else 0]
        return 0 if len(mask) == 1 else int(np.argmax(mask.any(axis=1)))

    def _of(self, array: Array, number: int) -> Array:
        """What the threads of a CTA have, (warps, lanes). Args: array: (CTAs or 1, warps or 1, lanes or 1)."""
        part: Array = array[number if len(array) > 1 else 0]
        shape = (self._subject.kernel.warps, WARP_THREADS)
        return part if part.shape == shape else np.broadcast_to(part, shape)

    def _check(self, number: int) -> None:
        kernel = self._subject.kernel
        if len(self._accesses[number]) > MOST_ACCESSES // kernel.warps:
            raise Refused(
                f"kernel {kernel.name}: CTA {self._ctas[number]} makes more than {MOST_ACCESSES // kernel.warps} "
                "accesses to memory: too many to follow; try a larger grid with less work for each CTA"
            )

    def _record_boxes(self, visit: int, place: int, active: Array, boxes: Boxes) -> None:
        copying = np.flatnonzero(np.broadcast_to(active, (1, self._subject.kernel.warps, 1)))
        self._accesses[0].extend(_box(boxes, int(warp), visit, place) for warp in copying)
        if is_box_load(self._subject.flow.instructions[place]):
            memory = self._subject.memory
            begins = [boxes.tensor_at(0, int(warp)) for warp in copying]
            self._copies[0].extend(CtaCopy(visit, place, memory.number_of(begin)) for begin in begins)

    def _record_lanes(self, number: int, visit: int, place: int, where: Array, taking: Array, first: int) -> None:
        instruction = self._subject.flow.instructions[place]
        if instruction.family == COPY:
            self._copies[number].append(CtaCopy(visit, place, self._subject.memory.number_of(first)))
        access = CtaAccess(visit, place, where, taking.copy(), bytes_of(instruction), first)
        if access.lanes:
            self._accesses[number].append(access)

    def run_of(self, number: int, counts: Array, reconvergences: Array) -> CtaRun:
        """What a CTA has done. Args: number: its index; counts, reconvergences: int64 (warps, blocks)."""
        warps = self._subject.kernel.warps
        blocks: list[list[int]] = [[] for _ in range(warps)]
        visits: list[tuple[int, int]] = []  # a warp of each, and which of its blocks it is
        for block, present in self.order:
            executing = np.flatnonzero(np.broadcast_to(present[number if len(present) > 1 else 0], (warps, 1)))
            if len(executing):
                visits.append((int(executing[0]), len(blocks[executing[0]])))
            for warp in executing:
                blocks[warp].append(block)
        shared: dict[tuple[int, ...], tuple[int, ...]] = {}
        per_warp = tuple(shared.setdefault(tuple(run), tuple(run)) for run in blocks)
        paths = find_paths(self._subject.flow, per_warp)
        positions = {warp: list(positions_of(paths, warp)) for warp in {warp for warp, _ in visits}}
        return CtaRun(
            cta=self._ctas[number],
            blocks=per_warp,
            paths=paths,
            accesses=tuple(self._accesses[number]),
            copies=tuple(self._copies[number]),
            positions=tuple(positions[warp][at] for warp, at in visits),
            issued=counts.sum(axis=0),
            reconverged=reconvergences.sum(axis=0),
        )


def _box(boxes: Boxes, warp: int, visit: int, place: int) -> CtaAccess:
    """The box that a warp copies, as an access to its rows."""
    rows, width = boxes.rows(0, warp)
    return CtaAccess(
        visit=visit,
        place=place,
        addresses=rows[None, :],
        active=np.ones((1, len(rows)), dtype=np.bool_),
        size_bytes=width,
        anchor=boxes.corner(0, warp),
        box=Box(place=boxes.place(0, warp), descriptor=boxes.descriptor),
    )
