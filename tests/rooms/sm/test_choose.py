"""Which cost a launch gets: from its machine code, or from its tile program and why."""

from dataclasses import replace

import pytest
from support.made_code import CODE, CODE_CONFIG, CODE_PROBLEM, coded_launch
from tilesight.simulator.device.device import Device, load_device
from tilesight.simulator.device.numbers import Provenance
from tilesight.simulator.device.what_if import override, with_number
from tilesight.simulator.launch.program import Code, Launch
from tilesight.simulator.launch.walk import steps
from tilesight.simulator.prediction.notes import cost_notes
from tilesight.simulator.problems.attention import AttentionProblem
from tilesight.simulator.residency.residency import residency_of
from tilesight.simulator.simulate import simulate
from tilesight.simulator.sm.choose import changed_sm, costs_of
from tilesight.simulator.sm.from_code import compiled_costs
from tilesight.simulator.sm.step_cost import StepCost, step_cost

H200 = load_device("h200")


def without_code(launch: Launch) -> Launch:
    return replace(launch, resources=replace(launch.resources, code=None))


def costs_on(launch: Launch, device: Device, kind: str) -> tuple[dict[str, StepCost], str]:
    """Costs of a launch's steps, of operands of two bytes, and where they come from."""
    costs = costs_of(launch, residency_of(launch, device), device, kind)
    return costs.steps, costs.origin


def test_code_at_hand_gives_the_cost() -> None:
    """Compiled code would be asked for and not used."""
    costs, origin = costs_on(coded_launch(), H200, "compiled")
    assert origin == "compiled"
    assert costs == compiled_costs(coded_launch(), residency_of(coded_launch(), H200), H200).steps


@pytest.mark.parametrize(
    ("launch", "kind"),
    [(coded_launch(), "tiles"), (without_code(coded_launch()), "compiled")],
    ids=["asked", "no code"],
)
def test_tiles_give_the_cost_where_they_are_asked_for_or_there_is_no_code(launch: Launch, kind: str) -> None:
    """Machines without Triton would have no cost, or the estimate could not be looked at."""
    costs, origin = costs_on(launch, H200, kind)
    assert origin == "tiles"
    assert costs == {step.name: step_cost(step, launch, H200) for step, _ in steps(launch.program.body)}


def test_code_of_no_use_is_told_with_its_reason() -> None:
    """A fallback to the estimate would be silent."""
    launch = coded_launch()
    broken = replace(launch, resources=replace(launch.resources, code=Code(sass="no listing", constants={})))
    costs, origin = costs_on(broken, H200, "compiled")
    assert origin == "tiles: SASS text holds 0 functions: must be 1"
    assert costs == costs_on(launch, H200, "tiles")[0]


def test_every_reason_is_noted_once() -> None:
    """Launches that fail alike would fill the page; those that do not fail would be noted."""
    notes = cost_notes(["compiled", "tiles: odd code", "tiles", "tiles: odd code"])
    assert notes == ("cycles estimated from tile sizes, not from machine code: odd code",)


def test_a_prediction_says_where_its_cycles_come_from() -> None:
    """Estimate and simulation would look the same, or a fallback would be silent."""
    good, bad = CODE, Code(sass="no listing", constants={})
    predictions = {}
    for name, code, cost in (("code", good, "compiled"), ("tiles", good, "tiles"), ("bad", bad, "compiled")):
        resources = (replace(coded_launch().resources, code=code),)
        predictions[name] = simulate(CODE_PROBLEM, config=CODE_CONFIG, resources=resources, cost=cost)
    assert [prediction.launches[0].cost.split(":")[0] for prediction in predictions.values()] == [
        "compiled",
        "tiles",
        "tiles",
    ]
    assert [len(prediction.notes) for prediction in predictions.values()] == [0, 0, 1]
    assert predictions["tiles"].total == predictions["bad"].total != predictions["code"].total


def test_costs_that_are_kept_are_of_no_use_to_another_sm() -> None:
    """A what-if about the SM that machine code is simulated for would be ignored in silence; others are none."""
    problem = AttentionProblem(batch=1, heads=8, seqlen_q=1024, seqlen_k=1024, head_dim=64)
    queue, power = (
        " ".join(simulate(problem, schedule="flash2", device=override(H200, [setting])).notes)
        for setting in ("wgmma_queue_products=1", "clock_power_exponent=3")
    )
    assert "the library's cycles are those of an SM of compute capability 9.0; here wgmma_queue_products = 1" in queue
    assert "costs are kept" not in power


def test_another_card_of_the_architecture_may_measure_a_little_more() -> None:
    """A calibrated file would else lose all costs that are kept; a what-if of as much is asked for on purpose."""
    for value, kind, other in ((12.6, "measured", ""), (14.0, "measured", "14.0"), (12.6, "set", "12.6")):
        device = with_number(H200, "barrier_release_cycles", value, Provenance(kind, "--set"))
        assert changed_sm(device) == (f"barrier_release_cycles = {other}" if other else "")


def test_the_simulated_sm_has_the_numbers_of_its_device() -> None:
    """A later release of the wait for matmuls, or a larger queue, shows in the cycles of a lone CTA."""
    slow = override(H200, ["wgmma_wait_release_cycles=140"])
    lone = [
        sum(cost.critical_path_cycles for cost in costs_on(coded_launch(), device, "compiled")[0].values())
        for device in (H200, slow)
    ]
    assert lone[1] > lone[0] + 50


def test_the_estimate_from_tiles_has_the_numbers_of_its_device() -> None:
    """A wait for a matmul that takes longer makes its step as much longer; the simulated SM has another number."""
    launch, slow = without_code(coded_launch()), override(H200, ["tiles_wgmma_latency_cycles=162"])
    for step, _ in steps(launch.program.body):
        longer = step_cost(step, launch, slow).critical_path_cycles
        now = step_cost(step, launch, H200).critical_path_cycles
        assert longer == pytest.approx(now + 100 * len(step.work.matmuls))
    assert costs_on(coded_launch(), slow, "compiled") == costs_on(coded_launch(), H200, "compiled")
