"""What an instruction of TMA copies: a box of a tensor at coordinates, clipped at the tensor's edges.

`UTMALDG.2D [UR8], [UR6]` loads: to shared memory at UR8, with the mbarrier at UR9, the box at coordinates UR10, UR11
and so on (the innermost axis first) of the tensor whose descriptor lies at UR6. Stores and reductions have no mbarrier:
their coordinates begin at UR9. One lane of a warp, the first, knows the numbers.
What lies outside of the tensor is neither fetched nor written.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ...sass.constants import bank_place
from ...sass.decode import Instruction
from ...sass.memory_instructions import is_box_copy
from ...sass.operands import Address, Operand, Register
from ..read_operands import constant_at, number_of, pair_of, predicate_of
from ..thread_values import Array, first_lane, signed
from ..threads import Threads
from .descriptor import WORDS, Descriptor, descriptor_of

BEFORE_COORDINATES = {"UTMALDG": 2, "UTMASTG": 1, "UTMAREDG": 1}
"""Registers of the first operand before the coordinates: address in shared memory, mbarrier."""
AXES = re.compile(r"^([1-5])D$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Boxes:
    """Boxes that warps copy at one place of the code; axes from the innermost on.

    Args:
        origin: address of each box's corner, even where it lies outside of the tensor, int64 (CTAs, warps, 1) [B];
        corners: coordinates of it, as origin [elements];
        first, count: elements of the box along each axis that lie before the tensor, and inside, as origin;
        descriptor: of the tensor.
    """

    origin: Array
    corners: tuple[Array, ...]
    first: tuple[Array, ...]
    count: tuple[Array, ...]
    descriptor: Descriptor

    def of(self, some: Callable[[Array], Array]) -> "Boxes":
        """Some of them. Args: some: takes these from what all have."""
        return Boxes(
            origin=some(self.origin),
            corners=tuple(map(some, self.corners)),
            first=tuple(map(some, self.first)),
            count=tuple(map(some, self.count)),
            descriptor=self.descriptor,
        )

    def clips(self) -> Array:
        """How each is clipped, int64 (CTAs, warps, 2 x axes)."""
        return _columns((*self.first, *self.count))

    def numbers(self) -> Array:
        """Coordinates of each, and sizes of its tensor, int64 (CTAs, warps, 2 x axes)."""
        return _columns((*self.corners, *self.descriptor.sizes))

    def rows(self, cta: int, warp: int) -> tuple[Array, int]:
        """Addresses of the rows of a clipped box, int64 (rows,), and bytes of each; no rows where nothing is left."""
        starts = np.array([self.corner(cta, warp)], dtype=np.int64)
        for axis in reversed(range(len(self.count))):
            stride, first, count = self.descriptor.strides[axis], *self._clip(axis, cta, warp)
            steps = np.arange(first, first + (1 if axis == 0 else count), dtype=np.int64) * stride
            starts = (starts[:, None] + steps).reshape(-1)
            if count <= 0:
                return starts[:0], 0
        return starts, _at(self.count[0], cta, warp) * self.descriptor.element_bytes

    def _clip(self, axis: int, cta: int, warp: int) -> tuple[int, int]:
        return _at(self.first[axis], cta, warp), _at(self.count[axis], cta, warp)

    def corner(self, cta: int, warp: int) -> int:
        """Origin of a warp's box [B]."""
        return _at(self.origin, cta, warp)

    def tensor_at(self, cta: int, warp: int) -> int:
        """Address of the tensor of a warp's box; of bytes without a descriptor where they begin [B]."""
        return _at(self.descriptor.address, cta, warp) or self.corner(cta, warp)

    def place(self, cta: int, warp: int) -> tuple[int, ...]:
        """Coordinates of a warp's box."""
        return tuple(_at(corner, cta, warp) for corner in self.corners)


def _columns(arrays: tuple[Array, ...]) -> Array:
    return np.stack(np.broadcast_arrays(*(array[:, :, 0] for array in arrays)), axis=-1)


def _at(array: Array, cta: int, warp: int) -> int:
    """A number of an array that may have length 1 where it makes no difference."""
    return int(array[min(cta, array.shape[0] - 1), min(warp, array.shape[1] - 1), 0])


class BoxTouch:
    """Reads the boxes that an instruction copies. Args of `boxes`: active: which warps do, as `Boxes.origin`."""

    def __init__(self, instruction: Instruction) -> None:
        first, second = map(begin_of, instruction.operands[:2])
        axes = next((int(match[1]) for word in instruction.modifiers if (match := AXES.match(word))), 0)
        assert first and second and axes  # `unfollowed` has let it pass
        before = BEFORE_COORDINATES[instruction.family]
        coordinates = first.words(before + axes)[before:]
        guards = [instruction.guard] if instruction.guard else []
        self.names = (*(guard.name for guard in guards), *first.names(before + axes)[before:], *second.names(2))
        self.guards = [predicate_of(guard) for guard in guards]
        self._coordinates = [number_of(register) for register in coordinates]
        self._descriptor = pair_of(second)

    def active(self, threads: Threads, mask: Array) -> tuple[Array, bool]:
        """Which warps copy, bool (CTAs, warps, 1), and whether that is known."""
        taking, sure = mask, True
        for guard in self.guards:
            holds, known = guard(threads)
            sure = sure and (known is True or bool(np.all(np.asarray(known) | ~mask)))
            taking = taking & (holds | ~np.asarray(known))
        return np.asarray(taking.any(axis=2, keepdims=True)), sure

    def descriptor(self, threads: Threads, active: Array) -> Descriptor | None:
        """The descriptor that the active warps name; None where it is not known, or they name several."""
        address, known = first_lane(self._descriptor(threads))
        shape = np.broadcast_shapes(address.shape, active.shape)
        taking = np.broadcast_to(active, shape)
        addresses = np.broadcast_to(address, shape)[taking]
        if not np.all(np.broadcast_to(known, shape)[taking]) or not addresses.size:
            return None
        first = int(addresses[0])
        begin = bank_place(first)
        if begin is not None:
            if np.any(addresses != first):
                return None
            return descriptor_of([constant_at(threads, begin + 4 * number) for number in range(WORDS)])
        for written, words in threads.descriptors.values():
            if np.all(np.broadcast_to(written, shape)[taking] == addresses):
                return descriptor_of(words)
        return None

    def boxes(self, threads: Threads, active: Array, descriptor: Descriptor) -> Boxes | None:
        """The boxes; None where coordinates are not known."""
        origin, corners, first, count = descriptor.address, [], [], []
        for reader, size, stride, extent in zip(
            self._coordinates, descriptor.sizes, descriptor.strides, descriptor.box, strict=True
        ):
            number, known = first_lane(reader(threads))
            if not np.all(np.asarray(known) | ~active):
                return None
            place = signed(number)
            origin = origin + place * stride
            corners.append(place)
            before = np.clip(-place, 0, extent)
            first.append(before)
            count.append(np.clip(size - place, before, extent) - before)
        return Boxes(
            origin=origin, corners=tuple(corners), first=tuple(first), count=tuple(count), descriptor=descriptor
        )


def strange_boxes(instruction: Instruction) -> bool:
    """Whether it copies boxes in a way that is not followed: rows that are listed, images."""
    plain = any(AXES.match(word) for word in instruction.modifiers) and not {"GATHER4", "SCATTER4", "IM2COL"} & {
        *instruction.modifiers
    }
    return is_box_copy(instruction) and not (plain and all(map(begin_of, instruction.operands[:2])))


def begin_of(operand: Operand) -> Register | None:
    """The first of the registers at which an operand such as `[UR8]` points."""
    match operand:
        case Address(space="", offset=0, terms=(Register(file="UR", form="", number=int()) as first,)):
            return first
    return None
