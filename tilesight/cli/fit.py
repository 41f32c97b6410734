"""The configuration that options name: one that a CTA fits with, or a line that says what to try."""

from collections.abc import Callable, Mapping

from ..simulator.device.device import Device
from ..simulator.refusal import Refusal
from ..simulator.resolve import Resolved, ResourcesOf, Sources, asked_config, resolve
from ..simulator.schedules.config import Config
from ..simulator.schedules.contract import Schedule
from ..simulator.schedules.registry import all_options
from ..simulator.schedules.smaller import changes, smaller
from .compiled import CostOptions
from .configs import Posed
from .groups import typed_as
from .output import BadInput, bad_input

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


def resolved(posed: Posed, device: Device, costs: CostOptions, resources_of: ResourcesOf | None) -> Resolved:
    """What the user's options ask for, as `simulator.resolve` makes it fit.

    Args:
        posed: a problem and one schedule.
        device: to run it.
        costs: resources that the user gave.
        resources_of: as `simulator.resolve` takes it.

    Raises:
        BadInput: the schedule cannot do the problem, or a CTA does not fit; the text says what to try.
    """
    (schedule,) = posed.schedules

    def fit(config: Config, compile_: ResourcesOf | None) -> Resolved | Refusal:
        sources = Sources(**costs.given, resources_of=compile_, cost=costs.kind)
        return resolve(posed.problem, schedule.name, config, device, sources)

    with bad_input("schedule", "dtype", *all_options()):
        schedule.check_options(**posed.options)
        config = Config(**posed.options)
        outcome = fit(config, resources_of)
        if isinstance(outcome, Resolved):
            return outcome
        if outcome.kind == "not supported":
            raise outcome.error
    asked = asked_config(posed.problem, schedule, config, device, costs.kind)

    def fits(smaller_one: Config) -> bool:
        return isinstance(fit(smaller_one, None), Resolved)

    typed = posed.options | {name: value for name, value in costs.given.items() if value is not None}
    raise _misfit(outcome.reason, schedule, asked, typed, fits)


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
    cause_option, deciding = CAUSES[cause]
    named = [cause_option] if cause_option and cause_option in typed else [name for name in deciding if name in typed]
    said = " ".join(f"{typed_as(name)} {typed[name]}" for name in named)
    advice = _advice(named, schedule, asked, fits)
    return BadInput(f"{said or f'schedule {schedule.name}'}: does not fit: {reason}; try {advice}")


def _advice(named: list[str], schedule: Schedule, asked: Config, fits: Callable[[Config], bool]) -> str:
    fewer = [TRIES[name] for name in named if name in TRIES]
    if fewer:
        return fewer[0]
    near = next((config for config in smaller(schedule, asked) if fits(config)), None)
    if near is None:
        return "a smaller --head-dim, a shorter --dtype, or another --schedule or --device"
    return " ".join(f"{typed_as(name)} {new}" for name, (_, new) in changes(asked, near).items())
