"""Where the warps of a launch spend their time: at which instruction, and why.

In: costs of each class of its CTAs, and how often these issue each instruction. Out: cycles of all warps.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...launch.program import Launch
from ..from_code import CompiledCost
from ..stall_reasons import STALLS


@dataclass(frozen=True, slots=True, kw_only=True)
class WarpTime:
    """Time of all warps of a launch.

    Args:
        total_cycles: of them together, issues included;
        waits: float64 (instructions, reasons), before each instruction, by the numbers of `STALLS` [cycles];
        awaited: float64 (instructions,), for the result of each [cycles].
    """

    total_cycles: float
    waits: np.ndarray
    awaited: np.ndarray

    def by_place(self, reason: str) -> np.ndarray:
        """Share of the time that warps wait before each instruction. Args: reason: name of one of `STALLS`."""
        (number,) = [stall.number for stall in STALLS if stall.name == reason]
        shares: np.ndarray = self.waits[:, number] / self.total_cycles
        return shares

    @property
    def awaited_shares(self) -> np.ndarray:
        """Share of the time that warps wait for the result of each instruction."""
        shares: np.ndarray = self.awaited / self.total_cycles
        return shares


def warp_time(launch: Launch, costs: Sequence[CompiledCost]) -> WarpTime:
    """Time of the warps of a traced launch. Args: costs: of each class of its CTAs."""
    places, reasons = costs[0].stalls.shape
    waits, awaited, issued = np.zeros((places, reasons)), np.zeros(places), 0.0
    for code, cost in zip(launch.traced, costs, strict=True):
        seen = np.maximum(cost.issues, 1)
        often = np.where(cost.issues > 0, code.issued, 0.0) / seen
        waits += cost.stalls * often[:, None]
        awaited += cost.awaited * often
        issued += float(code.issued.sum())
    return WarpTime(total_cycles=max(1.0, issued + float(waits.sum())), waits=waits, awaited=awaited)
