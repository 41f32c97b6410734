"""CTAs that compute on one SM at the same time share its pipes, and only for as long as they do."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from machine.toys import KIB, ONE_PARTITION, cost, launch, run, tensor, tile
from tilesight.simulator.launch.program import Loop, Step
from tilesight.simulator.sm.step_cost import StepCost

PIPE = 100
LATENCY = 300
"""Of a tile: 100 cycles of L2 and 200 of HBM, and what moving it takes."""


def ends(items: Sequence[Mapping[str, int]], costs: dict[str, StepCost], warps: int = 4) -> list[float]:
    """When CTAs of one SM end, each of which takes every step so many times, in the order of `costs`."""
    gpu = replace(ONE_PARTITION, sms=1)
    body = tuple(Loop(counter=f"at {name}", trips=name, body=(Step(name=name),)) for name in costs)
    table = [(0, *(item.get(name, 0) for name in costs)) for item in items]
    smem_bytes = gpu.smem_per_sm_bytes // len(items) - 2 * KIB
    toy = launch(body, (tensor("X", 1),), table, ("slab", *costs), smem_bytes=smem_bytes, warps=warps)
    return list(run(toy, gpu=gpu, costs=costs, record=True).timeline[:, 3])


@pytest.mark.parametrize("slowdown", [(), (1.0, 1.0, 1.0, 1.0)])
@pytest.mark.parametrize("steps", [1, 50])
def test_ctas_of_one_pace_end_together(slowdown: tuple[float, ...], steps: int) -> None:
    """Four CTAs want the same pipe for all of their 100 cycles: each step takes all of them 400."""
    step = cost(critical_path=10, tensor=PIPE, slowdown_by_age=slowdown)
    assert ends([{"work": steps}] * 4, {"work": step}) == pytest.approx([400 * steps] * 4)


def test_pipes_that_nobody_else_wants_slow_nobody_down() -> None:
    """Products of one CTA and exponentials of another take as long as each alone."""
    costs = {"multiply": cost(tensor=PIPE), "exponentiate": cost(mufu=2 * PIPE)}
    assert ends([{"multiply": 1}, {"exponentiate": 1}], costs) == [PIPE, 2 * PIPE]


def test_ctas_slow_each_other_down_by_what_they_want_together() -> None:
    """Half of a pipe and all of it: both take 1.5 times as long, until one is done and the other goes on alone."""
    costs = {"half": cost(critical_path=2 * PIPE, tensor=PIPE), "all": cost(tensor=PIPE)}
    assert ends([{"half": 1}, {"all": 1}], costs) == pytest.approx([1.5 * PIPE + PIPE, 1.5 * PIPE])


def test_a_cta_goes_faster_while_the_other_s_step_wants_less() -> None:
    """Beside a step that wants no pipe the other takes its 100 cycles, and twice as long before."""
    costs = {"all": cost(tensor=PIPE), "idle": cost(critical_path=PIPE)}
    assert ends([{"all": 1, "idle": 1}, {"all": 2}], costs) == pytest.approx([3 * PIPE, 3 * PIPE])


def test_an_older_cta_is_never_faster_than_alone_and_a_younger_one_has_what_it_leaves() -> None:
    """The older wants half of the pipe and gets it; the younger, four times as slow as the mean, has the other half."""
    costs = {
        "half": cost(critical_path=2 * PIPE, tensor=PIPE, slowdown_by_age=(0.1, 4.0)),
        "all": cost(tensor=PIPE, slowdown_by_age=(0.1, 4.0)),
    }
    assert ends([{"half": 1}, {"all": 1}], costs) == pytest.approx([2 * PIPE, 2 * PIPE])


@pytest.mark.parametrize("busy", [(0, 1), (2, 3), (0, 3)])
def test_a_pipe_is_never_idle_nor_given_twice_whoever_of_four_computes(busy: tuple[int, ...]) -> None:
    """Two CTAs that want it for 100 cycles are done after 200, be they the oldest of the four or the youngest."""
    costs = {"work": cost(tensor=PIPE, slowdown_by_age=(0.77, 0.89, 1.03, 1.52)), "pause": cost(critical_path=5 * PIPE)}
    items = [{"work" if cta in busy else "pause": 1} for cta in range(4)]
    assert max(ends(items, costs)[cta] for cta in busy) == pytest.approx(2 * PIPE)


def test_a_pipe_that_one_cta_wants_all_the_time_slows_nobody_down_that_does_not_use_it() -> None:
    """Whatever its pace: the first alone wants exponentials; it leaves half of the tensor cores for 200 cycles."""
    costs = {
        "half": cost(critical_path=200, tensor=100, mufu=200, slowdown_by_age=(1.5558267369136416, 4.0)),
        "all": cost(tensor=PIPE, slowdown_by_age=(1.5558267369136416, 4.0)),
    }
    assert max(ends([{"half": 1}, {"all": 2}], costs)) == pytest.approx(300, rel=0.01)


def sweep_ends(slabs: Sequence[int], later: int, tiles: int = 50) -> list[float]:
    """When two CTAs of an SM end that load tile after tile of HBM, and work 250 cycles on each, 200 of them in a pipe.

    Args:
        later: cycles by which the second one begins later.
    """
    fast = {"hbm_peak_bytes_per_s": 64e12, "hbm_read_bytes_per_s": 64e12, "l2_bytes_per_s": 256e12}
    gpu = replace(ONE_PARTITION, sms=1, sm_fill_bytes_per_cycle=1e4, **fast)
    body = (
        Loop(counter="pause", trips="pauses", body=(Step(name="pause"),)),
        Loop(counter="i", trips=tiles, body=(Step(name="load", loads=(tile("X", i=1),)),)),
    )
    smem_bytes = gpu.smem_per_sm_bytes // 2 - 2 * KIB
    items = [(slabs[0], 0), (slabs[1], 1)]
    toy = launch(body, (tensor("X", tiles, slabs=2),), items, ("slab", "pauses"), smem_bytes=smem_bytes)
    costs = {"pause": cost(critical_path=later), "load": cost(critical_path=250, tensor=200)}
    return list(run(toy, gpu=gpu, costs=costs, record=True).timeline[:, 3])


def test_ctas_that_wait_for_the_same_data_keep_step() -> None:
    """The second, 275 cycles behind, has caught up soon; then both work at once, 400 cycles, and wait at once."""
    assert sweep_ends((0, 0), 275) == pytest.approx([50 * (LATENCY + 400)] * 2, rel=0.01)


def test_while_one_waits_the_other_goes_on() -> None:
    """With data of its own the second stays 275 cycles behind: neither is ever in the other's way."""
    assert sweep_ends((0, 1), 275) == pytest.approx([50 * (LATENCY + 250), 275 + 50 * (LATENCY + 250)], rel=0.01)


@pytest.mark.parametrize("warps", [4, 2, 1])
def test_ctas_of_few_warps_share_a_full_sm_as_those_of_many_do(warps: int) -> None:
    """Eight CTAs that want a quarter of a pipe each: all take twice as long."""
    step = cost(critical_path=4 * PIPE, tensor=PIPE)
    assert ends([{"work": 1}] * 8, {"work": step}, warps) == pytest.approx([8 * PIPE] * 8)


@pytest.mark.parametrize(("warps", "slower"), [(4, 1), (2, 1), (1, 2)])
def test_ctas_that_run_on_the_same_sub_cores_slow_each_other_down_while_others_idle(warps: int, slower: int) -> None:
    """Two of eight CTAs, on the same sub-cores, want a quarter of a pipe each: half an SM has that, a sub-core half."""
    costs = {"work": cost(critical_path=4 * PIPE, tensor=PIPE), "idle": cost(critical_path=PIPE)}
    items = [{"work": int(cta % 4 == 0), "idle": int(cta % 4 != 0)} for cta in range(8)]
    assert ends(items, costs, warps)[::4] == pytest.approx([4 * PIPE * slower] * 2)
