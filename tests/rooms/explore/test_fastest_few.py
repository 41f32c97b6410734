"""What is not simulated where the fastest few are asked for: the table is the same, and the least time says why."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.strategies import configs, problems
from tilesight.simulator.device.device import load_device
from tilesight.simulator.explore.explore import explore
from tilesight.simulator.explore.trial import ROUND
from tilesight.simulator.problems.attention import AttentionProblem
from tilesight.simulator.problems.problem import Problem
from tilesight.simulator.refusal import Refusal
from tilesight.simulator.report.explore import explore_text
from tilesight.simulator.resolve import Sources, resolve
from tilesight.simulator.schedules.config import Config
from tilesight.simulator.schedules.registry import find_schedule
from tilesight.simulator.simulate import least_time_s, predict

PROBLEM = AttentionProblem(batch=2, heads=16, seqlen_q=1024, seqlen_k=1024, head_dim=64)
FEW = 3


@settings(max_examples=60, deadline=None)
@given(st.data(), st.sampled_from(["flash2", "flash1", "naive", "unfused"]), st.sampled_from(["h200", "a100-sxm-80gb"]))
def test_nothing_is_faster_than_the_least_that_it_takes(data: st.DataObject, schedule: str, device: str) -> None:
    """By machine code of the library, and by tiles."""
    gpu, chosen = load_device(device), find_schedule(schedule)
    problem: Problem = data.draw(problems())
    config: Config = data.draw(configs(chosen))
    cost = data.draw(st.sampled_from(["compiled", "tiles"]))
    try:
        resolved = resolve(problem, schedule, config, gpu, Sources(cost=cost))
    except ValueError:
        return
    if isinstance(resolved, Refusal):
        return
    assert 0.0 < least_time_s(resolved, gpu) <= predict(resolved, gpu).time_s


@pytest.mark.parametrize("schedule", ["flash2", ("flash2", "flash1")])
@pytest.mark.parametrize("causal", [False, True])
def test_the_fastest_few_are_those_of_the_whole_table(schedule: str | tuple[str, ...], causal: bool) -> None:
    """With their marks; behind them stand the others, by what they take at least, and none of them is faster."""
    problem = replace(PROBLEM, causal=causal)
    whole, some = (explore(problem, schedule=schedule, with_baseline=False, best=best) for best in (None, FEW))
    assert len(some.ranked) == len(whole.ranked) > len(some.simulated) >= ROUND
    assert [item.to_dict() for item in some.ranked[:FEW]] == [item.to_dict() for item in whole.ranked[:FEW]]
    slower = {(item.schedule, item.config): item.costs[0] for item in whole.ranked}
    left = some.ranked[len(some.simulated) :]
    assert all(
        item.least_s and some.simulated[FEW - 1].costs[0] < item.least_s <= slower[item.schedule, item.config]
        for item in left
    )
    assert [item.least_s for item in left] == sorted(item.least_s or 0.0 for item in left)
    assert whole.simulated == whole.ranked


def test_the_table_says_what_was_not_simulated() -> None:
    """The median is a lower bound, and the way to all of them is named; as many threads as there are tell the same."""
    some = explore(PROBLEM, with_baseline=False, best=FEW, workers=1)
    text, left = explore_text(some, top=FEW, width=200), len(some.ranked) - len(some.simulated)
    assert f"Not simulated: {left} configurations, whose busiest pipe alone takes longer than the last row" in text
    assert "--csv FILE simulates all" in text
    assert "the median of all takes at least" in text
    assert some.ranked[-1].summary.endswith("not simulated")
    assert text == explore_text(explore(PROBLEM, with_baseline=False, best=FEW, workers=2), top=FEW, width=200)
    whole = explore_text(explore(PROBLEM, with_baseline=False), top=FEW, width=200)
    assert "ot simulated" not in whole and "at least" not in whole
