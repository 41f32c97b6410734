"""How far a predicted ratio of two kernels' times can be trusted: pairs of configurations of one cell, kept data in.

    python validate/lab/diff_pairs.py

Fits the bands of `tilesight diff` on half of the cells (by the hash of their names), and counts verdicts and signs on
the other half: two configurations on an H100, and on an H200 by the same band; a configuration on an H100 and the same
on an H200; and two of one cell, the first on an H100, the other on an H200. Needs neither torch nor a GPU.
"""

import math
import sys
from collections.abc import Iterator, Sequence
from hashlib import sha256
from itertools import combinations, product
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).with_name("choice")))

from page import H100, H200, Gpu, Row, cells_of

from tilesight.diffing.verdict import BAND, OTHER_CODE_ELSEWHERE, SAME_CODE_ELSEWHERE, Band, half_width

COVERED = 0.9
"""Share of pairs whose measured ratio is to lie in the band."""
SLOPES = np.arange(0.0, 0.31, 0.01)
HALVES = ("fitted on", "held out")
APART = (0.05, 0.2)


Pair = tuple[tuple[Row, float], tuple[Row, float]]
"""Two configurations of a cell: what was predicted and measured of each."""
Halves = list[tuple[np.ndarray, np.ndarray]]
"""Of both halves of the cells predicted and measured ratios as logarithms; the predicted one is never below 0."""


def on_one(gpu: Gpu) -> Iterator[tuple[str, Pair]]:
    """Cell and pair of its configurations on a GPU."""
    for cell, rows in cells_of(gpu, gpu.tables[-1][1]).items():
        yield from ((cell, pair) for pair in combinations(rows, 2))


def on_two(same: bool) -> Iterator[tuple[str, Pair]]:
    """The same of an H100 and an H200. Args: same: whether the configuration is the same on both."""
    others = cells_of(H200, H200.tables[-1][1])
    for cell, rows in cells_of(H100, H100.tables[-1][1]).items():
        for first, second in product(rows, others.get(cell, ())):
            if (first[0]["index"] == second[0]["index"]) is same:
                yield cell, (first, second)


def halves_of(pairs: Iterator[tuple[str, Pair]]) -> Halves:
    """Their ratios."""
    halves: list[list[tuple[float, float]]] = [[], []]
    for cell, ((first, first_us), (second, second_us)) in pairs:
        predicted, measured = math.log(second["us"] / first["us"]), math.log(second_us / first_us)
        half = halves[sha256(cell.encode()).digest()[0] % 2]
        half.append((predicted, measured) if predicted >= 0 else (-predicted, -measured))
    return [(np.array(half)[:, 0], np.array(half)[:, 1]) for half in halves]


def fitted(predicted: np.ndarray, measured: np.ndarray) -> tuple[float, float]:
    """Half width of the band at equal times, and its growth with the ratio: the quantile of least pinball loss."""
    errors = np.abs(measured - predicted)
    fits = []
    for slope in SLOPES:
        rest = errors - slope * predicted
        constant = float(np.quantile(rest, COVERED))
        above = rest - constant
        fits.append((float(np.mean(np.maximum(COVERED * above, (COVERED - 1) * above))), constant, float(slope)))
    return min(fits)[1:]


def row_of(name: str, predicted: np.ndarray, measured: np.ndarray, band: Band = BAND) -> Sequence[str]:
    """Pairs, share in the band, and of those measured apart the share that gets a verdict, and of these the right."""
    widths = np.array([half_width(value, band) for value in predicted])
    verdict = predicted > widths
    cells = [name, f"{len(predicted):,}", f"{np.mean(np.abs(measured - predicted) <= widths):.1%}"]
    for least in APART:
        apart = np.abs(measured) >= math.log1p(least)
        cells += [f"{np.mean(verdict[apart]):.1%}", f"{np.mean(measured[apart & verdict] > 0):.2%}"]
    near = np.abs(measured) < math.log1p(APART[0])
    return [*cells, f"{np.mean(verdict[near]):.1%}"]


def main() -> None:
    """Print what is fitted, and the table of docs/diff.md."""
    groups = (
        ("H100", BAND, halves_of(on_one(H100)), HALVES),
        ("H200", BAND, halves_of(on_one(H200)), ("first half", "second half")),
        ("H100 to H200, same configuration", SAME_CODE_ELSEWHERE, halves_of(on_two(same=True)), HALVES),
        ("H100 to H200, another one", OTHER_CODE_ELSEWHERE, halves_of(on_two(same=False)), HALVES),
    )
    for name, band, halves, _ in groups:
        print("{}: fitted {:.3f} + {:.2f} x; in use {} + {} x".format(name, *fitted(*halves[0]), *band))
    titles = ("pairs", "count", "in the band", "5 %: verdict", "right", "20 %: verdict", "right", "nearer: verdict")
    rows = [
        row_of(f"{name}, {half}", *pair, band)
        for name, band, halves, halves_names in groups
        for half, pair in zip(halves_names, halves, strict=True)
    ]
    for cells in (titles, ["---"] * len(titles), *rows):
        print(f"| {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
