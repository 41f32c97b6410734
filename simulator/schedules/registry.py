"""Finds the schedules: every module beside this one that ends in `SCHEDULE = Schedule(...)`."""

from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from .. import schedules
from ..names import unknown
from .contract import Schedule


@cache
def all_schedules() -> dict[str, Schedule]:
    """All schedules by name, sorted by name."""
    modules = [import_module(f"{schedules.__name__}.{info.name}") for info in iter_modules(schedules.__path__)]
    found = [module.SCHEDULE for module in modules if hasattr(module, "SCHEDULE")]
    return {schedule.name: schedule for schedule in sorted(found, key=lambda schedule: schedule.name)}


def find_schedule(name: str) -> Schedule:
    """The schedule of that name.

    Raises:
        ValueError: there is none; the text names the nearest, or lists those that exist.
    """
    if name not in all_schedules():
        raise ValueError(f"schedule {unknown(name, all_schedules())}")
    return all_schedules()[name]
