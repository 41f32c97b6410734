"""Finds the schedules: every module beside this one, or in a folder here, that ends in `SCHEDULE = Schedule(...)`."""

from functools import cache
from importlib import import_module
from pkgutil import walk_packages

from .. import schedules
from ..arguments import shown
from ..names import unknown
from ..problems.problem import Problem
from .contract import Schedule
from .options import Option

DEFAULT_SCHEDULE = "flash2"
"""Where the user names none."""


@cache
def all_schedules() -> dict[str, Schedule]:
    """All schedules by name, sorted by name."""
    modules = [import_module(info.name) for info in walk_packages(schedules.__path__, f"{schedules.__name__}.")]
    declared = [module.SCHEDULE for module in modules if hasattr(module, "SCHEDULE")]
    return {schedule.name: schedule for schedule in sorted(declared, key=lambda schedule: schedule.name)}


def written_schedules() -> dict[str, Schedule]:
    """Those whose loop nests are written down, by name: they are predicted without a compiler."""
    return {name: schedule for name, schedule in all_schedules().items() if not schedule.outlined}


@cache
def all_options() -> dict[str, Option]:
    """The options of all schedules by name, those of the schedules with the most first."""
    every: dict[str, Option] = {}
    for schedule in sorted(all_schedules().values(), key=lambda schedule: -len(schedule.options)):
        for name, option in schedule.options.items():
            every.setdefault(name, option)
    return every


@cache
def all_problems() -> tuple[type[Problem], ...]:
    """The types of problem that schedules solve, those that most schedules solve first."""
    types = [schedule.problem for schedule in all_schedules().values()]
    return tuple(sorted(dict.fromkeys(types), key=lambda kind: (-types.count(kind), kind.KIND)))


def baseline_of(problem: type[Problem]) -> Schedule | None:
    """The schedule that the others of its problem are held against; None where there is none."""
    every = all_schedules().values()
    return next((schedule for schedule in every if schedule.baseline and schedule.problem is problem), None)


def default_schedule(problem: type[Problem]) -> str:
    """Where the user names none: of problems that `DEFAULT_SCHEDULE` does not solve the first that is no baseline."""
    able = [schedule for schedule in all_schedules().values() if schedule.problem is problem]
    return min(able, key=lambda schedule: (schedule.name != DEFAULT_SCHEDULE, schedule.baseline)).name


def find_schedule(name: str) -> Schedule:
    """The schedule of that name.

    Raises:
        ValueError: there is none; the text names the nearest, or lists those that exist.
    """
    if not isinstance(name, str):
        raise ValueError(f"schedule = {shown(name)}: must be a name, one of {', '.join(all_schedules())}")
    if name not in all_schedules():
        raise ValueError(f"schedule {unknown(name, all_schedules())}")
    return all_schedules()[name]
