"""How far a predicted ratio of two times can be trusted where only the source changed: 104 edits, measured on an H100.

    python validate/lab/edits/band.py

Fits the band of `tilesight diff` for launches of the same grid, warps, stages and tiles on half of the edits (by the
hash of their names), counts verdicts and signs on the other half, and prints every edit. Needs neither torch nor a GPU.
Predictions are blind (committed before the measurement), but for the kernel that a fault was mended for since.
"""

import json
import lzma
import math
import sys
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from diff_pairs import fitted, row_of

from tilesight.diffing.verdict import EDIT_BAND

DATA = Path(__file__).resolve().parents[2] / "data" / "edits-h100-2026-11-27.ndjson.xz"
LAUNCH_EDITS = ("one stage", "two stages", "four stages", "half of the warps")
"""Edits that change warps or stages: those are held to the band of configurations."""
MENDED = "row_loss"
"""Kernel whose loop was taken to cost a full SM nothing: its blind answers are counted apart."""


def lines() -> list[dict[str, Any]]:
    """All edits, as measured and predicted."""
    with lzma.open(DATA, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def ratios(line: dict[str, Any], times: str) -> tuple[float, float]:
    """Logarithms of the predicted and the measured ratio; the predicted one is never below 0."""
    predicted, measured = (math.log(line[name][1] / line[name][0]) for name in (times, "us"))
    return (predicted, measured) if predicted >= 0 else (-predicted, -measured)


def half_of(line: dict[str, Any]) -> int:
    """0 of an edit that the band is fitted on, else 1: one kernel's edit has the same half at every shape."""
    return sha256(f"{line['kernel']} {line['edit']}".encode()).digest()[0] % 2


def arrays(chosen: Sequence[dict[str, Any]], times: str) -> tuple[np.ndarray, np.ndarray]:
    """Predicted and measured ratios of edits, as logarithms."""
    pairs = np.array([ratios(line, times) for line in chosen])
    return pairs[:, 0], pairs[:, 1]


def main() -> None:
    """Print the fit, the table of verdicts, and every edit."""
    changed = [line for line in lines() if line["predicted_us"][0] != line["predicted_us"][1]]
    edits = [line for line in changed if line["edit"] not in LAUNCH_EDITS]
    sound = [line for line in edits if line["kernel"] != MENDED]
    halves = [[line for line in sound if half_of(line) == half] for half in (0, 1)]
    print("fitted: {:.3f} + {:.2f} |x|".format(*fitted(*arrays(halves[0], "predicted_us"))), "in use:", EDIT_BAND)
    groups = (
        ("source, fitted on", halves[0], "predicted_us"),
        ("source, held out", halves[1], "predicted_us"),
        (f"source, {MENDED}, blind", [line for line in edits if line["kernel"] == MENDED], "predicted_us"),
        (f"source, {MENDED}, mended", [line for line in edits if line["kernel"] == MENDED], "again_us"),
    )
    for name, chosen, times in groups:
        print("|", " | ".join(row_of(name, *arrays(chosen, times), EDIT_BAND)), "|")
    print()
    for line in lines():
        now = line.get("again_us", line["predicted_us"])
        shown = [f"{times[1] / times[0]:.3f}" for times in (line["predicted_us"], now, line["us"])]
        print("|", " | ".join((line["kernel"], line["shape"], line["edit"], *shown)), "|")


if __name__ == "__main__":
    main()
