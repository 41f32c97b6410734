"""Which cost a launch gets: from its machine code, or from its tile program and why."""

from dataclasses import replace

import pytest
from support.made_code import CODE, CODE_CONFIG, CODE_PROBLEM, coded_launch
from tilesight.simulator.device.device import load_device
from tilesight.simulator.launch.program import Code, Launch
from tilesight.simulator.launch.walk import steps
from tilesight.simulator.simulate import simulate
from tilesight.simulator.sm.choose import cost_notes, costs_of
from tilesight.simulator.sm.from_code import compiled_costs
from tilesight.simulator.sm.step_cost import step_cost

H200 = load_device("h200")


def without_code(launch: Launch) -> Launch:
    return replace(launch, resources=replace(launch.resources, code=None))


def test_code_at_hand_gives_the_cost() -> None:
    """Compiled code would be asked for and not used."""
    costs, origin = costs_of(coded_launch(), H200, 2, "compiled")
    assert origin == "compiled"
    assert costs == compiled_costs(coded_launch(), H200, 2).steps


@pytest.mark.parametrize(
    ("launch", "kind"),
    [(coded_launch(), "tiles"), (without_code(coded_launch()), "compiled")],
    ids=["asked", "no code"],
)
def test_tiles_give_the_cost_where_they_are_asked_for_or_there_is_no_code(launch: Launch, kind: str) -> None:
    """Machines without Triton would have no cost, or the estimate could not be looked at."""
    costs, origin = costs_of(launch, H200, 2, kind)
    assert origin == "tiles"
    assert costs == {step.name: step_cost(step, launch, H200, 2) for step, _ in steps(launch.program.body)}


def test_code_of_no_use_is_told_with_its_reason() -> None:
    """A fallback to the estimate would be silent."""
    launch = coded_launch()
    broken = replace(launch, resources=replace(launch.resources, code=Code(sass="no listing", constants={})))
    costs, origin = costs_of(broken, H200, 2, "compiled")
    assert origin == "tiles: SASS text holds 0 functions: must be 1"
    assert costs == costs_of(launch, H200, 2, "tiles")[0]


def test_every_reason_is_noted_once() -> None:
    """Launches that fail alike would fill the page; those that do not fail would be noted."""
    notes = cost_notes(["compiled", "tiles: odd code", "tiles", "tiles: odd code"])
    assert notes == ("cycles estimated from tile sizes, not from machine code: odd code",)


def test_a_prediction_says_where_its_cycles_come_from() -> None:
    """Estimate and simulation would look the same, or a fallback would be silent."""
    good, bad = CODE, Code(sass="no listing", constants={})
    told = {}
    for name, code, cost in (("code", good, "compiled"), ("tiles", good, "tiles"), ("bad", bad, "compiled")):
        resources = (replace(coded_launch().resources, code=code),)
        told[name] = simulate(CODE_PROBLEM, config=CODE_CONFIG, resources=resources, cost=cost)
    assert [one.launches[0].cost.split(":")[0] for one in told.values()] == ["compiled", "tiles", "tiles"]
    assert [len(one.notes) for one in told.values()] == [0, 0, 1]
    assert told["tiles"].total == told["bad"].total != told["code"].total
