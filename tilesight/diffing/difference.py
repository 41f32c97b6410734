"""Two sides in, what changed out: launches that answer each other, each with a verdict, and one on the whole function.

Pure: no git, no compiler, no simulation. `to_dict` gives the object that `tilesight diff --json` prints.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ..simulator.prediction.prediction import LaunchPrediction
from .matching import matched
from .side import LaunchSide, Side
from .source_change import SourceChange, changes_of, differing
from .verdict import BAND, CANNOT_TELL, EDIT_BAND, SAME, Change, change_of, sum_of

SCHEMA = "tilesight.diff/1"
FIGURES = {
    "registers_per_thread": "registers",
    "spilled_bytes_per_thread": "spilled",
    "smem_bytes_per_cta": "shared memory",
    "ctas_per_sm": "CTAs/SM",
    "hbm_bytes": "HBM",
    "l2_bytes": "L2",
    "smem_fill_bytes": "SRAM fill",
    "executed_instructions": "instructions",
}
"""Figure -> its name for people."""


@dataclass(frozen=True)
class Pair:
    """A launch before and after. Args: old, new: None where the other has none that answers it."""

    old: LaunchSide | None
    new: LaunchSide | None

    @property
    def name(self) -> str:
        """Of the kernel."""
        side = self.new or self.old
        return side.row.name if side else ""

    @property
    def same_code(self) -> bool:
        """Whether machine code, grid and arguments are the same."""
        return bool(self.old and self.new and self.old.code and self.old.code == self.new.code)

    @property
    def change(self) -> Change | None:
        """Of its time; None where it is not predicted on both sides."""
        if not self.old or not self.new or not self.old.row.prediction or not self.new.row.prediction:
            return None
        old_s, new_s = self.old.row.traffic.time_s, self.new.row.traffic.time_s
        return change_of(old_s, new_s, exact=self.same_code, at_least=self._at_least, band=self._band)

    @property
    def _band(self) -> tuple[float, float]:
        """Narrower where only the source changed, and the work is divided as before."""
        alike = self.old and self.new and self.old.tiling and self.old.tiling == self.new.tiling
        return EDIT_BAND if alike else BAND

    @property
    def _at_least(self) -> bool:
        return any(side.row.lower_bound for side in (self.old, self.new) if side)

    @property
    def verdict(self) -> str:
        """Faster, slower, same, cannot tell; or that one side lacks it, or refuses it."""
        if not self.old or not self.new:
            return "new" if self.new else "gone"
        if self.same_code:
            return SAME
        return self.change.verdict if self.change else CANNOT_TELL

    @property
    def figures(self) -> dict[str, tuple[int | None, int | None]]:
        """Figures that differ, before and after."""
        before, after = (figures_of(side) for side in (self.old, self.new))
        return {name: (before[name], after[name]) for name in FIGURES if before[name] != after[name]}

    @property
    def executed(self) -> dict[str, tuple[int, int]]:
        """Family of opcodes -> instructions executed before and after, where these differ; the largest change first."""
        before, after = (side.executed if side else {} for side in (self.old, self.new))
        return differing(before, after)

    @property
    def sources(self) -> list[SourceChange]:
        """Lines of source that execute more or less than before, the largest change first."""
        if not self.old or not self.new or self.same_code:
            return []
        return changes_of(self.old.lines, self.new.lines)

    def to_dict(self) -> dict[str, Any]:
        """The launch's object in JSON."""
        return {
            "name": self.name,
            "same_code": self.same_code,
            "verdict": self.verdict,
            "change": self.change.to_dict() if self.change else None,
            "old": self.old.row.to_dict() if self.old else None,
            "new": self.new.row.to_dict() if self.new else None,
            "figures": {name: list(values) for name, values in self.figures.items()} if self.change else {},
            "executed": {name: list(counts) for name, counts in self.executed.items()} if self.change else {},
            "lines": [line.to_dict() for line in self.sources],
        }


@dataclass(frozen=True)
class Difference:
    """What a change does to the launches of a function. Args: notes: on both sides, one line each."""

    old: Side
    new: Side
    notes: tuple[str, ...] = ()

    @cached_property
    def pairs(self) -> list[Pair]:
        """Launches that answer each other, and those that none does."""
        old, new = self.old.launches, self.new.launches
        return [
            Pair(None if before is None else old[before], None if after is None else new[after])
            for before, after in matched(old, new)
        ]

    @property
    def same_code(self) -> bool:
        """Whether all launches are the same, in code, grid, arguments and the memory that they share."""
        return bool(self.old.code) and self.old.code == self.new.code

    @property
    def complete(self) -> bool:
        """Whether nothing was refused, and both functions ran to their ends."""
        return self.old.complete and self.new.complete

    @property
    def change(self) -> Change | None:
        """Of the time of all launches; None where the sides are the same, or nothing of one is predicted."""
        if self.same_code or not self.old.time_s or not self.new.time_s:
            return None
        changes = [pair.change for pair in self.pairs if pair.change]
        lone = [pair for pair in self.pairs if not pair.change]
        before_s, after_s = (
            sum(side.row.traffic.time_s for pair in lone if (side := getattr(pair, which))) for which in ("old", "new")
        )
        at_least = any(launch.row.lower_bound for side in (self.old, self.new) for launch in side.launches)
        return sum_of(changes, before_s, after_s, at_least or not self.complete)

    @property
    def verdict(self) -> str:
        """Of the whole function: faster, slower, same, cannot tell."""
        if self.same_code:
            return SAME
        return self.change.verdict if self.change else CANNOT_TELL

    def is_slower_by(self, share: float) -> bool:
        """Whether the function takes longer by more than a share wherever in the band the truth lies."""
        return bool(self.change and self.change.low > 1.0 + share)

    def to_dict(self) -> dict[str, Any]:
        """The object that `tilesight diff --json` prints."""
        return {
            "schema": SCHEMA,
            "old": self.old.name,
            "new": self.new.name,
            "device": self.new.device,
            "l2": self.new.l2,
            "timing": self.new.timing,
            "same_code": self.same_code,
            "complete": self.complete,
            "verdict": self.verdict,
            "change": self.change.to_dict() if self.change else None,
            "launches": [pair.to_dict() for pair in self.pairs],
            "ended": {"old": self.old.ended or None, "new": self.new.ended or None},
            "notes": list(self.notes),
        }


def figures_of(side: LaunchSide | None) -> dict[str, int | None]:
    """What a launch takes of its SM, moves and executes; nothing of what was not predicted."""
    launch: LaunchPrediction | None = side.row.prediction if side else None
    if side is None or launch is None:
        return dict.fromkeys(FIGURES)
    traffic = launch.traffic
    return {
        "registers_per_thread": launch.registers_per_thread,
        "spilled_bytes_per_thread": side.row.spilled_bytes_per_thread,
        "smem_bytes_per_cta": launch.smem_bytes_per_cta,
        "ctas_per_sm": launch.ctas_per_sm,
        "hbm_bytes": traffic.hbm_bytes,
        "l2_bytes": traffic.l2_read_bytes + traffic.l2_write_bytes,
        "smem_fill_bytes": traffic.smem_fill_bytes,
        "executed_instructions": side.row.executed_instructions,
    }
