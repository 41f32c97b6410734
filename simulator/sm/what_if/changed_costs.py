"""Costs of a launch whose code is followed once, and simulated as often as somebody asks what if.

In: a launch with its machine code, and changes. Out: costs of its steps, class by class of its CTAs.
"""

from collections.abc import Callable

from ...device.device import Device
from ...launch.program import Launch
from ...residency.residency import Residency
from ..followed import FollowedCode, follow
from ..from_code import CompiledCost, compiled_costs, single_cta_classes
from .changed_code import CodeChange, unchanged

LaunchChange = Callable[[Launch], Launch]


class CodeOfLaunch:
    """A launch's code, followed through a CTA of each class.

    Raises:
        ValueError: there is no code, or it cannot be followed; one line.
    """

    def __init__(self, launch: Launch, device: Device) -> None:
        capability = device.capability
        self._launch, self._device = launch, device
        self._lone = single_cta_classes(launch)
        self.followed: list[FollowedCode] = [follow(lone, capability, device.sm) for lone in self._lone]

    def costs(
        self, residency: Residency, change: CodeChange = unchanged, altered: LaunchChange = lambda launch: launch
    ) -> list[CompiledCost]:
        """What its steps take. Args: residency: of the altered launch; change: of code; altered: of all else."""
        return [
            compiled_costs(
                altered(lone),
                residency,
                self._device,
                followed=change(seen, self._device.sm),
                whole=altered(self._launch),
            )
            for lone, seen in zip(self._lone, self.followed, strict=True)
        ]
