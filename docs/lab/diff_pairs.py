"""How far a predicted ratio of two kernels' times can be trusted: pairs of configurations of one cell, kept data in.

    python docs/lab/diff_pairs.py

Fits the band of `tilesight diff` on half of the cells (by the hash of their names) of the H100, and counts verdicts and
signs on the other half, and on cells of the H200. Needs neither torch nor a GPU.
"""

import math
import sys
from collections.abc import Sequence
from hashlib import sha256
from itertools import combinations
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "docs" / "lab" / "choice"))

from page import H100, H200, Gpu, cells_of  # noqa: E402

from tilesight.diffing.verdict import BAND, half_width  # noqa: E402

COVERED = 0.9
"""Share of pairs whose measured ratio is to lie in the band."""
SLOPES = np.arange(0.0, 0.31, 0.01)
HALVES = ("fitted on", "held out")
APART = (0.05, 0.2)


def pairs_of(gpu: Gpu) -> list[tuple[np.ndarray, np.ndarray]]:
    """Of both halves of the cells predicted and measured ratios as logarithms; the predicted one is never below 0."""
    halves: list[list[tuple[float, float]]] = [[], []]
    for cell, rows in cells_of(gpu, gpu.tables[-1][1]).items():
        half = halves[sha256(cell.encode()).digest()[0] % 2]
        for (first, first_us), (second, second_us) in combinations(rows, 2):
            predicted, measured = math.log(second["us"] / first["us"]), math.log(second_us / first_us)
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


def row_of(name: str, predicted: np.ndarray, measured: np.ndarray, band: tuple[float, float] = BAND) -> Sequence[str]:
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
    of_h100, of_h200 = pairs_of(H100), pairs_of(H200)
    print("fitted: {:.3f} + {:.2f} x; in use: {} + {} x".format(*fitted(*of_h100[0]), *BAND))
    rows = [
        row_of(f"{gpu}, {half}", *pair)
        for gpu, halves in (("H100", of_h100), ("H200", of_h200))
        for half, pair in zip(HALVES if gpu == "H100" else ("first half", "second half"), halves, strict=True)
    ]
    titles = ("pairs", "count", "in the band", "5 %: verdict", "right", "20 %: verdict", "right", "nearer: verdict")
    for cells in (titles, ["---"] * len(titles), *rows):
        print(f"| {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
