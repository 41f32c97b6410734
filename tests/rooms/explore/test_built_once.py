"""Launches of a configuration are built once, however many ask what they are, hold and cost."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest
from tilesight.simulator.device.device import Device, load_device
from tilesight.simulator.explore.baseline import FINALISTS
from tilesight.simulator.explore.explore import explore
from tilesight.simulator.explore.lengths import compare
from tilesight.simulator.launch.program import Launch, Resources
from tilesight.simulator.problems.attention import MAX_SEQLEN, AttentionProblem
from tilesight.simulator.problems.problem import Problem
from tilesight.simulator.resolve import asked_config
from tilesight.simulator.schedules.config import Config
from tilesight.simulator.schedules.registry import all_schedules, find_schedule
from tilesight.simulator.simulate import simulate

PROBLEM = AttentionProblem(batch=1, heads=4, seqlen_q=256, seqlen_k=256, head_dim=64)
WIDE = replace(PROBLEM, head_dim=256)
Built = Counter[tuple[str, Problem, Config]]


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> Built:
    """How often launches were built: (schedule, problem, configuration) -> times."""
    counts: Built = Counter()
    for name, schedule in list(all_schedules().items()):

        def counted(
            problem: Problem, config: Config, device: Device, name: str = name, build: object = schedule.launches
        ) -> tuple[Launch, ...]:
            counts[name, problem, config] += 1
            launches: tuple[Launch, ...] = build(problem, config, device)  # type: ignore[operator]
            return launches

        monkeypatch.setitem(all_schedules(), name, replace(schedule, launches=counted))
    return counts


@pytest.mark.parametrize("config", [None, Config(block_m=64), find_schedule("flash2").default])
@pytest.mark.parametrize("cost", ["compiled", "tiles"])
def test_a_simulation_builds_its_launches_once(config: Config | None, cost: str, built: Built) -> None:
    """Whether the configuration is whole or left to the default."""
    whole = asked_config(PROBLEM, find_schedule("flash2"), config or Config(), load_device("h200"), cost)
    simulate(PROBLEM, config=config, cost=cost)
    assert built == {("flash2", PROBLEM, whole): 1}


def test_each_smaller_default_is_built_once(built: Built) -> None:
    """Those that do not fit, and the one that does."""
    prediction = simulate(WIDE, device="rtx-4090")
    assert prediction.config != find_schedule("flash2").default
    assert ("flash2", WIDE, prediction.config) in built
    assert len(built) > 1 and set(built.values()) == {1}


def _estimates(pipelines: Sequence[tuple[Launch, ...]]) -> list[tuple[Resources, ...]]:
    """As a compiler that finds what was estimated."""
    return [tuple(launch.resources for launch in chain) for chain in pipelines]


@pytest.mark.parametrize("resources_of", [None, _estimates])
def test_an_exploration_builds_each_candidate_once(resources_of: object, built: Built) -> None:
    """Whether a compiler sees them first or not; of the baseline those that a survey finds likely once more."""
    exploration = explore(PROBLEM, resources_of=resources_of, block_m=(64, 1024), num_warps=4)  # type: ignore[arg-type]
    refused = [item for item in exploration.candidates if not item.fits]
    assert refused and exploration.ranked and exploration.baseline
    wanted = {(item.schedule, item.config) for item in exploration.candidates}
    asked = {(name, config): count for (name, _, config), count in built.items()}
    assert {key: asked[key] for key in asked if key[0] != "naive"} == dict.fromkeys(wanted, 1)
    again = [config for (name, config), count in asked.items() if name == "naive" and count > 1]
    assert exploration.baseline.config in again and len(again) <= FINALISTS


def test_a_comparison_builds_a_length_once(built: Built) -> None:
    """And each length at which it looks whether memory still holds all, of which there are as many as halvings."""
    compare(PROBLEM, [256], schedule="flash2", block_m=64, block_n=64, num_warps=4, num_stages=2)
    halvings = (MAX_SEQLEN + 1).bit_length()
    assert set(built.values()) == {1}
    assert {problem.seqlen_q for _, problem, _ in built} > {256}
    assert len(built) <= 1 + halvings


def test_a_comparison_builds_each_of_the_best_once_at_a_length(built: Built) -> None:
    """Those that are tried on the short problem, and those of them that are tried again."""
    compare(PROBLEM, [1500], schedule="flash2", block_m=64, num_warps=4)
    assert set(built.values()) == {1}
