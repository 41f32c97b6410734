"""Each cluster of SMs has a clock of its own below the boost clock; what its SMs compute takes the longer."""

from dataclasses import replace

import numpy as np
import pytest
from machine.toys import GPU, KIB, cost, launch, run, sweeps, tensor
from support.lab import measured
from tilesight.simulator.device.device import Device, load_device
from tilesight.simulator.engine import launch_state
from tilesight.simulator.engine.clock import Clocks, clock_ratio_per_sm, clocks_of, tensor_clock_hz
from tilesight.simulator.launch.program import Loop, Step

H200 = replace(load_device("h200"), gpc_clock_spread=0.01)
EIGHT = replace(GPU, sms=8, gpc_clock_spread=0.02)
"""One SM for each cluster."""
BELOW_HZ = 0.9 * GPU.boost_clock_hz
BELOW = Clocks(H200.tensor_boost_clock_hz, H200.tensor_boost_clock_hz)
TRIPS = 50
work = pytest.mark.parametrize(
    ("step", "ctas_per_sm"),
    [(cost(critical_path=200), 1), (cost(critical_path=200, tensor=200), 2)],
    ids=["critical path", "full pipe"],
)


def durations(gpu: Device, step: object, ctas_per_sm: int, clock_hz: float = 0.0) -> np.ndarray:
    """Cycles that each SM is busy with as many CTAs as it holds, 50 steps each."""
    loop = Loop(counter="i", trips=TRIPS, body=(Step(name="work"),))
    smem_bytes = gpu.smem_per_sm_bytes // ctas_per_sm - 2 * KIB
    program = launch((loop,), (tensor("X", 1),), [(0,)] * gpu.sms * ctas_per_sm, smem_bytes=smem_bytes)
    seen = run(program, gpu=gpu, costs={"work": step}, record=True, clock_hz=clock_hz).timeline
    return np.array([seen[seen[:, 0] == sm, 3].max() for sm in range(gpu.sms)])


def test_at_the_boost_clock_all_sms_are_equal() -> None:
    """A launch without products would be spread by clusters that the GPU does not hold back."""
    assert np.array_equal(clock_ratio_per_sm(Clocks(H200.boost_clock_hz, H200.boost_clock_hz), H200), np.ones(132))


@pytest.mark.parametrize("spread", [0.001, 0.01, 0.03])
def test_below_it_clocks_of_clusters_have_the_spread_of_the_device(spread: float) -> None:
    """Eight clocks of 16 or 17 SMs each; midpoints of eight shares of a normal lie 8 % closer than all of it."""
    ratio = clock_ratio_per_sm(BELOW, replace(H200, gpc_clock_spread=spread))
    clocks, counts = np.unique(1.0 / ratio, return_counts=True)
    assert set(counts) == {16, 17}
    assert len(clocks) == 8
    assert np.std(clocks) / np.mean(clocks) == pytest.approx(spread, rel=0.1)
    assert ratio.min() == 1.0
    assert np.count_nonzero(np.diff(ratio)) == 8 - 1


def test_slow_and_fast_clusters_are_on_either_side_of_the_l2() -> None:
    """One side of the L2 would be asked for more than the other: their clocks differ by half a spread at most."""
    clocks = 1.0 / clock_ratio_per_sm(BELOW, H200)
    assert abs(clocks[:66].mean() - clocks[66:].mean()) < 0.5 * H200.gpc_clock_spread


def test_cycles_are_those_of_an_idle_cluster_where_there_is_one() -> None:
    """An SM at 1.8 GHz takes 11 cycles of one at 1.98 for 10 of its own."""
    assert clock_ratio_per_sm(Clocks(1.98e9, 1.8e9), GPU) == pytest.approx(np.full(GPU.sms, 1.1))


@work
def test_an_sm_one_percent_slower_computes_one_percent_longer(
    step: object, ctas_per_sm: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lone CTA by its critical path, a full SM by its pipe."""
    monkeypatch.setattr(launch_state, "clock_ratio_per_sm", lambda *_: np.array([1.0, 1.01]))
    assert durations(GPU, step, ctas_per_sm) == pytest.approx(TRIPS * 200 * ctas_per_sm * np.array([1.0, 1.01]))


def test_data_take_the_same_cycles_to_a_slower_sm(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory has a clock of its own; two SMs that load 20 tiles each are alike in it."""
    loads = sweeps(tiles=20, times=1, slabs=(0, 1))
    before = run(loads, record=True).timeline
    monkeypatch.setattr(launch_state, "clock_ratio_per_sm", lambda *_: np.array([1.0, 1.5]))
    assert np.array_equal(run(loads, record=True).timeline, before)


@work
def test_sms_of_a_launch_part_below_the_boost_clock_only(step: object, ctas_per_sm: int) -> None:
    """Eight SMs of eight clusters take what their clocks say, the fastest exactly its cycles."""
    fastest = TRIPS * 200 * ctas_per_sm
    assert set(durations(EIGHT, step, ctas_per_sm)) == {fastest}
    seen = durations(EIGHT, step, ctas_per_sm, BELOW_HZ)
    assert seen == pytest.approx(fastest * clock_ratio_per_sm(Clocks(BELOW_HZ, BELOW_HZ), EIGHT))


def restarting(ctas: int, *, flop: int = 1, restarts: float = 1.0, rested: float = 0.0) -> Clocks:
    """Clocks of CTAs whose steps take 4,000 cycles, with so many restarts, and such a rest, in each of 10 steps."""
    step_cost = replace(cost(critical_path=4000), executed_flop=flop, restarts=restarts, rested_cycles=rested)
    toy = launch((Step(name="work"),), (tensor("X", 1),), [(0,)] * ctas)
    return clocks_of(toy, {"work": step_cost}, {"work": 10 * ctas}, H200)


def test_products_that_begin_anew_slow_the_clock_of_a_cluster_down() -> None:
    """4,000 cycles at 1.798 GHz and 180 ns more; then with the last 1,000 of them at 1.98 GHz."""
    (slow, quick), late = restarting(1), H200.tensor_restart_s
    assert slow == H200.boost_clock_hz
    assert quick == pytest.approx(4000 / (4000 / H200.tensor_boost_clock_hz + late))
    rested = restarting(1, rested=1000.0).busy_hz
    assert rested == pytest.approx(4000 / (3000 / H200.tensor_boost_clock_hz + 1000 / H200.boost_clock_hz + late))
    assert quick < rested < 1.75e9


@pytest.mark.parametrize("ctas", [5, 12, 13, 132])
def test_ctas_that_share_a_cluster_fill_each_other_s_pauses(ctas: int) -> None:
    """Eight CTAs slow down no more clusters than four, and have no restarts to speak of."""
    assert restarting(ctas).busy_hz == H200.tensor_boost_clock_hz


def test_without_products_all_clocks_are_the_boost_clock() -> None:
    """A row softmax has nothing to restart."""
    assert restarting(1, flop=0) == Clocks(H200.boost_clock_hz, H200.boost_clock_hz)


LAUNCHES = measured("sm-clocks-h200-2026-11-22")["launches"]


@pytest.mark.parametrize("few", [True, False])
def test_elapsed_cycles_are_those_of_an_idle_cluster_up_to_twelve_ctas(few: bool) -> None:
    """44 launches: while up to 12 CTAs run, some SM is at 1.98 GHz and theirs are below 1.83; else none is."""
    seen = [row for row in LAUNCHES if row["clock_control"] == "none" and (row["ctas"] <= 12) == few]
    fastest = np.array([row["elapsed_max_cycles"] / row["time_s"] for row in seen])
    busy = np.array([row["active_max_cycles"] / row["time_s"] for row in seen])
    assert len(seen) == 22
    assert np.all((fastest > 1.97e9) == few)
    assert np.all(busy < 1.83e9)


@pytest.mark.parametrize(("dtype", "hz"), [("fp64", H200.boost_clock_hz), ("i8", H200.tensor_boost_clock_hz)])
def test_products_of_fp64_leave_the_clock_as_it_is(dtype: str, hz: float) -> None:
    """1.98 GHz under DMMA, 1.80 under HMMA and IMMA (validate/lab/matmul_clocks.cu)."""
    assert tensor_clock_hz(replace(launch((), (), [(0,)]), dtype=dtype), H200) == hz
