"""What to look at: the schedules that the user names, and the configurations that remain once options are pinned."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar

from ..arguments import several
from ..problems.problem import Problem
from ..resolve import NEEDS_CODE
from ..schedules.config import Config
from ..schedules.contract import Schedule
from ..schedules.registry import all_problems, all_schedules, find_schedule

Value = int | str
Options = Mapping[str, Value | Sequence[Value]]
Given = TypeVar("Given")


def schedules_named(names: str | Sequence[str], problem: type[Problem] | None = None) -> list[Schedule]:
    """The schedules of that name or names; `all` is all that solve a type of problem.

    Args:
        problem: the type; that which most schedules solve where None.

    Raises:
        ValueError: there is none of that name, or `all` has it already.
    """
    listed = [names] if isinstance(names, str) else [str(name) for name in several("schedule", names, "names, or one")]
    if not listed:
        raise ValueError(f"schedule = {names!r}: must name at least one of {', '.join(all_schedules())}")
    if "all" in listed:
        usual = problem or all_problems()[0]
        for name in listed:
            if name != "all" and find_schedule(name).problem is usual:
                raise ValueError(f"schedule {name!r}: is among `all` already; give one of the two")
        return [item for item in all_schedules().values() if item.problem is usual or item.name in listed]
    return [find_schedule(name) for name in dict.fromkeys(listed)]


def unlike(chosen: Sequence[Schedule]) -> str:
    """Which schedules solve what, in one line, where they do not all solve the same problem; else empty."""
    names: dict[str, list[str]] = {}
    for item in chosen:
        names.setdefault(item.problem.KIND, []).append(item.name)
    if len(names) == 1:
        return ""
    parts = (f"{', '.join(some)} compute{'s' if len(some) == 1 else ''} {kind}" for kind, some in names.items())
    return f"not the same work: {'; '.join(parts)}"


def those_able(
    chosen: Sequence[Schedule], problem: Problem, compiles: bool = True
) -> tuple[list[Schedule], dict[str, str]]:
    """The schedules that can compute a problem; and name -> why not, for the others.

    Args:
        compiles: whether kernels are compiled: without that, outlines tell nothing.
    """
    left_out = {item.name: reason for item in chosen if (reason := item.why_not(problem)) is not None}
    if not compiles:
        left_out |= {item.name: NEEDS_CODE for item in chosen if item.outlined and item.name not in left_out}
    return [item for item in chosen if item.name not in left_out], left_out


def none_able(left_out: Mapping[str, str]) -> str:
    """Why none of the schedules can compute a problem, in one line. Args: left_out: by `those_able`."""
    names: dict[str, list[str]] = {}
    for name, reason in left_out.items():
        names.setdefault(reason, []).append(name)
    return "; ".join(
        f"schedule{'s' if len(some) > 1 else ''} {', '.join(some)}: {reason}" for reason, some in names.items()
    )


def options_taken(schedule: Schedule, chosen: Sequence[Schedule], fixed: Mapping[str, Given]) -> dict[str, Given]:
    """Those of the fixed options that a schedule takes, where several were chosen and one of them must.

    Raises:
        ValueError: an option that none of the chosen schedules takes.
    """
    for name in fixed:
        if not any(name in item.options for item in chosen):
            if len(chosen) == 1:
                schedule.check_options(**{name: 0})
            known = sorted({option for item in chosen for option in item.options})
            raise ValueError(f"{name}: none of these schedules takes it; they take {', '.join(known)}")
    return {name: values for name, values in fixed.items() if name in schedule.options}


def options_of(some: Sequence[Schedule], chosen: Sequence[Schedule], fixed: Mapping[str, Given]) -> dict[str, Given]:
    """Those of the fixed options that any of some schedules takes. Raises: ValueError: none of the chosen takes one."""
    return {name: value for item in some for name, value in options_taken(item, chosen, fixed).items()}


def configs_of(
    schedule: Schedule, chosen: Sequence[Schedule], fixed: Options, cost: str = "compiled"
) -> Iterator[Config]:
    """A schedule's configurations in a stable order; a fixed option keeps its value, or values.

    Args:
        cost: where cycles come from: those of `compiled` code are of what Triton's compiler can do.

    Raises:
        ValueError: an option that none of the chosen schedules takes, or a value that is not allowed.
    """
    in_triton = schedule.in_triton if cost == "compiled" else {}
    yield from schedule.configs(**{**in_triton, **options_taken(schedule, chosen, fixed)})
