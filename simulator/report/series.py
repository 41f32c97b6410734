"""The numbers behind the pictures of an exploration, shared by PNG and HTML."""

import re
from dataclasses import dataclass

from ..explore.candidate import Candidate
from ..explore.explore import Exploration
from ..prediction.prediction import Prediction
from ..schedules.registry import all_schedules, find_schedule
from ..traffic import Traffic

COLORS = ("#CC79A7", "#56B4E9", "#7F7F7F", "#B8860B")
"""Of schedules that declare none; with those that are declared, the palette of Okabe and Ito, which is told apart also
by those who see fewer colours."""
LEVELS = (
    ("into the SMs", "smem_fill_bytes"),
    ("read from L2", "l2_read_bytes"),
    ("between L2 partitions", "fabric_bytes"),
    ("read from HBM", "hbm_read_bytes"),
    ("written to HBM", "hbm_write_bytes"),
)
"""Label -> field of `Traffic`, from the SMs outwards."""


def color(schedule: str) -> str:
    """The colour of a schedule, the same in every picture."""
    declared = all_schedules()[schedule].color if schedule in all_schedules() else ""
    return declared or COLORS[sum(map(ord, schedule)) % len(COLORS)]


@dataclass(frozen=True, slots=True, kw_only=True)
class HeatMap:
    """The best of a schedule for each pair of block sizes, over all other options.

    Args:
        block_m, block_n: the values that occur, ascending.
        cells: a row for each block_m: the fastest that fits, or one that does not, or None where there is none.
    """

    schedule: str
    block_m: tuple[int, ...]
    block_n: tuple[int, ...]
    cells: tuple[tuple[Candidate | None, ...], ...]

    @property
    def times_s(self) -> list[list[float | None]]:
        """Times of the cells, None where nothing fits [s]."""
        return [[item.costs[0] if item and item.fits else None for item in row] for row in self.cells]

    @property
    def any_spills(self) -> bool:
        """Whether the fastest configuration of any cell spills registers."""
        return any(self.spills(row, col) for row, cells in enumerate(self.cells) for col in range(len(cells)))

    def spills(self, row: int, column: int) -> bool:
        """Whether the fastest configuration of a cell spills registers."""
        item = self.cells[row][column]
        return item is not None and item.prediction is not None and item.prediction.spilled_bytes_per_thread > 0


def heat_maps(exploration: Exploration) -> list[HeatMap]:
    """One map for each schedule that has both block sizes and more than one pair of them; the fastest first."""
    grouped: dict[str, dict[tuple[int, int], Candidate]] = {}
    for item in exploration.candidates:  # ranked, so the first of a pair is its best
        if {"block_m", "block_n"} <= set(item.options):
            grouped.setdefault(item.schedule, {}).setdefault((item.config.block_m, item.config.block_n), item)
    maps = []
    for name, best in grouped.items():
        rows, columns = sorted({m for m, _ in best}), sorted({n for _, n in best})
        cells = tuple(tuple(best.get((m, n)) for n in columns) for m in rows)
        maps.append(HeatMap(schedule=name, block_m=tuple(rows), block_n=tuple(columns), cells=cells))
    return [heat_map for heat_map in maps if len(heat_map.block_m) * len(heat_map.block_n) > 1]


def best_of_each(exploration: Exploration) -> dict[str, Prediction]:
    """Schedule -> its fastest prediction; naive attention as the baseline where it was not explored. Slowest first."""
    best: dict[str, Prediction] = {}
    if exploration.baseline:
        best[exploration.baseline.schedule] = exploration.baseline
    for item in reversed(exploration.ranked):
        if item.prediction:
            best[item.schedule] = item.prediction
    return dict(sorted(best.items(), key=lambda pair: -pair[1].time_s))


def default_text(exploration: Exploration) -> str:
    """Which of `best_of_each` is no best, for a heading; empty where all are."""
    baseline = exploration.baseline
    if baseline is None or not find_schedule(baseline.schedule).outlined:
        return ""
    explored = any(item.schedule == baseline.schedule for item in exploration.ranked)
    return "" if explored else f"; {baseline.schedule} in its default"


def bytes_per_level(total: Traffic) -> dict[str, int]:
    """Label -> bytes, from the SMs outwards."""
    return {label: getattr(total, name) for label, name in LEVELS}


def axis_text(text: str) -> str:
    """A quantity without zeros after the point, for an axis: `1.00 GB` becomes `1 GB`."""
    return re.sub(r"\.0+ ", " ", text)


def multiplies(exploration: Exploration) -> bool:
    """Whether there is a matrix product to hold against a roofline of operations."""
    return any(prediction.total.matmul_flop for prediction in best_of_each(exploration).values())


def intensity_flop_per_byte(total: Traffic) -> float:
    """Operations of matrix products per byte at HBM; one byte where none moves."""
    return total.matmul_flop / max(1, total.hbm_bytes)
