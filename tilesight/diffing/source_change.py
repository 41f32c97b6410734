"""Which lines of source execute more than before, the largest change first.

Lines are followed by what stands in them, as a line of an edited file has another number; a line that was edited in
place answers the one that stood there.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from .matching import aligned
from .side import SourceLine


@dataclass(frozen=True)
class SourceChange:
    """A line of source before and after. Args: old, new: None where it is not there."""

    old: SourceLine | None
    new: SourceLine | None

    @property
    def place(self) -> SourceLine:
        """The line to show: the new one where there is one."""
        line = self.new or self.old
        assert line
        return line

    @property
    def executed(self) -> dict[str, tuple[int, int]]:
        """Family of opcodes -> instructions before and after, where these differ; the largest change first."""
        before, after = (line.executed if line else {} for line in (self.old, self.new))
        return differing(before, after)

    @property
    def edited(self) -> bool:
        """Whether the line is another than before, as far as one is known on both sides or on one."""
        texts = [line.text.strip() if line else "" for line in (self.old, self.new)]
        return texts[0] != texts[1]

    @property
    def growth(self) -> int:
        """Instructions more than before."""
        return sum(after - before for before, after in self.executed.values())

    def to_dict(self) -> dict[str, Any]:
        """The line's object in JSON."""
        place = self.place
        return {
            "file": place.file,
            "old_line": self.old.number if self.old else None,
            "new_line": self.new.number if self.new else None,
            "source": place.text.strip(),
            "growth": self.growth,
            "executed": {name: list(counts) for name, counts in self.executed.items()},
        }


def changes_of(old: Sequence[SourceLine], new: Sequence[SourceLine]) -> list[SourceChange]:
    """Lines that execute something else than before, the largest change of their number first."""
    changes = []
    old, new = ([line for line in lines if line.executed] for lines in (old, new))
    for olds, news in aligned(old, new, lambda line: line.text.strip() or (line.file, line.number)):
        for before, after in zip_longest(olds, news):
            change = SourceChange(None if before is None else old[before], None if after is None else new[after])
            if change.executed:
                changes.append(change)
    return sorted(changes, key=lambda change: -abs(change.growth))


def differing(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, tuple[int, int]]:
    """Counts that differ, before and after, the largest change first."""
    counts = {name: (before.get(name, 0), after.get(name, 0)) for name in [*before, *after]}
    changed = [(name, count) for name, count in counts.items() if count[0] != count[1]]
    return dict(sorted(changed, key=lambda item: -abs(item[1][1] - item[1][0])))
