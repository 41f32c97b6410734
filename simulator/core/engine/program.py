"""A launch as tables: tensors, tiles, steps, loops and a few instructions, as `engine.lower` makes them."""

from typing import NamedTuple

import numpy as np

STEP, LOOP, END, HALT = 0, 1, 2, 3
"""Operations of `Program.code`."""
VARIABLE, COEFFICIENT = 0, 1
"""Elements of a term of an affine origin."""
TERMS = 4
"""Terms of an affine origin."""
ROW, COL, LIST = 0, 1, 2
"""Axes of an origin: rows, bytes of a row, and lists of a tile in pieces."""
CONSTANT = 1 << 40
"""What tells constants in a table from variables, above any number of an item: a variable v stands as v, a constant c
as c - CONSTANT."""

TENSOR = np.dtype(
    [
        ("base", np.int64),  # number of its first granule
        ("slab_granules", np.int64),
        ("row_granules", np.int64),  # from one row of granules to the next
        ("granule_rows", np.int64),
        ("granule_row_bytes", np.int64),
        ("rows", np.int64),
        ("row_bytes", np.int64),
        ("pitch_bytes", np.int64),  # from row to row
        ("packed", np.int64),  # whether rows follow each other without a gap
        ("fold", np.int64),  # granules after which numbers repeat
        ("folded", np.int64),  # whether there are more of them
        ("sampling_stride", np.int64),  # one of so many granules along a row stands for all
        ("address", np.int64),  # in a memory in which tensors follow each other [B]
    ]
)
TILE = np.dtype(
    [
        ("tensor", np.int64),
        ("slab", np.int64),  # variable that holds it
        ("rows", np.int64),
        ("row_bytes", np.int64),
        ("asynchronous", np.int64),  # whether it may run ahead of a pipelined loop
        ("through_l1", np.int64),
        ("adds", np.int64),  # whether a store adds to what is there, which L2 must have, or a load gives that back
        ("integers", np.int64),  # whether it adds to integers
        ("added", np.int64),  # whether a load of the same step has done so, which waits for the sums
        ("passing", np.int64),  # whether L2 drops it before all else
        ("part", np.float64),  # share of sectors that are added to in part; of stores: turns of L2 beyond one a sector
        ("lists_at", np.int64),  # of a tile in pieces: variable that says where the lists of its item begin, else -1
        ("lists_base", np.int64),  # where all of its lists begin
        ("gathered", np.int64),  # whether each item has lists of its own
        ("beside", np.int64),  # bytes of a row that it and those of the next items take side by side
        ("alone", np.int64),  # whether nothing reads on along its rows, which are shorter than a line
    ]
)
STEP_TILES = np.dtype(
    [
        # Tiles [load_from, load_to) are loaded, [store_from, store_to) stored.
        ("load_from", np.int64),
        ("load_to", np.int64),
        ("store_from", np.int64),
        ("store_to", np.int64),
        ("waits", np.int64),  # how often it waits for loads, one wait after the other
        # Granules of spilled registers, one bit for each: those that it writes to L2, and those that it reads before.
        ("spilled", np.int64),
        ("reloaded", np.int64),
        # The same of arrays that it goes round, as granules that each execution moves on by.
        ("spilled_turn", np.float64),
        ("reloaded_turn", np.float64),
    ]
)
LOOP_NEST = np.dtype(
    [
        # Instructions after its LOOP, and after its END.
        ("body", np.int64),
        ("after", np.int64),
        # Variables or constants, see `CONSTANT`.
        ("first", np.int64),
        ("stride", np.int64),
        ("trips", np.int64),
        ("counter", np.int64),  # variable
        ("stages", np.int64),  # of a pipelined loop, else 0
        ("slack_cycles", np.int64),  # as in `step_cost.StepCost`
    ]
)


class Program(NamedTuple):
    """What the CTAs of a launch run.

    Args:
        tensors: records of `TENSOR`, of all launches.
        tiles: records of `TILE`.
        origins: int64 (tiles, axes, TERMS, 2), where they begin: sums of variable times coefficient.
        lists: int64 (places, 2), of tiles in pieces: first piece and number of pieces of each list; row and column of
            each piece [B], beyond the tile's origin.
        steps: records of `STEP_TILES`.
        loops: records of `LOOP_NEST`.
        code: int64 (instructions, 2), operation, and the step or loop that it is about.
        item_count: items of the launch.
        cta_count: CTAs of the launch; item i belongs to CTA i modulo this.
    """

    tensors: np.ndarray
    tiles: np.ndarray
    origins: np.ndarray
    lists: np.ndarray
    steps: np.ndarray
    loops: np.ndarray
    code: np.ndarray
    item_count: int
    cta_count: int


class Items(NamedTuple):
    """Variables of some items of a launch.

    Args:
        table: int64 (items, variables).
        first: number of the first one.
    """

    table: np.ndarray
    first: int
