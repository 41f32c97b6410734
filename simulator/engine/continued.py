"""A launch that is simulated again, on other caches or at other costs: stepped through until it goes on as before.

The first simulation leaves *marks*: its counters and cycles at every so many steps. The second is held against them.
Once nothing that others left in L2 is there, and both halves of its newest steps say alike how much longer they take
than they took, the rest of it takes as much longer than the rest of the first.
"""

from dataclasses import dataclass

import numpy as np

from ..core.engine.links import COUNTERS, HBM_READ, HBM_WRITE
from ..core.engine.lru import LEFT_BYTES
from ..launch.program import TileProgram
from .launch_state import LaunchState

LEAST_MARKS = 8
"""Marks that are compared, at least."""
CYCLES = COUNTERS


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """What a launch had done after so many steps, every one of which was stepped through.

    Args:
        program, slots: of it; at: steps -> snapshot; total: snapshot at its end; idle_cycles: as of `engine.LaunchRun`;
        tolerance: of its time, and of what HBM moves: by how much another may be off, by how much its halves differ.
    """

    program: TileProgram
    slots: int
    at: dict[int, np.ndarray]
    total: np.ndarray
    idle_cycles: float
    tolerance: float = 0.0005

    def are_of(self, run: LaunchState) -> bool:
        """Whether a launch takes the same steps, in as many CTAs at a time."""
        return self.program is run.launch.program and self.slots == run.slot_count


class GoesOn(Exception):
    """A launch goes on as another has done. Args: total: snapshot at its end."""

    def __init__(self, total: np.ndarray) -> None:
        super().__init__()
        self.total = total


class Comparison:
    """A launch beside the marks of another. Args: run: it, which has not begun; marks: of the other."""

    def __init__(self, run: LaunchState, marks: Marks) -> None:
        self.run, self.marks = run, marks
        self.pairs: list[np.ndarray] = []

    def compare(self, steps: int) -> None:
        """Look at how the launch has come on. Args: steps: so far. Raises: GoesOn: it is known how it ends."""
        if steps not in self.marks.at or self.run.memory.l2.lists[:, LEFT_BYTES].any():
            self.pairs = []
            return
        self.pairs.append(np.stack((self.run.snapshot(), self.marks.at[steps])))
        newest = self.pairs[len(self.pairs) // 2 :]
        if len(newest) < LEAST_MARKS:
            return
        first, middle, last = newest[0], newest[len(newest) // 2], newest[-1]
        rest = self.marks.total - last[1]
        older, newer, both = (_ratios(late - early) for early, late in ((first, middle), (middle, last), (first, last)))
        total = last[0] + rest * both
        error = np.abs(older - newer) * rest
        scale = self.marks.tolerance * total
        if error[CYCLES] <= scale[CYCLES] and max(error[[HBM_READ, HBM_WRITE]]) <= scale[HBM_READ] + scale[HBM_WRITE]:
            raise GoesOn(total)


def _ratios(grown: np.ndarray) -> np.ndarray:
    """By how many times as much one has grown as the other; 1 where the other has not."""
    here, there = grown
    return np.divide(here, there, out=np.ones_like(here), where=there > 0.0)
