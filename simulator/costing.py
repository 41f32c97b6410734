"""Where the cost of a launch's steps comes from: its machine code, or figures kept of it, or its tile program."""

from collections.abc import Iterable

from .compiled_cost import compiled_costs
from .cost import StepCost, step_cost
from .device import Device
from .kept_cost import kept_costs
from .program import Launch
from .walk import steps

COSTS = ("compiled", "tiles")
"""`compiled`: simulated from machine code; `tiles`: estimated from the tile program."""


def costs_of(launch: Launch, device: Device, element_bytes: int, kind: str) -> tuple[dict[str, StepCost], str]:
    """Cost of each step, and where it comes from: `compiled`, `tiles`, or `tiles: reason` where the code was of no use.

    Args:
        element_bytes: of the matmul operands [B]; kind: one of `COSTS`; code that is not at hand is no reason.
    """
    origin = "tiles"
    resources = launch.resources
    if kind == "compiled" and (resources.code is not None or resources.figures is not None):
        try:
            if resources.code is not None:
                return compiled_costs(launch, device, element_bytes).steps, "compiled"
            return kept_costs(launch, device, element_bytes), "compiled"
        except ValueError as error:
            origin = f"tiles: {error}"
    return {step.name: step_cost(step, launch, device, element_bytes) for step, _ in steps(launch.program.body)}, origin


def cost_notes(origins: Iterable[str]) -> tuple[str, ...]:
    """A line for every reason why code was of no use. Args: origins: of launches, as `costs_of` tells them."""
    reasons = dict.fromkeys(origin.removeprefix("tiles: ") for origin in origins if origin.startswith("tiles: "))
    return tuple(f"cycles estimated from the tile program, not from compiled code: {reason}" for reason in reasons)
