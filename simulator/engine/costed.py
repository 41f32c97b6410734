"""A launch with all that the engine has to know of it: what its steps take an SM, how many CTAs run, at which clock."""

from collections.abc import Mapping
from dataclasses import dataclass

from ..launch.program import Launch
from ..launch.walk import Tally
from ..residency.residency import Residency
from ..sm.from_code import CompiledCost
from ..sm.step_cost import StepCost
from .clock import Clocks


@dataclass(frozen=True, slots=True, kw_only=True)
class CostedLaunch:
    """A launch and its costs.

    Args:
        costs: step name -> cost.
        tally: exact totals of its program.
        origin, classes: of the costs, as `costs_of` has them.
        flop_per_matmul: useful operations of one matmul of the problem; 0: unknown, and all of its matrix
            operations count as useful [FLOP].
    """

    launch: Launch
    residency: Residency
    costs: Mapping[str, StepCost]
    tally: Tally
    clocks: Clocks
    origin: str = "compiled"
    classes: tuple[CompiledCost, ...] = ()
    flop_per_matmul: int = 0
