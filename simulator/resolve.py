"""From what a user names to what runs: launches with their resources, and a configuration that fits an SM.

Options that are not named are the schedule's default, made smaller until a CTA fits; `schedules.smaller` says which
come first. What cannot run is a `Refusal`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from .arguments import check_settings, function_or_none, shown
from .device.device import Device
from .launch.outline import is_outline
from .launch.program import Launch, Resources
from .launch.walk import steps
from .library.lookup import resources_of_all
from .problems.problem import Problem
from .refusal import Refusal, granted
from .residency.occupancy import occupancy
from .residency.registers_and_smem import tensor_instruction
from .schedules.config import Config
from .schedules.contract import Schedule
from .schedules.registry import find_schedule
from .schedules.smaller import shrunk_note, smaller

Launches = tuple[Launch, ...]
ResourcesOf = Callable[[Sequence[Launches]], Sequence[tuple[Resources, ...] | Refusal | None]]
"""Launches of each configuration -> resources of each of its launches; why they cannot run; or None, which leaves it
to the library of compiled kernels and to estimates."""

NEEDS_CODE = (
    "what it does is found in its machine code, and nowhere else: have it compiled, by torch and triton (no GPU is"
    " needed; `tilesight doctor` says what is missing), without --cost tiles, --registers and --smem-bytes; in Python,"
    " by resources_of=tilesight.compiler(problem, device)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """Where resources of CTAs and costs of steps come from. Args: as of `simulate.simulate`."""

    registers: int | None = None
    smem_bytes: int | None = None
    resources: Sequence[Resources] | None = None
    resources_of: ResourcesOf | None = None
    cost: str = "compiled"

    def __post_init__(self) -> None:
        check_settings(cost=self.cost)
        what = "the launches of configurations, such as tilesight.compiler()"
        function_or_none("resources_of", self.resources_of, what)

    @property
    def cycles(self) -> str:
        """Where cycles can come from: `tiles` as soon as an estimate is replaced."""
        return self.cost if self.registers is None and self.smem_bytes is None else "tiles"


USUAL_SOURCES = Sources()


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """What runs, all choices made.

    Args:
        problem: as the schedule poses it; config: every option of the schedule.
        launches: with the resources that each takes of an SM.
        cost: where cycles are to come from, as asked for in `simulate`.
        shrunk: remark where the default was made smaller, uncompiled: why there is no machine code where the library
            lacks it; in one line, empty else.
    """

    problem: Problem
    schedule: Schedule
    config: Config
    launches: Launches
    cost: str = "compiled"
    shrunk: str = ""
    uncompiled: str = ""


def attempt_launches(problem: Problem, schedule: str, config: Config | None, device: Device) -> Launches | Refusal:
    """The launches of a schedule, with estimated resources; or why it, or the device, cannot do the problem.

    Raises:
        ValueError: unknown schedule, or an option that it does not take, with a value that is not allowed, or that does
            not go with the others.
    """
    chosen = find_schedule(schedule)
    reason = chosen.why_not(problem)
    if reason is not None:
        return Refusal("not supported", f"schedule {schedule}: {reason}")
    whole = chosen.checked(chosen.completed((config or Config()).named(), problem, device))
    try:
        launches = chosen.launches(problem, whole, device)
    except ValueError as error:
        return Refusal("not supported", str(error))
    for launch in launches:
        for step, _ in steps(launch.program.body):
            for matmul in step.work.matmuls:
                instruction = tensor_instruction(device, matmul.m, launch.num_warps)
                if device.tensor_flop_per_cycle(instruction, launch.dtype) == 0:
                    return Refusal(
                        "not supported", f"dtype = {launch.dtype!r}: {device.name} has no {instruction} for it"
                    )
    return launches


def launches_of(problem: Problem, schedule: str, config: Config | None, device: Device) -> Launches:
    """As `attempt_launches`. Raises: ValueError: as that, or a problem that the schedule or the device cannot do."""
    return granted(attempt_launches(problem, schedule, config, device))


def _with(launches: Launches, resources: Sequence[Resources] | None) -> Launches:
    """The launches with resources of each."""
    if resources is None:
        return launches
    if len(resources) != len(launches):
        names = ", ".join(launch.name for launch in launches)
        raise ValueError(f"resources: has {len(resources)}: must have {len(launches)}, one for each launch ({names})")
    return tuple(replace(launch, resources=taken) for launch, taken in zip(launches, resources, strict=True))


def _given(launches: Launches, registers: int | None, smem_bytes: int | None) -> Launches:
    """The launches with registers and shared memory that the user gives, where that is so."""
    if registers is None and smem_bytes is None:
        return launches

    def given(taken: Resources) -> Resources:
        return replace(
            taken,
            registers_per_thread=taken.registers_per_thread if registers is None else registers,
            smem_bytes_per_cta=taken.smem_bytes_per_cta if smem_bytes is None else smem_bytes,
            origin="given",
        )

    return tuple(replace(launch, resources=given(launch.resources)) for launch in launches)


def _with_kept(launches: Launches, device: Device) -> tuple[Launches, str] | Refusal:
    """Launches with resources and costs from the library; or as they are, and why, in one line, if it lacks one."""
    kept = resources_of_all(launches, device)
    if isinstance(kept, Refusal):
        return kept
    if kept is None:
        names = ", ".join(dict.fromkeys(launch.name for launch in launches))
        return launches, f"the library of compiled kernels does not hold {names} of this shape for {device.name}"
    return _with(launches, kept), ""


def resolve(
    problem: Problem,
    schedule: str,
    named: Config,
    device: Device,
    sources: Sources = USUAL_SOURCES,
    built: Launches | Refusal | None = None,
) -> Resolved | Refusal:
    """What runs: the configuration that a user names, the rest of it the default, made smaller until a CTA fits.

    Args:
        named: what the user names keeps its value; the rest as in `simulate`.
        sources: where they have `resources`, the configuration is made no smaller.
        built: what `attempt_launches` said of `named`, where the caller has asked and it names every option.

    Returns:
        What runs; or why nothing does: the schedule or the device cannot do the problem, or nothing smaller fits either
        (the text says what a CTA needs too much of).

    Raises:
        ValueError: an option is nothing for the schedule, or options do not go together.
    """
    chosen = find_schedule(schedule)
    if reason := chosen.why_not(problem):
        return Refusal("not supported", f"schedule {schedule}: {reason}")
    posed = chosen.problem.of(problem)
    asked = asked_config(posed, chosen, named, device, sources.cycles)
    estimated = replace(sources, resources_of=None)
    reason = conflict = chosen.conflict(asked) or ""
    for config in smaller(chosen, asked, kept=named.named()) if sources.resources is None else (asked,):
        launches = attempt_launches(posed, schedule, config, device) if built is None else built
        if isinstance(launches, Refusal):
            return launches
        # What is compiled takes seconds: only the first, and what fits by its estimate.
        launches = _with(launches, sources.resources)
        if reason and sources.resources_of and isinstance(_fitting(launches, device, estimated), Refusal):
            continue
        made = _fitting(launches, device, sources)
        if isinstance(made, Refusal):
            reason = reason or made.reason
            continue
        return Resolved(
            problem=posed,
            schedule=chosen,
            config=config,
            launches=made[0],
            cost=sources.cost,
            shrunk=shrunk_note(asked, config, reason) if reason else "",
            uncompiled=made[1],
        )
    if conflict:
        raise ValueError(conflict)
    return Refusal("does not fit", reason)


def _fitting(launches: Launches, device: Device, sources: Sources) -> tuple[Launches, str] | Refusal:
    """Launches, as `_sourced` has them, that take what the user gives; or why one does not fit an SM."""
    made = _sourced(launches, device, sources)
    if isinstance(made, Refusal):
        return made
    final = _given(made[0], sources.registers, sources.smem_bytes)
    return _misfit(final, device) or (final, made[1])


def answers_of(
    resources_of: ResourcesOf, pipelines: Sequence[Launches]
) -> Sequence[tuple[Resources, ...] | Refusal | None]:
    """What a function of the user's says of pipelines. Raises: ValueError: not one answer for each."""
    answers = resources_of(pipelines)
    if not isinstance(answers, Sequence) or len(answers) != len(pipelines):
        must = f"must return a list of {len(pipelines)}, for each pipeline Resources of its launches, or None"
        raise ValueError(f"resources_of: returned {shown(answers)}: {must}")
    return answers


def _sourced(launches: Launches, device: Device, sources: Sources) -> tuple[Launches, str] | Refusal:
    """Launches with what each takes of an SM, and why there is no machine code; or why the compiler refuses one."""
    answer = answers_of(sources.resources_of, [launches])[0] if sources.resources_of else None
    if isinstance(answer, Refusal):
        return answer
    if answer:
        return _with(launches, answer), ""
    for launch in launches:
        if is_outline(launch) and launch.resources.code is None:
            return Refusal("not supported", f"kernel {launch.name}: {NEEDS_CODE}")
    looks_up = sources.cycles == "compiled" and sources.resources is None
    return _with_kept(launches, device) if looks_up else (launches, "")


def _misfit(launches: Launches, device: Device) -> Refusal | None:
    """Why an SM cannot hold a CTA of one of the launches; None where it can."""
    fits = (occupancy(launch.resources, launch.warps_per_cta, device) for launch in launches)
    return next((fit for fit in fits if isinstance(fit, Refusal)), None)


def asked_config(problem: Problem, schedule: Schedule, named: Config, device: Device, cost: str) -> Config:
    """What a user names, the rest of it the default: that of Triton's kernels where cycles come from their code.

    Args:
        problem: that the schedule can solve; cost: as in `simulate`; `tiles` where registers or smem_bytes are given.

    Raises:
        ValueError: an option that the schedule does not take, or a value that is not allowed.
    """
    in_triton = schedule.in_triton if cost == "compiled" else {}
    return schedule.completed(in_triton | named.named(), problem, device)


def default_config(problem: Problem, schedule: str, device: Device, cost: str) -> Config:
    """A schedule's default configuration, made smaller until a CTA fits.

    Where nothing smaller fits either, it is the default, and simulating it says why.
    """
    resolved = resolve(problem, schedule, Config(), device, Sources(cost=cost))
    if isinstance(resolved, Refusal):
        return asked_config(problem, find_schedule(schedule), Config(), device, cost)
    return resolved.config
