"""From what a user names to what runs: launches with their resources, and a configuration that fits an SM.

Options that nobody names are the schedule's default, made smaller until a CTA fits; `schedules.smaller` says which come
first.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from .device.device import Device
from .launch.program import Launch, Resources
from .launch.walk import steps
from .library.lookup import resources_of_all
from .problems.problem import Problem
from .residency.occupancy import DoesNotFit, occupancy
from .residency.registers_and_smem import tensor_instruction
from .schedules.config import Config
from .schedules.contract import Schedule
from .schedules.registry import find_schedule
from .schedules.smaller import shrunk_note, smaller

ResourcesOf = Callable[[Sequence[tuple[Launch, ...]]], Sequence[tuple[Resources, ...] | str | None]]
"""Launches of each configuration -> resources of each of its launches; why they cannot run, in one line; or None, which
leaves it to the library of compiled kernels and to estimates."""
Fitted = tuple[Config, tuple[Resources, ...] | None, str]


def launches_of(
    problem: Problem,
    schedule: str,
    config: Config | None,
    device: Device,
    registers: int | None = None,
    smem_bytes: int | None = None,
    resources: Sequence[Resources] | None = None,
) -> tuple[Launch, ...]:
    """The launches of a schedule, their estimated resources replaced by those of each launch, and these by those given.

    Raises:
        ValueError: unknown schedule, or a problem that it or the device cannot do.
    """
    chosen = find_schedule(schedule)
    reason = chosen.why_not(problem)
    if reason is not None:
        raise ValueError(f"schedule {schedule}: {reason}")
    launches = chosen.launches(problem, chosen.checked(config or Config()), device)
    for launch in launches:
        for step, _ in steps(launch.program.body):
            for matmul in step.work.matmuls:
                instruction = tensor_instruction(device, matmul.m, launch.num_warps)
                if device.tensor_flop_per_cycle(instruction, launch.dtype) == 0:
                    raise ValueError(f"dtype = {launch.dtype!r}: {device.name} has no {instruction} for it")
    if resources is not None:
        launches = tuple(replace(launch, resources=own) for launch, own in zip(launches, resources, strict=True))
    if registers is None and smem_bytes is None:
        return launches

    def given(own: Resources) -> Resources:
        return replace(
            own,
            registers_per_thread=own.registers_per_thread if registers is None else registers,
            smem_bytes_per_cta=own.smem_bytes_per_cta if smem_bytes is None else smem_bytes,
            origin="given",
        )

    return tuple(replace(launch, resources=given(launch.resources)) for launch in launches)


def with_kept(launches: tuple[Launch, ...], device: Device) -> tuple[tuple[Launch, ...], str]:
    """Launches with resources and costs from the library; or as they are, and why, in one line, if it lacks one.

    Raises:
        DoesNotFit: the compiler refuses one of them.
    """
    kept = resources_of_all(launches, device)
    if isinstance(kept, str):
        raise DoesNotFit(kept)
    if kept is None:
        names = ", ".join(dict.fromkeys(launch.name for launch in launches))
        return launches, f"the library of compiled kernels does not hold {names} of this shape for {device.name}"
    return tuple(replace(launch, resources=own) for launch, own in zip(launches, kept, strict=True)), ""


def fitted(
    problem: Problem,
    schedule: str,
    named: Config,
    device: Device,
    *,
    registers: int | None = None,
    smem_bytes: int | None = None,
    resources_of: ResourcesOf | None = None,
    cost: str = "compiled",
) -> Fitted:
    """The configuration that a user names, the rest of it the default, made smaller until a CTA fits.

    Args:
        named: what the user names keeps its value; registers, smem_bytes, resources_of: as in `simulate`.
        cost: as in `simulate`; `tiles` where registers or smem_bytes are given.

    Returns:
        Configuration; resources of each launch, None where the library has them; a remark where it was made smaller.

    Raises:
        ValueError: an option or the problem is nothing for the schedule or the device, or options do not go together.
        DoesNotFit: nothing smaller fits either; the text says what a CTA needs too much of.
    """
    chosen = find_schedule(schedule)
    asked = asked_config(chosen, named, cost)

    def resources_for(config: Config, compile_: ResourcesOf | None) -> tuple[Resources, ...] | None:
        launches = launches_of(problem, schedule, config, device, registers, smem_bytes)
        return _resources(launches, device, compile_, cost)

    reason = conflict = chosen.conflict(asked) or ""
    for config in smaller(chosen, asked, kept=named.named()):
        try:
            # What is compiled takes seconds: only the first, and what fits by its estimate.
            if reason and resources_of:
                resources_for(config, None)
            found = resources_for(config, resources_of)
        except DoesNotFit as error:
            reason = reason or str(error)
        else:
            return config, found, shrunk_note(asked, config, reason) if reason else ""
    raise ValueError(conflict) if conflict else DoesNotFit(reason)


def asked_config(schedule: Schedule, named: Config, cost: str) -> Config:
    """What a user names, the rest of it the default: that of Triton's kernels where cycles come from their code.

    Args:
        cost: as in `fitted`.

    Raises:
        ValueError: an option that the schedule does not take, or a value that is not allowed.
    """
    return schedule.asked(**(schedule.in_triton if cost == "compiled" else {}) | named.named())


def _resources(
    launches: tuple[Launch, ...], device: Device, resources_of: ResourcesOf | None, cost: str
) -> tuple[Resources, ...] | None:
    """What each launch takes of an SM, as `fitted` returns it. Raises: DoesNotFit: a CTA does not fit."""
    if resources_of:
        (found,) = resources_of([launches])
        if isinstance(found, str):
            raise DoesNotFit(found)
        if found:
            return found
    if cost == "compiled":
        launches, _ = with_kept(launches, device)
    for launch in launches:
        occupancy(launch.resources, launch.warps_per_cta, device)
    return None if cost == "compiled" else tuple(launch.resources for launch in launches)


def default_config(problem: Problem, schedule: str, device: Device, cost: str) -> Config:
    """A schedule's default configuration, made smaller until a CTA fits.

    Where nothing smaller fits either, it is the default, and simulating it says why.
    """
    try:
        return fitted(problem, schedule, Config(), device, cost=cost)[0]
    except ValueError:
        return asked_config(find_schedule(schedule), Config(), cost)
