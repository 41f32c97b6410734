"""`tilesight simulate`: one configuration, all figures explained."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from ...simulator.schedules.registry import all_options
from ..compiled import cost_given, of_use, resources_given, source_of_costs
from ..configs import ConfigOptions
from ..given import given as typed_options
from ..given import refuse_unread
from ..groups import spread
from ..limit import SimulationLimit, limited_answer
from ..model.options import ModelOptions
from ..options import Compiled, Cost, MachineOptions, OneSchedule, Registers, SmemBytes
from ..output import BadInput, Output, announce_compiler, bad_input, deliver, say, trace_output
from ..parse import flag, one_of, option
from ..shapes import BOTH, ProblemOptions, refuse_unread_shape


@spread
def simulate(
    context: typer.Context,
    *,
    schedule: OneSchedule = None,
    model: ModelOptions,
    problem: ProblemOptions,
    config: ConfigOptions,
    machine: MachineOptions,
    registers: Registers = None,
    smem_bytes: SmemBytes = None,
    compiled: Compiled = False,
    cost: Cost = None,
    resolution: Annotated[
        str, option("--resolution", "Granularity of the cache simulation.", "chunk|line", one_of("chunk", "line"))
    ] = "chunk",
    full: Annotated[bool, flag("--full", "Simulate every CTA; do not extrapolate from a steady state.")] = False,
    time_limit: SimulationLimit = None,
    json: Annotated[bool, flag("--json", "Print JSON.")] = False,
    trace: Annotated[
        Path | None,
        option(
            "--trace",
            "Write a timeline of CTAs on SMs for https://ui.perfetto.dev; compressed if FILE ends in .gz.",
            "FILE",
        ),
    ] = None,
    trace_sms: Annotated[
        int | None,
        option("--trace-sms", "SMs in the trace.  [default: all, or as many as keep it below 20 MB]"),
    ] = None,
) -> None:
    """Predict one configuration: time, bottleneck, and bytes at every level of memory."""
    parts = problem.passes([schedule] if schedule else None)
    typed, (name, device) = typed_options(context), machine.build()
    given = resources_given(registers, smem_bytes)
    kind = cost_given(cost, given, compiled)
    if not trace:
        refuse_unread(typed, ["--trace-sms"], "without --trace, whose SMs it counts")
    elif len(parts) > 1:
        refuse_unread(typed, ["--trace"], f"with --pass {BOTH}: the timeline is of one pass")
    if trace_sms is not None and not 1 <= trace_sms <= device.sms:
        raise BadInput(f"--trace-sms = {trace_sms}: must be from 1 to the {device.sms} SMs of {name}")
    from ...simulator import simulate as door
    from ...simulator import units
    from ...simulator.display import render
    from ...simulator.explore.space import options_taken
    from ...simulator.report.simulate import simulate_text
    from ...simulator.schedules.registry import find_schedule
    from ...simulator.store.pipelines import answers
    from ..fit import resolved

    settings: dict[str, Any] = {"l2": machine.l2, "overhead": machine.overhead, "resolution": resolution}
    settings |= {"steady_state": not full}
    outputs: list[Output] = []
    named, posed = [], []
    for part, names in parts:
        (chosen_name,) = part.schedules(names)
        solved = part.kind([chosen_name])
        shape, of_model = model.fill(part, solved, [chosen_name], typed)
        posed.append((shape.build(solved), of_model))
        named.append(find_schedule(chosen_name))
    refuse_unread_shape(typed, named)
    predictions = []
    for item, (asked, of_model) in zip(named, posed, strict=True):
        resources_of, remarks = source_of_costs(asked, device, given, kind, compiled=compiled)
        with bad_input(*all_options()):
            chosen = options_taken(item, named, config.chosen())
        runs = resolved(asked, item.name, chosen, device, given, resources_of, kind)
        with answers(announce_compiler), limited_answer(time_limit) as tell:
            if trace:
                announce_compiler()
                prediction, timeline = door.predict_with_timeline(runs, device, **settings, tell=tell)
                outputs.append(trace_output(trace, timeline, trace_sms))
                if prediction.is_extrapolated:
                    say(
                        f"the trace steps through every CTA and ends at {units.duration(timeline.end_s)}; the figures"
                        " printed extrapolate a steady state, as without --trace; with --full they are those of the"
                        " trace"
                    )
            else:
                prediction = door.predict(runs, device, **settings, tell=tell)
        notes = (*of_model, *machine.notes(name, device), *of_use(remarks, prediction.launches), *prediction.notes)
        predictions.append(replace(prediction, device=name, notes=notes))
    texts = [simulate_text(prediction, device) for prediction in predictions]
    values: Any = predictions[0].to_dict()
    if len(predictions) > 1:
        from ...simulator.explore.training import training_step
        from ...simulator.report.training import step_dict, step_text

        with bad_input("schedule"):
            step = training_step(predictions[0], predictions[1], device)
        texts.append(step_text(step, device))
        values = step_dict(step, device, values, predictions[1].to_dict())
    deliver(render.to_json(values) if json else "\n\n".join(texts), *outputs)
