"""What each mechanism of the SM and the engine is worth: the mean error with it, and with it alone switched off.

    python validate/lab/ablate.py draw ROWS.gz [--most N]         choose recorded points, compile them
    python validate/lab/ablate.py run ROWS.gz FOLDER [NAME...]    predict them with each mechanism off, and with none
    python validate/lab/ablate.py table ROWS.gz FOLDER            the table of validate/lab/ablation.md

The *fitting* half are points of problems of seed 0, the *test* half those of other draws, some of the H100:
the same number of each schedule as far as there are, those of the least digests.
A number of a device is set to where it does nothing. Code is replaced before numba compiles it, by a process for each
mechanism, with a cache of its own. Costs of steps come from machine code; where a mechanism leaves them as they are,
they are those of the model with all of them, and where it leaves those of all launches of a point, so is the point.
`ablation.md` was made on commit 27ddec2; `--most 1` draws a point of each kind, to try whether all of this still runs.
ROWS.gz holds pickled rows: read none but your own. Needs torch and the Triton that compiled what ran for `draw`.
"""

import argparse
import gzip
import hashlib
import json
import os
import pickle
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from ablate_mechanisms import MECHANISMS, Mechanism
from tilesight.simulator import simulate_launches
from tilesight.simulator.device.device import Device, load_device
from tilesight.simulator.residency.residency import residency_of
from tilesight.simulator.sm import followed, lane_addresses
from tilesight.simulator.sm.choose import costs_of
from tilesight.validate.compare.campaign import compare_rows
from tilesight.validate.compare.compare import LEAST_BYTES, Comparison
from tilesight.validate.compare.recompile import with_code
from tilesight.validate.measure.results_file import Row, read_results
from tilesight.validate.measurement import Lost

DATA = Path(__file__).parents[1] / "data"
FITTED_ON = DATA / "h200-2026-11-21.jsonl"
BASE = "all mechanisms"
SHARES = {("fitting", "h200"): 40, ("test", "h200"): 30, ("test", "h100"): 10}
"""Points of a schedule: by half and GPU."""
QUICK_S = 0.5
"""Points that take the engine longer are predicted with all mechanisms alone: each would cost as much again."""
QUANTITIES = ("time_s", "hbm_read_bytes")
"""What is compared. Of the second, points that move less than a megabyte say nothing."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """A recorded point. Args: half: `fitting` or `test`; gpu: it was measured on; row: with machine code."""

    half: str
    gpu: str
    row: Row

    @property
    def name(self) -> str:
        """Distinct for each: the same point may be measured on both GPUs."""
        return f"{self.gpu}/{self.row.point.key}"


def device_of(gpu: str) -> Device:
    """The GPU of a recorded point."""
    return load_device({"h200": "h200", "h100": "h100-sxm"}[gpu])


def draw(out: Path, most: int) -> None:
    """Choose points, attach machine code, keep those that compile to what ran. Args: most: points of each kind."""
    fitted = {row.point.problem for row in read_results(FITTED_ON)[1]}
    rows_of: dict[tuple[str, str, str], dict[str, Row]] = {}
    triton = ""
    for path in sorted(DATA.glob("h?00-2026-*.jsonl*"), key=lambda path: path.name):
        header, rows = read_results(path)
        triton = triton or header.machine.triton
        for row in rows:
            ran, point = row.outcome, row.point
            if (
                isinstance(ran, Lost)
                or ran.doubts
                or not ran.timing
                or not all(launch.counters for launch in ran.launches)
            ):
                continue
            half = "fitting" if point.problem in fitted else "test"
            rows_of.setdefault((half, path.name[:4], point.schedule), {}).setdefault(point.key, row)
    drawn: list[Drawn] = []
    for (half, gpu, _), rows_by_key in sorted(rows_of.items()):
        order = sorted(rows_by_key, key=lambda key: hashlib.sha256(key.encode()).digest())
        chosen = [rows_by_key[key] for key in order[: min(most, SHARES.get((half, gpu), 0))]]
        coded, note = with_code(chosen, device_of(gpu), triton) if chosen else ([], "")
        print(f"{half}, {gpu}: {len(coded)} points; {note}", flush=True)
        drawn += [
            Drawn(half, gpu, row) for row in coded if row.resources and all(taken.code for taken in row.resources)
        ]
    with gzip.open(out, "wb", compresslevel=6) as file:
        pickle.dump(drawn, file)
    print(f"{out}: {len(drawn)} points")


class Remembered:
    """What follows from code alone, which no mechanism changes, and takes four fifths of the time: worked out once.

    Attributes:
        point: whose code it is; answers: (point, function) -> what it returned, in order; asked: how many of those.
    """

    point = ""
    answers: ClassVar[dict[tuple[str, str], list[Any]]] = {}
    asked: ClassVar[Counter[tuple[str, str]]] = Counter()

    @classmethod
    def wrap(cls, owner: Any, name: str) -> None:
        """Replace a function by one that remembers."""
        function = getattr(owner, name)

        def remembered(*given: Any) -> Any:
            key = cls.point, name
            answers, number = cls.answers.setdefault(key, []), cls.asked[key]
            cls.asked[key] += 1
            if number == len(answers):
                answers.append(function(*given))
            return answers[number]

        setattr(owner, name, remembered)


def costs_of_points(drawn: list[Drawn], mechanism: Mechanism | None) -> dict[str, list[Any]]:
    """Point -> costs of the steps of each launch, from machine code, and where each comes from."""
    costs = {}
    for point in drawn:
        Remembered.point = point.name
        device = device_of(point.gpu)
        device = mechanism.without(device) if mechanism else device
        pairs = zip(point.row.point.launches(device), point.row.resources, strict=True)
        launches = [replace(launch, resources=taken) for launch, taken in pairs]
        costs[point.name] = [costs_of(launch, residency_of(launch, device), device, "compiled") for launch in launches]
    return costs


def errors_of(comparison: Comparison) -> dict[str, float | None]:
    """Size of each quantity's error; None where it says nothing."""
    errors: dict[str, float | None] = {}
    for name in QUANTITIES:
        pair = comparison.pairs.get(name)
        little = pair is None or (name.endswith("_bytes") and max(pair.predicted, pair.measured) < LEAST_BYTES)
        errors[name] = None if little or pair is None else abs(pair.relative_error)
    return errors


def predict(point: Drawn, device: Device, costs: list[Any]) -> dict[str, float | None]:
    """Errors of a point with these costs of its steps."""
    queue = list(costs)
    simulate_launches.costs_of = lambda *_: queue.pop(0)
    (comparison,) = compare_rows([point.row], device, workers=1)
    return errors_of(comparison)


def predict_all(rows: Path, folder: Path, name: str) -> None:
    """Predict all points with one mechanism off, or with none (`BASE`), and write the errors."""
    with gzip.open(rows, "rb") as file:
        drawn: list[Drawn] = pickle.load(file)
    mechanism = next((known for known in MECHANISMS if known.name == name), None)
    began, costs_file, code_file = time.perf_counter(), folder / "costs.pickle", folder / "code.pickle"
    base, base_costs = {"errors": {}, "seconds": {}}, {}
    if mechanism:
        base = json.loads((folder / f"{BASE}.json").read_text())
        base_costs = pickle.loads(costs_file.read_bytes())
        drawn = [point for point in drawn if base["seconds"][point.name] < QUICK_S]
        mechanism.apply()
    costs = base_costs
    if not mechanism or mechanism.costly:
        if mechanism:
            Remembered.answers = pickle.loads(code_file.read_bytes())
        for owner, function in ((followed, "flow_of"), (followed, "followed_blocks"), (lane_addresses, "accesses")):
            if not mechanism or mechanism.where != "lane_addresses._blocks_of_warps":
                Remembered.wrap(owner, function)
        costs = costs_of_points(drawn, mechanism)
    if not mechanism:
        costs_file.write_bytes(pickle.dumps(costs))
        code_file.write_bytes(pickle.dumps(Remembered.answers))
    errors, seconds, same = {}, {}, 0
    for point in drawn:
        launch_costs = costs[point.name]
        if mechanism and mechanism.costs:
            launch_costs = [(mechanism.of(steps), origin) for steps, origin in launch_costs]
        unmoved = mechanism and not mechanism.in_engine and launch_costs == base_costs[point.name]
        same += bool(unmoved)
        device = device_of(point.gpu)
        device = mechanism.without(device) if mechanism else device
        start = time.process_time()
        errors[point.name] = base["errors"][point.name] if unmoved else predict(point, device, launch_costs)
        seconds[point.name] = time.process_time() - start
    (folder / f"{name}.json").write_text(json.dumps({"errors": errors, "seconds": seconds}))
    took = time.perf_counter() - began
    print(f"{name}: {took:.0f} s, {same} of {len(drawn)} points as before", flush=True)


def run_all(rows: Path, folder: Path, names: list[str], workers: int) -> None:
    """A process for each mechanism, with a folder of its own for what numba compiles where code is replaced."""
    folder.mkdir(exist_ok=True)
    command = [sys.executable, str(Path(__file__).resolve()), "one", str(rows), str(folder)]

    def run(name: str) -> None:
        mechanism = next((known for known in MECHANISMS if known.name == name), None)
        with tempfile.TemporaryDirectory() as place:
            kept = {"NUMBA_CACHE_DIR": place} if mechanism and mechanism.recompiles else {}
            subprocess.run([*command, name], check=True, env=os.environ | kept)

    if not (folder / f"{BASE}.json").exists():
        run(BASE)
    with ThreadPoolExecutor(workers) as threads:
        list(threads.map(run, names or [mechanism.name for mechanism in MECHANISMS]))


def means(errors: dict[str, dict[str, float | None]], half: str, quantity: str, halves: dict[str, str]) -> float:
    """Mean error over the points of a half, in percent."""
    sizes = [by_quantity[quantity] for name, by_quantity in errors.items() if halves[name] == half]
    return 100.0 * float(np.mean([value for value in sizes if value is not None]))


def table(rows: Path, folder: Path) -> None:
    """Print what each mechanism is worth: by how many points the mean error is larger without it."""
    with gzip.open(rows, "rb") as file:
        drawn: list[Drawn] = pickle.load(file)
    halves = {point.name: point.half for point in drawn}
    columns = [(quantity, half) for quantity in QUANTITIES for half in ("fitting", "test")]
    with_all = json.loads((folder / f"{BASE}.json").read_text())
    base = {name: errors for name, errors in with_all["errors"].items() if with_all["seconds"][name] < QUICK_S}
    print({half: sum(halves[name] == half for name in base) for half in ("fitting", "test")})
    print(
        "| mechanism | where | time, fitting | time, test | HBM reads, fitting | HBM reads, test | points that move |"
    )
    print("|---|---|---|---|---|---|---|")
    print(
        "| all of them: mean error [%] | | "
        + " | ".join(f"{means(base, h, q, halves):.2f}" for q, h in columns)
        + " | |"
    )
    for mechanism in MECHANISMS:
        path = folder / f"{mechanism.name}.json"
        if path.exists():
            errors = json.loads(path.read_text())["errors"]
            worth = [means(errors, half, quantity, halves) - means(base, half, quantity, halves)
                     for quantity, half in columns]  # fmt: skip
            moved = sum(errors[name] != base[name] for name in base)
            print(
                f"| {mechanism.name} | `{mechanism.where}` | "
                + " | ".join(f"{value:+.2f}" for value in worth)
                + f" | {moved} |"
            )


def main() -> None:
    """Do one of them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    steps = parser.add_subparsers(dest="step", required=True)
    step = steps.add_parser("draw")
    step.add_argument("rows", type=Path)
    step.add_argument(
        "--most", type=int, default=max(SHARES.values()), help="points of each kind; default: %(default)s"
    )
    step = steps.add_parser("run")
    step.add_argument("rows", type=Path)
    step.add_argument("folder", type=Path)
    step.add_argument("names", nargs="*", help="mechanisms; default: all")
    step.add_argument("--workers", type=int, default=2)
    step = steps.add_parser("one")
    step.add_argument("rows", type=Path)
    step.add_argument("folder", type=Path)
    step.add_argument("name")
    step = steps.add_parser("table")
    step.add_argument("rows", type=Path)
    step.add_argument("folder", type=Path)
    options = parser.parse_args()
    if options.step == "draw":
        draw(options.rows, options.most)
    elif options.step == "run":
        run_all(options.rows, options.folder, options.names, options.workers)
    elif options.step == "one":
        predict_all(options.rows, options.folder, options.name)
    else:
        table(options.rows, options.folder)


if __name__ == "__main__":
    main()
