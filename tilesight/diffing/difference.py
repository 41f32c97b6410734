"""Compares two sides: launches that answer each other, each with a verdict, and one on the whole function.

Pure: no git, no compiler, no simulation. `to_dict` gives the object that `tilesight diff --json` prints.
"""

from dataclasses import asdict, dataclass, field
from functools import cached_property
from importlib import import_module
from os import PathLike
from typing import Any

from ..simulator.display.files import kept, page_made
from ..simulator.prediction.prediction import LaunchPrediction
from ..simulator.prediction.torch_operation import torch_note, torch_text
from .matching import matched
from .side import LaunchSide, Side
from .source_change import SourceChange, changes_of, differing
from .verdict import CANNOT_TELL, SAME, Change, Machines, change_of, sum_of

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
    """A launch before and after. Args: old, new: None where the other has none that answers it; machines: of both."""

    old: LaunchSide | None
    new: LaunchSide | None
    machines: Machines = field(default_factory=Machines)

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
    def unchanged(self) -> bool:
        """Whether it is the same code on the same device, whose time only what it finds in caches can change."""
        return self.same_code and self.machines.same

    @property
    def change(self) -> Change | None:
        """Of its time; None where it is not predicted on both sides."""
        if not self.old or not self.new or not self.old.row.prediction or not self.new.row.prediction:
            return None
        band = self.machines.band(self.same_code, bool(self.old.tiling) and self.old.tiling == self.new.tiling)
        return change_of(self.old.row.traffic.time_s, self.new.row.traffic.time_s, band, self._at_least)

    @property
    def _at_least(self) -> bool:
        return any(side.row.lower_bound for side in (self.old, self.new) if side)

    @property
    def verdict(self) -> str:
        """Faster, slower, same, within 10 %, cannot tell; or that one side lacks it, or refuses it."""
        if not self.old or not self.new:
            return "new" if self.new else "gone"
        if self.unchanged:
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
    """What a change does to the launches of a function.

    Args:
        notes: on both sides, one line each; machines: that they are predicted for.
    """

    old: Side
    new: Side
    notes: tuple[str, ...] = ()
    machines: Machines = field(default_factory=Machines)

    @cached_property
    def pairs(self) -> list[Pair]:
        """Launches that answer each other, and those that none does."""
        old, new = self.old.launches, self.new.launches
        return [
            Pair(None if before is None else old[before], None if after is None else new[after], self.machines)
            for before, after in matched(old, new)
        ]

    @property
    def same_code(self) -> bool:
        """Whether all launches are the same, in code, grid, arguments and the memory that they share."""
        return bool(self.old.code) and self.old.code == self.new.code

    @property
    def unchanged(self) -> bool:
        """Whether they are, on the same device: nothing is predicted then."""
        return self.same_code and self.machines.same

    @property
    def torch_differs(self) -> bool:
        """Whether other operations of torch run beside the launches than before, or as many on other sizes."""
        return self.old.torch_operations != self.new.torch_operations

    @property
    def torch_note(self) -> str:
        """What operations of torch run beside the launches, before and after; empty where none does."""
        old, new = self.old.torch_operations, self.new.torch_operations
        if self.torch_differs:
            before, after = (torch_text(operations) if operations else "none" for operations in (old, new))
            return f"operations of torch differ, and are not predicted: {before} before, {after} after"
        return torch_note(new) if new else ""

    @property
    def complete(self) -> bool:
        """Whether nothing was refused, and both functions ran to their ends."""
        return self.old.complete and self.new.complete

    @property
    def change(self) -> Change | None:
        """Of the time of all launches; None where the sides are the same, or nothing of one is predicted.

        A launch that one side refuses counts for neither.
        """
        if self.unchanged or not self.old.time_s or not self.new.time_s:
            return None
        changes = [pair.change for pair in self.pairs if pair.change]
        lone = [pair for pair in self.pairs if not pair.old or not pair.new]
        before_s, after_s = (
            sum(side.row.traffic.time_s for pair in lone if (side := getattr(pair, which))) for which in ("old", "new")
        )
        if not changes and not (before_s and after_s):
            return None
        at_least = any(launch.row.lower_bound for side in (self.old, self.new) for launch in side.launches)
        return sum_of(changes, before_s, after_s, at_least or not self.complete, self.machines.other_code)

    @property
    def verdict(self) -> str:
        """Of the whole function: faster, slower, same, within 10 %, cannot tell."""
        if self.unchanged:
            return SAME
        return self.change.verdict if self.change else CANNOT_TELL

    def is_slower_by(self, share: float) -> bool:
        """Whether the function takes longer by more than a share wherever in the band the truth lies."""
        return bool(self.change and self.change.low > 1.0 + share)

    def to_html(self, file: str | PathLike[str] | None = None) -> str:
        """The page of `diff --html`. Args: file: to write it to. Raises: OSError: it cannot be written."""
        # A page is made of differences: it loads on first use, as reports do.
        made = import_module(f"{__package__}.report.html").difference_html(self, page_made("diff"))
        page: str = kept(made, file)
        return page

    def to_dict(self) -> dict[str, Any]:
        """The object that `tilesight diff --json` prints."""
        return {
            "schema": SCHEMA,
            "old": self.old.name,
            "new": self.new.name,
            "devices": {"old": self.old.device, "new": self.new.device},
            "settings": {"old": list(self.old.settings), "new": list(self.new.settings)},
            "l2": self.new.l2,
            "timing": self.new.timing,
            "same_code": self.same_code,
            "complete": self.complete,
            "verdict": self.verdict,
            "change": self.change.to_dict() if self.change else None,
            "launches": [pair.to_dict() for pair in self.pairs],
            "ended": {"old": self.old.ended or None, "new": self.new.ended or None},
            "environments": {
                "old": asdict(self.old.environment) if self.old.environment else None,
                "new": asdict(self.new.environment) if self.new.environment else None,
            },
            "torch_operations": {
                "old": [operation.to_dict() for operation in self.old.torch_operations],
                "new": [operation.to_dict() for operation in self.new.torch_operations],
            },
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
