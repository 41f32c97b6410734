"""What lies beside the rows of a tile: bytes that the next items or the next iterations take."""

from collections.abc import Mapping

import numpy as np

from ..launch.program import Affine, Tile, TileProgram
from ..limits import LINE_BYTES, SECTOR_BYTES

NEIGHBOURS, HALF = 16, 0.5
"""First items that are looked at, and the share of them beside which the next one has to lie."""


Row = tuple[str, Affine, tuple[str, ...]]
"""Tensor, row where a tile begins, loops that move it along its rows: tiles that agree may read on where others end."""


def row_of(program: TileProgram, tile: Tile) -> Row:
    """Which rows a tile reads, and by which loops it goes on along these."""
    return tile.tensor, tile.row, tuple(name for name, _ in tile.col if name not in program.variables)


def bytes_beside(program: TileProgram, tile: Tile, width: int) -> int:
    """Bytes of a row that a tile and those of the next items take side by side: a line where they fill it.

    Args:
        width: of its rows [B].
    """
    if width >= LINE_BYTES or tile.is_gathered:
        return width
    table = program.items(np.arange(min(program.item_count, NEIGHBOURS)))
    columns = dict(zip(program.variables, table.T, strict=True))
    row, col = (
        sum((factor * columns[name] for name, factor in terms if name in columns), np.zeros(len(table)))
        for terms in (tile.row, tile.col)
    )
    goes_on = (np.diff(col) == tile.cols) & (np.diff(row) == 0) & (np.diff(columns.get(tile.slab, row)) == 0)
    return LINE_BYTES if len(goes_on) and goes_on.mean() > HALF else width


def read_alone(program: TileProgram, tile: Tile, beside: int, taken: Mapping[Row, int]) -> bool:
    """Whether nothing reads on along the rows of a tile while what is beside them is in L2.

    A tile that a loop moves along its rows comes back for what is beside a sector when that has left L2.

    Args:
        beside: as of `bytes_beside` [B].
        taken: row -> bytes of it that all tiles of the launch take that begin there.
    """
    row = row_of(program, tile)
    return max(beside, taken[row]) < (SECTOR_BYTES if row[-1] else LINE_BYTES)
