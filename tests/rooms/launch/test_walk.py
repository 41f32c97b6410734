"""Walking a program: access by access, and in closed form."""

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from support.sectors import sector_bytes, tolerated_bytes
from tilesight.simulator.device.device import load_device
from tilesight.simulator.dtypes import DTYPES
from tilesight.simulator.launch import walk
from tilesight.simulator.launch.program import Loop, Step, Tensor, Tile, TileProgram, affine
from tilesight.simulator.launch.walk import (
    Access,
    accesses,
    executions_of,
    moved_bytes,
    scaled,
    steps,
    tally,
    tally_items,
)
from tilesight.simulator.library.keys import reads_again
from tilesight.simulator.problems.attention import AttentionProblem
from tilesight.simulator.resolve import launches_of


def _program(rows: int, cols: int, *, tile_rows: int = 4, tile_cols: int = 16, outer: int = 1, backwards: bool = False):  # type: ignore[no-untyped-def]
    """Two items, one a slab; each walks its matrix tile by tile, `outer` times over, loading A and storing B."""
    down, across = -(-rows // tile_rows), -(-cols // tile_cols)
    place = {
        "slab": "slab",
        "rows": tile_rows,
        "cols": tile_cols,
        "row": affine(i=tile_rows),
        "col": affine(j=tile_cols),
    }
    first, step = (down - 1, -1) if backwards else (0, 1)
    inner = Loop(
        counter="j",
        trips="across",
        body=(Step(name="tile", loads=(Tile(tensor="A", **place),), stores=(Tile(tensor="B", **place),)),),
    )
    return TileProgram(
        tensors=(
            Tensor(name="A", role="input", slabs=2, rows=rows, cols=cols, dtype=DTYPES["fp16"]),
            Tensor(
                name="B", role="output", slabs=2, rows=rows, cols=cols, dtype=DTYPES["fp32"], pitch_bytes=cols * 4 + 32
            ),
        ),
        variables=("slab", "across"),
        items=lambda indices: np.stack((indices, np.full_like(indices, across)), axis=1),
        item_count=2,
        period_items=1,
        body=(
            Loop(
                counter="again",
                trips=outer,
                body=(Loop(counter="i", first=first, step=step, trips=down, body=(inner,)),),
            ),
        ),
    )


def test_accesses_come_in_program_order_and_clipped() -> None:
    """Loads before stores, columns inside rows, the last tile cut at the edge."""
    seen = list(accesses(_program(6, 20), 1))
    places = [(0, 4, 0, 16), (0, 4, 16, 4), (4, 2, 0, 16), (4, 2, 16, 4)]
    assert seen == [
        Access(kind=kind, tensor=tensor, slab=1, row=row, rows=rows, col=col, cols=cols)
        for row, rows, col, cols in places
        for kind, tensor in (("load", "A"), ("store", "B"))
    ]


def test_a_loop_may_run_backwards() -> None:
    """A negative step visits the same tiles from the far end."""
    forwards, backwards = (
        [access.row for access in accesses(_program(10, 16, backwards=way), 0)] for way in (False, True)
    )
    assert backwards == forwards[::-1]


def test_tiles_past_the_edge_are_left_out() -> None:
    """What lies wholly outside is no access."""
    program = _program(6, 20)
    small = replace(program, tensors=tuple(replace(tensor, rows=3) for tensor in program.tensors))
    assert {access.row for access in accesses(small, 0)} == {0}


@given(rows=st.integers(1, 13), cols=st.integers(1, 40), outer=st.integers(0, 3), backwards=st.booleans())
def test_tally_counts_what_accesses_yield(rows: int, cols: int, outer: int, backwards: bool) -> None:
    """Executions and bytes in closed form equal those of the walk."""
    program = _program(rows, cols, outer=outer, backwards=backwards)
    seen = [access for item in range(2) for access in accesses(program, item)]
    totals = tally(program)
    assert executions_of(program) == totals.executions
    assert totals.executions == {"tile": len(seen) // 2}
    for kind, name, counted in (("load", "A", totals.load_bytes), ("store", "B", totals.store_bytes)):
        tensor = program.tensor(name)
        those = [access for access in seen if access.kind == kind]
        moved = sum(sector_bytes(tensor, access) for access in those)
        assert counted.keys() == {name}
        assert abs(counted[name] - moved) <= tolerated_bytes(tensor, those)


def test_whole_packed_rows_move_as_one_range() -> None:
    """Three rows of 24 bytes are 72 bytes, 3 sectors; with a pitch each row takes a sector of its own."""
    packed = Tensor(name="Q", role="input", slabs=1, rows=8, cols=12, dtype=DTYPES["fp16"])
    assert moved_bytes(packed, 3, 12) == 96
    assert moved_bytes(replace(packed, pitch_bytes=128), 3, 12) == 96
    assert moved_bytes(packed, 4, 12) == 96
    assert moved_bytes(replace(packed, pitch_bytes=128), 4, 12) == 128
    assert moved_bytes(packed, 4, 6) == 128


def test_rows_that_begin_within_a_sector_touch_one_more() -> None:
    """64 bytes from byte 40 on are 3 sectors, from byte 64 on 2, and in a loop by whole sectors the same each time."""
    matrix = Tensor(name="A", role="input", slabs=1, rows=4, cols=1024, dtype=DTYPES["fp32"])
    for step, moved in ((0, 2 * 4 * (96 + 64)), (8, 2 * 4 * (96 + 64)), (16, 2 * 4 * (96 + 64))):
        tile = Tile(tensor="A", slab="zero", rows=4, cols=16, row=(), col=(("begin", 2), *affine(j=step)))
        program = TileProgram(
            tensors=(matrix,),
            variables=("zero", "begin"),
            items=lambda indices: np.stack((0 * indices, 5 + 3 * indices), axis=1),
            item_count=2,
            period_items=2,
            body=(Loop(counter="j", trips=2, body=(Step(name="tile", loads=(tile,)),)),),
        )
        assert tally(program).load_bytes == {"A": moved}


def test_rows_that_a_loop_moves_within_sectors_touch_as_many_as_they_do_in_the_mean() -> None:
    """32 times 82 B, one after the other, begin at all even bytes of a sector, twice: half touch 3, half 4."""
    vector = Tensor(name="A", role="input", slabs=1, rows=1, cols=32 * 41, dtype=DTYPES["fp16"])
    tile = Tile(tensor="A", slab="zero", rows=1, cols=41, col=affine(j=41))
    program = TileProgram(
        tensors=(vector,),
        variables=("zero",),
        items=lambda indices: np.zeros((len(indices), 1), dtype=np.int64),
        item_count=1,
        period_items=1,
        body=(Loop(counter="j", trips=32, body=(Step(name="tile", loads=(tile,)),)),),
    )
    assert tally(program).load_bytes == {"A": 32 * 112}


def test_steps_come_with_the_loops_around_them() -> None:
    """Outermost first."""
    ((step, around),) = steps(_program(6, 20).body)
    assert step.name == "tile"
    assert [loop.counter for loop in around] == ["again", "i", "j"]


def test_tallies_of_parts_add_up() -> None:
    """Two items are twice one item, and a tally scales with its items."""
    program = _program(6, 20)
    assert tally(program) == scaled(tally_items(program, 1, 2), 2) == tally_items(program, 0, 2)


def test_many_items_are_counted_in_pieces(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    """The totals do not depend on how many items are looked at together."""
    program = replace(_program(6, 20), item_count=10, period_items=10)
    whole = tally(program)
    monkeypatch.setattr(walk, "ITEMS_AT_ONCE", 3)
    assert tally(program) == whole


def test_what_an_inner_loop_walks_is_read_again_in_every_turn_of_the_outer() -> None:
    """Rows and columns are two loops, yet each tile is read once; flash1, keys outside, walks Q for every key tile."""
    nested, (outer,) = _program(8, 32), _program(8, 32).body
    assert isinstance(outer, Loop)
    assert reads_again(nested)
    assert not reads_again(replace(nested, body=outer.body))
    problem = AttentionProblem(batch=1, heads=1, seqlen_q=256, seqlen_k=256, head_dim=64)
    launches = {name: launches_of(problem, name, None, load_device("h200")) for name in ("flash1", "flash2", "naive")}
    again = {name: [reads_again(launch.program) for launch in pipeline] for name, pipeline in launches.items()}
    assert again == {"flash1": [True], "flash2": [False], "naive": [False] * 3}
