"""What was predicted of launches that a user's own code makes: a row for each, and their sum.

`to_dict` gives the object that `tilesight predict --json` prints, `str` the table that it prints for people.
"""

from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any

from .. import units
from ..display.columns import html_table
from ..display.files import kept, page_made, written_by
from ..display.frames import frame
from ..display.render import table, wrapped
from ..traffic import Traffic
from .kernel_row import KernelRow, traffic_dict
from .kernel_table import configuration_columns, grid_text, launch_columns
from .what_helps import dominating_lines

if TYPE_CHECKING:
    from pandas import DataFrame

SCHEMA = "tilesight.predict/1"
WIDTH = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelsPrediction:
    """Predictions for launches of a user's kernels, in the order of their calls.

    Args:
        device: name; l2: `pipeline`, `cold` or `warm`; rows: one a launch; notes: on all of them, one line each.
        configurations: of autotuned launches, by number of their row: all that were predicted.
    """

    device: str
    l2: str
    rows: tuple[KernelRow, ...]
    notes: tuple[str, ...] = ()
    configurations: tuple[tuple[int, tuple[KernelRow, ...]], ...] = ()

    @property
    def total(self) -> Traffic:
        """Sum over the launches that were predicted."""
        return sum((row.traffic for row in self.rows), Traffic())

    @property
    def is_predicted(self) -> bool:
        """Whether any launch was."""
        return any(row.prediction for row in self.rows)

    @property
    def longest(self) -> KernelRow:
        """The launch that takes longest; the first of equals."""
        return max(self.rows, key=lambda row: row.traffic.time_s)

    def to_html(self, file: str | PathLike[str] | None = None) -> str:
        """The report of `predict --html`. Args: file: to write it to. Raises: OSError: it cannot be written."""
        made = page_made("predict")
        page: str = kept(written_by("kernels.html", "kernels_html")([self], "recorded launches", made), file)
        return page

    def to_dict(self) -> dict[str, Any]:
        """The object that `tilesight predict --json` prints."""
        return {
            "schema": SCHEMA,
            "device": self.device,
            "l2": self.l2,
            "launches": [row.to_dict() for row in self.rows],
            "total": traffic_dict(self.total),
            "notes": list(self.notes),
        }

    def flat_rows(self) -> list[dict[str, Any]]:
        """A flat object for each launch, as rows of a CSV."""
        flat = []
        for row in self.rows:
            values = row.to_dict()
            traffic = values.pop("traffic") or dict.fromkeys(traffic_dict(Traffic()))
            values |= {"grid": grid_text(row.grid), "notes": "; ".join(row.notes)}
            flat.append({"device": self.device, "l2": self.l2, **values, **traffic})
        return flat

    def to_pandas(self) -> "DataFrame":
        """A data frame: a row per launch. Raises: ImportError: pandas is not installed."""
        return frame(self.flat_rows())

    def __repr__(self) -> str:
        """One line."""
        return f"<KernelsPrediction: {self.title}>"

    def __str__(self) -> str:
        """A table of the launches, and what is to be said of them."""
        return self.text(WIDTH)

    def text(self, width: int, color: bool = False) -> str:
        """The table, and remarks below it. Args: width: characters at most; color: whether the header is bold."""
        lines = [self.title, ""]
        if self.is_predicted:
            lines += [table(launch_columns(self.rows), width, color), ""]
        for name, rows in self.tuned:
            lines += [f"Configurations of {name}, each by itself on empty caches:"]
            lines += [table(configuration_columns(rows), width, color), ""]
        return "\n".join([*lines, *wrapped(self.remarks, width)]).rstrip()

    @property
    def tuned(self) -> list[tuple[str, tuple[KernelRow, ...]]]:
        """Autotuned launches: name, and all configurations that were predicted."""
        return [(self.rows[number].name, rows) for number, rows in self.configurations]

    @property
    def remarks(self) -> list[str]:
        """What stands below the table: the longest launch, what was refused, how much is known, and every note."""
        longest = self.longest.prediction
        accesses = sum(row.accesses for row in self.rows if row.prediction)
        known = sum(row.known_accesses for row in self.rows if row.prediction)
        notes = dict.fromkeys([*self.notes, *(note for row in self.rows for note in row.notes)])
        return [
            *(dominating_lines(longest, self.total.time_s) if longest else ()),
            *(f"Refused  {row.refused}" for row in self.rows if row.refused),
            *([f"Note     {known} of {accesses} accesses known"] if accesses else ()),
            *(f"Note     {note}" for note in notes),
        ]

    @property
    def labelled_remarks(self) -> list[str]:
        """The remarks for HTML, which keeps no columns: a colon stands behind the label of each."""
        return [": ".join(remark.split(maxsplit=1)) for remark in self.remarks]

    def _repr_html_(self) -> str:
        return html_table(self.title, launch_columns(self.rows), self.labelled_remarks)

    @property
    def title(self) -> str:
        """How many launches, where, and their time."""
        launches = "1 launch" if len(self.rows) == 1 else f"{len(self.rows)} launches"
        heading = f"{launches} on {self.device}, L2 {self.l2}"
        return f"{heading}: {units.duration(self.total.time_s)}" if self.is_predicted else heading
