"""Boxes of TMA copies whose coordinates are no affine function of the iteration: listed, clipped, for each CTA.

The representative gives the boxes of each iteration, and their distances from the first; bases give the first in each
CTA.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ...emulator.thread_values import Array
from ...emulator.tma.boxes import Boxes
from ...emulator.tma.descriptor import Descriptor
from ..cta.bases import Bases, Execution
from .access_keys import IterationAccess, Iterations
from .address_list import MOST_PIECES, AddressList
from .footprints import Rectangle, whole_sectors

Planes = tuple[Array, Array, Array]
"""Starts [B], rows and widths [B] of rectangles, int64 (CTAs,) each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedBoxes:
    """Clipped boxes as rectangles, some of them empty.

    Args:
        cta: rank of the CTA that copies each, int64 (rectangles,); iteration: flat index of its iteration, as cta;
        starts: first byte, as cta [B]; rows, width: of the rectangle [width: B], as cta;
        pitch: from row to row [B]; box_rows: rows of a whole box.
    """

    cta: Array
    iteration: Array
    starts: Array
    rows: Array
    width: Array
    pitch: int
    box_rows: int


def boxes_of(iterations: Iterations, sizes: Sequence[int], bases: Mapping[Execution, Bases], rank: int) -> ListedBoxes:
    """All boxes of a use.

    Args:
        iterations: copies of the representative; sizes: iterations of each loop around, outermost first;
        bases: accesses -> where it begins in all CTAs; rank: of the representative among these.
    """
    numbers: list[int] = []
    parts: list[Planes] = []
    pitch, box_rows = 0, 1
    for at in np.ndindex(*sizes):
        first = len(parts)
        for copy in iterations.get(at, ()):
            assert copy.box is not None
            for planes in _rectangles(copy, bases[copy.execution], rank):
                if len(parts) > first and goes_on(parts[-1], planes):
                    parts[-1] = parts[-1][0], parts[-1][1], parts[-1][2] + planes[2]
                else:
                    parts.append(planes)
            if len(copy.box.place) > 1:
                pitch, box_rows = copy.box.descriptor.strides[1], copy.box.descriptor.box[1]
        numbers += [int(np.ravel_multi_index(at, tuple(sizes)))] * (len(parts) - first)
    starts, rows, width = (np.stack([part[number] for part in parts]) for number in range(3))
    iteration = np.broadcast_to(np.array(numbers, dtype=np.int64)[:, None], starts.shape)
    return listed(iteration, (starts, rows, width), pitch, box_rows)


def listed(iteration: Array, planes: Planes, pitch: int, box_rows: int) -> ListedBoxes:
    """Rectangles of all CTAs, those that are empty left out. Args: iteration, planes: int64 (rectangles, CTAs)."""
    starts, rows, width = planes
    copied = (rows > 0) & (width > 0)
    ctas = np.broadcast_to(np.arange(copied.shape[1]), copied.shape)
    return ListedBoxes(
        cta=ctas[copied],
        iteration=iteration[copied],
        starts=starts[copied],
        rows=rows[copied],
        width=width[copied],
        pitch=pitch,
        box_rows=box_rows,
    )


def goes_on(before: Planes, planes: Planes) -> bool:
    """Whether rectangles lie to the right of others, without a gap, in all CTAs: a tile is copied in boxes of 128 B."""
    (start, rows, width), (next_start, next_rows, _) = before, planes
    return bool((rows == next_rows).all() and ((start + width == next_start) | (rows == 0)).all())


def _rectangles(copy: IterationAccess, bases: Bases, rank: int) -> list[Planes]:
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
    return _clipped(bases.addresses[iteration] + distance @ strides, first, count, descriptor)


def planes_of(boxes: Boxes) -> list[Planes]:
    """The same of boxes that CTAs copy. Args: boxes: arrays of (CTAs, 1)."""
    first, count = (np.concatenate(parts, axis=1) for parts in (boxes.first, boxes.count))
    return _clipped(boxes.origin[:, 0], first, count, boxes.descriptor)


def _clipped(origin: Array, first: Array, count: Array, descriptor: Descriptor) -> list[Planes]:
    """The same of clipped boxes. Args: origin: of the corner [B]; first, count: of the elements inside, by axis."""
    strides, axes = np.array(descriptor.strides, dtype=np.int64), first.shape[1]
    origin = origin + first[:, :2] @ strides[:2]
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
    copied = boxes.iteration < done[boxes.cta]
    if copied.sum() > MOST_PIECES:
        return ()
    place = boxes.cta * most + boxes.iteration
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
