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
from ..groups import spread
from ..limit import SimulationLimit, limit_of
from ..model.options import ModelOptions
from ..options import MachinesOptions, Schedules, Workers, one_device, workers_given
from ..output import (
    BadInput,
    Output,
    announce_compiler,
    bad_input,
    check_outputs,
    deliver,
    progress,
    text_color,
    text_width,
)
from ..parse import each_once, flag, option
from ..shapes import ShapeOptions, refuse_unread_shape

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
    check_outputs(csv=csv, plot=plot)
    lengths, devices = _lengths(seqlens), machine.build()
    one_device(devices, plot=plot)
    schedules = schedule or ["all"]
    solved = problem.kind(schedules)
    shape, of_model = model.fill(problem, solved, typed_options(context))
    asked = shape.of_lengths(solved, lengths[0], lengths[0])
    chosen: dict[str, Any] = {**config.chosen()}
    processes = workers_given(workers)
    from ...simulator.display import render
    from ...simulator.explore.fastest import plan
    from ...simulator.explore.lengths import compare as compare_schedules
    from ...simulator.explore.space import schedules_named
    from ...simulator.report.lengths import compare_dict, compare_rows, compare_text
    from ...simulator.store.pipelines import answers

    with bad_input("schedule", *all_options()):
        named = schedules_named(schedules, type(asked))
        refuse_unread_shape(typed_options(context), named)
        plan(asked, schedules, chosen, compiles=compiles({}))
    outlined = any(item.outlined and item.why_not(asked) is None for item in named)
    scalings = []
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
                **chosen,
            )
        scalings.append(replace(scaling, device_name=name, notes=(*of_model, *machine.notes(), *scaling.notes)))
    deliver(
        render.to_json(compare_dict(*scalings))
        if json
        else compare_text(*scalings, width=text_width(), color=text_color()),
        Output(option="--csv", path=csv, make=lambda: render.to_csv(compare_rows(*scalings))),
        Output(option="--plot", path=plot, make=lambda: _png(scalings[0])),
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
