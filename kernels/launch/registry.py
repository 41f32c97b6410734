"""Finds the kernel of a launch: each module named like a schedule has `TWINS`, a launch's name -> its function."""

from functools import cache
from importlib import import_module
from importlib.util import find_spec

from ... import kernels
from ...simulator.launch.program import Launch
from ...simulator.schedules.config import Config
from ...simulator.schedules.registry import all_schedules
from .launch import Roundings, TritonKernel, Twin


@cache
def twinned() -> tuple[str, ...]:
    """Names of the schedules that have kernels, sorted."""
    return tuple(name for name in all_schedules() if find_spec(f"{kernels.__name__}.{name}"))


@cache
def _twins() -> dict[str, Twin]:
    """Launch name -> function; launches of one name in several schedules are one kernel."""
    twins: dict[str, Twin] = {}
    for name in twinned():
        for launch_name, function in import_module(f"{kernels.__name__}.{name}").TWINS.items():
            if twins.setdefault(launch_name, function) is not function:
                raise ValueError(f"launch {launch_name!r} has two kernels, one of them in {name}")
    return twins


def roundings_of(schedule: str) -> Roundings:
    """How often the kernels of a schedule round; once, at the end, where their module says nothing."""
    roundings: Roundings = getattr(import_module(f"{kernels.__name__}.{schedule}"), "ROUNDINGS", Roundings())
    return roundings


def recommended() -> dict[tuple[str, int, bool], Config]:
    """(schedule, head dimension, causal) -> a configuration to begin with on Hopper (sm_90), fp16 and bf16.

    `RECOMMENDED` of the modules that have one: the fastest measured at long sequences (docs/kernel-speed.md); short
    causal ones are faster `longest-first`. A test compiles each: no kernel spills, and every product runs on wgmma.
    """
    modules = {name: import_module(f"{kernels.__name__}.{name}") for name in twinned()}
    tables = {name: getattr(module, "RECOMMENDED", {}) for name, module in modules.items()}
    return {(name, *shape): config for name, table in tables.items() for shape, config in table.items()}


def find_twin(launch: Launch) -> TritonKernel:
    """The kernel of a launch, with its arguments. Raises: ValueError: there is none, or it cannot follow the launch."""
    if launch.name not in _twins():
        raise ValueError(f"launch {launch.name!r} has no kernel; those that have one are {', '.join(_twins())}")
    return _twins()[launch.name](launch)
