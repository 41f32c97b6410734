"""Hold what was measured of cells against what was predicted of them.

    python validate/lab/choice/compare.py PREDICTED MEASURED [MEASURED ...] [--device h100] [--flush clean|dirty|warm]
        [--cells] [--points FILE]

Of each cell: measured time of the configuration that is predicted best, and of the best of the first three, over the
best measured; rank correlation; error of times. Of the experiments: errors by their variables, and what an iteration of
a loop takes. `dirty`: L2 as `do_bench` leaves it; `warm`: as the launch before left it. What an empty kernel shows is
taken off measured times.
PREDICTED: packed or not, what is of the device counts. MEASURED: folders that measure.py wrote on such a device.
--points: all pairs, as JSON lines.
"""

import argparse
import json
import statistics
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from cells import CELLS
from families import EXPERIMENTS, FAMILIES
from kept import Row, lines_of
from tilesight.validate.counters.ncu_output import parse

Key = tuple[str, int]


def pairs(predictions: dict[Key, Row], measured: Iterable[Path], flush: str) -> list[Row]:
    """A row for each configuration that was measured right: `us` measured, `predicted_us`, and all else of both."""
    rounds: dict[Key, list[Row]] = defaultdict(list)
    empty_us = 0.0
    for folder in measured:
        empty_us = json.loads((folder / "machine.json").read_text())["empty_us"][flush]
        for line in lines_of(next(folder.glob("measured.jsonl*"))):
            if f"{flush}_us" in line:
                rounds[line["cell"], line["index"]].append(line | {"empty_us": empty_us})
    rows = []
    for key, lines in rounds.items():
        if CELLS[key[0]].configs[key[1]] != lines[0]["config"]:
            raise ValueError(f"{key}: another configuration was measured than this code would launch")
        wrong = any(not line.get("error", 0.0) < 0.03 for line in lines)
        us = [line[f"{flush}_us"] - line["empty_us"] + EMPTY_US for line in lines]
        row = lines[0] | {"us": statistics.median(us), "spread": max(us) / min(us) - 1, "wrong": wrong}
        row["prediction"] = predictions.get(key, {"failed": "not predicted"})
        row["predicted_us"] = row["prediction"].get("warm_us" if flush == "warm" else "us")
        rows.append(row)
    return rows


EMPTY_US = 2.2
"""What an empty kernel takes of a GPU's own time, by ncu; events show more."""


def rank_correlation(a: list[float], b: list[float]) -> float:
    """Spearman's, of values without ties."""
    first, second = ([sorted(v).index(x) for x in v] for v in (a, b))
    n = len(a)
    return 1 - 6 * sum((x - y) ** 2 for x, y in zip(first, second, strict=True)) / (n * (n * n - 1))


def judged(rows: list[Row]) -> Row:
    """How good the choice among the rows of a cell is; `lost`: rows that were refused or failed."""
    known = [row for row in rows if row["predicted_us"]]
    best = min(row["us"] for row in rows)
    by = sorted(known, key=lambda row: row["predicted_us"])
    errors = [row["predicted_us"] / row["us"] - 1 for row in known]
    return {
        "n": len(rows), "lost": len(rows) - len(known), "first": by[0]["us"] / best,
        "third": min(row["us"] for row in by[:3]) / best, "best_us": best,
        "rho": rank_correlation([row["us"] for row in known], [row["predicted_us"] for row in known]),
        "error": statistics.mean(map(abs, errors)), "bias": statistics.mean(errors),
        "worst_us": max(row["us"] for row in rows), "chosen": by[0]["config"],
        "best": min(rows, key=lambda row: row["us"])["config"],
    }  # fmt: skip


def show_cells(rows: list[Row], listed: bool) -> None:
    """Tables of the choice."""
    for family in FAMILIES:
        cells = defaultdict(list)
        for row in rows:
            if row["family"] == family and family not in EXPERIMENTS and not row["wrong"]:
                cells[row["cell"]].append(row)
        choices = {name: judged(of) for name, of in cells.items() if sum(bool(row["predicted_us"]) for row in of) > 1}
        if not choices:
            continue
        first, third = ([choice[name] for choice in choices.values()] for name in ("first", "third"))
        print(f"\n{family}: {len(choices)} cells, chosen over best {statistics.mean(first):.3f}, "
              f"worst {max(first):.3f}; of three {statistics.mean(third):.3f}, worst {max(third):.3f}")  # fmt: skip
        for name, choice in choices.items() if listed else ():
            print(f"  {name:34s} n {choice['n']:2d} lost {choice['lost']:2d} "
                  f"@1 {choice['first']:.3f} @3 {choice['third']:.3f} rho {choice['rho']:5.2f} "
                  f"error {choice['error']:6.1%} bias {choice['bias']:+6.1%} "
                  f"{choice['best_us']:8.1f} to {choice['worst_us']:8.1f} us")  # fmt: skip
            if choice["first"] > 1.05:
                print(f"      chosen {list(choice['chosen'].values())}, best {list(choice['best'].values())}")


def show_runs(rows: list[Row]) -> None:
    """Bandwidth by length of runs, measured and predicted [TB/s]."""
    from runs import moved_bytes

    table = defaultdict(list)
    for row in rows:
        if row["family"] == "runs" and row["predicted_us"]:
            config = row["config"]
            key = (
                config["order"],
                str(config["ctas_per_sm"]),
                config["stages"],
                config["tile_bytes"] >> 10,
                config["stride_bytes"] >> 10,
            )
            rates = [moved_bytes(config) / row[name] / 1e6 for name in ("us", "predicted_us")]
            table[key].append((config["run_bytes"], *rates))
    if table:
        print("\nruns: order, CTAs an SM, stages, tile KiB, stride KiB: run B measured/predicted TB/s")
    for key, values in sorted(table.items()):
        print("  ", *key, ":", "  ".join(f"{run} {got:.2f}/{said:.2f}" for run, got, said in sorted(values)))


def show_loops(rows: list[Row]) -> None:
    """What an iteration takes between 16, 64 and 128 trips, measured and predicted [us]."""
    table: dict[tuple[Any, ...], dict[int, Row]] = defaultdict(dict)
    for row in rows:
        if row["family"] == "loops" and row["predicted_us"]:
            config = row["config"]
            key = (
                config["by"],
                config["BM"],
                config["num_stages"],
                config["tile_bytes"] >> 10,
                config["BK"],
                config["ctas"],
            )
            table[key][config["trips"]] = row
    if table:
        print(
            "\nloops: by, BM, stages, tile KiB, BK, CTAs: us an iteration of trips 16 to 64 and 64 to 128, and us at 16"
        )
    for key, at in sorted(table.items()):
        if set(at) != {16, 64, 128}:
            continue
        text = []
        for low, high in ((16, 64), (64, 128)):
            spans = [(at[high][name] - at[low][name]) / (high - low) for name in ("us", "predicted_us")]
            text.append(f"{spans[0]:.3f}/{spans[1]:.3f}")
        print("  ", *key, ":", *text, f"{at[16]['us']:.1f}/{at[16]['predicted_us']:.1f}")


def show_counters(predictions: dict[Key, Row], folder: Path) -> None:
    """Of the experiments that were counted: bytes read from device memory, time and cycles, counted and predicted."""
    table, counted = folder / "counters.csv", folder / "counted.jsonl"
    if not table.exists() or not counted.exists():
        return
    print("\ncounted/predicted: MB read from device memory, us, thousand cycles; clock [GHz]")
    for launch, row in zip(lines_of(counted), parse(table.read_text(errors="replace")), strict=False):
        values = {name: value for name, (value, _) in row.metrics.items()}
        line = predictions.get((launch["cell"], launch["index"]), {})
        if row.grid[0] != launch["grid"][0]:
            raise ValueError(f"{launch} was counted as a grid of {row.grid}")
        ns, cycles = values["gpu__time_duration.sum"], values["sm__cycles_elapsed.max"]
        read = values["dram__bytes_read.sum"]
        said = (line.get("hbm_read_bytes", 0) / 1e6, line.get("us", 0.0), line.get("cycles", 0) / 1e3)
        config = list(CELLS[launch["cell"]].configs[launch["index"]].values())
        print(f"  {launch['cell']} {config}: {read / 1e6:.1f}/{said[0]:.1f} {ns / 1e3:.1f}/{said[1]:.1f} "
              f"{cycles / 1e3:.1f}/{said[2]:.1f}; {cycles / ns:.2f}")  # fmt: skip


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("predicted", type=Path)
    parser.add_argument("measured", type=Path, nargs="+")
    parser.add_argument("--device", default="h100", help="file of the device that was predicted")
    parser.add_argument("--flush", choices=("clean", "dirty", "warm"), default="clean")
    parser.add_argument("--cells", action="store_true")
    parser.add_argument("--points", type=Path)
    options = parser.parse_args()
    said = [line for line in lines_of(options.predicted) if line["device"] == options.device]
    predictions = {(line["cell"], line["index"]): line for line in said}
    rows = pairs(predictions, options.measured, options.flush)
    print(f"{len(rows)} measured, {sum(row['wrong'] for row in rows)} with wrong output, "
          f"{sum(not row['predicted_us'] for row in rows)} not predicted; "
          f"rounds differ by {statistics.median(row['spread'] for row in rows):.1%} in the median")  # fmt: skip
    show_cells(rows, options.cells)
    show_runs(rows)
    show_loops(rows)
    for folder in options.measured:
        show_counters(predictions, folder)
    if options.points:
        options.points.write_text("".join(json.dumps(row) + "\n" for row in rows))


if __name__ == "__main__":
    main()
