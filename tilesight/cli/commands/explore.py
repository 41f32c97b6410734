"""`tilesight explore`: which schedule and block sizes are best, and why."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...simulator.schedules.registry import all_options
from ..compiled import compiles, cost_given, of_use, resources_given, source_of_costs
from ..configs import SpaceOptions
from ..given import given as typed_options
from ..given import made, refuse_unread
from ..groups import spread
from ..limit import ALL_LIMIT_S, limit_of, limit_of_all
from ..model.options import ModelOptions
from ..options import (
    Compiled,
    Cost,
    MachinesOptions,
    Registers,
    Schedules,
    SmemBytes,
    Workers,
    one_device,
    workers_given,
)
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
from ..parse import flag, number, option, whole
from ..shapes import BOTH, ProblemOptions, refuse_unread_shape

if TYPE_CHECKING:
    from ...simulator.explore.explore import Exploration
    from ...simulator.report.page import Made


@spread
def explore(
    context: typer.Context,
    *,
    schedule: Schedules = None,
    model: ModelOptions,
    problem: ProblemOptions,
    space: SpaceOptions,
    machine: MachinesOptions,
    registers: Registers = None,
    smem_bytes: SmemBytes = None,
    compiled: Compiled = False,
    cost: Cost = None,
    top: Annotated[
        int | None, option("--top", "Rows to show; files hold all.  [default: 15; 5 of each of several devices]")
    ] = None,
    triton_configs: Annotated[
        int | None,
        option(
            "--triton-configs", "Print the best N as `triton.Config(...)`, for @triton.autotune; no table.", "N", whole
        ),
    ] = None,
    workers: Workers = None,
    time_limit: Annotated[
        float | None,
        option(
            "--time-limit",
            "What all may take together, in time that each worker's core works, once compiled. Where that is too short,"
            " those that are best at a short length"
            f" come first, and what no time is left for is left out.  [default: {ALL_LIMIT_S:g}]",
            "SECONDS",
            number,
        ),
    ] = None,
    json: Annotated[bool, flag("--json", "Print JSON.")] = False,
    csv: Annotated[Path | None, option("--csv", "Write all configurations as CSV.", "FILE")] = None,
    html: Annotated[Path | None, option("--html", "Write a report for the browser; it opens offline.", "FILE")] = None,
    plot: Annotated[Path | None, option("--plot", "Write a picture.", "FILE.png")] = None,
) -> None:
    """Rank all configurations of one or several schedules: time, bytes per level, occupancy, bottleneck.

    Block sizes, warps, stages and orders that you give are fixed; a comma list tries each of its values.
    Repeat --device to compare devices.
    """
    parts, devices = problem.passes(schedule), machine.build()
    one_device(devices, html=html, plot=plot)
    if len(parts) > 1:
        alone = ["--html", "--plot", "--triton-configs"]
        refuse_unread(typed_options(context), alone, f"with --pass {BOTH}: each is of one pass")
    if triton_configs is not None:
        one_device(devices, **{"triton-configs": triton_configs})
        if triton_configs < 1:
            raise BadInput(f"--triton-configs = {triton_configs}: must be an integer of 1 or more")
        refuse_unread(typed_options(context), ["--json", "--top"], "with --triton-configs, which prints no table")
    given = resources_given(registers, smem_bytes)
    kind, processes = cost_given(cost, given, compiled), workers_given(workers)
    if top is not None and top < 1:
        raise BadInput(f"--top = {top}: must be an integer of 1 or more")
    from ...simulator.display import render
    from ...simulator.explore import explore as door
    from ...simulator.explore.space import options_of, schedules_named
    from ...simulator.report.explore import explore_text
    from ...simulator.report.explore_devices import devices_dict, devices_rows, devices_text
    from ...simulator.report.training import best_step_texts, steps_dict
    from ...simulator.store.pipelines import answers

    asked, named = [], []
    for part, names in parts:
        schedules = part.schedules(names)
        solved = part.kind(schedules)
        shape, of_model = model.fill(part, solved, schedules, typed_options(context))
        asked.append((shape.build(solved), schedules, of_model))
        named.append(schedules_named(schedules, solved))
    every = [item for some in named for item in some]
    with bad_input("schedule", *all_options()):
        refuse_unread_shape(typed_options(context), every)
        fixed: list[dict[str, Any]] = [options_of(some, every, space.lists()) for some in named]
        for (posed, schedules, _), options in zip(asked, fixed, strict=True):
            door.plan(posed, schedules, options, kind, compiles=compiled or compiles(given, kind))
    ranked: list[list[Exploration]] = []
    for (posed, schedules, notes), options in zip(asked, fixed, strict=True):
        ranked.append([])
        settings: dict[str, Any] = {**given, **options}
        for name, device in devices.items():
            resources_of, remarks = source_of_costs(posed, device, given, kind, compiled=compiled, workers=processes)
            counted = f"configurations on {name}" if len(devices) > 1 else "configurations"
            with answers(announce_compiler), progress(counted) as tick:
                exploration = door.explore(
                    posed,
                    schedule=schedules,
                    device=device,
                    l2=machine.l2,
                    overhead=machine.overhead,
                    resources_of=resources_of,
                    cost=kind,
                    workers=processes,
                    progress=tick,
                    time_limit_s=limit_of_all(time_limit),
                    each_limit_s=limit_of(None),
                    **settings,
                )
            launches = [launch for item in exploration.ranked if item.prediction for launch in item.prediction.launches]
            remarks = (*notes, *machine.notes(name, device), *of_use(remarks, launches), *exploration.notes)
            ranked[-1].append(replace(exploration, device_name=name, notes=remarks))
    first = ranked[0][0]
    if triton_configs:
        text = first.to_triton_configs(triton_configs)
    elif json:
        values = [devices_dict(some, top) if len(devices) > 1 else some[0].to_dict(top) for some in ranked]
        text = render.to_json(steps_dict(*ranked, *values) if len(parts) > 1 else values[0])
    else:
        few, width, color = top or (15 if len(devices) == len(parts) == 1 else 5), text_width(), text_color()
        texts = [
            devices_text(some, few, width, color) if len(devices) > 1 else explore_text(some[0], few, width, color)
            for some in ranked
        ]
        text = "\n\n".join([*texts, *(best_step_texts(*ranked) if len(parts) > 1 else ())])
    deliver(
        text,
        Output(
            option="--csv",
            path=csv,
            make=lambda: render.to_csv(devices_rows([item for some in ranked for item in some])),
        ),
        Output(option="--html", path=html, make=lambda: _html(first, made(context))),
        Output(option="--plot", path=plot, make=lambda: _png(first)),
    )


def _html(exploration: "Exploration", maker: "Made") -> str:
    from ...simulator.report.html import explore_html

    return explore_html(exploration, maker)


def _png(exploration: "Exploration") -> bytes:
    from ...simulator.report.png import explore_png

    return explore_png(exploration)
