"""`tilesight simulate`: one configuration, all figures explained."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ..compiled import CostOptions, of_use
from ..configs import ConfigOptions, Posed, pose
from ..given import given, refuse_unread
from ..groups import flag, option, spread, word
from ..limit import SimulationLimit, limited_answer
from ..model.options import ModelOptions
from ..options import MachineOptions, ScheduleOptions
from ..output import TIMELINE, BadInput, announce_compiler, answer, bad_input, say, trace_bytes
from ..shapes import BOTH, ProblemOptions

if TYPE_CHECKING:
    from ...simulator.device.device import Device
    from ...simulator.prediction.prediction import Prediction
    from ...simulator.prediction.timeline import Timeline


class SimulateOptions(ScheduleOptions):
    """What `simulate` alone takes."""

    resolution: str = word("chunk", "Granularity of the cache simulation.", "chunk", "line")
    full: bool = flag("Simulate every CTA; do not extrapolate from a steady state.")
    json: bool = flag("Print JSON.")
    trace: Path | None = option(None, TIMELINE, "FILE")
    trace_sms: int | None = option(None, "SMs in the trace.  [default: all, or as many as keep it below 20 MB]")


@spread
def simulate(
    context: typer.Context,
    *,
    asked: SimulateOptions,
    model: ModelOptions,
    problem: ProblemOptions,
    config: ConfigOptions,
    machine: MachineOptions,
    costs: CostOptions,
    limit: SimulationLimit,
) -> None:
    """Predict one configuration: time, bottleneck, and bytes at every level of memory."""
    typed, parts, (name, device) = given(context), problem.passes(asked.schedules), machine.build()
    if not asked.trace:
        refuse_unread(typed, ["--trace-sms"], "without --trace, whose SMs it counts")
    elif len(parts) > 1:
        refuse_unread(typed, ["--trace"], f"with --pass {BOTH}: the timeline is of one pass")
    if asked.trace_sms is not None and not 1 <= asked.trace_sms <= device.sms:
        raise BadInput(f"--trace-sms = {asked.trace_sms}: must be from 1 to the {device.sms} SMs of {name}")
    posed = pose(parts, ProblemOptions.build, model, config, typed)
    predicted = [_predicted(asked, item, device, machine, costs, limit) for item in posed]
    predictions = [
        replace(prediction, device=name, notes=(*item.notes, *machine.notes(name, device), *prediction.notes))
        for item, (prediction, _) in zip(posed, predicted, strict=True)
    ]
    texts, value = _texts_and_value(predictions, device)
    path, timeline = asked.trace, predicted[0][1]
    answer(
        asked,
        lambda: "\n\n".join(texts),
        lambda: value,
        trace=(lambda: trace_bytes(path, timeline, asked.trace_sms)) if path and timeline else None,
    )


def _predicted(
    asked: SimulateOptions,
    posed: Posed,
    device: "Device",
    machine: MachineOptions,
    costs: CostOptions,
    limit: SimulationLimit,
) -> "tuple[Prediction, Timeline | None]":
    """One pass, with remarks on the source of its costs; and its timeline where that is asked for."""
    from ...simulator import simulate as door
    from ...simulator import units
    from ...simulator.arguments import Settings
    from ...simulator.store.pipelines import answers
    from ..fit import resolved

    resources_of, remarks = costs.source(device)
    runs = resolved(posed, device, costs, resources_of)
    how = Settings(l2=machine.l2, overhead=machine.overhead, resolution=asked.resolution, steady_state=not asked.full)
    timeline = None
    with answers(announce_compiler), limited_answer(limit.time_limit) as on_progress:
        if asked.trace:
            announce_compiler()
            prediction, timeline = door.predict_with_timeline(runs, device, how, on_progress)
        else:
            prediction = door.predict(runs, device, how, on_progress)
    if timeline and prediction.is_extrapolated:
        say(
            f"the trace steps through every CTA and ends at {units.duration(timeline.end_s)}; the figures printed"
            " extrapolate a steady state, as without --trace; with --full they are those of the trace"
        )
    notes = (*of_use(remarks, prediction.launches), *prediction.notes)
    return replace(prediction, notes=notes), timeline


def _texts_and_value(predictions: "list[Prediction]", device: "Device") -> tuple[list[str], Any]:
    """The texts of all passes, and of their step where there are two; and the same for JSON."""
    from ...simulator.explore.training import training_step
    from ...simulator.report.simulate import simulate_text
    from ...simulator.report.training import step_dict, step_text

    texts = [simulate_text(prediction, device) for prediction in predictions]
    values = [prediction.to_dict() for prediction in predictions]
    if len(predictions) == 1:
        return texts, values[0]
    with bad_input("schedule"):
        step = training_step(predictions[0], predictions[1], device)
    return [*texts, step_text(step, device)], step_dict(step, device, *values)
