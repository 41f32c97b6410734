"""Listings: addresses that are no affine function of the iteration, listed for each: pages, gathered rows, L1 misses.

What is listed are pieces of one size: rectangles, or runs of so many sectors. A CTA
of fewer iterations than the representative does in its last ones what the representative does in its own; but where
its probe threads are masked otherwise there, it does what the representative does in an iteration that is masked so.
"""

from dataclasses import dataclass
from typing import TypedDict

import numpy as np

from ...emulator.thread_values import Array
from ...limits import SECTOR_BYTES
from .footprints import Rectangle, Runs, rectangles_of

MOST_PIECES = 1 << 22
"""Pieces of a use that may be listed."""
MOST_RECTANGLES = 16
"""Different rectangles, or lengths of runs, of a use that may be listed as such; of more, runs are, or their parts."""


@dataclass(frozen=True, slots=True)
class AddressList:
    """Lists of pieces of one size, one list for each iteration of each CTA.

    Args:
        starts: int64 (pieces,), first byte of each [B]; piece: its extent, at offset 0;
        spans: int64 (lists, 2), first piece and number of pieces of each list;
        at, until: int64 (CTAs,), first list of each CTA, and one past its last;
        zero_bytes: that TMA adds to each piece as zeros;
        part_fraction: share of the sectors that atomics add to in part only.
    """

    starts: Array
    piece: Rectangle
    spans: Array
    at: Array
    until: Array
    zero_bytes: int = 0
    part_fraction: float = 0.0


def listings_of(
    origins: Array, shapes: list[Runs], done: Array, tail: int, masks: Array | None = None, rank: int = 0
) -> tuple[AddressList, ...]:
    """Listings of what each CTA touches in each iteration.

    Args:
        origins: int64 (CTAs, iterations), what the runs of an iteration are relative to [B];
        shapes: runs of each iteration of the representative; done: iterations of each CTA, int64 (CTAs,);
        tail: iterations at the end that are counted from the end;
        masks: as of `IrregularAddresses`; rank: of the representative among the CTAs.

    Returns:
        Listings that are read together, list by list; empty where there would be too many pieces.
    """
    ctas, most = origins.shape
    kinds = list(dict.fromkeys(shapes))
    numbers = np.array([kinds.index(shape) for shape in shapes], dtype=np.int64)
    column = np.broadcast_to(np.arange(most), (ctas, most))
    count = int(done[rank])
    from_end = count - (done[:, None] - column)
    kind = numbers[np.where(from_end >= count - tail, from_end, column).clip(0, count - 1)]
    runs_it = column < done[:, None]
    if masks is not None:
        kind = _as_masked(kind, masks, numbers[:count], rank)
    at = np.arange(ctas, dtype=np.int64) * most
    rectangles = [(number, rectangle) for number, runs in enumerate(kinds) for rectangle in rectangles_of(runs)]
    if len(rectangles) <= MOST_RECTANGLES and runs_it.sum() <= MOST_PIECES:
        return tuple(
            _of_rectangle(rectangle, origins, runs_it & (kind == number), at, done) for number, rectangle in rectangles
        )
    # Runs of one shape, at one offset within a sector, touch the same sectors from their origin.
    key_of = np.where(runs_it, kind * SECTOR_BYTES + origins % SECTOR_BYTES, -1).reshape(-1)
    sectors_of = _sectors_of(kinds, np.flatnonzero(np.bincount(key_of + 1)[1:]).tolist())
    counts = np.zeros(len(kinds) * SECTOR_BYTES + 1, dtype=np.int64)
    for key, (_, lengths) in sectors_of.items():
        counts[key] = len(lengths)
    counts = counts[key_of]
    if counts.sum() > MOST_PIECES:
        return ()
    firsts = np.cumsum(counts) - counts
    starts, lengths = np.zeros((2, int(counts.sum())), dtype=np.int64)
    for key, (offsets, sizes) in sectors_of.items():
        where = key_of == key
        places = firsts[where][:, None] + np.arange(len(offsets))
        starts[places], lengths[places] = origins.reshape(-1)[where][:, None] + offsets, sizes
    listed = by_length(np.repeat(np.arange(len(counts)), counts), starts, lengths, len(counts))
    return tuple(AddressList(**pieces, at=at, until=at + done) for pieces in listed)


class Pieces(TypedDict):
    """What an `AddressList` says of pieces of one size."""

    starts: Array
    piece: Rectangle
    spans: Array


def by_length(lists: Array, starts: Array, lengths: Array, count: int) -> list[Pieces]:
    """Runs of sectors, those of each length together; of more lengths than may be listed, cut into powers of two.

    Args:
        lists: index of the list of each run, rising; starts: its address [B]; lengths: in sectors; count: of lists.
    """
    if len(np.unique(lengths)) > MOST_RECTANGLES:
        cuts = [(lengths >> bit & 1 > 0, 1 << bit) for bit in range(int(lengths.max()).bit_length())]
    else:
        cuts = [(lengths == length, length) for length in np.unique(lengths).tolist() or [1]]
    listed = []
    for chosen, length in cuts:
        counts = np.bincount(lists[chosen], minlength=count)
        before = lengths[chosen] // (2 * length) * (2 * length)  # in longer pieces
        listed.append(
            Pieces(
                starts=starts[chosen] + before * SECTOR_BYTES,
                piece=Rectangle(0, 1, 0, length * SECTOR_BYTES),
                spans=np.stack([np.cumsum(counts) - counts, counts], axis=1),
            )
        )
    return listed


def _as_masked(kind: Array, masks: Array, numbers: Array, rank: int) -> Array:
    """Kinds of shapes, corrected where the representative has none of that kind in an iteration of the same mask.

    Args:
        kind: int64 (CTAs, iterations), by the number of the iteration; masks: as of `IrregularAddresses`;
        numbers: kinds in each iteration of the representative, int64; rank: of it.
    """
    for mask in np.unique(masks[rank, : len(numbers)]):
        known = numbers[masks[rank, : len(numbers)] == mask]
        unlike = (masks == mask) & ~np.isin(kind, known)
        kind = np.where(unlike, np.bincount(known).argmax(), kind)
    return kind


def _sectors_of(kinds: list[Runs], keys: list[int]) -> dict[int, tuple[Array, Array]]:
    """Runs as sectors: key -> offsets of the runs from the origin [B], and sectors of each, both int64.

    Args:
        kinds: shapes; keys: index of a shape x bytes of a sector + offset of the origin in its sector.
    """
    sectors: dict[int, tuple[Array, Array]] = {}
    for key in keys:
        number, residue = divmod(key, SECTOR_BYTES)
        begins = np.array([start for start, _ in kinds[number]], dtype=np.int64) + residue
        ends = begins + np.array([length for _, length in kinds[number]], dtype=np.int64)
        first = begins // SECTOR_BYTES
        sectors[key] = first * SECTOR_BYTES - residue, -(-ends // SECTOR_BYTES) - first
    return sectors


def _of_rectangle(rectangle: Rectangle, origins: Array, where: Array, at: Array, done: Array) -> AddressList:
    """Lists of one piece or none. Args: where: which iterations of which CTAs touch it, bool (CTAs, iterations)."""
    counts = where.reshape(-1).astype(np.int64)
    return AddressList(
        starts=origins.reshape(-1)[counts > 0] + rectangle.offset,
        piece=rectangle._replace(offset=0),
        spans=np.stack([np.cumsum(counts) - counts, counts], axis=1),
        at=at,
        until=at + done,
    )
