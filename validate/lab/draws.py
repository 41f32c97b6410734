"""The draws of points that docs/accuracy.md is about: compiled once, predicted by any model, counted in tables.

    python validate/lab/draws.py code RESULTS.jsonl ROWS.gz    attach machine code (torch, the Triton that measured)
    python validate/lab/draws.py predict ROWS.gz PAIRS.json    predict every point, hold it against its row
    python validate/lab/draws.py tables PAIRS.json...          errors by draw, schedule, occupancy, stages, quantity
    python validate/lab/draws.py page GPU/SOURCE=PAIRS.json,...  the tables of docs/accuracy.md and validation/detail.md
    python validate/lab/draws.py against OLD.json NEW.json...  the same points by two models

Compiling takes as long as predicting and does not change with the model: hence two steps. Without torch `code` attaches
what the library of compiled kernels keeps, and with `--tiles` nothing: these are the sources of cost of the page.
PAIRS.json may also be what `tilesight validate --read RESULTS.jsonl --json-file PAIRS.json` writes, from the library.
ROWS.gz holds pickled rows: read none but your own.
"""

import argparse
import gzip
import json
import pickle
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tilesight.simulator.device.device import Device, load_device
from tilesight.simulator.jobs.pool import cores
from tilesight.validate.compare.campaign import compare_rows
from tilesight.validate.compare.compare import COUNTED, LEAST_BYTES, QUANTITIES, Comparison, spearman
from tilesight.validate.compare.recompile import with_code
from tilesight.validate.measure.results_file import Row, read_results

TILED = ("flash1", "flash2", "flash2_tma")
SCHEDULES = (*TILED, "naive", "unfused")
LEAST_RANKED = 6
"""Configurations of a shape that are ranked."""
WITHIN = 0.12
"""Error of time that nineteen in twenty points are to keep."""


Points = Sequence[Mapping[str, Any]]
"""As `pairs_of` makes them, with the draw that each is of."""


def code(results: Path, out: Path, device: Device, tiles: bool) -> None:
    """Compile what was measured. Args: tiles: leave it without code, so that cycles are estimated from tiles."""
    header, rows = read_results(results)
    coded, note = (rows, "no code") if tiles else with_code(rows, device, header.machine.triton)
    with gzip.open(out, "wb", compresslevel=6) as file:
        pickle.dump(coded, file)
    print(f"{out}: {len(coded)} points; {note}")


def pairs_of(comparison: Comparison) -> dict[str, Any]:
    """What the tables need of a point, as JSON."""
    point, prediction = comparison.point, comparison.prediction
    return {
        "key": point.key,
        "schedule": point.schedule,
        "shape": point.shape,
        "l2": point.l2,
        "config": point.config_dict,
        "objections": list(comparison.objections),
        "pairs": {name: [pair.predicted, pair.measured] for name, pair in comparison.pairs.items()},
        "ctas_per_sm": prediction.launches[0].ctas_per_sm if prediction else 0,
    }


def predict(rows: Path, out: Path, device: Device, schedules: tuple[str, ...], keys: str, workers: int) -> None:
    """Predict the rows of some schedules."""
    with gzip.open(rows, "rb") as file:
        every: list[Row] = pickle.load(file)
    chosen = [row for row in every if row.point.schedule in schedules and keys in row.point.key]
    compared = compare_rows(chosen, device, workers=workers, progress=_show)
    out.write_text(json.dumps([pairs_of(comparison) for comparison in compared]))
    print(f"\n{out}: {len(compared)} points")


def _show(done: int, total: int) -> None:
    if done % 20 == 0 or done == total:
        print(f"\r{done} of {total}", end="", file=sys.stderr, flush=True)


def read_pairs(paths: list[Path], unlike: Path | None, doubted: bool = False) -> list[dict[str, Any]]:
    """Points that count. Args: unlike: results whose problems are left out; doubted: count doubted measurements too."""
    known = {row.point.shape for row in read_results(unlike)[1]} if unlike else set()
    points = [point | {"draw": path.stem} for path in paths for point in points_of(json.loads(path.read_text()))]
    return [point for point in points if (doubted or not point["objections"]) and point["shape"] not in known]


def points_of(document: Any) -> list[dict[str, Any]]:
    """Points as `pairs_of` makes them, from a list of them or from the JSON of `tilesight validate`."""
    if isinstance(document, list):
        return document
    return [
        {name: point[name] for name in ("key", "schedule", "l2", "config", "objections")}
        | {
            "shape": point["key"].split("/")[1],
            "pairs": {name: [pair["predicted"], pair["measured"]] for name, pair in point["compared"].items()},
            "ctas_per_sm": point["predicted"]["launches"][0]["ctas_per_sm"] if point["predicted"] else 0,
        }
        for point in document["points"]
    ]


def error(point: dict[str, Any], quantity: str) -> float | None:
    """Signed relative error; None where it is not compared, or next to nothing flows."""
    if quantity not in point["pairs"]:
        return None
    predicted, measured = point["pairs"][quantity]
    if quantity.endswith("_bytes") and max(predicted, measured) < LEAST_BYTES:
        return None
    return (predicted - measured) / measured if measured else float("inf")


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """Errors of time over some points, and how well configurations of a shape are ranked.

    Args:
        errors: signed, relative, float64 (points,); ranks: correlation in each shape with enough configurations;
        chosen: time of the configuration that is predicted fastest over that of the fastest, in each of those shapes.
    """

    errors: np.ndarray
    ranks: Sequence[float]
    chosen: Sequence[float]

    @property
    def cell(self) -> str:
        """Points, mean error (median), bias, share of the points within the limit."""
        size = np.abs(self.errors)
        within = (size <= WITHIN).mean()
        shown = f"{size.mean():.1%} ({np.median(size):.1%}), {self.errors.mean():+.1%}, {within:.0%}"
        return f"{len(size):,}: {shown.replace('%', ' %')}"

    @property
    def ranking(self) -> str:
        """Worst and median rank correlation; worst and median loss by the choice."""
        if not self.ranks:
            return ""
        return (
            f"{min(self.ranks):.2f}, {np.median(self.ranks):.2f}; {max(self.chosen):.2f}, {np.median(self.chosen):.2f}"
        )


def times_of(points: Points) -> Times:
    """Errors and rankings of some points."""
    errors = np.array([off for point in points if (off := error(point, "time_s")) is not None])
    shapes = defaultdict(list)
    for point in points:
        if "time_s" in point["pairs"]:
            shape = point["draw"], point["schedule"], point["shape"], point["l2"]
            shapes[shape].append(point["pairs"]["time_s"])
    ranks, chosen = [], []
    for pairs in shapes.values():
        if len(pairs) >= LEAST_RANKED:
            predicted, measured = np.array(pairs).T
            ranks.append(spearman(predicted, measured))
            chosen.append(measured[predicted.argmin()] / measured.min())
    return Times(errors=errors, ranks=ranks, chosen=chosen)


def time_line(title: str, points: Points) -> str:
    """A line of the tables of times."""
    times = times_of(points)
    return f"| {title} | {times.cell} | {times.ranking} |" if len(times.errors) else f"| {title} | 0 | |"


def page(sources: Mapping[tuple[str, str], Points]) -> None:
    """Print the tables of the page. Args: sources: (GPU, where cycles come from) -> points."""
    gpus, origins = (tuple(dict.fromkeys(key[part] for key in sources)) for part in (0, 1))
    print(f"| GPU | schedule | {' | '.join(origins)} |\n|{'---|' * (2 + len(origins))}")
    for gpu in gpus:
        for schedule in (*SCHEDULES, ""):
            cells = [_cell(sources.get((gpu, origin), ()), schedule) for origin in origins]
            print(f"| {gpu} | {f'`{schedule}`' if schedule else 'all'} | {' | '.join(cells)} |")
    print(f"\n| GPU, cycles from | {' | '.join(f'`{schedule}`' for schedule in SCHEDULES)} |\n|{'---|' * 6}")
    for (gpu, origin), points in sources.items():
        print(f"| {gpu}, {origin} | {' | '.join(times_of(of_schedule(points, name)).ranking for name in SCHEDULES)} |")
    print_quantities([point for points in sources.values() for point in points])


def of_schedule(points: Points, schedule: str) -> Points:
    """Those of a schedule; all where it has no name."""
    return [point for point in points if schedule in ("", point["schedule"])]


def _cell(points: Points, schedule: str) -> str:
    times = times_of(of_schedule(points, schedule))
    return times.cell if len(times.errors) else ""


def quantity_line(quantity: str, points: Points) -> str:
    """A line of the table of other quantities."""
    errors = [off for point in points if (off := error(point, quantity)) is not None]
    if not errors:
        return f"| {quantity} | 0 |"
    size = np.abs(errors)
    shares = " | ".join(f"{(size <= limit).mean():.0%}" for limit in (0.01, 0.10))
    worst = max(errors, key=abs)
    shown = f"{np.median(size):.2%} | {size.mean():.1%} | {shares} | **{worst:+.0%}**"
    return f"| {quantity} | {len(size)} | {shown.replace('%', ' %')} |"


def tables(points: Points) -> None:
    """Print errors by draw, schedule, occupancy, stages and quantity."""
    print("| points | mean error (median), bias, within 12 % | rank, chosen / best: worst, median |\n|---|---|---|")
    tiled = [point for point in points if point["schedule"] in TILED]
    for draw in sorted({point["draw"] for point in tiled}):
        print(time_line(f"{draw}, tiled", [point for point in tiled if point["draw"] == draw]))
    print(time_line("tiled", tiled))
    for schedule in SCHEDULES:
        print(time_line(f"`{schedule}`", of_schedule(points, schedule)))
    for ctas in (1, 2, 3):
        alike = [point for point in tiled if min(point["ctas_per_sm"], 3) == ctas]
        print(time_line(f"tiled, {ctas} CTAs an SM" + (" or more" if ctas == 3 else ""), alike))
    for stages in (1, 2, 3, 4):
        alike = [point for point in tiled if point["config"]["num_stages"] == stages]
        print(time_line(f"tiled, {stages} stages", alike))
    print_quantities(points)


def print_quantities(points: Points) -> None:
    """Print errors by quantity."""
    print("\n| quantity | points | median | mean | within 1 % | within 10 % | worst |\n|---|---|---|---|---|---|---|")
    for quantity in QUANTITIES:
        print(quantity_line(quantity, points))


def against(old: Path, new: list[Path]) -> None:
    """Print what changed, point by point for the largest changes, and in the mean."""
    before = {point["key"]: point for point in read_pairs([old], None)}
    both = [(before[point["key"]], point) for point in read_pairs(new, None) if point["key"] in before]
    for quantity in (*COUNTED, "time_s"):
        pairs = [(error(first, quantity), error(second, quantity), second["key"]) for first, second in both]
        known = [(first, second, key) for first, second, key in pairs if first is not None and second is not None]
        if not known:
            continue
        first, second = np.array([triple[:2] for triple in known]).T
        print(
            f"{quantity}: {len(known)} points, mean {np.abs(first).mean():.2%} -> {np.abs(second).mean():.2%}, "
            f"bias {first.mean():+.2%} -> {second.mean():+.2%}"
        )
        for at in np.argsort(-np.abs(second - first))[:4]:
            if abs(second[at] - first[at]) > 0.01:
                print(f"    {first[at]:+8.1%} -> {second[at]:+8.1%}  {known[at][2]}")


def main() -> None:
    """Do one of them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    steps = parser.add_subparsers(dest="step", required=True)
    step = steps.add_parser("code")
    step.add_argument("results", type=Path)
    step.add_argument("out", type=Path)
    step.add_argument("--device", default="h200", help="name, or a device file; default: %(default)s")
    step.add_argument("--tiles", action="store_true", help="attach nothing: cycles are estimated from tiles")
    step = steps.add_parser("predict")
    step.add_argument("rows", type=Path)
    step.add_argument("out", type=Path)
    step.add_argument("--device", default="h200", help="name, or a device file; default: %(default)s")
    step.add_argument("--schedules", default=",".join(SCHEDULES), help="comma separated; default: %(default)s")
    step.add_argument("--keys", default="", help="text that a point's key must hold")
    step.add_argument("--workers", type=int, default=cores())
    step = steps.add_parser("tables")
    step.add_argument("pairs", type=Path, nargs="+")
    step.add_argument("--unlike", type=Path, help="results whose problems are left out")
    step = steps.add_parser("page")
    step.add_argument("sources", nargs="+", help="GPU/SOURCE=PAIRS.json,...: H200/library=seed9.json,seed12.json")
    step.add_argument("--unlike", type=Path, help="results whose problems are left out")
    step.add_argument("--doubted", action="store_true", help="count doubted measurements too")
    step = steps.add_parser("against")
    step.add_argument("old", type=Path)
    step.add_argument("new", type=Path, nargs="+")
    options = parser.parse_args()
    if options.step == "code":
        code(options.results, options.out, load_device(options.device), options.tiles)
    elif options.step == "predict":
        device, schedules = load_device(options.device), tuple(options.schedules.split(","))
        predict(options.rows, options.out, device, schedules, options.keys, options.workers)
    elif options.step == "tables":
        tables(read_pairs(options.pairs, options.unlike))
    elif options.step == "page":
        named = [source.partition("=")[::2] for source in options.sources]
        page(
            {
                tuple(name.split("/", 1)): read_pairs(
                    [Path(file) for file in files.split(",")], options.unlike, options.doubted
                )
                for name, files in named
            }
        )
    else:
        against(options.old, options.new)


if __name__ == "__main__":
    main()
