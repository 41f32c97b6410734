"""Launches of outlines with the programs that their machine code tells of; torch and triton, but no GPU."""

from typing import Any

from tilesight.simulator.device.device import load_device
from tilesight.simulator.launch.outline import is_outline
from tilesight.simulator.launch.program import Launch
from tilesight.simulator.outlines import follow
from tilesight.simulator.problems.problem import Problem
from tilesight.simulator.resolve import Resolved, Sources, resolve
from tilesight.simulator.schedules.config import Config

import tilesight


def followed(problem: Problem, schedule: str, device: str = "h200", **options: Any) -> tuple[Launch, ...]:
    """The launches of a schedule, compiled and followed. Args: options: of its configuration."""
    compile_, gpu = tilesight.compiler(problem, device, workers=1), load_device(device)
    resolved = resolve(problem, schedule, Config(**options), gpu, Sources(resources_of=compile_))
    assert isinstance(resolved, Resolved), resolved
    assert all(map(is_outline, resolved.launches))
    return follow(resolved.launches, gpu).launches
