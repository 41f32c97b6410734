"""Whole spaces of schedules at a few shapes: timed on a GPU, predicted, and what the predicted choice costs.

    python validate/lab/spaces.py measure FILE.jsonl [SCHEDULE ...]            on a GPU: a line for each configuration
    python validate/lab/spaces.py predict FILE.jsonl DEVICE PREDICTED.jsonl    no GPU: the same, predicted
    python validate/lab/spaces.py judge FILE.jsonl PREDICTED.jsonl             chosen over best, and errors of time

Times are medians behind a flushed L2, as `tilesight validate` takes them; right outputs are what that command checks.
"""

import json
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from statistics import fmean
from typing import Any

from tilesight.simulator.device.device import load_device
from tilesight.simulator.explore.explore import explore
from tilesight.simulator.refusal import Refusal
from tilesight.simulator.schedules.registry import find_schedule
from tilesight.validate.points.point import Point
from tilesight.validate.points.shapes import problem_for

from tilesight.compiling import compiler

DOCUMENTS = "documents:3000,1500,1200,1000,800,400,200,92"
STEP = {"seqlen_q": 1, "dtype": "bf16", "causal": True}
SHAPES: dict[str, list[dict[str, Any]]] = {
    "flash_decode": [
        STEP | {"batch": batch, "heads": heads, "kv_heads": kv_heads, "seqlen_k": keys, "head_dim": dim} | others
        for batch, heads, kv_heads, keys, dim, others in (
            (1, 64, 8, 32768, 128, {}),
            (16, 64, 8, 32768, 128, {}),
            (64, 64, 8, 2048, 128, {}),
            (8, 32, 8, 8192, 128, {}),
            (1, 32, 8, 131072, 128, {}),
            (4, 28, 4, 16384, 128, {}),
            (32, 32, 32, 2048, 128, {}),
            (16, 16, 1, 8192, 64, {}),
            (2, 40, 8, 4096, 128, {}),
            (128, 8, 1, 1024, 128, {}),
            (8, 32, 8, 4096, 128, {"page": 64}),
            (16, 64, 8, 8192, 128, {"kv_dtype": "fp8"}),
            (4, 32, 8, 6000, 128, {"seqlen_q": 4}),
        )
    ],
    "flash_backward": [
        {"batch": batch, "heads": heads, "kv_heads": kv_heads, "seqlen_q": length, "seqlen_k": length}
        | {"head_dim": dim, "causal": causal, "dtype": "bf16"}
        for batch, heads, kv_heads, length, dim, causal in (
            (8, 32, 32, 2048, 64, False),
            (8, 32, 32, 2048, 64, True),
            (2, 32, 32, 8192, 64, False),
            (2, 32, 32, 8192, 64, True),
            (8, 16, 16, 2048, 128, False),
            (8, 16, 16, 2048, 128, True),
            (2, 16, 16, 8192, 128, False),
            (2, 16, 16, 8192, 128, True),
            (2, 32, 8, 4096, 128, True),
            (4, 16, 16, 3000, 64, False),
        )
    ],
    "mla_decode": [
        {"batch": batch, "heads": heads, "seqlen_q": 1, "seqlen_k": keys, "dtype": "bf16", "causal": True, "page": page}
        for batch, heads, keys, page in (
            (1, 16, 32768, 0),
            (16, 16, 8192, 0),
            (16, 128, 8192, 0),
            (64, 128, 4096, 0),
            (1, 128, 65536, 0),
            (32, 32, 4096, 64),
        )
    ],
    "chunked_flash": [
        {"batch": batch, "heads": heads, "kv_heads": kv_heads, "seqlen_q": rows, "seqlen_k": keys, "head_dim": 128}
        | {"dtype": "bf16", "causal": True}
        | others
        for batch, heads, kv_heads, rows, keys, others in (
            (1, 32, 8, 512, 32768, {}),
            (1, 64, 8, 64, 32768, {}),
            (4, 32, 8, 512, 8192, {}),
            (1, 32, 8, 2048, 16384, {}),
            (2, 32, 8, 512, 8192, {"page": 64}),
            (4, 32, 8, 256, 8192, {"lengths": (8192, 500, 3000, 6000)}),
            (2, 32, 8, 512, 8192, {"kv_dtype": "fp8"}),
            (1, 16, 16, 1024, 8192, {"window": 1024}),
        )
    ],
    "masked_flash": [
        {"batch": 1, "heads": heads, "kv_heads": kv_heads, "seqlen_q": length, "seqlen_k": length, "dtype": "bf16"}
        | others
        for heads, kv_heads, length, others in (
            (32, 8, 8192, {"head_dim": 128, "causal": True, "mask": DOCUMENTS}),
            (32, 8, 8192, {"head_dim": 128, "mask": "first:4", "window": 1024}),
            (64, 8, 4096, {"head_dim": 64, "window": 128, "sinks": True}),
            (128, 128, 4096, {"head_dim": 192, "head_dim_v": 128, "causal": True}),
            (16, 8, 4096, {"head_dim": 256, "causal": True, "softcap": 50}),
        )
    ],
}
CAP_S, SAMPLES = 0.02, 400
PROCESSES, WORKERS = 14, 2


def points_of(schedule: str) -> list[Point]:
    """Every configuration of every shape."""
    named = find_schedule(schedule)
    problems = [problem_for(named, shape) for shape in SHAPES[schedule]]
    return [
        Point(schedule=schedule, problem=problem, config=config) for problem in problems for config in named.configs()
    ]


def measure(file: Path, schedules: list[str]) -> None:
    """Compile in many processes, then time alone."""
    points = [point for schedule in schedules for point in points_of(schedule)]
    environment = os.environ | {"CUDA_VISIBLE_DEVICES": "0"}
    command = [sys.executable, __file__, "warm"]
    running = [subprocess.Popen([*command, str(part), *schedules], env=environment) for part in range(PROCESSES)]
    for process in running:
        process.wait()
    from tilesight.validate.measure.process import track_and_tare
    from tilesight.validate.timing.timing import time_run

    track, tare = track_and_tare()
    with file.open("a", encoding="utf-8") as lines:
        for point in points:
            try:
                run, launches = prepared(point)
                timing = time_run(track, run, l2="cold", launches=launches, tare=tare, cap_s=CAP_S)
            except Exception as error:
                outcome: dict[str, Any] = {
                    "refused": str(error).splitlines()[0] if str(error) else type(error).__name__
                }
            else:
                outcome = {"median_s": timing.median_s, "noise": timing.noise, "clock_hz": timing.clock_hz}
            lines.write(json.dumps(point.to_dict() | outcome) + "\n")


def prepared(point: Point) -> tuple[Any, int]:
    """A function that runs a point once, and how many launches that is."""
    import torch
    from tilesight.kernels.launch.launch import device_of
    from tilesight.validate.measure.pipeline import prepare

    device = device_of(torch.empty(0, device="cuda"))
    launches = point.launches(device)
    pipeline, _ = prepare(launches, point.problem, torch.device("cuda"))
    return pipeline.run, len(launches)


def warm(part: int, schedules: list[str]) -> None:
    """Compile a part of the kernels, which Triton's cache then holds."""
    import torch

    seen = set()
    points = [point for schedule in schedules for point in points_of(schedule)]
    for point in points:
        launches = point.attempt(load_device("h100"))
        if isinstance(launches, Refusal):
            continue
        kernels = tuple(
            (launch.name, launch.num_warps, launch.num_stages, tuple(launch.constants.items())) for launch in launches
        )
        if kernels in seen:
            continue
        seen.add(kernels)
        if len(seen) % PROCESSES == part:
            try:
                prepared(point)[0]()
                torch.cuda.synchronize()
            except Exception as error:
                print(point.key, str(error).splitlines()[:1])
            torch.cuda.empty_cache()


def predict(shapes: Path, device_name: str, file: Path) -> None:
    """Predict all configurations of the shapes of a file of measurements, as `explore` does."""
    device = load_device(device_name)
    problems = dict.fromkeys((point.schedule, point.problem) for point, _ in read(shapes))
    with file.open("a", encoding="utf-8") as lines:
        for schedule, problem in problems:
            compiled = compiler(problem, device, everything=True, workers=WORKERS)
            ranked = explore(
                problem, schedule=schedule, device=device, overhead="graph", workers=WORKERS, resources_of=compiled
            )
            for candidate in ranked.candidates:
                config = find_schedule(schedule).checked(candidate.config)
                point = Point(schedule=schedule, problem=problem, config=config)
                predicted = candidate.prediction and {"predicted_s": candidate.prediction.time_s}
                lines.write(json.dumps(point.to_dict() | (predicted or {"refused": candidate.reason})) + "\n")
            lines.flush()


def judge(measured: Path, predicted: Path) -> None:
    """Print errors of time, chosen over best, and best of the first three over best, for each shape."""
    times_s = {point: entry["median_s"] for point, entry in read(measured) if "median_s" in entry}
    predicted_s = {point: entry["predicted_s"] for point, entry in read(predicted) if "predicted_s" in entry}
    shapes: dict[Any, list[Point]] = defaultdict(list)
    for point in times_s.keys() & predicted_s.keys():
        shapes[point.schedule, point.problem].append(point)
    rows: dict[str, list[tuple[float, float]]] = defaultdict(list)
    errors: dict[str, list[float]] = defaultdict(list)
    for (schedule, problem), points in sorted(shapes.items(), key=str):
        ranked = sorted(points, key=lambda point: predicted_s[point])
        best = min(points, key=lambda point: times_s[point])
        chosen, of_three = (min(times_s[point] for point in ranked[:count]) / times_s[best] for count in (1, 3))
        off = [predicted_s[point] / times_s[point] - 1 for point in points]
        rows[schedule].append((chosen, of_three))
        errors[schedule] += off
        sizes = sorted(map(abs, off))
        print(
            f"{schedule} {problem.text}: {len(points)} times, chosen {chosen:.3f}, best of 3 {of_three:.3f}, best"
            f" {times_s[best] * 1e6:.1f} us, error mean {fmean(sizes):.1%} bias {fmean(off):+.1%} worst {sizes[-1]:.1%}"
        )
    for schedule, pairs in rows.items():
        columns = [f"{fmean(column):.3f} (worst {max(column):.3f})" for column in zip(*pairs, strict=True)]
        sizes = sorted(map(abs, errors[schedule]))
        shares = [f"{share:.0%} within {sizes[int(share * len(sizes))]:.1%}" for share in (0.5, 0.95)]
        print(f"{schedule}, {len(pairs)} shapes: chosen {columns[0]}, best of 3 {columns[1]}")
        print(f"    {len(sizes)} times: error mean {fmean(sizes):.1%}, {', '.join(shares)}, worst {sizes[-1]:.1%}")


def read(file: Path) -> list[tuple[Point, dict[str, Any]]]:
    """Points of a file of lines, each with its line."""
    entries = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    return [
        (Point.from_dict({key: entry[key] for key in ("schedule", "problem", "config", "l2")}), entry)
        for entry in entries
    ]


if __name__ == "__main__":
    kind, *rest = sys.argv[1:]
    if kind == "measure":
        measure(Path(rest[0]), rest[1:] or list(SHAPES))
    elif kind == "warm":
        warm(int(rest[0]), rest[1:])
    elif kind == "predict":
        predict(Path(rest[0]), rest[1], Path(rest[2]))
    else:
        judge(Path(rest[0]), Path(rest[1]))
