"""Footprints of accesses: the bytes that they touch as runs, and runs as rectangles.

A run is a range of bytes in neighbouring sectors: (first byte, length) [B]. Loads of one warp or of several fetch a
common sector once; each asynchronous copy past L1 fetches its own.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from ...emulator.thread_values import Array
from ...limits import SECTOR_BYTES

Runs = tuple[tuple[int, int], ...]


class Rectangle(NamedTuple):
    """Rows of one width at one pitch. Args: offset: of the first byte; pitch: 0 for one row; all but rows in bytes."""

    offset: int
    rows: int
    pitch: int
    width: int


class Touched(NamedTuple):
    """Bytes that threads touch. Args: addresses: of active threads, int64 (threads,) [B]; size: bytes from each."""

    addresses: Array
    size: int


class Stored(NamedTuple):
    """What threads store. Args: warps, addresses: of active threads, int64 (threads,) [B]; size_bytes: of each."""

    warps: Array
    addresses: Array
    size_bytes: int


def whole_sectors(size_bytes: int) -> int:
    """Bytes of the sectors that a row of a number of bytes fills."""
    return -(-size_bytes // SECTOR_BYTES) * SECTOR_BYTES


def sectors_of(touched: Touched) -> Array:
    """Numbers of the sectors that are touched, each once, rising, int64."""
    offsets = range(0, touched.size, SECTOR_BYTES)
    first = [(touched.addresses + offset) // SECTOR_BYTES for offset in offsets]
    return np.unique(np.concatenate([*first, (touched.addresses + touched.size - 1) // SECTOR_BYTES]))


def runs_of(parts: Sequence[Touched], sectors: Array | None = None) -> Runs:
    """What several accesses touch together, as runs of neighbouring sectors.

    Args:
        sectors: numbers of those that count, rising; None: all that are touched.
    """
    if not parts:
        return ()
    begins = np.concatenate([part.addresses for part in parts])
    ends = np.concatenate([part.addresses + part.size for part in parts])
    if sectors is None:
        sectors = np.unique(np.concatenate([sectors_of(part) for part in parts]))
    if not len(sectors):
        return ()
    breaks = np.flatnonzero(np.diff(sectors) != 1)
    firsts, lasts = sectors[np.r_[0, breaks + 1]], sectors[np.r_[breaks, len(sectors) - 1]]
    # The first and the last byte of each run, which may begin and end within a sector.
    order_begins, order_ends = np.sort(begins), np.sort(ends)
    low = np.maximum(
        firsts * SECTOR_BYTES,
        order_begins[np.searchsorted(order_begins, firsts * SECTOR_BYTES).clip(max=len(begins) - 1)],
    )
    high_edge = (lasts + 1) * SECTOR_BYTES
    high = np.minimum(high_edge, order_ends[(np.searchsorted(order_ends, high_edge, side="right") - 1).clip(min=0)])
    starts = np.where(low < (firsts + 1) * SECTOR_BYTES, low, firsts * SECTOR_BYTES)
    stops = np.where(high > lasts * SECTOR_BYTES, high, high_edge)
    return tuple((int(start), int(stop - start)) for start, stop in zip(starts, stops, strict=True))


def layers_of(parts: Sequence[Touched], in_part: bool = False) -> list[Runs]:
    """Runs that copies fetch which share nothing: all sectors once, those of two copies a second time, and so on.

    Args:
        in_part: sectors that are touched in part stay so each time.
    """
    numbers, counts = np.unique(np.concatenate([sectors_of(part) for part in parts]), return_counts=True)
    return [
        runs_of(parts, numbers[counts > layer]) if in_part or layer == 0 else runs_of(_whole(numbers[counts > layer]))
        for layer in range(int(counts.max()))
    ]


def _whole(sectors: Array) -> list[Touched]:
    return [Touched(sectors * SECTOR_BYTES, SECTOR_BYTES)]


def moved(runs: Runs, by: int) -> Runs:
    """Runs shifted by an offset. Args: by: [B]."""
    return tuple((start + by, length) for start, length in runs)


def rectangles_of(runs: Runs) -> list[Rectangle]:
    """Runs as rectangles: neighbours of one length at one pitch are rows of one."""
    rectangles: list[Rectangle] = []
    at = 0
    while at < len(runs):
        start, length = runs[at]
        stop, pitch = at + 1, 0
        while stop < len(runs) and runs[stop][1] == length:
            distance = runs[stop][0] - runs[stop - 1][0]
            if pitch not in (0, distance):
                break
            pitch, stop = distance, stop + 1
        rectangles.append(Rectangle(start, stop - at, pitch if stop - at > 1 else 0, length))
        at = stop
    return rectangles


def total_bytes(runs: Iterable[tuple[int, int]]) -> int:
    """Bytes of the sectors of all runs [B]."""
    return sum((-(-(start + length) // SECTOR_BYTES) - start // SECTOR_BYTES) * SECTOR_BYTES for start, length in runs)


def part_fraction_of(runs: Runs, requested: int = 0) -> float:
    """Share of the sectors of runs that these cover in part only; of stores, what L2 is asked beyond one a sector.

    Args:
        requested: of stores: as `stored_sectors`.
    """
    if requested:
        return max(0.0, requested * SECTOR_BYTES / total_bytes(runs) - 1.0)
    whole = sum(max(0, (start + length) // SECTOR_BYTES + -start // SECTOR_BYTES) for start, length in runs)
    return 1.0 - whole * SECTOR_BYTES / total_bytes(runs)


def stored_sectors(stores: Sequence[Stored]) -> int:
    """Sectors that warps store to, each warp its own; one that it fills in part only counts twice.

    Args:
        stores: of one iteration: what a warp stores to a sector by several of them reaches L2 together.
    """
    if not stores:
        return 0
    unit = min(store.size_bytes for store in stores)
    warps = np.concatenate([np.repeat(store.warps, store.size_bytes // unit) for store in stores])
    words = np.concatenate(
        [(store.addresses[:, None] // unit + np.arange(store.size_bytes // unit)).ravel() for store in stores]
    )
    full = max(1, SECTOR_BYTES // unit)
    span = int(words.max()) + full  # a warp's words are apart from the next one's
    stored = np.unique(warps * (span - span % full) + words)
    _, counts = np.unique(stored // full, return_counts=True)
    return len(counts) + int((counts < full).sum())
