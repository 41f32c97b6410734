"""A launch that is simulated again, on other caches or at other costs: stepped through until it goes on as before.

The first simulation leaves *marks*: its counters and cycles at every so many steps. The second is held against them,
once nothing that others left in L2 is there. At the same costs it is the same launch from there on, later by what the
others' data have cost: when it has been as late for a while, so it will be at the end. At other costs the rest takes as
many times as long as the steps before have taken, once both halves of these say alike how many times.
"""

from dataclasses import dataclass

import numpy as np

from ..core.engine.links import COUNTERS, HBM_READ, HBM_WRITE
from ..core.engine.lru import LEFT_BYTES
from ..launch.program import TileProgram
from .launch_state import LaunchState

LEAST_MARKS = 16
"""Marks that are compared, at least."""
LATER, LONGER = 0.0005, 0.005
"""Of its time, and of what HBM moves: by how much it may swing about how late it is, and by how much halves may differ.
Gains of other costs are told to a hundredth."""
CYCLES = COUNTERS


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """What a launch had done after so many steps, every one of which was stepped through.

    Args:
        program, slots, costs: of it, as in `LaunchState`; at: steps -> snapshot; total: snapshot at its end;
        idle_cycles: as of `engine.LaunchRun`.
    """

    program: TileProgram
    slots: int
    costs: np.ndarray
    at: dict[int, np.ndarray]
    total: np.ndarray
    idle_cycles: float


class GoesOn(Exception):
    """A launch goes on as another has done; its argument: the snapshot at its end."""


class Comparison:
    """A launch beside the marks of another. Args: run: it, which has not begun; marks: of the other."""

    def __init__(self, run: LaunchState, marks: Marks) -> None:
        self.run, self.marks = run, marks
        self.alike = np.array_equal(marks.costs, run.lowered.costs)
        self.pairs: list[np.ndarray] = []

    def compare(self, steps: int) -> None:
        """Look at how the launch has come on. Args: steps: so far. Raises: GoesOn: it is known how it ends."""
        if steps not in self.marks.at or self.run.memory.l2.lists[:, LEFT_BYTES].any():
            self.pairs = []
            return
        self.pairs.append(np.stack((self.run.snapshot(), self.marks.at[steps])))
        newest = np.array(self.pairs[len(self.pairs) // 2 :])
        if len(newest) < LEAST_MARKS:
            return
        if self.alike:
            later = newest[:, 0] - newest[:, 1]
            total, error, tolerance = self.marks.total + later.mean(axis=0), np.ptp(later, axis=0) / 2, LATER
        else:
            first, middle, last = newest[0], newest[len(newest) // 2], newest[-1]
            rest = self.marks.total - last[1]
            older, newer, both = (
                rest * np.where(there > 0.0, here, 1.0) / np.where(there > 0.0, there, 1.0)
                for here, there in (middle - first, last - middle, last - first)
            )
            total, error, tolerance = last[0] + both, np.abs(older - newer), LONGER
        moved = total[HBM_READ] + total[HBM_WRITE]
        if error[CYCLES] <= tolerance * total[CYCLES] and error[[HBM_READ, HBM_WRITE]].max() <= tolerance * moved:
            raise GoesOn(total)
