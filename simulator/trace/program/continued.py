"""Grids with very many CTAs: a part is followed, and the rest goes on as that part does.

The part is a box of CTAs at the begin of the grid. Boxes of the same size one step on along each axis tell by how much
addresses move; some others tell whether they do so all over the grid. So memory does not grow with the grid.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from ...emulator.thread_values import Array
from ..touch.access_patterns import AccessPattern
from ..touch.cta_class import MaskClass, PathClass
from ..touch.rounds import together

Grid = tuple[int, int, int]
FOLLOWED_ONE_BY_ONE = 1 << 20
"""CTAs of a grid that are all followed, at about 200 B each."""
BOX_CTAS = 1 << 16
LOOKED_AT = (0.3, 0.55, 0.8)
"""Where in the grid boxes lie that tell whether it goes on evenly, as shares of each axis."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Continued:
    """A grid of which boxes were followed.

    Args:
        grid: CTAs along x, y, z; box: the same of the one that the rest goes on from;
        axes: along which it does, each with a box one step on; boxes: that were followed, that at the begin first,
            then one for each of the axes.
    """

    grid: Grid
    box: Grid
    axes: tuple[int, ...]
    boxes: int

    @property
    def ctas(self) -> int:
        """CTAs of a box."""
        return prod(self.box)

    @property
    def is_whole(self) -> bool:
        """Whether the grid is a whole number of boxes along each axis."""
        return not any(size % part for size, part in zip(self.grid, self.box, strict=True))

    def steps(self, base: Array) -> Array:
        """How far CTAs lie apart from those of the box before, int64 (axes, CTAs). Args: base: in all boxes."""
        boxes = base.reshape(self.boxes, -1)
        apart: Array = boxes[1 : 1 + len(self.axes)] - boxes[0]
        return apart

    def items(self, table: Array) -> Callable[[Array], Array]:
        """Variables of any CTA of the grid, from those of the CTAs of all boxes. Args: table: (CTAs, variables)."""
        begin = table[: self.ctas]
        steps = [table[self.ctas * (number + 1) : self.ctas * (number + 2)] - begin for number in range(len(self.axes))]

        def items(numbers: Array) -> Array:
            along = numbers % self.grid[0], numbers // self.grid[0] % self.grid[1], numbers // prod(self.grid[:2])
            x, y, z = (where % size for where, size in zip(along, self.box, strict=True))
            place = x + self.box[0] * (y + self.box[1] * z)
            values: Array = begin[place]
            for axis, step in zip(self.axes, steps, strict=True):
                values = values + step[place] * (along[axis] // self.box[axis])[:, None]
            return values

        return items

    def is_even(self, table: Array, firsts: Sequence[Grid]) -> bool:
        """Whether all boxes are where the grid goes on to. Args: firsts: first CTA of each box."""
        items = self.items(table)
        for number, (x, y, z) in enumerate(firsts):
            inside = np.arange(self.ctas)
            at = (
                x + inside % self.box[0],
                y + inside // self.box[0] % self.box[1],
                z + inside // (self.box[0] * self.box[1]),
            )
            numbers = at[0] + self.grid[0] * (at[1] + self.grid[1] * at[2])
            if not np.array_equal(items(numbers), table[self.ctas * number : self.ctas * (number + 1)]):
                return False
        return True


def continued_of(grid: Grid) -> tuple[Continued, list[Grid]] | None:
    """Which boxes of a grid to follow, and the first CTA of each; None where all CTAs are followed."""
    if prod(grid) <= FOLLOWED_ONE_BY_ONE:
        return None
    box, room = [1, 1, 1], BOX_CTAS
    for axis, size in enumerate(grid):
        box[axis] = size if size <= room else _part(size, room)
        room //= box[axis]
        if box[axis] < size:
            break
    axes = tuple(axis for axis in range(3) if grid[axis] > box[axis])
    steps = [tuple(box[axis] if other == axis else 0 for other in range(3)) for axis in axes]
    looked_at = [
        tuple(int(share * (size // part)) * part for size, part in zip(grid, box, strict=True)) for share in LOOKED_AT
    ]
    firsts: list[Grid] = [(0, 0, 0), *steps, *looked_at]  # type: ignore[list-item]
    return Continued(grid=grid, box=(box[0], box[1], box[2]), axes=axes, boxes=len(firsts)), firsts


def _part(size: int, most: int) -> int:
    """So many CTAs of an axis at most; such that it has a whole number of them, where they are not too few."""
    return next((part for part in range(most, most // 16, -1) if size % part == 0), most)


def joined(boxes: Sequence[Sequence[PathClass]], ctas: int) -> tuple[PathClass, ...] | None:
    """Classes of several boxes as one, which has the CTAs of the first, then those of the next, and so on.

    Args:
        boxes: classes of each; ctas: of a box.

    Returns:
        None where they do not all do the same at other addresses.
    """
    first = boxes[0]
    if any(len(box) != len(first) for box in boxes):
        return None
    every = []
    for alike in zip(*boxes, strict=True):
        if not all(_alike(alike[0], other) for other in alike[1:]):
            return None
        trips = {region: together([other.trips[region] for other in alike]) for region in alike[0].trips}
        masked = tuple(_masked(kinds, ctas) for kinds in zip(*(other.masked for other in alike), strict=True))
        every.append(replace(alike[0], masked=masked, trips=trips))
    return tuple(every)


def _masked(kinds: Sequence[MaskClass], ctas: int) -> MaskClass:
    """A class by masks of all boxes together. Args: kinds: of each box; ctas: of a box."""
    uses = tuple(
        replace(those[0], base=np.concatenate([use.base for use in those]))
        for those in zip(*(kind.uses for kind in kinds), strict=True)
    )
    members = np.concatenate([kind.members + ctas * number for number, kind in enumerate(kinds)])
    return MaskClass(members=members, leader=kinds[0].leader, uses=uses)


def _alike(first: PathClass, other: PathClass) -> bool:
    """Whether classes of two boxes do the same, but for where."""
    return (
        first.parts == other.parts
        and first.representative.blocks == other.representative.blocks
        and len(first.masked) == len(other.masked)
        and first.trips.keys() == other.trips.keys()
        and all(first.trips[region].equals(other.trips[region]) for region in first.trips)
        and all(
            np.array_equal(kind.members, counterpart.members)
            and [_shape(use) for use in kind.uses] == [_shape(use) for use in counterpart.uses]
            and not any(use.uneven for use in (*kind.uses, *counterpart.uses))
            for kind, counterpart in zip(first.masked, other.masked, strict=True)
        )
    )


def _shape(use: AccessPattern) -> tuple[object, ...]:
    """All that a use is, but for where."""
    return (
        use.part, use.phase, use.storage, use.kind, use.path, use.runs, use.strides,
        use.first, use.last, use.ahead, use.zero_bytes,
    )  # fmt: skip
