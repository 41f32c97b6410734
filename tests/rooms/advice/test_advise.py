"""Advice on a launch with machine code: which rules speak, in which order, and what one simulated change brings."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from support.made_code import coded_launch
from tilesight.simulator.advice import advise as door
from tilesight.simulator.advice.case import Case, Change
from tilesight.simulator.advice.in_flight import is_pipelined, more_ctas, more_stages, with_a_stage_more
from tilesight.simulator.advice.on_memory import locks
from tilesight.simulator.arguments import Settings
from tilesight.simulator.device.device import load_device
from tilesight.simulator.jobs.stopping import OutOfTime
from tilesight.simulator.prediction.what_helps import Advice
from tilesight.simulator.simulate_launches import simulate_launches
from tilesight.simulator.sm.what_if.changed_code import without_barriers

H200 = load_device("h200")


def coded_case() -> Case:
    """The recorded launch of flash2, predicted."""
    launch = coded_launch()
    (prediction,) = simulate_launches([launch], H200, Settings(overhead="graph")).launches
    traced = SimpleNamespace(lower_bound=False, classes=(), kernel=SimpleNamespace(ctas=1, line_of=lambda at: 0))
    return Case(launch=launch, traced=traced, prediction=prediction, device=H200)  # type: ignore[arg-type]


def test_a_launch_that_is_changed_in_nothing_takes_as_long() -> None:
    """The simulation of a change is that of the prediction: the same costs, engine and clock."""
    assert coded_case().gain(Change()) == pytest.approx(1.0, rel=1e-9)


def test_a_launch_without_its_barriers_takes_no_longer() -> None:
    """What waits for nobody is done no later."""
    assert coded_case().gain(Change(code=without_barriers)) >= 0.995


def test_one_stage_more_takes_a_buffer_more_of_shared_memory() -> None:
    """K and V of 64 x 64 elements of two bytes; and the loop asks for them an iteration earlier."""
    launch = coded_launch()
    assert is_pipelined(launch)
    deeper = with_a_stage_more(launch)
    assert deeper.resources.smem_bytes_per_cta - launch.resources.smem_bytes_per_cta == 2 * 64 * 64 * 2
    assert deeper.num_stages == launch.num_stages + 1


@pytest.mark.parametrize("rule", [more_ctas, more_stages])
def test_nothing_is_said_of_loads_in_flight_where_nobody_waits(rule: object) -> None:
    """Whatever the grid and the loops are."""
    case = coded_case()
    causes = {"hbm": 1.0, "tail": 0.0, "launch": 0.0, "wait": 0.0}
    idle = replace(case, prediction=replace(case.prediction, causes=causes))
    assert rule(idle) is None  # type: ignore[operator]


@pytest.mark.parametrize(("fits", "gain"), [(2, 1 / (1 - 0.4 / 2)), (4, 1 / (1 - 0.4 * 3 / 4))])
def test_a_grid_smaller_than_what_fits_could_be_larger(fits: int, gain: float) -> None:
    """One CTA of two that fit leaves half of the waits to be hidden by another, one of four three quarters."""
    case = coded_case()
    held = case.prediction.ctas_per_sm
    causes = {"hbm": 0.2, "tail": 0.0, "launch": 0.0, "wait": 0.4}
    grid = (H200.sms, 1, 1)
    launch, prediction = replace(case.launch, grid=grid), replace(case.prediction, causes=causes, ctas_per_sm=fits)
    advice = more_ctas(replace(case, launch=launch, prediction=prediction))
    assert held > 1 and advice is not None and advice.cause == "small grid"
    assert f"{H200.sms} CTAs give each of {H200.sms} SMs 1, where {fits} fit" in advice.text
    assert advice.gain == pytest.approx(gain)


def test_waits_of_ctas_for_each_other_are_named() -> None:
    """Their time is not known, and so is no gain; a launch without any is told nothing."""
    case = coded_case()
    assert locks(case) is None
    case.traced.lower_bound = True  # type: ignore[misc]
    advice = locks(case)
    assert advice is not None and advice.cause == "locks" and advice.gain is None


def rules_saying(*gains: float | None, causes: tuple[str, ...] = ()) -> tuple[object, ...]:
    """Rules that say so much."""
    names = causes or tuple(f"cause {number}" for number in range(len(gains)))
    return tuple(
        lambda case, name=name, gain=gain: Advice(cause=name, text=name, gain=gain)
        for name, gain in zip(names, gains, strict=True)
    )


def said(monkeypatch: pytest.MonkeyPatch, *gains: float | None, causes: tuple[str, ...] = ()) -> list[str]:
    """Names of the causes that a launch bound by HBM is told of, where its rules say so much."""
    monkeypatch.setattr(door, "RULES", rules_saying(*gains, causes=causes))
    case = coded_case()
    bound = {"hbm": 0.9, "tail": 0.0, "launch": 0.1, "wait": 0.0}
    case = replace(case, prediction=replace(case.prediction, causes=bound))
    return [advice.cause for advice in door.advise(case)[0]]


def test_what_brings_most_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before what binds; what brings less than a twentieth is not named."""
    assert said(monkeypatch, 1.07, 1.04, 1.2, 1.5) == ["cause 3", "cause 2", "cause 0", "hbm"]
    assert said(monkeypatch, 1.04) == ["hbm"]


def test_small_bounds_come_behind_what_binds(monkeypatch: pytest.MonkeyPatch) -> None:
    """A last wave that is full brings at most what its idle SMs cost, and rarely that."""
    assert said(monkeypatch, 1.09, 1.06, causes=("tail", "stages")) == ["stages", "hbm", "tail"]
    assert said(monkeypatch, 1.3, causes=("tail",)) == ["tail", "hbm"]


def test_waits_without_a_time_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time of a launch whose CTAs wait for each other is a lower bound: nothing else is sure."""
    assert said(monkeypatch, 1.5, None, causes=("spills", "locks")) == ["locks", "spills", "hbm"]


def test_no_more_is_simulated_where_a_launch_does_what_none_should(monkeypatch: pytest.MonkeyPatch) -> None:
    """A gain of eight times and more hides all others."""
    assert said(monkeypatch, 20.0, 1.5) == ["cause 0", "hbm"]


def test_what_time_was_left_for_is_said_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """The others are named as late."""

    def too_long(case: Case) -> Advice | None:
        raise OutOfTime

    monkeypatch.setattr(door, "RULES", (*rules_saying(1.5), too_long, *rules_saying(1.2, causes=("later",))))
    helps, late = door.advise(coded_case())
    assert {advice.cause for advice in helps} >= {"cause 0", "later"} and late == ("too long",)


def test_a_rule_whose_change_cannot_be_simulated_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """As one stage more, where shared memory has no room for it."""

    def failing(case: Case) -> Advice | None:
        raise ValueError("kernel f: its cycles do not come from its code")

    monkeypatch.setattr(door, "RULES", (failing,))
    assert len(door.advise(coded_case())[0]) == 1
