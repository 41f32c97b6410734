"""Pieces of a use that no affine function gives, iteration by iteration: pages, gathered rows, what L1 has half of.

The pieces are sectors, or whole multiples of them: the longest length that all runs are made of. A CTA of fewer
iterations than the one that was followed does in its last ones what that one does in its own.
"""

from dataclasses import dataclass
from math import gcd

import numpy as np

from ...limits import SECTOR_BYTES
from ..values import Array
from .footprints import Rectangle, Runs, rectangles_of

MOST_PIECES = 1 << 22
"""Pieces of a use that are listed at most."""
MOST_RECTANGLES = 16
"""Rectangles, those of different iterations together, that are listed as such; more are listed sector by sector."""


@dataclass(frozen=True, slots=True)
class Listing:
    """Lists of pieces.

    Args:
        starts: int64 (pieces,), where each begins [B]; piece: its extent, at 0;
        spans: int64 (lists, 2): first piece and number of pieces of a list; a list for each iteration of each CTA;
        at, until: int64 (CTAs,), lists of each CTA; zero_bytes: that come with each by TMA as zeros.
    """

    starts: Array
    piece: Rectangle
    spans: Array
    at: Array
    until: Array
    zero_bytes: int = 0


def listings_of(origins: Array, shapes: list[Runs], done: Array, tail: int) -> tuple[Listing, ...]:
    """Lists of what each CTA touches in each iteration: rectangles, or else sectors.

    Args:
        origins: int64 (CTAs, iterations), where the followed CTA's runs of an iteration lie in each [B];
        shapes: of each iteration of the followed CTA, relative to its origin; done: iterations of each CTA;
        tail: iterations at the end that are told from the end.

    Returns:
        Lists that are gone through together; none where there would be too many pieces.
    """
    ctas, most = origins.shape
    kinds = list(dict.fromkeys(shapes))
    numbers = np.array([kinds.index(shape) for shape in shapes], dtype=np.int64)
    column = np.broadcast_to(np.arange(most), (ctas, most))
    from_end = most - (done[:, None] - column)
    kind = numbers[np.where(from_end >= most - tail, from_end, column).clip(0, most - 1)]
    made = column < done[:, None]
    at = np.arange(ctas, dtype=np.int64) * most
    rectangles = [(number, own) for number, runs in enumerate(kinds) for own in rectangles_of(runs)]
    if len(rectangles) <= MOST_RECTANGLES and made.sum() <= MOST_PIECES:
        return tuple(_of_rectangle(own, origins, made & (kind == number), at, done) for number, own in rectangles)
    # Iterations that touch the same lie in sectors alike.
    alike = np.where(made, kind * SECTOR_BYTES + origins % SECTOR_BYTES, -1)
    offsets_of, width = _offsets_of(kinds, np.flatnonzero(np.bincount(alike.reshape(-1) + 1)[1:]).tolist())
    sizes = np.zeros(len(kinds) * SECTOR_BYTES + 1, dtype=np.int64)
    for key, offsets in offsets_of.items():
        sizes[key] = len(offsets)
    counts = sizes[alike]
    if counts.sum() > MOST_PIECES:
        return ()
    firsts = np.concatenate(([0], np.cumsum(counts.reshape(-1))[:-1])).reshape(ctas, most)
    starts = np.zeros(int(counts.sum()), dtype=np.int64)
    for key, offsets in offsets_of.items():
        where = alike == key
        places = firsts[where][:, None] + np.arange(len(offsets))
        starts[places] = origins[where][:, None] + offsets
    spans = np.stack([firsts.reshape(-1), counts.reshape(-1)], axis=1)
    return (Listing(starts=starts, piece=Rectangle(0, 1, 0, width), spans=spans, at=at, until=at + done),)


def _offsets_of(kinds: list[Runs], keys: list[int]) -> tuple[dict[int, Array], int]:
    """Pieces of equal length that runs are cut into, relative to their origin, and that length [B].

    Args:
        keys: number of the runs, times bytes of a sector, plus where in a sector their origin lies.
    """
    cut: dict[int, tuple[Array, Array]] = {}
    width = 0
    for key in keys:
        number, residue = divmod(key, SECTOR_BYTES)
        begins = np.array([start for start, _ in kinds[number]], dtype=np.int64)
        ends = begins + np.array([length for _, length in kinds[number]], dtype=np.int64)
        low = (begins + residue) // SECTOR_BYTES * SECTOR_BYTES - residue
        high = -(-(ends + residue) // SECTOR_BYTES) * SECTOR_BYTES - residue
        cut[key] = low, high
        width = gcd(width, *(high - low).tolist())
    return {
        key: np.concatenate([np.arange(first, last, width) for first, last in zip(low, high, strict=True)] or [low])
        for key, (low, high) in cut.items()
    }, width


def _of_rectangle(rectangle: Rectangle, origins: Array, where: Array, at: Array, done: Array) -> Listing:
    """Lists of one piece each, or of none. Args: where: bool, as origins: iterations of CTAs that touch it."""
    counts = where.reshape(-1).astype(np.int64)
    return Listing(
        starts=origins.reshape(-1)[counts > 0] + rectangle.offset,
        piece=rectangle._replace(offset=0),
        spans=np.stack([np.cumsum(counts) - counts, counts], axis=1),
        at=at,
        until=at + done,
    )
