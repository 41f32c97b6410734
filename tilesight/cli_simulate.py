"""`tilesight simulate`: one configuration, all figures explained."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from .cli_compiled import rows_split, source_of_costs
from .cli_options import (
    CONFIG_OPTIONS,
    Compiled,
    ConfigOptions,
    Cost,
    MachineOptions,
    ProblemOptions,
    Registers,
    SmemBytes,
    cost_given,
    flag,
    one_of,
    option,
    resources_given,
    spread,
)
from .cli_output import BadInput, announce_compiler, bad_input, check_outputs, say, show, write_file
from .simulator.device import Device
from .simulator.problem import AttentionProblem
from .simulator.program import Resources
from .simulator.schedule import Config

if TYPE_CHECKING:
    from .simulator.explore import ResourcesOf

CAUSES = {
    "shared memory": ("smem_bytes", ("block_m", "block_n", "num_stages")),
    "smem": ("smem_bytes", ("block_m", "block_n", "num_stages")),
    "registers": ("registers", ("block_m", "block_n", "num_warps")),
    "tensor memory": (None, ("block_m", "block_n")),
    "num_warps": (None, ("num_warps",)),
    "warps": (None, ("num_warps",)),
}
"""What a CTA has too much of -> the option that gives it, and those that decide it where the user did not give it."""


@spread
def simulate(
    *,
    schedule: Annotated[str, option("--schedule", "How to compute it.", "NAME")] = "flash2",
    problem: ProblemOptions,
    config: ConfigOptions,
    machine: MachineOptions,
    registers: Registers = None,
    smem_bytes: SmemBytes = None,
    compiled: Compiled = False,
    cost: Cost = None,
    resolution: Annotated[
        str, option("--resolution", "What the caches are made of.", "chunk|line", one_of("chunk", "line"))
    ] = "chunk",
    full: Annotated[bool, flag("--full", "Step through every CTA; no steady state.")] = False,
    json: Annotated[bool, flag("--json", "Print JSON.")] = False,
    trace: Annotated[
        Path | None, option("--trace", "Write a timeline of CTAs on SMs, for Perfetto or chrome://tracing.", "FILE")
    ] = None,
) -> None:
    """Predict one configuration: bytes at every level, time, bottleneck; all figures explained."""
    check_outputs(trace=trace)
    asked, device = problem.build(), machine.build()
    given = resources_given(registers, smem_bytes)
    kind = cost_given(cost, given)
    from .simulator.registry import find_schedule

    with bad_input("schedule", *CONFIG_OPTIONS):
        split = rows_split([schedule]) if compiled or kind == "compiled" else {}
        chosen = find_schedule(schedule).config(**split | config.chosen())
    resources_of, remarks = source_of_costs(asked, device, given, kind, compiled=compiled)
    notes = (*machine.notes(), *remarks)
    resources = checked_resources(asked, schedule, chosen, device, given, resources_of, kind)
    announce_compiler()
    from .simulator import report
    from .simulator import simulate as door
    from .simulator.report_simulate import simulate_text
    from .simulator.report_timeline import trace_json

    settings: dict[str, Any] = given | {"l2": machine.l2, "overhead": machine.overhead, "resolution": resolution}
    settings |= {"schedule": schedule, "config": chosen, "device": device, "steady_state": not full}
    settings |= {"resources": resources, "cost": kind}
    if trace:
        prediction, timeline = door.simulate_with_timeline(asked, **settings)
        write_file(trace, trace_json(timeline))
    else:
        prediction = door.simulate(asked, **settings)
    prediction = replace(prediction, device=machine.device, notes=(*notes, *prediction.notes))
    show(report.to_json(prediction.to_dict()) if json else simulate_text(prediction, device))
    if trace:
        say(f"timeline written to {trace}; open it at https://ui.perfetto.dev")


def checked_resources(
    problem: AttentionProblem,
    schedule: str,
    config: Config,
    device: Device,
    given: dict[str, int | None],
    resources_of: "ResourcesOf | None",
    cost: str = "tiles",
) -> tuple[Resources, ...] | None:
    """What each launch takes of an SM; with it, that the schedule can do the problem, and that a CTA fits.

    Args:
        given: values of `--registers` and `--smem-bytes`; resources_of: compiles launches, None where nothing does.
        cost: as in `simulate`.

    Returns:
        Resources, or None where it is left to `simulate` to find or estimate them.

    Raises:
        BadInput: it cannot, or does not; the text names the options that decide it.
    """
    from .simulator.occupancy import DoesNotFit, occupancy
    from .simulator.simulate import launches_of, with_kept

    with bad_input("schedule", "dtype", *CONFIG_OPTIONS):
        launches = launches_of(problem, schedule, config, device, given["registers"], given["smem_bytes"])
    if resources_of:
        (compiled,) = resources_of([launches])
        if isinstance(compiled, str):
            raise misfit(compiled, config, given)
        if compiled:
            return compiled
    if cost == "compiled":
        try:
            launches, _ = with_kept(launches, device)
        except DoesNotFit as error:
            raise misfit(str(error), config, given) from None
    for launch in launches:
        try:
            occupancy(launch.resources, launch.warps_per_cta, device)
        except DoesNotFit as error:
            raise misfit(str(error), config, given) from None
    return None if cost == "compiled" else tuple(launch.resources for launch in launches)


def misfit(reason: str, config: Config, given: dict[str, int | None]) -> BadInput:
    """The answer to a configuration that cannot run. Args: reason: opens with what a CTA has too much of."""
    own, options = CAUSES.get(reason.split(":")[0], (None, ()))
    names = (own,) if own and given.get(own) is not None else options
    values = {name: given.get(name) or getattr(config, name) for name in names}
    said = " ".join(f"--{name.replace('_', '-')} {value}" for name, value in values.items())
    return BadInput(f"{said}: does not fit: {reason}" if said else reason)
