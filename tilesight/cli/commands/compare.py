"""`tilesight compare`: schedules over sequence lengths, and devices."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...simulator.problems.attention import MAX_SEQLEN
from ...simulator.schedules.registry import all_options
from ..compiled import compiles, source_of_costs
from ..configs import ConfigOptions
from ..given import given as typed_options
from ..given import refuse_unread
from ..groups import spread
from ..limit import SimulationLimit, limit_of
from ..model.options import ModelOptions
from ..options import MachinesOptions, Schedules, Workers, one_device, workers_given
from ..output import (
    BadInput,
    Output,
    announce_compiler,
    bad_input,
    deliver,
    progress,
    text_color,
    text_width,
)
from ..parse import each_once, flag, option
from ..shapes import BOTH, ShapeOptions, refuse_unread_shape

if TYPE_CHECKING:
    from ...simulator.explore.lengths import Scaling

DEFAULT_SEQLENS = "512,1024,2048"


@spread
def compare(
    context: typer.Context,
    *,
    schedule: Schedules = None,
    seqlens: Annotated[str, option("--seqlens", "Lengths of queries and keys.", "INT,...")] = DEFAULT_SEQLENS,
    model: ModelOptions,
    problem: ShapeOptions,
    config: ConfigOptions,
    machine: MachinesOptions,
    workers: Workers = None,
    time_limit: SimulationLimit = None,
    json: Annotated[bool, flag("--json", "Print JSON.")] = False,
    csv: Annotated[Path | None, option("--csv", "Write all points as CSV.", "FILE")] = None,
    plot: Annotated[Path | None, option("--plot", "Write a picture: time and memory over length.", "FILE.png")] = None,
) -> None:
    """Compare schedules over sequence lengths: time, speedup, bytes, peak memory, out of memory.

    Each schedule runs in its fastest configuration, found by trying all at one short length and the best of them at
    each; options that you give are fixed.
    """
    lengths, devices = _lengths(seqlens), machine.build()
    one_device(devices, plot=plot)
    parts = problem.passes(schedule or ["all"])
    if len(parts) > 1:
        refuse_unread(typed_options(context), ["--plot"], f"with --pass {BOTH}: each is of one pass")
    processes = workers_given(workers)
    from ...simulator.display import render
    from ...simulator.explore.fastest import plan
    from ...simulator.explore.lengths import compare as compare_schedules
    from ...simulator.explore.space import options_of, schedules_named
    from ...simulator.explore.training_lengths import along_lengths
    from ...simulator.report.lengths import compare_dict, compare_rows, compare_text
    from ...simulator.report.training import step_scaling_text, step_scalings_dict
    from ...simulator.store.pipelines import answers

    posed = []
    for part, names in parts:
        schedules = names or ["all"]
        solved = part.kind(schedules)
        shape, of_model = model.fill(part, solved, schedules, typed_options(context))
        asked = shape.of_lengths(solved, lengths[0], lengths[0])
        with bad_input("schedule"):
            posed.append((asked, schedules, schedules_named(schedules, type(asked)), of_model))
    every = [item for _, _, named, _ in posed for item in named]
    with bad_input("schedule", *all_options()):
        refuse_unread_shape(typed_options(context), every)
        chosen: list[dict[str, Any]] = [options_of(named, every, config.chosen()) for _, _, named, _ in posed]
        for (asked, schedules, _, _), options in zip(posed, chosen, strict=True):
            plan(asked, schedules, options, compiles=compiles({}))
    scalings: list[list[Scaling]] = []
    for (asked, schedules, named, notes), options in zip(posed, chosen, strict=True):
        scalings.append([])
        outlined = any(item.outlined and item.why_not(asked) is None for item in named)
        for name, device in devices.items():
            compile_ = source_of_costs(asked, device, {}, "compiled", workers=processes)[0] if outlined else None
            counted = f"simulations for {name}" if len(devices) > 1 else "simulations"
            with answers(announce_compiler), progress(counted) as tick:
                scaling = compare_schedules(
                    asked,
                    lengths,
                    schedule=schedules,
                    device=device,
                    l2=machine.l2,
                    overhead=machine.overhead,
                    resources_of=compile_,
                    workers=processes,
                    progress=tick,
                    time_limit_s=limit_of(time_limit),
                    **options,
                )
            scalings[-1].append(
                replace(scaling, device_name=name, notes=(*notes, *machine.notes(name, device), *scaling.notes))
            )
    texts = [compare_text(*some, width=text_width(), color=text_color()) for some in scalings]
    values = [compare_dict(*some) for some in scalings]
    if len(parts) > 1:
        steps = [along_lengths(*passes) for passes in zip(*scalings, strict=True)]
        texts += [step_scaling_text(step, text_width(), text_color()) for step in steps]
        values = [step_scalings_dict(steps, *values)]
    deliver(
        render.to_json(values[0]) if json else "\n\n".join(texts),
        Output(
            option="--csv",
            path=csv,
            make=lambda: render.to_csv([row for some in scalings for row in compare_rows(*some)]),
        ),
        Output(option="--plot", path=plot, make=lambda: _png(scalings[0][0])),
    )


def _png(scaling: "Scaling") -> bytes:
    from ...simulator.report.png import compare_png

    return compare_png(scaling)


def _lengths(text: str) -> list[int]:
    try:
        lengths = [int(part) for part in text.split(",")]
    except ValueError:
        raise BadInput(f"--seqlens = {text!r}: must be whole numbers, separated by commas") from None
    for length in lengths:
        if not 1 <= length <= MAX_SEQLEN:
            raise BadInput(f"--seqlens = {length}: must be from 1 to {MAX_SEQLEN}")
    return list(each_once("--seqlens", text, lengths))
