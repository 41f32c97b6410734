"""Predictions of foreign kernels held against what a GPU did with them.

    python tests/support/foreign.py FOLDER [NAME ...]

The folder holds `kernels.py`, with `CASES[name](device)` that returns a function which launches one Triton kernel, and
one JSON file, with the counters of each: see its README. Prints a line for each kernel, and the errors of all.
"""

import json
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import numpy as np

import tilesight

COLUMNS = {
    "cycles": lambda prediction, row: (prediction.traffic.cycles, row["all"]["cycles"]),
    "ncu time": lambda prediction, row: (prediction.traffic.time_s * 1e9, row["all"]["time_ns"]),
    "do_bench": lambda prediction, row: (
        prediction.traffic.time_s * prediction.clock_hz / prediction.sustained_clock_hz * 1e3,
        sorted(row["time_ms"])[1],
    ),
    "HBM read": lambda prediction, row: (prediction.traffic.hbm_read_bytes, row["all"]["dram_read"]),
    "L1 fill": lambda prediction, row: (prediction.traffic.smem_fill_bytes, row["all"]["l1_fill"]),
}


def load_cases(folder: Path) -> dict[str, Any]:
    """The cases of a folder's kernels.py."""
    spec = spec_from_file_location("foreign_kernels", folder / "kernels.py")
    assert spec and spec.loader
    module = module_from_spec(spec)
    sys.modules["foreign_kernels"] = module
    spec.loader.exec_module(module)
    return dict(module.CASES)


def main(folder: Path, names: list[str], device: str = "h200") -> None:
    """Print the table."""
    cases = load_cases(folder)
    (file,) = folder.glob("*.json")
    measured = json.loads(file.read_text(encoding="utf-8"))
    errors: dict[str, list[float]] = {name: [] for name in (*COLUMNS, "warm HBM read", "warm cycles")}
    print("| case | inst | " + " | ".join(errors) + " | HBM written, measured / predicted [MB] |")
    for name in names or list(cases):
        row = measured[name]
        with tilesight.capture(device) as launches:
            cases[name]("meta")()
        cold = tilesight.predict(launches, device, l2="cold").rows[0]
        warm = tilesight.predict(launches, device, l2="warm").rows[0].prediction
        prediction = cold.prediction
        if prediction is None or warm is None:
            print(f"| {name} | refused: {cold.refused} |")
            continue
        pairs = {title: of(prediction, row) for title, of in COLUMNS.items()}
        pairs["warm HBM read"] = warm.traffic.hbm_read_bytes, row["none"]["dram_read"]
        pairs["warm cycles"] = warm.traffic.cycles, row["none"]["cycles"]
        cells = []
        for title, (predicted, counted) in pairs.items():
            error = 100 * (predicted / counted - 1) if counted > 1e6 or "read" not in title else 0.0
            errors[title].append(error)
            cells.append(f"{error:+.1f}")
        written = f"{row['all']['dram_write'] / 1e6:.0f} / {prediction.traffic.hbm_write_bytes / 1e6:.0f}"
        extra_instructions = f"{cold.executed_instructions - int(row['all']['inst']):+d}"
        print(f"| {name} | {extra_instructions} | {' | '.join(cells)} | {written} |", flush=True)
    for title, values in errors.items():
        size = np.abs(values)
        print(
            f"{title:14s} mean {size.mean():.1f} % median {np.median(size):.1f} % bias {np.mean(values):+.1f} % "
            f"within 5: {(size <= 5).sum()}, 12: {(size <= 12).sum()} of {len(size)}, worst {size.max():.1f} %"
        )


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
