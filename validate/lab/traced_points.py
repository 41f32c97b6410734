"""Measured points of the draws, predicted twice: by the programs that schedules write, and by trace of machine code.

    python validate/lab/traced_points.py LINES.ndjson [--workers 16] [--until 540] [--known FILE...] [--draws 1-12]

Adds a JSON line for each point to LINES.ndjson and leaves out those that it, or another of the known files, holds;
points come in an order in which each begin stands for all. Both predictions are of the same machine code, on the same
device, by the same engine: programs alone differ. `traced_table.py` makes tables of the lines.
Needs torch and the Triton that compiled what was measured.
"""

import argparse
import json
import random
import signal
import subprocess
import sys
import time
import traceback
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from tilesight.kernels.capture.lowering import lower
from tilesight.kernels.capture.recording import capture
from tilesight.kernels.compile.calls import compile_calls
from tilesight.kernels.launch.launch import allocate, arguments_of
from tilesight.kernels.launch.registry import find_twin
from tilesight.simulator.arguments import Settings
from tilesight.simulator.device.device import Device, load_device
from tilesight.simulator.launch.program import Launch
from tilesight.simulator.refusal import Refusal, granted
from tilesight.simulator.residency.l1_room import kept_of
from tilesight.simulator.resolve import Resolved, Sources, resolve
from tilesight.simulator.simulate import predict
from tilesight.simulator.trace.cta.traced_kernel import CompiledKernel
from tilesight.simulator.trace.program.launch import launches_of
from tilesight.simulator.trace.program.whole_grid import trace_grid
from tilesight.validate.compare.compare import compare
from tilesight.validate.measure.results_file import Row, read_results
from tilesight.validate.measurement import Lost
from tilesight.validate.points.point import Point
from tilesight.validate.timing.timing import OVERHEAD

DATA = Path(__file__).parents[1] / "data"
DEVICES = {"h200": "h200", "h100": "h100-sxm"}
LIMIT_S = 200
"""Wall time that a point may take [s]."""


def drawn() -> list[tuple[str, str, Row]]:
    """GPU, draw and row of every point that was measured, spread evenly over GPUs and schedules; draw 0 comes last."""
    strata = defaultdict(list)
    for path in sorted(DATA.glob("h?00-2026-*.jsonl*"), key=lambda path: path.name):
        gpu, draw = path.name[:4], path.name.partition("seed")[2].partition(".")[0] or "0"
        for row in read_results(path)[1]:
            if not isinstance(row.outcome, Lost):
                strata[draw == "0", gpu, row.point.schedule].append((gpu, draw, row))
    placed = []
    for key, rows in sorted(strata.items()):
        random.Random(38).shuffle(rows)
        placed += [(key[0], (number + 0.5) / len(rows), key, row) for number, row in enumerate(rows)]
    return [row for *_, row in sorted(placed, key=lambda place: place[:3])]


def compiled(launches: tuple[Launch, ...], point: Point, device: Device) -> list[CompiledKernel]:
    """The machine code of each launch, called as the schedule calls it. Raises: ValueError: it does not compile."""
    every = {tensor.name: tensor for launch in launches for tensor in launch.program.tensors}
    tensors = {name: allocate(tensor, torch.device("meta")) for name, tensor in every.items()}
    with capture(device) as captured:
        for launch in launches:
            twin = find_twin(launch)
            twin.function[launch.grid](**arguments_of(twin, launch, tensors))
    target = int(device.compute_capability.replace(".", ""))
    outcomes = compile_calls([lower(call, target) for call in captured], device, workers=1)
    if failures := [outcome.reason for outcome in outcomes if isinstance(outcome, Refusal)]:
        raise ValueError(failures[0])
    return [outcome for outcome in outcomes if isinstance(outcome, CompiledKernel)]


def figures(row: Row, resolved: Resolved, device: Device) -> dict[str, Any]:
    """Pairs of predicted and measured, of the point and of its launches, by the programs of these launches."""
    begun = time.process_time()
    compared = compare(row, predict(resolved, device, Settings(l2=row.point.l2, overhead=OVERHEAD)))
    launches = compared.prediction.launches if compared.prediction else ()
    return {
        "pairs": {name: [pair.predicted, pair.measured] for name, pair in compared.pairs.items()},
        "launches": [
            [name, predicted.cost, {key: [pair.predicted, pair.measured] for key, pair in pairs.items()}]
            for (name, pairs), predicted in zip(compared.launches, launches, strict=True)
        ],
        "ctas_per_sm": launches[0].ctas_per_sm,
        "objections": list(compared.objections),
        "simulate_s": round(time.process_time() - begun, 3),
    }


def line_of(row: Row, device: Device) -> dict[str, Any]:
    """Both predictions of a point, and the CPU time of each part; why there is none, where it is refused."""
    point, line = row.point, {}
    resolved = granted(resolve(point.problem, point.schedule, point.config, device, Sources(resources=row.resources)))
    begun = time.process_time()
    kernels = compiled(resolved.launches, point, device)
    code = tuple(kernel.resources for kernel in kernels)
    line |= {"same_kernel": code == row.resources, "lower_s": round(time.process_time() - begun, 3)}
    pairs = zip(resolved.launches, code, strict=True)
    written = replace(resolved, launches=tuple(replace(launch, resources=taken) for launch, taken in pairs))
    line["written"] = figures(row, written, device)
    begun = time.process_time()
    try:
        followed = [trace_grid(kernel, kept_of(kernel.resources, kernel.grid, device)) for kernel in kernels]
        traced = replace(resolved, launches=tuple(launches_of(followed)))
        line["trace_s"] = round(time.process_time() - begun, 3)
        line["notes"] = [note for launch in followed for note in launch.notes]
        line["traced"] = figures(row, traced, device)
    except Exception as error:  # a point that is refused, fails or takes too long does not end the others
        line["refused"] = reason(error)
    return line


def reason(error: Exception) -> str:
    """What went wrong, and where, in one line."""
    at = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({Path(at.filename).name}:{at.lineno})"[:600]


def predict_share(out: Path, todo: list[tuple[str, str, Row]]) -> None:
    """Predict points, and add a line for each as soon as it is known."""

    def late(*_: object) -> None:
        raise TimeoutError(f"more than {LIMIT_S} s")

    signal.signal(signal.SIGALRM, late)
    for number, (gpu, draw, row) in enumerate(todo):
        point = row.point
        line = {"gpu": gpu, "draw": draw, "key": point.key, "schedule": point.schedule, "shape": point.shape}
        line |= {"l2": point.l2, "config": point.config_dict}
        signal.alarm(LIMIT_S if number else 3 * LIMIT_S)  # the loops are compiled for the first one
        try:
            line |= line_of(row, load_device(DEVICES[gpu]))
        except Exception as error:
            line["failed"] = reason(error)
        signal.alarm(0)
        with out.open("ab", buffering=0) as file:
            file.write(json.dumps(line).encode() + b"\n")


def numbers(text: str) -> set[str]:
    """`1-12` as the numbers of draws."""
    first, _, last = text.partition("-")
    return {str(number) for number in range(int(first), int(last or first) + 1)}


def main() -> None:
    """Share the points out among processes, and end them in time."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--until", type=float, default=1e9, help="end after so long [s]")
    parser.add_argument("--known", type=Path, nargs="*", default=[], help="files of lines that are there already")
    parser.add_argument("--draws", type=numbers, default=numbers("0-12"))
    parser.add_argument("--gpu", default="", help="of which alone points are predicted")
    parser.add_argument("--match", default="", help="text that a point's key must hold")
    parser.add_argument("--most", type=int, default=1 << 30, help="points")
    parser.add_argument("--again", action="store_true", help="also points that were not predicted by trace")
    parser.add_argument("--share", default="", help="one of its own processes: I/N")
    options = parser.parse_args()
    if not options.share and options.workers > 1:
        shares = [f"--share={number}/{options.workers}" for number in range(options.workers)]
        processes = [subprocess.Popen([sys.executable, *sys.argv, share]) for share in shares]
        end = time.monotonic() + options.until
        for process in processes:
            try:
                process.wait(max(0.0, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
        return
    files = [path for path in (options.out, *options.known) if path.exists()]
    lines = [json.loads(line) for path in files for line in path.read_text().splitlines()]
    kept = (line for line in lines if not options.again or "traced" in line)
    known = {(line["gpu"], line["draw"], line["key"]) for line in kept}
    todo = [row for row in drawn() if row[1] in options.draws and options.match in row[2].point.key]
    todo = [row for row in todo if row[0].startswith(options.gpu)]
    number, of = (int(part) for part in (options.share or "0/1").split("/"))
    todo = [row for row in todo if (row[0], row[1], row[2].point.key) not in known][number::of][: options.most]
    predict_share(options.out, todo)


if __name__ == "__main__":
    main()
