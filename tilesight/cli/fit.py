"""The configuration that options name: one that a CTA fits with, or a line that says what to try."""

from collections.abc import Callable, Mapping

from ..simulator.device.device import Device
from ..simulator.problems.problem import Problem
from ..simulator.refusal import Refusal
from ..simulator.resolve import Resolved, ResourcesOf, asked_config, resolve
from ..simulator.schedules.config import Config
from ..simulator.schedules.contract import Schedule
from ..simulator.schedules.registry import all_options, find_schedule
from ..simulator.schedules.smaller import changes, smaller
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


def resolved(
    problem: Problem,
    schedule: str,
    chosen: Mapping[str, int | str],
    device: Device,
    given: dict[str, int | None],
    resources_of: ResourcesOf | None,
    cost: str,
) -> Resolved:
    """What the user's options ask for, as `simulator.resolve` makes it fit.

    Args:
        chosen: options that the user gave; given: values of `--registers` and `--smem-bytes`; the rest as there.

    Raises:
        BadInput: the schedule cannot do the problem, or a CTA does not fit; the text says what to try.
    """

    def fit(config: Config, compile_: ResourcesOf | None) -> Resolved | Refusal:
        return resolve(
            problem,
            schedule,
            config,
            device,
            registers=given["registers"],
            smem_bytes=given["smem_bytes"],
            resources_of=compile_,
            cost=cost,
        )

    with bad_input("schedule", "dtype", *all_options()):
        named = find_schedule(schedule)
        named.check_options(**chosen)
        config = Config(**chosen)
        outcome = fit(config, resources_of)
        if isinstance(outcome, Resolved):
            return outcome
        if outcome.kind == "not supported":
            raise outcome.error
    asked = asked_config(problem, named, config, device, cost)

    def fits(smaller_one: Config) -> bool:
        return isinstance(fit(smaller_one, None), Resolved)

    raise _misfit(outcome.reason, named, asked, {**chosen, **_values(given)}, fits)


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
    cause_option, deciding = CAUSES[cause]
    named = [cause_option] if cause_option and cause_option in typed else [name for name in deciding if name in typed]
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
