"""The engine's own doings: what it returns, refuses and records; its behaviour is in `tests/machine`."""

from dataclasses import replace

import numpy as np
import pytest
from machine.toys import GPU, ONE_PARTITION, TILE_BYTES, cost, launch, run, run_all, sweeps, tensor, tile, writes
from tilesight.simulator.dtypes import DTYPES
from tilesight.simulator.engine.engine import is_compiled
from tilesight.simulator.launch.program import Loop, Step, Tensor, Tile, affine
from tilesight.simulator.refusal import DoesNotFit


def test_a_run_counts_each_link() -> None:
    """One tile, by the SM of the near partition: from HBM, half over the fabric, to the SM."""
    seen = run(sweeps(tiles=1, times=2, slabs=(0,)))
    assert seen.hbm_read_bytes == TILE_BYTES
    assert seen.fabric_bytes == TILE_BYTES / 2
    assert seen.l2_read_bytes == 2 * TILE_BYTES
    assert seen.hbm_write_bytes == seen.l1_hit_bytes == 0
    assert seen.simulated_fraction == 1


def test_stepping_through_leaves_it_compiled() -> None:
    """So that nobody is told to wait twice."""
    run(sweeps(tiles=1, times=1, slabs=(0,)))
    assert is_compiled()


def test_a_timeline_has_a_row_per_cta() -> None:
    """SM, slot, start, end; none is kept unless asked for."""
    program = sweeps(tiles=1, times=1, slabs=(0,) * 5)
    assert run(program).timeline.shape == (0, 4)
    timeline = run(program, record=True).timeline
    assert timeline.shape == (5, 4)
    assert np.all(timeline[:, 2] < timeline[:, 3])


def test_recording_changes_nothing() -> None:
    """Neither bytes nor cycles."""
    program = sweeps(tiles=20, times=3, slabs=(0, 1, 0, 1))
    with_record, without = (run(program, record=record) for record in (True, False))
    assert with_record.cycles == without.cycles
    assert with_record.hbm_read_bytes == without.hbm_read_bytes


def test_a_cta_that_no_sm_can_hold_is_refused() -> None:
    """Before anything runs."""
    with pytest.raises(DoesNotFit, match="shared memory"):
        run(sweeps(tiles=1, times=1, slabs=(0,), smem_bytes=GPU.smem_per_cta_bytes + 1))


def test_a_loop_without_trips_is_skipped() -> None:
    """Its tiles are not touched; what stands after it runs."""
    step = Step(name="load", loads=(tile("X", i=1, path="async"),))
    for stages in (1, 3):
        body = (
            Loop(counter="i", trips="trips", stages=stages, body=(step,)),
            Step(name="after", loads=(tile("Y"),)),
        )
        both = launch(body, (tensor("X", 9), tensor("Y", 1)), [(0, 0)], ("slab", "trips"))
        assert run(both).hbm_read_bytes == TILE_BYTES


@pytest.mark.parametrize("stages", [1, 2, 3, 8])
def test_a_loop_may_have_fewer_trips_than_stages(stages: int) -> None:
    """Nothing is loaded beyond the end."""
    assert run(sweeps(tiles=2, times=1, slabs=(0,), stages=stages)).l2_read_bytes == 2 * TILE_BYTES


@pytest.mark.parametrize("stages", [1, 2, 4])
def test_a_pipelined_loop_may_run_backwards(stages: int) -> None:
    """The same tiles once each, from the far end: what LRU keeps of them is the near end."""
    tiles, held = 80, 64
    back, again = (Step(name=name, loads=(tile("X", i=1),)) for name in ("back", "again"))
    body = [
        Loop(counter="i", trips=tiles, first=tiles - 1, step=-1, stages=stages, body=(back,)),
        Loop(counter="i", trips=held, stages=stages, body=(again,)),
    ]
    seen = run(launch(body, (tensor("X", tiles),), [(0,)]), gpu=ONE_PARTITION)
    assert seen.hbm_read_bytes == tiles * TILE_BYTES


def test_stores_of_a_step_follow_its_work() -> None:
    """A store waits for the step's cycles, and nobody waits for the store but a launch that ends in no time."""
    body = (Step(name="work", stores=(tile("Y"),)),)
    made, port_cycles = launch(body, (tensor("Y", 1, role="output"),), [(0,)]), TILE_BYTES / 2 / 128
    for ramp, left in ((0, port_cycles), (1, port_cycles - 1), (100, 0)):
        seen = run(made, costs={"work": cost(77)}, gpu=replace(GPU, launch_ramp_cycles=ramp))
        assert seen.cycles == 77 + left


def test_launches_take_their_turn() -> None:
    """The second of two equal launches that share nothing takes as long as the first."""
    first, second = run_all(sweeps(tiles=20, times=1, slabs=(0,)), sweeps(tiles=20, times=1, slabs=(0,), name="Z"))
    assert first.cycles == pytest.approx(second.cycles)
    assert first.hbm_read_bytes == second.hbm_read_bytes


def test_clipped_tiles_move_whole_sectors() -> None:
    """A tile that hangs over the edge moves what is inside, in 32-byte sectors; one beyond it nothing."""
    held = Tensor(name="X", role="input", slabs=1, rows=10, cols=20, dtype=DTYPES["fp16"], pitch_bytes=64)
    part = Tile(tensor="X", slab="slab", rows=8, cols=16, row=affine(i=8), col=affine(j=16), path="async")
    for i, rows_inside in enumerate((8, 2, 0)):
        for j, row_bytes in enumerate((32, 32, 0)):
            program = launch([Step(name="load", loads=(part,))], (held,), [(0, i, j)], ("slab", "i", "j"))
            assert run(program).l2_read_bytes == rows_inside * row_bytes, (i, j)


def test_rows_of_a_tile_touch_the_sectors_that_each_lies_in() -> None:
    """32 B of rows of 40 B, one after the other: of eight rows two lie in a sector, six in two."""
    packed = Tensor(name="X", role="input", slabs=1, rows=10, cols=20, dtype=DTYPES["fp16"])
    part = Tile(tensor="X", slab="slab", rows=8, cols=16, path="async")
    program = launch([Step(name="load", loads=(part,))], (packed,), [(0,)], ("slab",))
    assert run(program).l2_read_bytes == (2 + 6 * 2) * 32


def test_written_and_read_bytes_are_apart() -> None:
    """Stores do not count as reads from L2."""
    seen = run(writes(tiles=4, slabs=(0,)))
    assert seen.l2_read_bytes == seen.hbm_read_bytes == 0
