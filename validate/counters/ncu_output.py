"""Reads what ncu prints: its table of counters, one launch a row, and its list of metrics."""

import csv
import re
from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite, prod

from ...simulator.limits import WARP_THREADS

METRIC = re.compile(r'^\s*"?([a-z][a-z0-9]*__[a-z0-9_]+)', re.MULTILINE)
HEADER = '"ID",'
NO_VALUE = ("", "n/a", "no data", "nan")


class NcuFailed(Exception):
    """There are no counters; the text is the reason, in one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedLaunch:
    """One launch as ncu reports it.

    Args:
        kernel: name of the kernel.
        grid: CTAs along x, y, z.
        block: threads along x, y, z.
        metrics: metric -> (value, unit as ncu writes it); metrics without a value are left out.
    """

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    metrics: Mapping[str, tuple[float, str]]

    @property
    def num_warps(self) -> int:
        """Warps of a CTA."""
        return -(-prod(self.block) // WARP_THREADS)


WORD = re.compile(r"(?!nan|inf)[a-z]", re.IGNORECASE)
"""Attributes of device and launch stand in every row, asked for or not, without a unit; some are words."""


def offered(query: str) -> frozenset[str]:
    """Base names of the metrics in the output of `ncu --query-metrics`."""
    return frozenset(METRIC.findall(query))


def parse(text: str) -> tuple[CountedLaunch, ...]:
    """Read what `ncu --csv --page raw` printed; lines before the header are its remarks, or the program's.

    Raises:
        NcuFailed: there is no table, or a cell is no number.
    """
    lines = text.splitlines()
    start = next((number for number, line in enumerate(lines) if line.startswith(HEADER)), None)
    if start is None:
        raise NcuFailed("ncu printed no table of counters")
    table = csv.reader(line for line in lines[start:] if line.startswith('"'))
    names, units, *rows = table
    columns = {name: at for at, name in enumerate(names)}
    metrics = [name for name in names if "__" in name]
    return tuple(
        CountedLaunch(
            kernel=row[columns["Kernel Name"]],
            grid=_extent(row[columns["Grid Size"]]),
            block=_extent(row[columns["Block Size"]]),
            metrics={
                name: (_number(name, row[columns[name]]), units[columns[name]])
                for name in metrics
                if row[columns[name]] not in NO_VALUE and (units[columns[name]] or not WORD.match(row[columns[name]]))
            },
        )
        for row in rows
    )


def _number(name: str, cell: str) -> float:
    try:
        value = float(cell.replace(",", ""))
    except ValueError:
        value = float("nan")
    if not isfinite(value):
        raise NcuFailed(f"{name} = {cell!r}: is no number")
    return value


def _extent(cell: str) -> tuple[int, int, int]:
    """`(4096, 1, 1)` as numbers."""
    x, y, z = (int(part) for part in re.findall(r"\d+", cell))
    return x, y, z
