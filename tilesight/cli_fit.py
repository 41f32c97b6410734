"""The configuration that options name: one that a CTA fits with, or a line that says what to try."""

from collections.abc import Callable, Mapping

from .cli_options import CONFIG_OPTIONS
from .cli_output import BadInput, bad_input
from .simulator.device import Device
from .simulator.explore import ResourcesOf
from .simulator.fit import changes, shrunk_note, smaller
from .simulator.occupancy import DoesNotFit, occupancy
from .simulator.problem import AttentionProblem
from .simulator.program import Resources
from .simulator.registry import find_schedule
from .simulator.schedule import Config, Schedule
from .simulator.simulate import launches_of, with_kept

CAUSES = {
    "shared memory": ("smem_bytes", ("block_m", "block_n", "num_stages")),
    "smem": ("smem_bytes", ("block_m", "block_n", "num_stages")),
    "registers": ("registers", ("block_m", "block_n", "num_warps")),
    "tensor memory": (None, ("block_m", "block_n")),
    "num_warps": (None, ("num_warps",)),
    "warps": (None, ("num_warps",)),
}
"""What a CTA has too much of -> the option that gives it, and those that decide it where the user did not give it."""
TRIES = {"num_warps": "fewer --num-warps", "smem_bytes": "a smaller --smem-bytes", "registers": "fewer --registers"}
"""Option that no smaller block makes up for -> what to try."""

Fitted = tuple[Config, tuple[Resources, ...] | None, tuple[str, ...]]


def fitted(
    problem: AttentionProblem,
    schedule: str,
    split: Mapping[str, int | str],
    chosen: Mapping[str, int | str],
    device: Device,
    given: dict[str, int | None],
    resources_of: ResourcesOf | None,
    cost: str = "tiles",
) -> Fitted:
    """The configuration that the user's options name, the rest of it the default, made smaller until a CTA fits.

    Args:
        split: options that the command chooses; chosen: those that the user gave.
        given: values of `--registers` and `--smem-bytes`; resources_of: compiles launches, None where nothing does.
        cost: as in `simulate`.

    Returns:
        Configuration; resources of each launch, None where `simulate` is to find or estimate them; remarks.

    Raises:
        BadInput: the schedule cannot do the problem, or a CTA does not fit; the text says what to try.
    """
    with bad_input("schedule", "dtype", *CONFIG_OPTIONS):
        named = find_schedule(schedule)
        asked = named.asked(**{**split, **chosen})

    def resources_for(config: Config, compile_: ResourcesOf | None) -> tuple[Resources, ...] | None:
        return _resources(problem, schedule, config, device, given, compile_, cost)

    def fits(config: Config) -> bool:
        try:
            resources_for(config, None)
        except DoesNotFit:
            return False
        return True

    reason = conflict = named.conflict(asked) or ""
    for config in smaller(named, asked, kept=chosen):
        # What is compiled takes seconds: only the first, and what fits by its estimate.
        if reason and resources_of and not fits(config):
            continue
        try:
            found = resources_for(config, resources_of)
        except DoesNotFit as error:
            reason = reason or str(error)
        else:
            return config, found, (shrunk_note(asked, config, reason),) if reason else ()
    if conflict:
        with bad_input(*CONFIG_OPTIONS):
            raise ValueError(conflict)
    raise _misfit(reason, named, asked, {**chosen, **_values(given)}, fits)


def _resources(
    problem: AttentionProblem,
    schedule: str,
    config: Config,
    device: Device,
    given: dict[str, int | None],
    resources_of: ResourcesOf | None,
    cost: str,
) -> tuple[Resources, ...] | None:
    """What each launch takes of an SM, as `fitted` returns it.

    Raises:
        DoesNotFit: a CTA does not fit. BadInput: the schedule or the device cannot do the problem.
    """
    with bad_input("schedule", "dtype", *CONFIG_OPTIONS):
        launches = launches_of(problem, schedule, config, device, given["registers"], given["smem_bytes"])
    if resources_of:
        (compiled,) = resources_of([launches])
        if isinstance(compiled, str):
            raise DoesNotFit(compiled)
        if compiled:
            return compiled
    if cost == "compiled":
        launches, _ = with_kept(launches, device)
    for launch in launches:
        occupancy(launch.resources, launch.warps_per_cta, device)
    return None if cost == "compiled" else tuple(launch.resources for launch in launches)


def _values(given: Mapping[str, int | None]) -> dict[str, int]:
    return {name: value for name, value in given.items() if value is not None}


def _misfit(
    reason: str, schedule: Schedule, asked: Config, typed: Mapping[str, int | str], fits: Callable[[Config], bool]
) -> BadInput:
    """The answer where nothing fits that has the options that the user typed.

    Args:
        reason: opens with what a CTA has too much of, or is what the compiler says; typed: option -> value.
    """
    cause = reason.split(":")[0]
    if cause not in CAUSES:
        return BadInput(f"schedule {schedule.name}: cannot be compiled: {reason}")
    own, deciding = CAUSES[cause]
    named = [own] if own and own in typed else [name for name in deciding if name in typed]
    said = " ".join(f"--{name.replace('_', '-')} {typed[name]}" for name in named)
    advice = _advice(named, schedule, asked, fits)
    return BadInput(f"{said or f'schedule {schedule.name}'}: does not fit: {reason}; try {advice}")


def _advice(named: list[str], schedule: Schedule, asked: Config, fits: Callable[[Config], bool]) -> str:
    fewer = [TRIES[name] for name in named if name in TRIES]
    if fewer:
        return fewer[0]
    near = next((config for config in smaller(schedule, asked) if fits(config)), None)
    if near is None:
        return "a smaller --head-dim, a shorter --dtype, or another --schedule or --device"
    return " ".join(f"--{name.replace('_', '-')} {new}" for name, (_, new) in changes(asked, near).items())
