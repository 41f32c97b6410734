"""Tables of what `traced_points.py` wrote: errors by hand-written programs and by trace, and what lies apart.

    python validate/lab/traced_table.py LINES.ndjson[.xz]... [--apart 0.05]

Points of problems that stand in draw 0 are left out, as in docs/accuracy.md; of a point that stands twice the last
line counts, and one that was traced before one that was not.
"""

import argparse
import json
import lzma
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tilesight.validate.compare.compare import LEAST_BYTES
from tilesight.validate.measure.results_file import read_results

FITTED_ON = Path(__file__).parents[1] / "data" / "h200-2026-11-21.jsonl"
BYTES = ("smem_fill_bytes", "hbm_read_bytes", "hbm_write_bytes")
Point = dict[str, Any]


def read(paths: Iterable[Path]) -> list[Point]:
    """Points of the gate, once each."""
    fitted = {row.point.shape for row in read_results(FITTED_ON)[1]}
    kept: dict[tuple[str, str, str], Point] = {}
    for path in paths:
        stored = path.read_bytes()
        for line in (lzma.decompress(stored) if path.suffix == ".xz" else stored).splitlines():
            point = json.loads(line)
            key = point["gpu"], point["draw"], point["key"]
            if point["shape"] not in fitted and ("traced" in point or "traced" not in kept.get(key, {})):
                kept[key] = point
    return list(kept.values())


def errors(points: Sequence[Point], by: str, quantity: str) -> np.ndarray:
    """Signed relative errors, float64 (points that both predict and that say something,). Args: by: written, traced."""
    signed = []
    for point in points:
        pairs = [point[other]["pairs"].get(quantity) for other in ("written", "traced")]
        if all(pairs) and pairs[0][1] and (quantity == "time_s" or max(map(max, pairs)) >= LEAST_BYTES):
            predicted, measured = point[by]["pairs"][quantity]
            signed.append(predicted / measured - 1.0)
    return np.array(signed)


def moved(point: Point) -> float:
    """By how much the traced time differs from the written one."""
    traced, written = (point[by]["pairs"]["time_s"][0] for by in ("traced", "written"))
    return float(traced / written - 1.0)


def line(name: str, points: Sequence[Point], apart: float) -> str:
    """A line of the table. Args: apart: from which difference on a point is counted as such."""
    both = [point for point in points if "traced" in point]
    written, traced = (100.0 * np.abs(errors(both, by, "time_s")).mean() for by in ("written", "traced"))
    cpu_s = np.array([(point["trace_s"], point["traced"]["simulate_s"]) for point in both])
    median, mean = np.median(cpu_s[:, 0]), cpu_s.mean(axis=0)
    far = sum(abs(moved(point)) > apart for point in both)
    return (
        f"| {name} | {len(points)} | {len(points) - len(both)} | {written:.2f} % | {traced:.2f} % |"
        f" {traced - written:+.2f} | {far} | {mean[0]:.1f} ({median:.1f}) | {mean[1]:.1f} |"
    )


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("lines", type=Path, nargs="+")
    parser.add_argument("--apart", type=float, default=0.05, help="differences of time that are listed")
    options = parser.parse_args()
    points = read(options.lines)
    groups: dict[tuple[str, str], list[Point]] = defaultdict(list)
    for point in points:
        groups[point["gpu"].upper(), f"`{point['schedule']}`"].append(point)
        groups[point["gpu"].upper(), "all"].append(point)
    print("| GPU, schedule | points | not traced | written | traced | worse by | apart | trace [CPU-s] | simulation |")
    print("|---|---|---|---|---|---|---|---|---|")
    for (gpu, schedule), of_group in sorted(groups.items(), key=lambda group: (group[0][0], group[0][1] == "all")):
        print(line(f"{gpu}, {schedule}", of_group, options.apart))
    both = [point for point in points if "traced" in point]
    print("\n| bytes | points | written: mean, worst | traced: mean, worst |\n|---|---|---|---|")
    for quantity in BYTES:
        sizes = [100.0 * np.abs(errors(both, by, quantity)) for by in ("written", "traced")]
        cells = " | ".join(f"{size.mean():.2f} %, {size.max():.0f} %" for size in sizes)
        print(f"| {quantity} | {len(sizes[0])} | {cells} |")
    reasons = Counter((point.get("refused") or point["failed"])[:110] for point in points if "traced" not in point)
    print("\nNot traced:", *(f"{count}: {reason}" for reason, count in reasons.most_common()), sep="\n")
    print("\nApart:")
    for point in sorted((p for p in both if abs(moved(p)) > options.apart), key=lambda p: -abs(moved(p))):
        ends = [point[by]["pairs"]["time_s"] for by in ("written", "traced")]
        shown = " -> ".join(f"{predicted / measured - 1.0:+.1%}" for predicted, measured in ends)
        print(f"{moved(point):+.1%} ({shown}) {point['gpu']} {point['key']}")


if __name__ == "__main__":
    main()
