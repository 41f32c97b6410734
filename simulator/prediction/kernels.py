"""What was predicted of launches that a user's own code makes: a row for each, and their sum.

`to_dict` gives the object that `tilesight predict --json` prints, `str` the table that it prints for people.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from typing import TYPE_CHECKING, Any

from .. import units
from ..arguments import shown
from ..device.device import Device
from ..display.columns import Column, frame, html_table
from ..display.files import kept, page_made, written_by
from ..display.render import table, wrapped
from ..jobs.stopping import OnProgress
from ..traffic import Traffic
from .kernel_row import KernelRow, SourceTime, times_of
from .kernel_table import bytes_line, configuration_columns, grid_text, launch_columns, tensors_text
from .timing import EVENTS_S, TIMINGS, one_of_timings, timing_text
from .torch_operation import TorchOperation, torch_note
from .what_helps import Advice, dominating_lines

if TYPE_CHECKING:
    from pandas import DataFrame

SCHEMA = "tilesight.predict/1"
WIDTH = 120
MOST_DOMINANT, LEAST_DOMINANT = 3, 0.05
"""Launches that have pictures, those that take longest, and the share of the time from which on they do."""
MATTERS = 0.05
"""Share of the bytes that are asked for from which on estimated ones are named first."""

L2 = ("pipeline", "cold", "warm")
"""What a launch finds in the caches: what those before left, nothing, or what itself left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What launches are predicted for, and what that may take.

    Args:
        device, name: the GPU, and its name for people; l2: one of `L2`.
        compile_limit_s, limit_s: that compiler and prediction of one launch may take, None: as long as they like [s].
        workers: compiler processes at most; one per core where None.
        on_progress: called when a launch comes to another phase.

    Raises:
        ValueError: l2 is none of them (one line).
    """

    device: Device
    name: str
    l2: str = "pipeline"
    compile_limit_s: float | None = None
    limit_s: float | None = None
    workers: int | None = None
    on_progress: OnProgress | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.l2, str) or self.l2 not in L2:
            raise ValueError(f"l2 = {shown(self.l2)}: must be one of {', '.join(L2)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelsPrediction:
    """Predictions for launches of a user's kernels, in the order of their calls.

    Args:
        device: name; l2: `pipeline`, `cold` or `warm`; rows: one a launch; notes: on all of them, one line each.
        configurations: of autotuned launches, by number of their row: all that were predicted.
        torch_operations: of torch, that run beside the launches and are not predicted.
        ended: what the code that launches raised after the last of them, in one line; empty: it ran to its end.
        timing: how time is measured, one of `TIMINGS`; every_time: where that is not `single`, as `times`.
        helps: what would make the longest launch faster, what brings most first; empty: not simulated.
        sources: of the dominant launches, by number of their row: time at each line of source, where that is known.
    """

    device: str
    l2: str
    rows: tuple[KernelRow, ...]
    notes: tuple[str, ...] = ()
    configurations: tuple[tuple[int, tuple[KernelRow, ...]], ...] = ()
    torch_operations: tuple[TorchOperation, ...] = ()
    ended: str = ""
    timing: str = "single"
    every_time: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    helps: tuple[Advice, ...] = ()
    sources: tuple[tuple[int, tuple[SourceTime, ...]], ...] = ()

    @property
    def answered(self) -> bool:
        """Whether every launch was predicted, and the code that makes them ran to its end."""
        return not self.refused and not self.ended

    @property
    def complete(self) -> bool:
        """The same, and no access was left out: nothing is missing in bytes and time."""
        return self.answered and not self.missing_accesses

    @property
    def missing_accesses(self) -> int:
        """Accesses that were left out, as their addresses are unknown."""
        return sum(row.missing_accesses for row in self.rows if row.prediction)

    @property
    def refused(self) -> int:
        """Launches that were not predicted."""
        return sum(row.prediction is None for row in self.rows)

    @property
    def total(self) -> Traffic:
        """Sum over the launches that were predicted."""
        events_s = EVENTS_S if self.timing == "do_bench" else 0.0
        return sum((row.traffic for row in self.rows), Traffic(time_s=events_s))

    @property
    def is_predicted(self) -> bool:
        """Whether any launch was."""
        return any(row.prediction for row in self.rows)

    @property
    def times(self) -> dict[str, tuple[float, float]]:
        """How time is measured -> time of all launches that were predicted [s], and their mean clock [Hz]."""
        return dict(self.every_time) or times_of(self.rows)

    def measured_as(self, timing: str) -> "KernelsPrediction":
        """The same launches as they are measured.

        Args:
            timing: one of `TIMINGS`; this is of a single run. What is not predicted so is refused.

        Raises:
            ValueError: it is none of them (one line).
        """
        one_of_timings(timing)
        rows = tuple(row.measured_as(timing) for row in self.rows)
        return replace(self, rows=rows, timing=timing, every_time=self.times)

    @property
    def longest(self) -> KernelRow:
        """The launch that takes longest; the first of equals."""
        return max(self.rows, key=lambda row: row.traffic.time_s)

    @property
    def dominant(self) -> list[int]:
        """Numbers of the launches that have pictures and lines of source, the longest first."""
        shares = {place: row.traffic.time_s / self.total.time_s for place, row in enumerate(self.rows) if row.ceiling}
        longest = sorted(shares, key=lambda place: -shares[place])
        return [place for place in longest[:MOST_DOMINANT] if shares[place] >= LEAST_DOMINANT]

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
            "timing": self.timing,
            "times": {timing: {"time_s": time_s, "clock_hz": hz} for timing, (time_s, hz) in self.times.items()},
            "complete": self.complete,
            "ended": self.ended or None,
            "launches": [row.to_dict() for row in self.rows],
            "total": self.total.to_dict(),
            "helps": [advice.to_dict() for advice in self.helps],
            "torch_operations": [operation.to_dict() for operation in self.torch_operations],
            "notes": list(self.notes),
        }

    def flat_rows(self) -> list[dict[str, Any]]:
        """A flat object for each launch, as rows of a CSV."""
        flat = []
        for row in self.rows:
            values = row.to_dict()
            traffic = values.pop("traffic") or dict.fromkeys(Traffic().to_dict())
            values |= {"grid": grid_text(row.grid), "notes": "; ".join(row.notes), "tensors": tensors_text(row)}
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

    def text(self, width: int, color: bool = False, beside: Sequence[Column] = ()) -> str:
        """The table, and remarks below it.

        Args:
            width: characters at most; color: whether the header is bold;
            beside: columns to show right of the time, a cell for each launch that was predicted.
        """
        lines = [*wrapped(self.heading, width), ""]
        if self.is_predicted:
            columns = launch_columns(self.rows)
            right = 1 + next(place for place, column in enumerate(columns) if column.title == "time")
            lines += [table([*columns[:right], *beside, *columns[right:]], width, color), ""]
        for name, rows in self.tuned:
            lines += [f"Configurations of {name}, each by itself on empty caches:"]
            lines += [table(configuration_columns(rows), width, color), ""]
        return "\n".join([*lines, *wrapped(self.remarks, width)]).rstrip()

    @property
    def tuned(self) -> list[tuple[str, tuple[KernelRow, ...]]]:
        """Autotuned launches: name, and all configurations that were predicted."""
        return [(self.rows[number].name, rows) for number, rows in self.configurations]

    @property
    def known_text(self) -> str:
        """How many accesses are known, and bytes that are estimated; empty where nothing touches memory."""
        rows = [row for row in self.rows if row.prediction]
        accesses, known, estimated = (
            sum(getattr(row, name) for row in rows) for name in ("accesses", "known_accesses", "estimated_accesses")
        )
        if not accesses:
            return ""
        asked = sum(row.requested_bytes for row in rows)
        guessed = sum(row.estimated_bytes for row in rows)
        share = f" ({units.traffic(guessed)} of {units.traffic(asked)} that are asked for)" if estimated else ""
        return f"{known} of {accesses} accesses known" + (f", {estimated} estimated{share}" if estimated else "")

    @property
    def is_estimated(self) -> bool:
        """Whether what is not known of accesses matters: bytes that are estimated, or accesses that were left out."""
        rows = [row for row in self.rows if row.prediction]
        asked = sum(row.requested_bytes for row in rows)
        return bool(self.missing_accesses) or sum(row.estimated_bytes for row in rows) > MATTERS * asked

    @property
    def remarks(self) -> list[str]:
        """What stands below the table: the longest launch, what was refused, how much is known, and every note.

        How much is known, and what is estimated, comes first where that matters.
        """
        doubts = dict.fromkeys(row.cost_doubt for row in self.rows if row.cost_doubt)
        longest, moved = self.longest.prediction, bytes_line(self.longest)
        notes = dict.fromkeys([*self.notes, *(note for row in self.rows for note in row.notes)])
        known = [f"Note     {self.known_text}"] if self.known_text else []
        first, later = (known, []) if self.is_estimated else ([], known)
        return [
            *([f"Time     {text}"] if (text := timing_text(self.times, self.timing)) else ()),
            *(f"Note     {doubt}" for doubt in doubts),
            *first,
            *(dominating_lines(longest, self.total.time_s, self.helps) if longest else ()),
            *([f"Bytes    {moved}"] if moved else ()),
            *(f"Refused  {row.refused}" for row in self.rows if row.refused),
            *later,
            *([f"Note     {torch_note(self.torch_operations)}"] if self.torch_operations else ()),
            *(f"Note     {note}" for note in notes if note not in doubts),
        ]

    @property
    def labelled_remarks(self) -> list[str]:
        """The remarks for HTML, which keeps no columns: a colon stands behind the label of each."""
        return [": ".join(remark.split(maxsplit=1)) for remark in self.remarks]

    def _repr_html_(self) -> str:
        return html_table("; ".join(self.heading), launch_columns(self.rows), self.labelled_remarks)

    @property
    def title(self) -> str:
        """How many launches, where, and their time; what the sum lacks."""
        count = len(self.rows)
        launches = "1 launch" if count == 1 else f"{count} launches"
        if self.refused:
            launches = f"{count - self.refused} of {launches}"
        heading = f"{launches} on {self.device}, L2 {self.l2}"
        if not self.is_predicted:
            return heading
        least = ">= " if any(row.lower_bound for row in self.rows) else ""
        missing = self.missing_accesses
        lacks = [
            *([f"the {self.refused} refused"] if self.refused else ()),
            *([f"the {missing} access{'es' * (missing > 1)} of unknown address"] if missing else ()),
        ]
        lacking = f" without {' and '.join(lacks)}" if lacks else ""
        how = "" if self.timing == "single" else f" {TIMINGS[self.timing]}"
        return f"{heading}: {least}{units.duration(self.total.time_s)}{how}{lacking}"

    @property
    def heading(self) -> list[str]:
        """The title, below what the code ended in, where it did not run to its end."""
        count = len(self.rows)
        after = f"after {'1 launch' if count == 1 else f'{count} launches'}, which are predicted"
        return [*([f"Incomplete: the code ended in an error {after}: {self.ended}"] if self.ended else ()), self.title]
