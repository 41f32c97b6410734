"""CTAs go to SMs as slots free up, in the order of their numbers."""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pytest
from machine.toys import GPU, KIB, cost, launch, run, tensor
from tilesight.simulator.device.device import load_device
from tilesight.simulator.launch.program import Launch, Loop, Step
from tilesight.simulator.problems.attention import AttentionProblem
from tilesight.simulator.schedules.config import Config
from tilesight.simulator.simulate import Timeline, simulate_with_timeline

CYCLES = 100
WORK = {"work": cost(CYCLES)}


def working(steps: Iterable[int], ctas_per_sm: int = 1, ctas: int = 0) -> Launch:
    """Item i works for `steps[i]` steps of 100 cycles each."""
    body = (Loop(counter="i", trips="steps", body=(Step(name="work"),)),)
    smem_bytes = GPU.smem_per_sm_bytes // ctas_per_sm - 2 * KIB
    items = [(0, count) for count in steps]
    return launch(body, (tensor("X", 1),), items, ("slab", "steps"), smem_bytes=smem_bytes, ctas=ctas)


def most_at_once(start: np.ndarray, end: np.ndarray) -> int:
    """How many of these intervals overlap, at most; one that begins when another ends does not."""
    events = sorted([(time, 1) for time in start] + [(time, -1) for time in end])
    return int(np.cumsum([change for _, change in events]).max())


def test_first_ctas_go_round_the_sms() -> None:
    """Four slots on two SMs: CTAs 0 and 2 on one, 1 and 3 on the other."""
    sm = run(working([1] * 4, ctas_per_sm=2), costs=WORK, record=True).timeline[:, 0]
    assert list(sm) == [0, 1, 0, 1]


def test_first_ctas_go_round_the_partitions() -> None:
    """Four SMs, two near each partition: neighbours in number are not neighbours in place."""
    sm = run(working([1] * 4), costs=WORK, gpu=replace(GPU, sms=4), record=True).timeline[:, 0]
    assert list(sm) == [0, 2, 1, 3]


def test_a_free_slot_takes_the_next_cta() -> None:
    """While SM 0 works on one long CTA, SM 1 does all the others."""
    seen = run(working([5, 1, 1, 1, 1, 1]), costs=WORK, record=True)
    assert list(seen.timeline[:, 0]) == [0, 1, 1, 1, 1, 1]
    assert list(seen.timeline[:, 2]) == [0, 0, 100, 200, 300, 400]
    assert seen.cycles == 500


def test_a_last_long_cta_makes_a_tail() -> None:
    """Started last, it keeps the launch waiting; started first, it does not."""
    long_last, long_first = (run(working(steps), costs=WORK).cycles for steps in ([1] * 6 + [6], [6] + [1] * 6))
    assert (long_last, long_first) == (900, 600)


def test_waves_of_equal_ctas_follow_each_other() -> None:
    """Nine CTAs in slots for four take three waves."""
    assert run(working([1] * 9, ctas_per_sm=2), costs=WORK).cycles == 300


def test_a_persistent_cta_takes_every_nth_item() -> None:
    """Two CTAs share six items whose numbers they are congruent to; nobody evens out what is uneven."""
    uneven = [3, 1, 3, 1, 3, 1]
    assert run(working(uneven, ctas=2), costs=WORK).cycles == 900
    assert run(working(uneven), costs=WORK).cycles == 600 + 100 * (sum(uneven) - 12) // 2 + 100


def _timeline(problem: AttentionProblem, config: Config, **options: object) -> Timeline:
    return simulate_with_timeline(problem, config=config, **options)[1]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("config", "causal"),
    [(Config(), False), (Config(block_n=128), True), (Config(cta_order="longest-first", block_m=64), True)],
)
def test_no_sm_holds_more_ctas_than_fit(config: Config, causal: bool) -> None:
    """Over a whole attention launch every CTA runs once, in order, and no SM holds more than ctas_per_sm at a time."""
    problem = AttentionProblem(batch=2, heads=12, seqlen_q=4096, seqlen_k=4096, head_dim=64, causal=causal)
    prediction, timeline = simulate_with_timeline(problem, config=config)
    (seen,) = timeline.launches
    cta, sm, slot, start, end = seen.cta, seen.sm, seen.slot, seen.cta_start_s, seen.cta_end_s
    resident = prediction.launches[0].ctas_per_sm
    assert list(cta) == list(range(prediction.launches[0].grid[0]))
    assert np.all(end > start)
    assert np.all(np.diff(start) >= 0)
    assert set(sm) == set(range(132))
    for number in range(132):
        here = sm == number
        assert most_at_once(start[here], end[here]) <= resident
        assert set(slot[here]) <= set(range(resident))
        for place in range(resident):
            assert most_at_once(start[here & (slot == place)], end[here & (slot == place)]) <= 1


def test_the_launch_ends_with_its_last_cta() -> None:
    """But for the launch's ramp; the next launch of a pipeline begins where it ended, overhead included."""
    problem = AttentionProblem(batch=1, heads=8, seqlen_q=512, seqlen_k=512, head_dim=64)
    prediction, timeline = simulate_with_timeline(problem, schedule="naive")
    begin = 0.0
    for launch_, seen in zip(prediction.launches, timeline.launches, strict=True):
        start, end = seen.cta_start_s, seen.cta_end_s
        assert seen.name == launch_.name
        assert start.min() == pytest.approx(begin)
        ramp_s = load_device("h200").launch_ramp_cycles / launch_.clock_hz
        assert end.max() == pytest.approx(begin + launch_.traffic.cycles / launch_.clock_hz - ramp_s)
        begin += launch_.traffic.time_s


def test_a_warm_timeline_begins_at_zero() -> None:
    """The run that warmed the L2 up is not part of it."""
    problem = AttentionProblem(batch=1, heads=8, seqlen_q=512, seqlen_k=512, head_dim=64)
    timeline = _timeline(problem, Config(), l2="warm")
    assert timeline.launches[0].cta_start_s.min() == pytest.approx(0, abs=1e-12)


def test_dispatch_hands_out_one_cta_after_the_other() -> None:
    """At most one every so many cycles (1.2 on an H200), however many SMs are free."""
    seen = run(working([1, 1]), costs=WORK, gpu=replace(GPU, cta_dispatch_cycles=7), record=True)
    assert list(seen.timeline[:, 2]) == [0, 7]
