"""What a CTA takes of its SM, and what was simulated of its code before."""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Literal

import numpy as np

from .code import Code


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What the simulation of an SM made of a launch's code: costs of its steps, kept in place of the code.

    Args:
        steps: names of the steps, in order of the program.
        conditions: float64 (conditions, 3), where they were simulated: latency of an L2 hit, how much later data of
            code without loops come than that (`latency_slack.hbm_extra_latency_cycles`) [cycles], and how much of its
            tiles' width the rows of a row-wise kernel fill.
        values: float64 (conditions, residents, steps, fields), for 1, 2, ... CTAs that share an SM; the fields are
            those of `sm.kept`.
        slowdown_by_age: float64 (conditions, residents, steps, residents), as in `step_cost.StepCost`, 0 beyond its
            CTAs.
    """

    steps: tuple[str, ...]
    conditions: np.ndarray
    values: np.ndarray
    slowdown_by_age: np.ndarray


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """What a CTA takes of its SM, and the code it runs where that is known.

    Args:
        registers_per_thread: 32-bit registers.
        smem_bytes_per_cta: shared memory, static and dynamic [B].
        spilled_bytes_per_thread: local memory [B].
        warps_per_cta: warps of a CTA after specialisation by the compiler; 0: as many as the launch asks for.
        origin: `estimated` (documented rule), `compiled` (from a cubin) or `given` (by the user).
        code: what the compiler made; figures: costs that were simulated from it before (`library`);
            two values that differ in these alone are equal.
    """

    registers_per_thread: int
    smem_bytes_per_cta: int
    spilled_bytes_per_thread: int = 0
    warps_per_cta: int = 0
    origin: Literal["estimated", "compiled", "given"] = "estimated"
    code: Code | None = field(default=None, repr=False, compare=False)
    figures: Figures | None = field(default=None, repr=False, compare=False)

    @property
    def threads(self) -> Sequence[int]:
        """Threads of a CTA along x, y, z; empty: all that its warps have, along x."""
        return self.code.threads if self.code else ()

    def to_dict(self) -> dict[str, int | str]:
        """The resources' object in JSON, without code and figures."""
        return {item.name: getattr(self, item.name) for item in fields(self) if item.compare}
