"""Compiles a launch alone."""

from tilesight.kernels.compile.compile import compile_many
from tilesight.kernels.compile.outcomes import Outcome
from tilesight.simulator.device.device import Device
from tilesight.simulator.launch.program import Launch


def compile_launch(launch: Launch, device: Device, *, code: bool = False) -> Outcome:
    """What the compiler makes of it."""
    (outcome,) = compile_many([launch], device, workers=1, code=code)
    return outcome
