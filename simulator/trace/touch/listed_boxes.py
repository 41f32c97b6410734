"""Boxes of TMA copies whose coordinates are no affine function of the iteration: listed, clipped, for each CTA.

The representative gives the boxes of each iteration, and their distances from the first; bases give the first in each
CTA.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ...emulator.thread_values import Array
from ..cta.bases import Bases
from .access_keys import IterationAccess, Iterations
from .address_list import MOST_PIECES, AddressList
from .footprints import Rectangle, whole_sectors

_Planes = tuple[Array, Array, Array]
"""Starts [B], rows and widths [B] of rectangles, int64 (CTAs,) each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedBoxes:
    """Clipped boxes as rectangles, some of them empty.

    Args:
        iteration: flat index of the iteration of each, int64 (rectangles,);
        starts: first byte, int64 (rectangles, CTAs) [B]; rows, width: of the rectangle [width: B], as starts;
        pitch: from row to row [B]; box_rows: rows of a whole box.
    """

    iteration: Array
    starts: Array
    rows: Array
    width: Array
    pitch: int
    box_rows: int


def boxes_of(iterations: Iterations, sizes: Sequence[int], bases: Mapping[int, Bases], rank: int) -> ListedBoxes:
    """All boxes of a use.

    Args:
        iterations: copies of the representative; sizes: iterations of each loop around, outermost first;
        bases: place -> where it begins in all CTAs; rank: of the representative among these.
    """
    numbers: list[int] = []
    parts: list[_Planes] = []
    pitch, box_rows = 0, 1
    for at in np.ndindex(*sizes):
        first = len(parts)
        for copy in iterations.get(at, ()):
            assert copy.box is not None
            for planes in _rectangles(copy, bases[copy.place], rank):
                if len(parts) > first and _goes_on(parts[-1], planes):
                    parts[-1] = parts[-1][0], parts[-1][1], parts[-1][2] + planes[2]
                else:
                    parts.append(planes)
            if len(copy.box.place) > 1:
                pitch, box_rows = copy.box.descriptor.strides[1], copy.box.descriptor.box[1]
        numbers += [int(np.ravel_multi_index(at, tuple(sizes)))] * (len(parts) - first)
    starts, rows, width = (np.stack([part[number] for part in parts]) for number in range(3))
    iteration = np.array(numbers, dtype=np.int64)
    return ListedBoxes(iteration=iteration, starts=starts, rows=rows, width=width, pitch=pitch, box_rows=box_rows)


def _goes_on(before: _Planes, planes: _Planes) -> bool:
    """Whether rectangles lie to the right of others, without a gap, in all CTAs: a tile is copied in boxes of 128 B."""
    (start, rows, width), (next_start, next_rows, _) = before, planes
    return bool((rows == next_rows).all() and ((start + width == next_start) | (rows == 0)).all())


def _rectangles(copy: IterationAccess, bases: Bases, rank: int) -> list[_Planes]:
    """Starts, rows and widths, int64 (CTAs,) each, of the planes of a box: one for each index along axes 2 and up."""
    assert copy.box is not None
    descriptor, axes = copy.box.descriptor, len(copy.box.place)
    iteration = copy.position.iteration if copy.position.iteration in bases.numbers else min(bases.numbers)
    corners, sizes = bases.numbers[iteration][:, :axes], bases.numbers[iteration][:, axes:]
    distance = np.array(copy.box.place, dtype=np.int64) - corners[rank]
    corners = corners + distance
    strides, box = (np.array(numbers, dtype=np.int64) for numbers in (descriptor.strides, descriptor.box))
    first = np.clip(-corners, 0, box)
    count = np.clip(sizes - corners, first, box) - first
    origin = bases.addresses[iteration] + distance @ strides + first[:, :2] @ strides[:2]
    rows = count[:, 1] if axes > 1 else np.ones_like(origin)
    planes = []
    for outer in np.ndindex(*descriptor.box[2:]):
        steps = np.array(outer, dtype=np.int64)
        inside = ((steps >= first[:, 2:]) & (steps < (first + count)[:, 2:])).all(axis=1)
        planes.append(
            (origin + int(steps @ strides[2:]), rows * inside, count[:, 0] * inside * descriptor.element_bytes)
        )
    return planes


def listings_of_boxes(boxes: ListedBoxes, done: Array, most: int) -> tuple[AddressList, ...]:
    """Listings of the boxes, one for each size of a rectangle; empty where there would be too many pieces.

    Args:
        done: iterations of each CTA, int64 (CTAs,); most: lists of each CTA, one for each iteration.
    """
    ctas = len(done)
    copied = (boxes.rows > 0) & (boxes.width > 0) & (boxes.iteration[:, None] < done)
    if copied.sum() > MOST_PIECES:
        return ()
    place = np.arange(ctas) * most + boxes.iteration[:, None]
    at = np.arange(ctas, dtype=np.int64) * most
    listings = []
    for rows, width in np.unique(np.stack([boxes.rows[copied], boxes.width[copied]], axis=1), axis=0).tolist():
        chosen = copied & (boxes.rows == rows) & (boxes.width == width)
        lists, starts = place[chosen], boxes.starts[chosen]
        order = np.argsort(lists, kind="stable")
        counts = np.bincount(lists, minlength=ctas * most)
        firsts = np.concatenate(([0], np.cumsum(counts)[:-1]))
        # Rows without gaps are one run: a piece, whatever the pitch of the tensor's other accesses.
        run = Rectangle(0, 1, 0, rows * width)
        listings.append(
            AddressList(
                starts=starts[order],
                piece=run if rows == 1 or width == boxes.pitch else Rectangle(0, rows, boxes.pitch, width),
                spans=np.stack([firsts, counts], axis=1),
                at=at,
                until=at + done,
                zero_bytes=(boxes.box_rows - rows) * whole_sectors(width),
            )
        )
    return tuple(listings)
