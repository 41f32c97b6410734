"""Finds the schedules: every module in `schedules/` that ends in `SCHEDULE = Schedule(...)`."""

from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from . import schedules
from .names import unknown
from .schedule import Schedule


@cache
def all_schedules() -> dict[str, Schedule]:
    """All schedules by name, sorted by name."""
    modules = [import_module(f"{schedules.__name__}.{info.name}") for info in iter_modules(schedules.__path__)]
    return {module.SCHEDULE.name: module.SCHEDULE for module in sorted(modules, key=lambda module: module.__name__)}


def find_schedule(name: str) -> Schedule:
    """The schedule of that name.

    Raises:
        ValueError: there is none; the text names the nearest, or lists those that exist.
    """
    if name not in all_schedules():
        raise ValueError(f"schedule {unknown(name, all_schedules())}")
    return all_schedules()[name]
