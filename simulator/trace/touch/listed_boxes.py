"""Boxes that CTAs copy by TMA in iterations that go on unevenly: where each lies in each CTA, and how it is clipped.

One CTA tells which boxes an iteration copies, and how they lie from the first; all CTAs tell where the first lies.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..cta.bases import Seen
from ..values import Array
from .footprints import Rectangle, whole_sectors
from .listing import MOST_PIECES, Listing
from .sorted_accesses import Made


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedBoxes:
    """Rectangles, some of them empty.

    Args:
        iteration: number of each among the iterations of all loops around, int64 (rectangles,);
        starts: where each begins in each CTA, int64 (rectangles, CTAs) [B]; rows, width: of it, as starts [width: B];
        pitch: from row to row [B]; box_rows: of a whole box.
    """

    iteration: Array
    starts: Array
    rows: Array
    width: Array
    pitch: int
    box_rows: int


def boxes_of(
    iterations: Mapping[tuple[int, ...], Sequence[Made]], sizes: Sequence[int], seen: Mapping[int, Seen], rank: int
) -> ListedBoxes:
    """All boxes of a use. Args: sizes: iterations of each loop around; the rest as in `uses.uses_of`."""
    numbers: list[int] = []
    parts: list[tuple[Array, Array, Array]] = []
    pitch, box_rows = 0, 1
    for at in np.ndindex(*sizes):
        for copy in iterations.get(at, ()):
            assert copy.box is not None
            rectangles = list(_rectangles(copy, seen[copy.place], rank))
            numbers += [int(np.ravel_multi_index(at, tuple(sizes)))] * len(rectangles)
            parts += rectangles
            if len(copy.box.place) > 1:
                pitch, box_rows = copy.box.descriptor.strides[1], copy.box.descriptor.box[1]
    starts, rows, width = (np.stack([part[number] for part in parts]) for number in range(3))
    iteration = np.array(numbers, dtype=np.int64)
    return ListedBoxes(iteration=iteration, starts=starts, rows=rows, width=width, pitch=pitch, box_rows=box_rows)


def _rectangles(copy: Made, seen: Seen, rank: int) -> list[tuple[Array, Array, Array]]:
    """Starts, rows and widths in all CTAs of the planes of a box, one for each place along the outer axes."""
    assert copy.box is not None
    descriptor, axes = copy.box.descriptor, len(copy.box.place)
    trips = copy.position.trips if copy.position.trips in seen.numbers else min(seen.numbers)
    corners, sizes = seen.numbers[trips][:, :axes], seen.numbers[trips][:, axes:]
    apart = np.array(copy.box.place, dtype=np.int64) - corners[rank]
    corners = corners + apart
    strides, box = (np.array(each, dtype=np.int64) for each in (descriptor.strides, descriptor.box))
    first = np.clip(-corners, 0, box)
    count = np.clip(sizes - corners, first, box) - first
    origin = seen.addresses[trips] + apart @ strides + first[:, :2] @ strides[:2]
    rows = count[:, 1] if axes > 1 else np.ones_like(origin)
    found = []
    for outer in np.ndindex(*descriptor.box[2:]):
        steps = np.array(outer, dtype=np.int64)
        inside = ((steps >= first[:, 2:]) & (steps < (first + count)[:, 2:])).all(axis=1)
        found.append(
            (origin + int(steps @ strides[2:]), rows * inside, count[:, 0] * inside * descriptor.element_bytes)
        )
    return found


def listings_of_boxes(boxes: ListedBoxes, done: Array, most: int) -> tuple[Listing, ...]:
    """Lists of the boxes, one for each size of a rectangle; none where there would be too many pieces.

    Args:
        done: iterations of each CTA, int64 (CTAs,); most: iterations of the longest.
    """
    ctas = len(done)
    made = (boxes.rows > 0) & (boxes.width > 0) & (boxes.iteration[:, None] < done)
    if made.sum() > MOST_PIECES:
        return ()
    place = np.arange(ctas) * most + boxes.iteration[:, None]
    at = np.arange(ctas, dtype=np.int64) * most
    found = []
    for rows, width in np.unique(np.stack([boxes.rows[made], boxes.width[made]], axis=1), axis=0).tolist():
        chosen = made & (boxes.rows == rows) & (boxes.width == width)
        lists, starts = place[chosen], boxes.starts[chosen]
        order = np.argsort(lists, kind="stable")
        counts = np.bincount(lists, minlength=ctas * most)
        firsts = np.concatenate(([0], np.cumsum(counts)[:-1]))
        found.append(
            Listing(
                starts=starts[order],
                piece=Rectangle(0, rows, boxes.pitch if rows > 1 else 0, width),
                spans=np.stack([firsts, counts], axis=1),
                at=at,
                until=at + done,
                zero_bytes=(boxes.box_rows - rows) * whole_sectors(width),
            )
        )
    return tuple(found)
