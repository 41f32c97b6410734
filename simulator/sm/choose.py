"""Where the cost of a launch's steps comes from: its machine code, or figures kept of it, or its tile program."""

from dataclasses import dataclass
from functools import cache

import numpy as np

from ..device.device import Device, catalogue, load_device
from ..device.sm_numbers import CODE, L1, architecture_of, load_sm
from ..device.what_if import SET
from ..launch.program import Launch
from ..launch.walk import steps
from ..residency.residency import Residency
from .from_code import CompiledCost, class_costs
from .kept import kept_costs
from .step_cost import StepCost, step_cost
from .tensor_rate import LIKE, alike

MATMUL_RATES = tuple(
    f"{name}_flop_per_cycle" for name in ("mma_fp16", "mma_tf32", "mma_fp8", "wgmma_fp16", "wgmma_tf32", "wgmma_fp8")
)
"""Numbers of a device that costs kept for its compute capability have of their own; code is run at the device's."""
SM_RATES = ("fma_per_cycle", "alu_per_cycle", "mufu_per_cycle", "issue_per_cycle", "smem_bytes_per_cycle")
"""Those that the simulation of machine code has of its own, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchCosts:
    """What the steps of a launch take an SM.

    Args:
        steps: step name -> cost; origin: `compiled`, `tiles`, or `tiles: reason` where the code was of no use;
        classes: what came of the code of each class of its CTAs; empty where they come from elsewhere.
    """

    steps: dict[str, StepCost]
    origin: str
    classes: tuple[CompiledCost, ...] = ()


def costs_of(launch: Launch, residency: Residency, device: Device, kind: str) -> LaunchCosts:
    """Cost of each step, and where it comes from.

    Args:
        residency: of the launch on the device.
        kind: one of `arguments.SETTINGS["cost"]`; code that is not at hand is no reason.
    """
    origin = "tiles"
    resources = launch.resources
    if kind == "compiled" and (resources.code is not None or resources.figures is not None):
        try:
            if changed := changed_rates(device, kept=resources.code is None):
                raise ValueError(f"its machine code was simulated on an SM with {changed}")
            if resources.code is not None:
                classes = tuple(class_costs(launch, residency, device))
                steps_of = {name: cost for of_class in classes for name, cost in of_class.steps.items()}
                return LaunchCosts(steps=steps_of, origin="compiled", classes=classes)
            if other := changed_sm(device):
                raise ValueError(
                    f"the library's cycles are those of an SM of compute capability {device.compute_capability};"
                    f" here {other}"
                )
            return LaunchCosts(steps=kept_costs(launch, residency, device), origin="compiled")
        except ValueError as error:
            origin = f"tiles: {error}"
    estimated = {step.name: step_cost(step, launch, device) for step, _ in steps(launch.program.body)}
    return LaunchCosts(steps=estimated, origin=origin)


@cache
def changed_rates(device: Device, kept: bool) -> str:
    """Rates of the catalogue's SMs of a device's compute capability that are not its own; empty where all are alike.

    A what-if that machine code does not ask about is answered from tiles.

    Args:
        kept: whether costs were found before, for one device of the architecture; else code is at hand, whose matmuls
            are as fast as the device's, if it has them at all.
    """
    names = (*(name for name in MATMUL_RATES if kept or not getattr(device, name)), *SM_RATES)
    relatives = [load_device(name) for name in catalogue()]
    differences = [
        ", ".join(
            f"{name} = {getattr(relative, name):g}, not {getattr(device, name):g}"
            for name in names
            if not alike(getattr(relative, name), getattr(device, name))
        )
        for relative in relatives
        if relative.compute_capability == device.compute_capability
    ]
    return min(differences, key=len, default="")


def changed_sm(device: Device) -> str:
    """Numbers of a device's SM that kept costs follow from and that are not its architecture's; empty where all are.

    Numbers measured on another card of the architecture may differ a little; those that a user sets may not.
    """
    usual = load_sm(architecture_of(device.compute_capability))
    return ", ".join(
        f"{key} = {getattr(device.sm, key)}"
        for key in device.sm.changed(usual, CODE, L1)
        if device.sm.provenance[key] == SET or not np.allclose(getattr(device.sm, key), getattr(usual, key), rtol=LIKE)
    )
