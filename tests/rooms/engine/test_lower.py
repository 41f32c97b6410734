"""Launches as arrays: granules, instructions, tiles."""

from dataclasses import replace

import numpy as np
import pytest
from machine.toys import GPU, cost, launch, tensor, tile
from tilesight.simulator.core.engine.program import CONSTANT, END, HALT, LOOP, STEP
from tilesight.simulator.dtypes import DTYPES
from tilesight.simulator.engine.lower import FOLD_ABOVE_GRANULES, lower_launch, lower_tensors
from tilesight.simulator.launch.program import Launch, Loop, Step, Tensor, Tile, affine

MATRIX = Tensor(name="X", role="input", slabs=3, rows=100, cols=96, dtype=DTYPES["fp16"])


def reads(*tiles: Tile, tensors: tuple[Tensor, ...] = (MATRIX,)) -> Launch:
    """A launch that loads these tiles once."""
    return launch([Step(name="load", loads=tiles)], tensors, [(0, 0)], ("slab", "i"))


def part(rows: int, cols: int = 96, *, row: int = 0, col: int = 0) -> Tile:
    """A tile whose origin moves by `row` rows and `col` columns per i."""
    return Tile(
        tensor="X",
        slab="slab",
        rows=rows,
        cols=cols,
        row=affine(i=row) if row else (),
        col=affine(i=col) if col else (),
    )


def granule(*launches: Launch, resolution: str = "chunk") -> np.void:
    """Row of the first tensor in the table."""
    row: np.void = lower_tensors(launches, GPU, resolution).table[0]
    return row


@pytest.mark.parametrize(
    ("tiles", "high", "wide"),
    [
        ([part(32, row=32)], 32, 192),
        ([part(32, row=32), part(48, row=48)], 16, 192),
        ([part(100)], 100, 192),
        ([part(128)], 100, 192),
        ([part(32, 32, row=32, col=32)], 32, 64),
        ([part(32, 32, row=32, col=32), part(16, 48, row=16, col=48)], 16, 32),
        ([part(32, row=8)], 8, 192),
    ],
)
def test_a_chunk_is_what_all_tiles_cover_whole(tiles: list[Tile], high: int, wide: int) -> None:
    """The largest rectangle that divides every tile and every origin of every launch."""
    for launches in ([reads(*tiles)], [reads(read) for read in tiles]):
        seen = granule(*launches)
        assert (seen["granule_rows"], seen["granule_row_bytes"]) == (high, wide)


def test_granules_cover_the_tensor() -> None:
    """Rounded up along rows and columns, slab after slab."""
    seen = granule(reads(part(32, 64, row=32, col=64)))
    assert (seen["row_granules"], seen["slab_granules"], seen["fold"]) == (2, 4 * 2, 3 * 4 * 2)


@pytest.mark.parametrize(
    ("cols", "high", "wide"),
    [(64, 1, 128), (96, 1, 128), (16, 4, 32), (1, 64, 2), (24, 2, 48), (40, 2, 80), (72, 2, 144)],
)
def test_a_line_holds_part_of_a_row_or_several_short_ones(cols: int, high: int, wide: int) -> None:
    """128 bytes of packed rows, or as near as whole rows in whole sectors come."""
    held = replace(MATRIX, cols=cols, pitch_bytes=2 * cols)
    seen = granule(reads(part(32, cols, row=32), tensors=(held,)), resolution="line")
    assert (seen["granule_rows"], seen["granule_row_bytes"]) == (high, wide)


def test_rows_with_a_pitch_keep_lines_of_their_own() -> None:
    """Short rows that start at lines do not share one."""
    held = replace(MATRIX, cols=16, pitch_bytes=128)
    seen = granule(reads(part(32, 16, row=32), tensors=(held,)), resolution="line")
    assert (seen["granule_rows"], seen["granule_row_bytes"], seen["packed"]) == (1, 128, 0)


def test_tensors_follow_each_other() -> None:
    """Numbers of granules of different tensors never meet, and a name is one tensor in all launches."""
    other = replace(MATRIX, name="Z")
    loads = (part(32, row=32), replace(part(10, row=10), tensor="Z"))
    tensors = lower_tensors((reads(*loads, tensors=(MATRIX, other)), reads(loads[0])), GPU, "chunk")
    assert tensors.index == {"X": 0, "Z": 1}
    assert tensors.table["base"].tolist() == [0, 3 * 4]
    assert tensors.granules == 3 * 4 + 3 * 10


def test_a_name_that_means_two_tensors_is_refused() -> None:
    """Two launches would not share what is in L2."""
    with pytest.raises(ValueError, match="tensor X differs between launches"):
        lower_tensors((reads(part(32)), reads(part(32), tensors=(replace(MATRIX, rows=99),))), GPU, "chunk")


@pytest.mark.parametrize("role", ["scratch", "input"])
@pytest.mark.parametrize(("slabs", "folded"), [(FOLD_ABOVE_GRANULES // 4 + 1, True), (FOLD_ABOVE_GRANULES // 4, False)])
def test_only_tensors_of_millions_of_granules_are_folded(role: str, slabs: int, folded: bool) -> None:
    """Their numbers repeat only after many L2 capacities."""
    huge = replace(MATRIX, role=role, slabs=slabs, rows=128)  # type: ignore[arg-type]
    seen = granule(reads(part(32, row=32), tensors=(huge,)))
    total = huge.slabs * 4
    assert (seen["fold"] < total) == folded
    assert seen["fold"] * 32 * 192 >= 8 * GPU.l2_bytes
    assert seen["fold"] <= total


@pytest.mark.parametrize(
    ("granules", "stride"), [(3, 1), (4, 1), (7, 1), (8, 2), (15, 2), (16, 4), (31, 4), (32, 8), (256, 64)]
)
def test_of_the_granules_of_a_tile_at_least_four_are_followed(granules: int, stride: int) -> None:
    """The coarsest power of two that leaves four: a tile of fewer would be all or nothing."""
    huge = replace(MATRIX, slabs=1 << 14, rows=64, cols=64 * 1024, pitch_bytes=0)
    tiles = [part(64, 64 * count, col=64 * count) for count in (granules, granules + 1)]
    assert granule(reads(*tiles, tensors=(huge,)))["sampling_stride"] == stride
    small = replace(huge, slabs=1 << 7)
    assert granule(reads(*tiles, tensors=(small,)))["sampling_stride"] == 1, "131072 granules are few"


def test_tiles_that_are_much_smaller_than_others_are_right_in_the_mean_alone() -> None:
    """Else a row of statistics beside a matrix would have all of its granules followed; 1 of 64 counts, 1 of 65 not."""
    huge = replace(MATRIX, slabs=1 << 14, rows=64, cols=64 * 1024, pitch_bytes=0)
    strides = [
        granule(reads(*[part(64, 64, col=64)] * 8, part(64, 64 * large, col=64 * large), tensors=(huge,)))
        for large in (64, 65)
    ]
    assert [seen["sampling_stride"] for seen in strides] == [1, 16]


@pytest.mark.parametrize(("times", "stride"), [(7, 2), (8, 8)])
def test_tiles_that_move_little_of_a_tensor_are_right_in_the_mean_alone(times: int, stride: int) -> None:
    """Ends of rows would have granules of all tiles followed; 15 of 15 + 32 x 7 are more than a 16th, of 32 x 8 not."""
    huge = replace(MATRIX, slabs=1 << 14, rows=64, cols=64 * 1024, pitch_bytes=0)
    tiles = [part(64, 64 * 15, col=64 * 15), *[part(64, 64 * 32, col=64 * 32)] * times]
    assert granule(reads(*tiles, tensors=(huge,)))["sampling_stride"] == stride


def test_a_loop_nest_becomes_instructions() -> None:
    """Loops enclose their bodies, steps are numbered in order, and the program halts."""
    first, second, last = (Step(name=name, loads=(tile("Y"),)) for name in "abc")
    inner = Loop(counter="j", trips="n", first=2, step=-1, body=(second,))
    nest = launch((first, Loop(counter="i", trips=3, body=(inner, last))), (tensor("Y", 1),), [(0, 5)], ("slab", "n"))
    low = lower_launch(nest, {name: cost(7.0, tensor=5.0) for name in "abc"}, {"Y": 0})
    assert low.code.tolist() == [[STEP, 0], [LOOP, 0], [LOOP, 1], [STEP, 1], [END, 1], [STEP, 2], [END, 0], [HALT, 0]]
    assert low.loops[0].tolist() == (2, 7, 0 - CONSTANT, 1 - CONSTANT, 3 - CONSTANT, 2, 0, 0)
    assert low.loops[1].tolist() == (3, 5, 2 - CONSTANT, -1 - CONSTANT, 1, 3, 0, 0)
    assert low.costs.tolist() == [[5.0, 0, 0, 0, 0, 0, 7.0]] * 3
    assert low.environment_size == 4


@pytest.mark.parametrize(
    ("stages", "path", "expected"), [(1, "async", 0), (2, "plain", 0), (2, "async", 2), (3, "tma", 3)]
)
def test_only_asynchronous_loads_are_pipelined(stages: int, path: str, expected: int) -> None:
    """In loops of one step, with two stages or more."""
    step = Step(name="a", loads=(tile("Y", path=path),))  # type: ignore[arg-type]
    single = launch((Loop(counter="i", trips=3, stages=stages, body=(step,)),), (tensor("Y", 1),), [(0,)])
    double = launch(
        (Loop(counter="i", trips=3, stages=stages, body=(step, Step(name="b"))),), (tensor("Y", 1),), [(0,)]
    )
    slow = replace(cost(), slack_cycles=-70.4, waits=2)
    low = lower_launch(single, {"a": slow}, {"Y": 0})
    assert low.loops[["stages", "slack_cycles"]].tolist() == [(expected, -70 if expected else 0)]
    assert low.steps["waits"].tolist() == [2]
    low = lower_launch(double, {"a": slow, "b": cost()}, {"Y": 0})
    assert low.loops[["stages", "slack_cycles"]].tolist() == [(0, 0)]


def test_origins_are_pairs_of_variable_and_coefficient() -> None:
    """Columns in bytes; a tile knows whether L1 keeps what passes."""
    low = lower_launch(reads(part(32, 48, row=32, col=48)), {"load": cost()}, {"X": 0})
    assert low.tiles.tolist() == [(0, 0, 32, 96, 0, 1, 0, 0, 0, 0, 0.0, -1, 0, 0, 96, 1)]
    rest = [[0, 0]] * 3
    assert low.origins.tolist() == [[[[1, 32], *rest], [[1, 96], *rest], [[0, 0], *rest]]]


def test_tiles_smaller_than_a_granule_are_all_looked_at() -> None:
    """Single words of a large tensor: none of them fills a granule that others could stand for."""
    large = replace(MATRIX, rows=1 << 22, cols=64)
    assert granule(reads(part(1, 1, row=1, col=1), tensors=(large,)))["sampling_stride"] == 1
