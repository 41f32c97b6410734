"""A storage laid out as rows loses no byte: tiles hold what rectangles touch, in every CTA and iteration."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as s
from tilesight.simulator.emulator.storage import Storage
from tilesight.simulator.trace.program.pitches import Piece, rows_of
from tilesight.simulator.trace.program.tiles import Placed, Variables, tiles_of
from tilesight.simulator.trace.touch.access_patterns import AccessPattern
from tilesight.simulator.trace.touch.footprints import Rectangle

SIZE = 1 << 16
AT_ZERO = Storage(number=-1, size_bytes=SIZE, name="T")
WIDTHS = (32, 64, 256, 512, 768, 1024, 2048, 3072)


@s.composite
def pieces(draw: s.DrawFn) -> Piece:
    """A rectangle that some CTAs touch in the iterations of a loop, within the storage."""
    rows = draw(s.integers(1, 4))
    width = draw(s.sampled_from(WIDTHS))
    pitch = width + draw(s.sampled_from((0, 32, 512, 1024, 1536))) if rows > 1 else 0
    rectangle = Rectangle(0, rows, pitch, width)
    trips = draw(s.integers(1, 3))
    stride = draw(s.sampled_from((512, 1024, 2048, 3072))) if trips > 1 else 0
    last = SIZE - ((rows - 1) * pitch + width + stride * (trips - 1))
    step = draw(s.sampled_from((0, 32, 512, 1536, 3072, 4096)))
    ctas = draw(s.integers(1, 4))
    base = np.minimum(np.arange(ctas) * step, last - last % 32)
    return Piece(rectangle=rectangle, base=base, strides=(stride,) if stride else (), trips=trips)


def bytes_of(piece: Piece, cta: int, trip: int) -> set[int]:
    """Sectors of a rectangle, by its definition."""
    rectangle, begin = piece.rectangle, int(piece.base[cta]) + sum(piece.strides) * trip
    starts = (begin + rectangle.offset + row * rectangle.pitch for row in range(rectangle.rows))
    return {byte // 32 for start in starts for byte in range(start, start + rectangle.width, 32)}


@given(s.lists(pieces(), min_size=1, max_size=3))
def test_tiles_hold_the_bytes_of_their_rectangles(of_storage: list[Piece]) -> None:
    """Each tile lies within the columns of its matrix, and together they are the rectangle, no sector more or less."""
    rows = rows_of(SIZE, of_storage)
    for piece in of_storage:
        members, variables = np.arange(len(piece.base)), Variables(len(piece.base))
        rectangle = piece.rectangle
        runs = tuple((row * rectangle.pitch, rectangle.width) for row in range(rectangle.rows))
        use = AccessPattern(
            part=(0, 0), phase=0, storage=0, kind="load", path="plain", runs=runs, base=piece.base,
            strides=piece.strides,
        )  # fmt: skip
        counters = ("i",) if piece.strides else ()
        placed = Placed(tensor="T", storage=AT_ZERO, rows=rows, counters=counters, members=members, variables=variables)
        tiles = tiles_of(use, rectangle, placed, np.zeros(1, int))
        for cta in members:
            for trip in range(piece.trips):
                values = {name: int(column[cta]) for name, column in variables.columns.items()} | {"i": trip}
                covered = set()
                for tile in tiles:
                    line, column = (sum(values[name] * by for name, by in terms) for terms in (tile.row, tile.col))
                    assert column >= 0 and column + tile.cols <= rows.pitch
                    for number in range(tile.rows):
                        start = (line + number) * rows.pitch + column - rows.origin
                        covered |= {byte // 32 for byte in range(start, start + tile.cols, 32)}
                assert covered == bytes_of(piece, cta, trip)
