"""The draws of points that docs/accuracy.md is about: compiled once, predicted by any model, counted in tables.

    python docs/lab/draws.py code RESULTS.jsonl ROWS.gz        attach machine code (torch, the Triton that measured)
    python docs/lab/draws.py predict ROWS.gz PAIRS.json        predict every point, hold it against its row
    python docs/lab/draws.py tables PAIRS.json...              errors by schedule, quantity, occupancy
    python docs/lab/draws.py against OLD.json NEW.json...      the same points by two models

Compiling takes as long as predicting and does not change with the model: hence two steps.
ROWS.gz holds pickled rows: read none but your own.
"""

import argparse
import gzip
import json
import pickle
import sys
from collections import defaultdict
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
LEAST_RANKED = 6
"""Configurations of a shape that are ranked."""
WITHIN = 0.12
"""Error of time that nineteen in twenty points are to keep."""


def code(results: Path, out: Path, device: Device) -> None:
    """Compile what was measured."""
    header, rows = read_results(results)
    coded, note = with_code(rows, device, header.machine.triton)
    with gzip.open(out, "wb", compresslevel=6) as file:
        pickle.dump(coded, file)
    print(f"{out}: {len(coded)} points; {note}")


def pairs_of(found: Comparison) -> dict[str, Any]:
    """What the tables need of a point, as JSON."""
    point, prediction = found.point, found.prediction
    return {
        "key": point.key,
        "schedule": point.schedule,
        "shape": point.shape,
        "l2": point.l2,
        "config": point.config_dict,
        "objections": list(found.objections),
        "pairs": {name: [pair.predicted, pair.measured] for name, pair in found.pairs.items()},
        "ctas_per_sm": prediction.launches[0].ctas_per_sm if prediction else 0,
    }


def predict(rows: Path, out: Path, device: Device, schedules: tuple[str, ...], keys: str, workers: int) -> None:
    """Predict the rows of some schedules."""
    with gzip.open(rows, "rb") as file:
        every: list[Row] = pickle.load(file)
    chosen = [row for row in every if row.point.schedule in schedules and keys in row.point.key]
    told = [pairs_of(each) for each in compare_rows(chosen, device, workers=workers, progress=_show)]
    out.write_text(json.dumps(told))
    print(f"\n{out}: {len(told)} points")


def _show(done: int, total: int) -> None:
    if done % 20 == 0 or done == total:
        print(f"\r{done} of {total}", end="", file=sys.stderr, flush=True)


def read_pairs(paths: list[Path], unlike: Path | None) -> list[dict[str, Any]]:
    """Points that count. Args: unlike: results whose problems are left out."""
    known = {row.point.shape for row in read_results(unlike)[1]} if unlike else set()
    points = [each | {"draw": path.stem} for path in paths for each in json.loads(path.read_text())]
    return [each for each in points if not each["objections"] and each["shape"] not in known]


def error(point: dict[str, Any], quantity: str) -> float | None:
    """Signed relative error; None where it is not compared, or next to nothing flows."""
    if quantity not in point["pairs"]:
        return None
    predicted, measured = point["pairs"][quantity]
    if quantity.endswith("_bytes") and max(predicted, measured) < LEAST_BYTES:
        return None
    return (predicted - measured) / measured if measured else float("inf")


def time_line(title: str, points: list[dict[str, Any]]) -> str:
    """A line of the table of times."""
    errors = np.array([told for each in points if (told := error(each, "time_s")) is not None])
    if not len(errors):
        return f"| {title} | 0 |"
    shapes = defaultdict(list)
    for each in points:
        if "time_s" in each["pairs"]:
            shapes[each["draw"], each["schedule"], each["shape"], each["l2"]].append(each["pairs"]["time_s"])
    ranks, chosen = [], []
    for pairs in shapes.values():
        if len(pairs) >= LEAST_RANKED:
            predicted, measured = np.array(pairs).T
            ranks.append(spearman(predicted, measured))
            chosen.append(measured[predicted.argmin()] / measured.min())
    order = (
        f"{min(ranks):.2f}, {np.median(ranks):.2f} | {max(chosen):.2f}, {np.median(chosen):.2f}" if ranks else "- | -"
    )
    size = np.abs(errors)
    return (
        f"| {title} | {len(errors)} | {size.mean():.1%} | {np.median(size):.1%} | {errors.mean():+.1%} "
        f"| {(size <= WITHIN).mean():.0%} | {order} |"
    )


def quantity_line(quantity: str, points: list[dict[str, Any]]) -> str:
    """A line of the table of other quantities."""
    errors = [told for each in points if (told := error(each, quantity)) is not None]
    if not errors:
        return f"| {quantity} | 0 |"
    size = np.abs(errors)
    shares = " | ".join(f"{(size <= limit).mean():.0%}" for limit in (0.01, 0.10))
    worst = max(errors, key=abs)
    return f"| {quantity} | {len(size)} | {np.median(size):.2%} | {size.mean():.1%} | {shares} | **{worst:+.0%}** |"


def tables(points: list[dict[str, Any]]) -> None:
    """Print them."""
    print(
        "| points | | mean error | median | bias | within 12 % | rank: worst, median | chosen / best: worst, median |"
    )
    print("|---|---|---|---|---|---|---|---|")
    tiled = [each for each in points if each["schedule"] in TILED]
    for draw in sorted({each["draw"] for each in tiled}):
        print(time_line(f"{draw}, tiled", [each for each in tiled if each["draw"] == draw]))
    print(time_line("tiled", tiled))
    for schedule in (*TILED, "naive", "unfused"):
        print(time_line(f"`{schedule}`", [each for each in points if each["schedule"] == schedule]))
    for ctas in (1, 2, 3):
        alike = [each for each in tiled if min(each["ctas_per_sm"], 3) == ctas]
        print(time_line(f"tiled, {ctas} CTAs an SM" + (" or more" if ctas == 3 else ""), alike))
    for stages in (1, 2, 3, 4):
        print(time_line(f"tiled, {stages} stages", [each for each in tiled if each["config"]["num_stages"] == stages]))
    print("\n| quantity | points | median | mean | within 1 % | within 10 % | worst |\n|---|---|---|---|---|---|---|")
    for quantity in QUANTITIES:
        print(quantity_line(quantity, points))


def against(old: Path, new: list[Path]) -> None:
    """Print what changed, point by point for the largest changes, and in the mean."""
    before = {each["key"]: each for each in read_pairs([old], None)}
    both = [(before[each["key"]], each) for each in read_pairs(new, None) if each["key"] in before]
    for quantity in (*COUNTED, "time_s"):
        told = [(error(first, quantity), error(second, quantity), second["key"]) for first, second in both]
        known = [(first, second, key) for first, second, key in told if first is not None and second is not None]
        if not known:
            continue
        first, second = np.array([each[:2] for each in known]).T
        print(
            f"{quantity}: {len(known)} points, mean {np.abs(first).mean():.2%} -> {np.abs(second).mean():.2%}, "
            f"bias {first.mean():+.2%} -> {second.mean():+.2%}"
        )
        for at in np.argsort(-np.abs(second - first))[:4]:
            if abs(second[at] - first[at]) > 0.01:
                print(f"    {first[at]:+8.1%} -> {second[at]:+8.1%}  {known[at][2]}")


def main() -> None:
    """Do one of the four."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    steps = parser.add_subparsers(dest="step", required=True)
    step = steps.add_parser("code")
    step.add_argument("results", type=Path)
    step.add_argument("out", type=Path)
    step.add_argument("--device", default="h200", help="name, or a device file; default: %(default)s")
    step = steps.add_parser("predict")
    step.add_argument("rows", type=Path)
    step.add_argument("out", type=Path)
    step.add_argument("--device", default="h200", help="name, or a device file; default: %(default)s")
    step.add_argument("--schedules", default=",".join(TILED), help="comma separated; default: %(default)s")
    step.add_argument("--keys", default="", help="text that a point's key must hold")
    step.add_argument("--workers", type=int, default=cores())
    step = steps.add_parser("tables")
    step.add_argument("pairs", type=Path, nargs="+")
    step.add_argument("--unlike", type=Path, help="results whose problems are left out")
    step = steps.add_parser("against")
    step.add_argument("old", type=Path)
    step.add_argument("new", type=Path, nargs="+")
    options = parser.parse_args()
    if options.step == "code":
        code(options.results, options.out, load_device(options.device))
    elif options.step == "predict":
        device, schedules = load_device(options.device), tuple(options.schedules.split(","))
        predict(options.rows, options.out, device, schedules, options.keys, options.workers)
    elif options.step == "tables":
        tables(read_pairs(options.pairs, options.unlike))
    else:
        against(options.old, options.new)


if __name__ == "__main__":
    main()
