"""`tilesight explore`: which schedule and block sizes are best, and why."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ...simulator.schedules.registry import all_options
from ..compiled import CostOptions, of_use
from ..configs import Posed, SpaceOptions, pose
from ..given import given, made, refuse_unread
from ..groups import flag, option, spread
from ..limit import ALL_LIMIT_S, WorkersOptions, limit_of, limit_of_all, seconds
from ..model.options import ModelOptions
from ..options import MachinesOptions, SchedulesOptions, one_device
from ..output import PAGE, announce_compiler, answer, bad_input, progress, text_color, text_width
from ..parse import whole
from ..shapes import BOTH, ProblemOptions

if TYPE_CHECKING:
    from ...simulator.device.device import Device
    from ...simulator.explore.explore import Exploration

SHOWN = 15
"""Rows of the table of one device."""


class ExploreOptions(SchedulesOptions, WorkersOptions):
    """What `explore` alone takes."""

    top: int | None = option(
        None, "Rows to show; files hold all.  [default: 15; 5 of each of several devices]", least=1
    )
    triton_configs: int | None = option(
        None, "Print the best N as `triton.Config(...)`, for @triton.autotune; no table.", "N", whole, least=1
    )
    time_limit: float | None = seconds(
        "What all may take together, in time that each worker's core works, once compiled. Where that is too short,"
        " those that are best at a short length"
        f" come first, and what no time is left for is left out.  [default: {ALL_LIMIT_S:g}]"
    )
    json: bool = flag("Print JSON.")
    csv: Path | None = option(None, "Write all configurations as CSV.", "FILE")
    html: Path | None = option(None, PAGE, "FILE")
    plot: Path | None = option(None, "Write a picture.", "FILE.png")


@spread
def explore(
    context: typer.Context,
    *,
    asked: ExploreOptions,
    model: ModelOptions,
    problem: ProblemOptions,
    space: SpaceOptions,
    machine: MachinesOptions,
    costs: CostOptions,
) -> None:
    """Rank all configurations of one or several schedules: time, bytes per level, occupancy, bottleneck.

    Block sizes, warps, stages and orders that you give are fixed; a comma list tries each of its values.
    Repeat --device to compare devices.
    """
    typed, parts, devices = given(context), problem.passes(asked.schedule), machine.build()
    one_device(devices, html=asked.html, plot=asked.plot, triton_configs=asked.triton_configs)
    if len(parts) > 1:
        alone = ["--html", "--plot", "--triton-configs"]
        refuse_unread(typed, alone, f"with --pass {BOTH}: each is of one pass")
    if asked.triton_configs:
        refuse_unread(typed, ["--json", "--top"], "with --triton-configs, which prints no table")
    from ...simulator.display.files import written_by
    from ...simulator.explore.fastest import plan
    from ...simulator.report.explore_devices import devices_rows

    posed = pose(parts, ProblemOptions.build, model, space, typed)
    with bad_input("schedule", *all_options()):
        for item in posed:
            plan(item.problem, item.names, item.options, costs.kind, compiles=costs.compiles, alike=True)
    counted = "configurations on {}" if len(devices) > 1 else "configurations"
    whole_space = len(devices) * len(posed) > 1 or asked.json or asked.csv or asked.html or asked.plot
    best = None if whole_space else asked.triton_configs or asked.top or SHOWN
    ranked = [
        [_explored(asked, item, device, machine, costs, counted, best) for device in devices.items()] for item in posed
    ]
    first = ranked[0][0]
    answer(
        asked,
        lambda: _text(asked, ranked),
        lambda: _value(ranked, asked.top),
        csv=lambda: devices_rows([item for some in ranked for item in some]),
        html=lambda: written_by("html", "explore_html")(first, made(context)),
        plot=lambda: written_by("png", "explore_png")(first),
    )


def _explored(
    asked: ExploreOptions,
    posed: Posed,
    named: "tuple[str, Device]",
    machine: MachinesOptions,
    costs: CostOptions,
    counted: str,
    best: int | None,
) -> "Exploration":
    """The configurations of a pass on a device.

    Args:
        asked: the options of the command.
        posed: the pass.
        named: name of the device, and it.
        machine: how to run it.
        costs: where resources and cycles come from.
        counted: what progress counts, with a place for the name.
        best: as of `explore`.
    """
    from ...simulator.explore.explore import explore as explored
    from ...simulator.store.pipelines import answers

    name, device = named
    resources_of, remarks = costs.source(device, asked.processes)
    with answers(announce_compiler), progress(counted.format(name)) as tick:
        exploration = explored(
            posed.problem,
            schedule=posed.names,
            device=device,
            l2=machine.l2,
            overhead=machine.overhead,
            resources_of=resources_of,
            cost=costs.kind,
            workers=asked.processes,
            progress=tick,
            time_limit_s=limit_of_all(asked.time_limit),
            each_limit_s=limit_of(None),
            best=best,
            **costs.given,
            **posed.options,
        )
    launches = [launch for item in exploration.ranked if item.prediction for launch in item.prediction.launches]
    notes = (*posed.notes, *machine.notes(name, device), *of_use(remarks, launches), *exploration.notes)
    return replace(exploration, device_name=name, notes=notes)


def _text(asked: ExploreOptions, ranked: "list[list[Exploration]]") -> str:
    """What to print of the devices of each pass."""
    from ...simulator.report.explore import explore_text
    from ...simulator.report.explore_devices import devices_text
    from ...simulator.report.training import best_step_texts

    if asked.triton_configs:
        return ranked[0][0].to_triton_configs(asked.triton_configs)
    several, width, color = len(ranked[0]) > 1, text_width(), text_color()
    few = asked.top or (5 if several or len(ranked) > 1 else SHOWN)
    texts = [
        devices_text(some, few, width, color) if several else explore_text(some[0], few, width, color)
        for some in ranked
    ]
    return "\n\n".join([*texts, *(best_step_texts(*ranked) if len(ranked) > 1 else ())])


def _value(ranked: "list[list[Exploration]]", top: int | None) -> Any:
    """The same for JSON."""
    from ...simulator.report.explore_devices import devices_dict
    from ...simulator.report.training import steps_dict

    values = [devices_dict(some, top) if len(some) > 1 else some[0].to_dict(top) for some in ranked]
    return steps_dict(*ranked, *values) if len(ranked) > 1 else values[0]
