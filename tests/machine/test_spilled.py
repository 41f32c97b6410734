"""Spilled registers take room in L2, are written back where there is none, and come back where a step needs them."""

from dataclasses import replace

import pytest
from machine.toys import GPU, KIB, ONE_PARTITION, cost, launch, run, tensor
from tilesight.simulator.engine.engine import LaunchRun
from tilesight.simulator.launch.program import Loop, Step

TRIPS = 50


def spilling(kib: int, kept_kib: int = 0, ctas: int = 2) -> LaunchRun:
    """CTAs that touch so much in each of 50 steps, on two SMs with 64 KiB of L2."""
    body = (Loop(counter="i", trips=TRIPS, body=(Step(name="step"),)),)
    step_cost = replace(cost(100.0), local_bytes=kib * KIB, local_kept_bytes=kept_kib * KIB)
    return run(launch(body, (tensor("X", 1),), [(0,)] * ctas), gpu=ONE_PARTITION, costs={"step": step_cost})


def test_what_fits_l2_stays_there() -> None:
    """Device memory would see every spill."""
    seen = spilling(24, kept_kib=24)
    assert (seen.hbm_read_bytes, seen.hbm_write_bytes) == (0, 0)


def test_what_does_not_fit_is_written_back_and_read_only_where_it_is_needed() -> None:
    """On an H200, kernels that spill 60 to 90 MB write 5 to 17 times as much of it as they read again."""
    for kept_kib in (0, 48):
        seen = spilling(48, kept_kib)
        assert seen.hbm_write_bytes == pytest.approx(2 * TRIPS * 48 * KIB, rel=0.1)
        assert seen.hbm_read_bytes == pytest.approx(2 * (TRIPS - 1) * kept_kib * KIB, rel=0.1)


def test_a_cta_waits_for_what_it_needs() -> None:
    """200 cycles of latency, and 49152 B at 64 B a cycle, would come for nothing."""
    assert spilling(96, 96, ctas=1).cycles > spilling(96, 0, ctas=1).cycles + (TRIPS - 1) * 200


def test_in_two_partitions_a_copy_takes_room_as_well() -> None:
    """Lines at home on the other side are kept on the writer's: 24 KiB of each of two CTAs take 72 of 64 KiB."""
    step_cost = replace(cost(100.0), local_bytes=24 * KIB)
    body = (Loop(counter="i", trips=TRIPS, body=(Step(name="step"),)),)
    seen = run(launch(body, (tensor("X", 1),), [(0,)] * 2), gpu=GPU, costs={"step": step_cost})
    assert seen.hbm_write_bytes > 0


def in_parts(*spans: tuple[int, int]) -> LaunchRun:
    """Two CTAs, 50 iterations of two steps, on 64 KiB of L2: parts of 8 KiB that each step writes, and reads first."""
    steps = tuple(Step(name=f"step {number}") for number in range(len(spans)))
    costs = {
        step.name: replace(cost(100.0), local_written=written, local_kept=kept, local_part_bytes=8 * KIB)
        for step, (written, kept) in zip(steps, spans, strict=True)
    }
    body = (Loop(counter="i", trips=TRIPS, body=steps),)
    return run(launch(body, (tensor("X", 1),), [(0,)] * 2), gpu=ONE_PARTITION, costs=costs)


def test_steps_that_touch_other_parts_of_the_stack_take_room_side_by_side() -> None:
    """Two steps of 24 KiB each fit where they touch the same; two CTAs take 96 of 64 KiB where they do not."""
    assert in_parts((0b111, 0), (0b111, 0)).hbm_write_bytes == 0
    apart = in_parts((0b000111, 0), (0b111000, 0))
    assert apart.hbm_write_bytes == pytest.approx(2 * TRIPS * 48 * KIB, rel=0.1)


def round_an_array(kib: int, ctas: int = 2) -> LaunchRun:
    """CTAs with an array of so many parts of 1 KiB: passes that write half a part each, then passes that read it."""
    array = replace(cost(100.0), local_part_bytes=KIB, local_parts=kib)
    costs = {"write": replace(array, local_written_turn=0.5), "read": replace(array, local_kept_turn=0.5)}
    body = tuple(Loop(counter=name, trips=2 * kib, body=(Step(name=name),)) for name in costs)
    return run(launch(body, (tensor("X", 1),), [(0,)] * ctas), gpu=ONE_PARTITION, costs=costs)


def test_a_loop_over_an_array_touches_a_place_in_each_pass() -> None:
    """Each place is written once and read once, where all of it would be in each of 96 passes."""
    seen = round_an_array(48)
    # two arrays of 48 KiB through an L2 of 64: the first places have left when the last are written
    assert seen.hbm_read_bytes == 2 * 48 * KIB
    assert 32 * KIB <= seen.hbm_write_bytes <= 2 * 48 * KIB


def test_an_array_that_fits_l2_stays_there() -> None:
    """It is written and read in place."""
    seen = round_an_array(24)
    assert (seen.hbm_read_bytes, seen.hbm_write_bytes) == (0, 0)


def test_what_a_step_only_reads_is_not_written_again() -> None:
    """Two CTAs write 96 KiB once, and read it 50 times through an L2 of 64."""
    kept = replace(cost(100.0), local_kept=0b111111, local_part_bytes=8 * KIB)
    costs = {"write": replace(kept, local_written=0b111111, local_kept=0), "read": kept}
    body = (Step(name="write"), Loop(counter="i", trips=TRIPS, body=(Step(name="read"),)))
    seen = run(launch(body, (tensor("X", 1),), [(0,)] * 2), gpu=ONE_PARTITION, costs=costs)
    assert 32 * KIB <= seen.hbm_write_bytes <= 96 * KIB
    assert seen.hbm_read_bytes >= (TRIPS - 1) * 32 * KIB


def test_what_a_step_reads_comes_back_where_it_has_left() -> None:
    """96 KiB of two CTAs do not fit 64: at least the third of it that has no room is read again each time."""
    assert in_parts((0b000111, 0), (0b111000, 0), (0, 0b111111)).hbm_read_bytes >= (TRIPS - 1) * 32 * KIB
