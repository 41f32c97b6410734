"""Drawn points of schedules, each measured once its prediction has been written; and how far off these were.

    python validate/lab/blind.py FOLDER SCHEDULE ... [--seed 41] [--draw 60] [--spaces] [--gpus 1|all]
        [--stop-after 540]

On a GPU. FOLDER gets `predicted.jsonl`, a line a point as soon as it is known, with the time; `rows.jsonl`, what was
measured, as `tilesight validate --read` takes it; and `compared.jsonl`. Points are those of `tilesight validate --full`
with that seed; with `--spaces` so many configurations of each shape of `spaces.py`, by which choices are judged.
Processes predict while the GPU measures; what takes longer than `--limit` to predict is not measured.
"""

import argparse
import json
import random
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from multiprocessing import active_children, get_context
from pathlib import Path
from statistics import fmean, median
from typing import Any

import spaces
from tilesight.kernels.compile.compile import compile_pipelines
from tilesight.simulator.arguments import Settings
from tilesight.simulator.device.device import Device, load_device
from tilesight.simulator.jobs.pool import cores
from tilesight.simulator.launch.program import Launch, Resources
from tilesight.simulator.prediction.prediction import Prediction
from tilesight.simulator.problems.problem import Problem
from tilesight.simulator.refusal import Refusal
from tilesight.simulator.resolve import Sources, resolve
from tilesight.simulator.simulate import predict
from tilesight.validate.compare.campaign import measure_points
from tilesight.validate.compare.compare import Comparison, compare, rankings
from tilesight.validate.measure.gpus import chosen_gpus, open_sessions, visible_gpus
from tilesight.validate.measure.results_file import Header, Row, appending
from tilesight.validate.measure.session import CHUNK
from tilesight.validate.points.point import Point
from tilesight.validate.points.sets import full_points
from tilesight.validate.timing.timing import OVERHEAD

from tilesight.cli.gpu import device_named

Predicted = tuple[tuple[Resources, ...], Prediction] | str
"""Compiled resources of the launches, and what is predicted with them; or why not."""
LEFT_CORES = 3
"""Cores that predict nothing: they drive the GPU."""


def predicted(point: Point, device_name: str, limit_s: int) -> Predicted:
    """Compile and predict a point, in a process of its own."""

    def late(number: int, frame: object) -> None:
        raise TimeoutError(f"not predicted within {limit_s} s")

    signal.signal(signal.SIGALRM, late)
    signal.alarm(limit_s)
    try:
        device = load_device(device_name)
        launches = point.attempt(device)
        if isinstance(launches, Refusal):
            return launches.reason
        (resources,) = compile_pipelines([launches], device, workers=1)
        if isinstance(resources, Refusal):
            return resources.reason
        resolved = resolve(point.problem, point.schedule, point.config, device, Sources(resources=resources))
        if isinstance(resolved, Refusal):
            return resolved.reason
        answer = predict(resolved, device, Settings(l2=point.l2, overhead=OVERHEAD))
        return tuple(replace(taken, code=None, figures=None) for taken in resources), answer
    except Exception as error:
        return f"{type(error).__name__}: {error}".splitlines()[0]
    finally:
        signal.alarm(0)


def written(point: Point, outcome: Predicted, file: Path) -> None:
    """Add the line of a point."""
    said = {"reason": outcome} if isinstance(outcome, str) else {"predicted": outcome[1].to_dict()}
    with file.open("a", encoding="utf-8") as lines:
        lines.write(json.dumps({"key": point.key, "at_s": time.time(), **point.to_dict(), **said}) + "\n")


def known_resources(
    known: dict[Point, tuple[Resources, ...]], points: Sequence[Point]
) -> Callable[[Sequence[tuple[Launch, Problem]]], Sequence[Resources | Refusal]]:
    """A compiler of the launches of these points, in order, that compiles nothing."""
    return lambda wanted: [taken for point in points for taken in known[point]]


def drawn(schedule: str, device: Device, seed: int, count: int, spaced: bool) -> list[Point]:
    """Points of a schedule. Args: spaced: so many of each shape of `spaces`, in the order of the shapes."""
    if not spaced:
        return full_points([schedule], device, seed, drawn_points=count)
    shapes: dict[Problem, list[Point]] = {}
    for point in spaces.points_of(schedule):
        if not isinstance(point.attempt(device), Refusal):
            shapes.setdefault(point.problem, []).append(point)
    generator = random.Random(seed)
    return [point for points in shapes.values() for point in generator.sample(points, min(count, len(points)))]


def batches(
    points: Sequence[Point], futures: Sequence[Future[Predicted]], file: Path, size: int, until_s: float
) -> Iterator[dict[Point, tuple[tuple[Resources, ...], Prediction]]]:
    """Points in order, so many at a time, each written first; those without a prediction are left out.

    Args:
        until_s: when no prediction is waited for any more, by `time.monotonic` [s].
    """
    ready: dict[Point, tuple[tuple[Resources, ...], Prediction]] = {}
    for point, future in zip(points, futures, strict=True):
        try:
            outcome = future.result(max(0.0, until_s - time.monotonic()))
        except (TimeoutError, BrokenExecutor) as error:
            outcome = type(error).__name__
        written(point, outcome, file)
        if not isinstance(outcome, str):
            ready[point] = outcome
        if len(ready) == size:
            yield ready
            ready = {}
    if ready:
        yield ready


def judged(comparisons: Sequence[Comparison]) -> None:
    """Print the errors of what nothing speaks against, by schedule."""
    for name in sorted({comparison.point.schedule for comparison in comparisons}):
        chosen = [comparison for comparison in comparisons if comparison.point.schedule == name]
        good = [comparison for comparison in chosen if not comparison.objections]
        print(f"{name}: {len(good)} of {len(chosen)} points count")
        for quantity in ("time_s", "smem_fill_bytes", "hbm_read_bytes", "hbm_write_bytes", "cycles"):
            errors = [comparison.errors()[quantity] for comparison in good if quantity in comparison.errors()]
            if errors:
                sizes = sorted(map(abs, errors))
                shares = ", ".join(
                    f"{sum(size <= limit for size in sizes) / len(sizes):.0%} within {limit:.0%}"
                    for limit in (0.01, 0.12, 0.15)
                )
                print(
                    f"    {quantity}: {len(sizes)}, mean {fmean(sizes):.1%}, median {median(sizes):.2%},"
                    f" bias {fmean(errors):+.1%}, {shares}, worst {max(errors, key=abs):+.1%}"
                )
        ranked = rankings(good)
        for ranking in ranked:
            print(
                f"    {ranking.name}: {ranking.configs}, chosen over best {ranking.regret:.3f}, off {ranking.mean:.1%}"
            )
        if ranked:
            regrets = [ranking.regret for ranking in ranked]
            print(
                f"    chosen over best: {fmean(regrets):.3f} in the mean of {len(regrets)}, {max(regrets):.3f} at worst"
            )
        for comparison in chosen:
            if comparison.objections:
                print(f"    left out: {comparison.point.key}: {comparison.objections[0]}")


def main() -> None:
    """Draw, predict, measure, judge."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("schedules", nargs="+")
    parser.add_argument("--seed", type=int, default=41)
    parser.add_argument("--draw", type=int, default=60, help="points of each schedule, or of each shape")
    parser.add_argument("--spaces", action="store_true")
    parser.add_argument("--gpus", default="1")
    parser.add_argument("--no-counters", action="store_true")
    parser.add_argument("--stop-after", type=float, default=3600.0, help="no batch begins later [s]")
    parser.add_argument("--limit", type=int, default=100, help="longest prediction of a point [s]")
    parser.add_argument("--size", type=int, default=CHUNK, help="points of a batch, for each GPU")
    given = parser.parse_args()
    begin = time.monotonic()
    given.folder.mkdir(parents=True, exist_ok=True)
    named = device_named(None, None)
    points = [
        point for name in given.schedules for point in drawn(name, named.device, given.seed, given.draw, given.spaces)
    ]
    comparisons: list[Comparison] = []
    with ExitStack() as stack:
        pool = ProcessPoolExecutor(max(1, cores() - LEFT_CORES), mp_context=get_context("spawn"))
        stack.callback(pool.shutdown, wait=False, cancel_futures=True)
        first = pool.submit(predicted, points[0], named.name, 10 * given.limit)
        gpus = chosen_gpus(given.gpus, visible_gpus())
        sessions, machine = open_sessions(gpus, named.device, named.job, not given.no_counters)
        for session in sessions:
            stack.callback(session.close)
        first.result()  # compiles the engine's loops, which the others then find on the disk
        futures = [first] + [pool.submit(predicted, point, named.name, given.limit) for point in points[1:]]
        known, keep = stack.enter_context(
            appending(given.folder / "rows.jsonl", Header(machine=machine, device=named.name))
        )
        until_s = begin + given.stop_after
        for batch in batches(points, futures, given.folder / "predicted.jsonl", given.size * len(gpus), until_s):
            if time.monotonic() > until_s:
                print(f"stopped after {len(comparisons)} of {len(points)} points")
                break
            compiler = known_resources({point: taken for point, (taken, _) in batch.items()}, list(batch))
            rows = measure_points(list(batch), named.device, sessions, compiler, known=known, keep=keep)
            comparisons += held_against(rows, batch, given.folder / "compared.jsonl")
            print(f"{time.monotonic() - begin:.0f} s: {len(comparisons)} of {len(points)} points", flush=True)
        for process in active_children():
            process.terminate()
    judged(comparisons)


def held_against(
    rows: Sequence[Row], batch: dict[Point, tuple[tuple[Resources, ...], Prediction]], file: Path
) -> list[Comparison]:
    """Comparisons of rows, each a line of the file."""
    compared = [compare(row, batch[row.point][1]) for row in rows]
    with file.open("a", encoding="utf-8") as lines:
        for comparison in compared:
            entry: dict[str, Any] = {"key": comparison.point.key, "objections": list(comparison.objections)}
            entry["compared"] = {name: pair.to_dict() for name, pair in comparison.pairs.items()}
            lines.write(json.dumps(entry) + "\n")
    return compared


if __name__ == "__main__":
    main()
