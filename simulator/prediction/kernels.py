"""What was predicted of launches that a user's own code makes: a row for each, and their sum.

`to_dict` gives the object that `tilesight predict --json` prints, `str` the table that it prints for people.
"""

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from .. import units
from ..display.columns import Column, html_table
from ..display.frames import frame
from ..display.render import table
from ..display.words import percent
from ..traffic import Traffic
from .prediction import LaunchPrediction

if TYPE_CHECKING:
    from pandas import DataFrame

SCHEMA = "tilesight.predict/1"
WIDTH = 120
NONE = "-"


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelRow:
    """One launch.

    Args:
        name: of the kernel; grid: CTAs along x, y, z; num_warps, num_stages: asked for.
        prediction: figures; None: the launch was refused, and `refused` says why, in one line.
        executed_instructions: that all warps issue; known_accesses, accesses: instructions that touch global memory,
            those whose addresses are known, and all.
        notes: remarks, one line each; label: configuration of an autotuned launch, where it is one.
    """

    name: str
    grid: tuple[int, int, int]
    num_warps: int
    num_stages: int
    prediction: LaunchPrediction | None = None
    executed_instructions: int = 0
    known_accesses: int = 0
    accesses: int = 0
    notes: tuple[str, ...] = ()
    label: str = ""
    refused: str | None = None

    @property
    def traffic(self) -> Traffic:
        """Bytes, operations, cycles, time; nothing of a launch that was refused."""
        return self.prediction.traffic if self.prediction else Traffic()

    def to_dict(self) -> dict[str, Any]:
        """The launch's object in `predict --json`; figures of a launch that was refused are null."""
        one = self.prediction
        return {
            "name": self.name,
            "grid": list(self.grid),
            "num_warps": one.num_warps if one else self.num_warps,
            "num_stages": self.num_stages,
            "registers_per_thread": one.registers_per_thread if one else None,
            "spilled_bytes_per_thread": one.spilled_bytes_per_thread if one else None,
            "smem_bytes_per_cta": one.smem_bytes_per_cta if one else None,
            "executed_instructions": self.executed_instructions if one else None,
            "traffic": traffic_dict(one.traffic) if one else None,
            "clock_hz": one.clock_hz if one else None,
            "sustained_clock_hz": one.sustained_clock_hz if one else None,
            "bottleneck": one.bottleneck if one else None,
            "ctas_per_sm": one.ctas_per_sm if one else None,
            "known_accesses": self.known_accesses if one else None,
            "accesses": self.accesses if one else None,
            "notes": list(self.notes),
            "refused": self.refused,
        }


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
        found = []
        for row in self.rows:
            told = row.to_dict()
            traffic = told.pop("traffic") or dict.fromkeys(traffic_dict(Traffic()))
            told |= {"grid": " x ".join(map(str, row.grid)), "notes": "; ".join(row.notes)}
            found.append({"device": self.device, "l2": self.l2, **told, **traffic})
        return found

    def to_pandas(self) -> "DataFrame":
        """A data frame: a row per launch. Raises: ImportError: pandas is not installed."""
        return frame(self.flat_rows())

    def __repr__(self) -> str:
        """One line."""
        return f"<KernelsPrediction: {self._title}>"

    def __str__(self) -> str:
        """A table of the launches, and what is to be said of them."""
        return self.text(WIDTH)

    def text(self, width: int, color: bool = False) -> str:
        """The table, and remarks below it. Args: width: characters at most; color: whether the header is bold."""
        lines = [self._title, ""]
        if self.is_predicted:
            lines += [table(self._columns([row for row in self.rows if row.prediction]), width, color), ""]
        for number, rows in self.configurations:
            lines.append(f"Configurations of {self.rows[number].name}:")
            lines += [table(_configurations(rows), width, color), ""]
        lines += [f"Refused  {row.refused}" for row in self.rows if row.refused]
        lines += [f"Note     {note}" for note in self.remarks]
        return "\n".join(lines).rstrip()

    @property
    def remarks(self) -> tuple[str, ...]:
        """Remarks on all launches and on each."""
        accesses = sum(row.accesses for row in self.rows if row.prediction)
        known = sum(row.known_accesses for row in self.rows if row.prediction)
        counted = (f"{known} of {accesses} accesses known",) if accesses else ()
        own = [note for row in self.rows for note in row.notes]
        return (*counted, *self.notes, *dict.fromkeys(own))

    def _repr_html_(self) -> str:
        rows = [row for row in self.rows if row.prediction]
        refused = [f"Refused: {row.refused}" for row in self.rows if row.refused]
        return html_table(self._title, self._columns(rows), [*refused, *(f"Note: {note}" for note in self.remarks)])

    @property
    def _title(self) -> str:
        launches = "1 launch" if len(self.rows) == 1 else f"{len(self.rows)} launches"
        told = f"{launches} on {self.device}, L2 {self.l2}"
        return f"{told}: {units.duration(self.total.time_s)}" if self.is_predicted else told

    def _columns(self, rows: list[KernelRow]) -> list[Column]:
        total = self.total.time_s or 1.0

        def column(title: str, cells: list[str], rank: int = 0, left: bool = False) -> Column:
            return Column(title=title, cells=cells, rank=rank, left=left)

        each = [row.prediction for row in rows if row.prediction]
        return [
            column("launch", [row.name for row in rows], left=True),
            column("grid", [" x ".join(map(str, row.grid)) for row in rows], 3),
            column("regs", [str(one.registers_per_thread) for one in each], 5),
            column("smem", [units.capacity(one.smem_bytes_per_cta) for one in each], 5),
            column("spill", [f"{one.spilled_bytes_per_thread} B" for one in each], 4),
            column("CTAs/SM", [str(one.ctas_per_sm) for one in each], 4),
            column("HBM read", [units.traffic(one.traffic.hbm_read_bytes) for one in each]),
            column("written", [units.traffic(one.traffic.hbm_write_bytes) for one in each], 1),
            column("L2 read", [units.traffic(one.traffic.l2_read_bytes) for one in each], 6),
            column("SRAM fill", [units.traffic(one.traffic.smem_fill_bytes) for one in each], 2),
            column("time", [units.duration(one.traffic.time_s) for one in each]),
            column("bound by", [f"{one.bottleneck} {percent(one.bottleneck_share)}" for one in each], left=True),
            column("share", [percent(one.traffic.time_s / total) for one in each]),
        ]


def _configurations(rows: tuple[KernelRow, ...]) -> list[Column]:
    ordered = sorted(rows, key=lambda row: row.traffic.time_s if row.prediction else float("inf"))
    each = [row.prediction for row in ordered]
    return [
        Column(title="configuration", cells=[row.label for row in ordered], left=True),
        Column(title="time", cells=[units.duration(one.traffic.time_s) if one else NONE for one in each]),
        Column(title="regs", cells=[str(one.registers_per_thread) if one else NONE for one in each], rank=2),
        Column(title="CTAs/SM", cells=[str(one.ctas_per_sm) if one else NONE for one in each], rank=2),
        Column(
            title="HBM read", cells=[units.traffic(one.traffic.hbm_read_bytes) if one else NONE for one in each], rank=1
        ),
        Column(
            title="bound by",
            cells=[one.bottleneck if one else str(row.refused) for one, row in zip(each, ordered, strict=True)],
            left=True,
        ),
    ]


def traffic_dict(traffic: Traffic) -> dict[str, Any]:
    """Traffic as `simulate --json` has it."""
    return asdict(traffic) | {
        "l2_hit_fraction": traffic.l2_hit_fraction,
        "hbm_bytes_per_s": traffic.hbm_bytes_per_s,
        "matmul_flop_per_s": traffic.matmul_flop_per_s,
    }
