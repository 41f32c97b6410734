"""Sets of bytes as runs, rectangles and lists, in examples that can be told by hand."""

import numpy as np
import pytest
from tilesight.simulator.limits import SECTOR_BYTES
from tilesight.simulator.trace.program.pitches import Piece, rows_of
from tilesight.simulator.trace.touch.address_list import MOST_RECTANGLES, AddressList, by_length, listings_of
from tilesight.simulator.trace.touch.footprints import (
    Rectangle,
    Runs,
    Touched,
    layers_of,
    moved,
    rectangles_of,
    runs_of,
    sectors_of,
    total_bytes,
)
from tilesight.simulator.trace.touch.in_l1 import Passing, missed


def touched(*addresses: int, size: int = 4) -> Touched:
    """Threads at these addresses."""
    return Touched(np.array(addresses, dtype=np.int64), size)


@pytest.mark.parametrize(
    ("parts", "runs"),
    [
        ([touched(0, 4, 8)], ((0, 12),)),
        ([touched(10, 100, size=2)], ((10, 2), (100, 2))),
        # Neighbouring sectors are one run, whatever lies between in them.
        ([touched(0, 60)], ((0, 64),)),
        ([touched(30, size=16)], ((30, 16),)),
        ([touched(64), touched(0)], ((0, 4), (64, 4))),
    ],
)
def test_runs_begin_and_end_at_the_bytes_that_are_touched(parts: list[Touched], runs: Runs) -> None:
    """In the middle of a sector, too."""
    assert runs_of(parts) == runs


def test_rows_at_a_pitch_are_a_rectangle() -> None:
    """Another width, or another pitch, begins another one."""
    rows = tuple((8192 * row, 128) for row in range(4))
    assert rectangles_of(rows) == [Rectangle(0, 4, 8192, 128)]
    assert rectangles_of((*rows, (40000, 64))) == [Rectangle(0, 4, 8192, 128), Rectangle(40000, 1, 0, 64)]
    assert rectangles_of(moved(rows, 32)) == [Rectangle(32, 4, 8192, 128)]


def test_copies_past_l1_share_nothing() -> None:
    """What two of them fetch counts twice; loads of a warp are joined."""
    parts = [touched(*range(0, 128, 16), size=16), touched(*range(0, 64, 16), size=16)]
    assert [total_bytes(runs) for runs in layers_of(parts)] == [128, 64]
    assert total_bytes(runs_of(parts)) == 128
    assert sectors_of(parts[1]).tolist() == [0, 1]


def test_words_that_are_added_to_again_are_parts_of_sectors_again() -> None:
    """Copies fetch whole sectors a second time; additions go to the same words."""
    word = [touched(64)] * 3
    assert layers_of(word, in_part=True) == [((64, 4),)] * 3
    assert layers_of(word) == [((64, 4),), ((64, 32),), ((64, 32),)]


def test_l1_serves_what_was_touched_a_moment_ago() -> None:
    """By bytes moved since; what goes out together is joined, and no hit."""
    row = touched(*range(0, 256, 32))
    other = touched(*range(4096, 4096 + 1024, 32))
    order = [Passing(row, 0, True), Passing(row, 0, True), Passing(row, 1, True), Passing(other, 2, True),
             Passing(row, 3, True)]  # fmt: skip
    assert [len(sectors) for sectors in missed(order, kept_bytes=512)] == [8, 8, 0, 32, 8]
    assert [len(sectors) for sectors in missed(order, kept_bytes=4096)] == [8, 8, 0, 32, 0]
    assert [len(sectors) for sectors in missed(order, kept_bytes=0)] == [8, 8, 8, 32, 8]


def test_l1_serves_nothing_that_another_cta_would_not_find() -> None:
    """An element that a label picks lies elsewhere in a row that others go through."""
    row = touched(*range(0, 256, 32))
    order = [Passing(touched(64), 0, True, pattern=1), Passing(row, 1, True), Passing(row, 2, True)]
    assert [len(sectors) for sectors in missed(order, kept_bytes=4096)] == [1, 8, 0]


def lists_of(listing: AddressList) -> list[list[int]]:
    """Where the pieces of each list begin, CTA by CTA and iteration by iteration."""
    return [
        sorted(listing.starts[first : first + count].tolist())
        for at, until in zip(listing.at, listing.until, strict=True)
        for first, count in listing.spans[at:until].tolist()
    ]


def test_lists_tell_the_last_iterations_from_the_end() -> None:
    """A CTA of two iterations does in its last one what the one of three does in its own."""
    origins = np.array([[0, 256, 1024], [4096, 512, 0]])
    whole, part = ((0, 128), (512, 128)), ((0, 64),)
    listings = listings_of(origins, [whole, whole, part], done=np.array([3, 2]), tail=1)
    assert [listing.piece for listing in listings] == [Rectangle(0, 2, 512, 128), Rectangle(0, 1, 0, 64)]
    assert lists_of(listings[0]) == [[0], [256], [], [4096], []]
    assert lists_of(listings[1]) == [[], [], [1024], [], [512]]


def test_many_rectangles_are_listed_by_the_length_of_their_rows() -> None:
    """Runs of two, three and four sectors, where each would be a rectangle by itself."""
    ragged = tuple((1024 * number, 64 + 32 * (number % 2)) for number in range(MOST_RECTANGLES + 1))
    two, three, four = listings_of(np.array([[0, 1 << 20]]), [ragged, ((0, 128),)], done=np.array([2]), tail=1)
    assert [listing.piece.width for listing in (two, three, four)] == [64, 96, 128]
    assert lists_of(two) == [[2048 * number for number in range(MOST_RECTANGLES // 2 + 1)], []]
    assert lists_of(three) == [[2048 * number + 1024 for number in range(MOST_RECTANGLES // 2)], []]
    assert lists_of(four) == [[], [1 << 20]]


def test_runs_of_many_lengths_are_cut_into_powers_of_two() -> None:
    """So that few pieces lie alone: of a run of seven sectors four, two and one."""
    lengths = np.arange(1, MOST_RECTANGLES + 2)
    lists, starts = np.arange(len(lengths)) % 2, 4096 * np.arange(len(lengths))
    order = np.argsort(lists, kind="stable")
    listed = by_length(lists[order], starts[order], lengths[order], 2)
    assert [pieces["piece"].width for pieces in listed] == [32, 64, 128, 256, 512]
    taken: list[int] = []
    for pieces in listed:
        assert pieces["spans"][:, 1].sum() == len(pieces["starts"])
        sectors = range(0, pieces["piece"].width, SECTOR_BYTES)
        taken += [int(start) + sector for start in pieces["starts"] for sector in sectors]
    assert sorted(taken) == [4096 * number + 32 * at for number, size in enumerate(lengths) for at in range(size)]
    of_seven = [int(start) for pieces in listed for start in pieces["starts"] if 6 * 4096 <= start < 7 * 4096]
    assert of_seven == [6 * 4096 + at for at in (6 * 32, 4 * 32, 0)]


def piece(rectangle: Rectangle, *base: int, stride: int = 0, trips: int = 1) -> Piece:
    """A rectangle of CTAs that begin there."""
    return Piece(rectangle=rectangle, base=np.array(base), strides=(stride,) if stride else (), trips=trips)


@pytest.mark.parametrize(
    ("pieces", "pitch"),
    [
        # Tiles of a matrix; rows of it; tiles that move along it.
        ([piece(Rectangle(0, 64, 4096, 128), 0, 128, 64 * 4096)], 4096),
        ([piece(Rectangle(0, 1, 0, 2000), 0, 2000, 4000)], 2000),
        ([piece(Rectangle(0, 64, 4096, 128), 0, stride=128, trips=32)], 4096),
        # Columns of a narrow matrix, as of scales of rows; but not where a run of it is touched as well.
        ([piece(Rectangle(0, 64, 128, 4), 0, 64 * 128, stride=4, trips=32)], 128),
        ([piece(Rectangle(0, 64, 128, 4), 0, 64 * 128), piece(Rectangle(0, 1, 0, 96), 16)], 1 << 20),
        # What runs over the end of a row of tiles takes all for one row.
        ([piece(Rectangle(0, 4, 1024, 128), 0), piece(Rectangle(0, 1, 0, 640), 512)], 1 << 20),
    ],
)
def test_the_pitch_of_a_storage_is_that_of_its_rectangles(pieces: list[Piece], pitch: int) -> None:
    """Where there are none, what divides lengths and distances."""
    assert rows_of(1 << 20, pieces).pitch == pitch


@pytest.mark.parametrize(("rows", "missed_again"), [(64, 0), (128, 512)])
def test_what_is_used_again_takes_its_room_in_l1(rows: int, missed_again: int) -> None:
    """In 28 KiB of L1 a tile of 16 KiB beside 4 KiB of fresh lines is not sure to be found, one of 8 KiB is."""
    tile = touched(*range(0, 128 * rows, 32))
    order = []
    for iteration in range(3):
        fresh = touched(*range((iteration + 1) << 20, ((iteration + 1) << 20) + 4096, 32))
        order += [Passing(fresh, (iteration, "load"), True), Passing(tile, (iteration, "load"), True),
                  Passing(tile, (iteration, "store"), False)]  # fmt: skip
    loads = [len(sectors) for sectors in missed(order, kept_bytes=14 << 10)][1::3]
    assert loads == [4 * rows, missed_again, missed_again]


def test_sectors_take_the_room_of_lines() -> None:
    """H200: a sector of each of so many lines drives as much out of L1 as the lines do."""
    row = Touched(np.arange(0, 256, 32), 4)
    for size in (4, 128):
        other = Touched(1 << 20 | 128 * np.arange(16), size)
        order = [Passing(row, 0, True), Passing(other, 1, True), Passing(row, 2, True)]
        assert [len(sectors) for sectors in missed(order, kept_bytes=2000)][2] == 8
        assert [len(sectors) for sectors in missed(order, kept_bytes=2500)][2] == 0


@pytest.mark.parametrize(
    ("runs", "sectors"),
    [(((0, 32),), 1), (((16, 32),), 2), (((31, 2), (100, 4)), 3), (((31, 34),), 3), ((), 0)],
)
def test_a_run_fills_all_sectors_that_it_reaches_into(runs: Runs, sectors: int) -> None:
    """One that begins within a sector may take one more than its length fills."""
    assert total_bytes(runs) == 32 * sectors
