"""Fits that turn samples into device numbers.

Medians and order statistics throughout: a microbenchmark that was disturbed once must not move a device number.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

LEAST_FOUND, MOST_FOUND = 0.7, 0.95
"""Shares of a buffer that is a little too large for a cache."""
SIDES_APART_CYCLES = 40.0
"""First loads that take less than this longer than second ones do not cross from one L2 partition to another."""
Record = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A number that was measured.

    Args:
        key: field of `Device` or `SmNumbers`, or a constant that neither has a field for; the unit is in its name.
        value: in that unit; how: how it was measured, for the source.
    """

    key: str
    value: float
    how: str


def slope(points: Mapping[float, Sequence[float]]) -> float:
    """Median of the slopes between all pairs of points (Theil and Sen).

    Args:
        points: x -> samples of y, of which the median counts.
    """
    xs = sorted(points)
    ys = [median(points[x]) for x in xs]
    pairs = [(i, j) for i in range(len(xs)) for j in range(i + 1, len(xs))]
    if not pairs:
        raise ValueError("a slope needs two points")
    return median((ys[j] - ys[i]) / (xs[j] - xs[i]) for i, j in pairs)


def split_sides(
    first: Sequence[Sequence[float]], second: Sequence[Sequence[float]]
) -> tuple[list[list[int]], float, float]:
    """Which SMs share a partition of L2 with the SM that read the lines before.

    Args:
        first, second: per SM, latency of the first and of the second load of its lines [cycles].

    Returns:
        SMs of each side, the first SM's side first (one side where no load crosses); by how much a first load must
        exceed the second to be one that crosses, and by how much those do [cycles].
    """
    excess = [[a - b for a, b in zip(row, again, strict=True)] for row, again in zip(first, second, strict=True)]
    every = sorted(value for row in excess for value in row)
    slow = every[int(0.9 * len(every))]
    if slow < SIDES_APART_CYCLES:
        return [list(range(len(excess)))], float("inf"), 0.0
    threshold = slow / 2
    far = [sum(value > threshold for value in row) / len(row) for row in excess]
    sides = [[sm for sm, share in enumerate(far) if (share > 0.25) == away] for away in (False, True)]
    return sides, threshold, median(value for value in every if value > threshold)


def share_below(histogram: Mapping[str, int], limit_cycles: float) -> float:
    """Share of loads that took less than a limit. Args: histogram: lower end of a bin [cycles] -> loads."""
    total = sum(histogram.values())
    return sum(count for low, count in histogram.items() if float(low) < limit_cycles) / total


def held_bytes(knee: Mapping[str, Mapping[str, int]], limit_cycles: float) -> float | None:
    """How much of a buffer that is a little too large stays in the cache [B].

    A buffer of S bytes of which the share h is found holds S h bytes; the median over buffers of which 5 to 30 % is
    missing. Far larger buffers hold less, as no policy keeps all of what it could. None where there is no such buffer.

    Args:
        knee: bytes of the buffer -> histogram of latencies; limit_cycles: what takes longer is a miss.
    """
    held = []
    for size, histogram in knee.items():
        share = share_below(histogram, limit_cycles)
        if LEAST_FOUND < share < MOST_FOUND:
            held.append(float(size) * share)
    return median(held) if held else None


def finding(key: str, value: float, how: str) -> Finding:
    """A finding, in one line. Args: as of `Finding`."""
    return Finding(key=key, value=float(value), how=how)
