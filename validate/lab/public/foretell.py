"""Predict every launch of the public cases, with no GPU.

    python validate/lab/public/foretell.py FILE --round 1 [--half blind|open|all] [--device h200] [--limit 150]
        [NAME ...]

Writes a JSON line for each launch: what is predicted on cold and on warm caches, or why it is refused, and how long
that took. NAME: parts of names; a case counts where one of them occurs. Launches that the file has are left out.
Each is predicted in a process of its own, with a limit on time [s] and memory.
"""

import argparse
import json
import os
import resource
import signal
import time
import traceback
from pathlib import Path
from typing import Any

from launching import Case, kept, pinned
from rounds import ROUNDS, cases_of
from tilesight.kernels.capture.lowering import lower_or_refuse
from tilesight.kernels.compile.call import KernelLaunch
from tilesight.kernels.compile.calls import compile_calls
from tilesight.simulator.device.device import load_device
from tilesight.simulator.prediction.timing import EVENTS_S

import tilesight

Recorded = tuple[dict[str, Any], Any]
MOST_S, MOST_BYTES = 150, 9 << 30
HALVES = {"blind": (True,), "open": (False,), "all": (True, False)}
TRAFFIC = ("hbm_read_bytes", "hbm_write_bytes", "smem_fill_bytes", "l2_read_bytes", "fabric_bytes", "cycles", "time_s")


def of_launch(launch: Any, device: str) -> dict[str, Any]:
    """What is predicted of one launch by itself."""
    found: dict[str, Any] = {}
    for l2 in ("cold", "warm"):
        begun = time.perf_counter()
        row = tilesight.predict([launch], device, l2=l2).rows[0]
        found |= {"refused": row.refused, "notes": row.notes, "known": [row.known_accesses, row.accesses]}
        found |= {"warps": row.num_warps, "instructions": row.executed_instructions}
        if row.prediction is not None:
            traffic = row.prediction.traffic
            found[l2] = {field: getattr(traffic, field) for field in TRAFFIC}
            found |= {
                "registers": row.prediction.registers_per_thread,
                "spilled_bytes": row.prediction.spilled_bytes_per_thread,
                "smem_bytes": row.prediction.smem_bytes_per_cta,
                "warps": row.prediction.num_warps,
                "clock_hz": row.prediction.clock_hz,
                "sustained_clock_hz": row.prediction.sustained_clock_hz,
            }
            if row.do_bench and l2 == "cold":
                found["do_bench_s"] = row.do_bench.traffic.time_s + EVENTS_S
        found[f"{l2}_seconds"] = round(time.perf_counter() - begun, 2)
        if row.refused:
            break
    return found


def limited(file: Path, line: dict[str, Any], launch: Any, limit_s: int) -> None:
    """Predict a launch in a fork of this process, and write its line."""
    child = os.fork()
    if not child:
        signal.alarm(limit_s)
        resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
        try:
            line |= of_launch(launch, line["device"])
        except BaseException as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            place = f"{Path(where.filename).name}:{where.lineno}"
            line["failed"] = f"{type(error).__name__}: {error}"[:500] + f" at {place}"
        write(file, line)
        told = line.get("failed") or line.get("refused") or "predicted"
        print(f"{line['name']}: {told[:200]} {line.get('cold_seconds')} s", flush=True)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if status:
        line["failed"] = f"ended by signal {status & 127}, after {limit_s} s or for memory"
        write(file, line)
        print(f"{line['name']}: {line['failed']}", flush=True)


def write(file: Path, line: dict[str, Any]) -> None:
    """Add a line."""
    with file.open("a", encoding="utf-8") as out:
        out.write(json.dumps(line) + "\n")


def recorded(file: Path, case: Case, device: str) -> list[Recorded]:
    """A case's launches, each with what its line begins with; of a case that cannot be recorded a line says why."""
    about = {"case": case.name, "kind": case.kind, "round": case.round, "blind": case.blind, "device": device}
    try:
        with tilesight.capture(device) as launches, pinned():
            case.make("meta")()
    except Exception as error:
        write(file, {"name": case.name, **about, "failed": f"capture: {type(error).__name__}: {error}"[:500]})
        return []
    return [
        ({"name": f"{case.name}/{name}", **about, "grid": launch.grid}, launch)
        for name, launch in kept(launches).items()
    ]


def compile_ahead(launches: list[Any], device: str) -> None:
    """Fill the cache of compiled kernels: one compiler process for each core, instead of one for each launch."""
    gpu = load_device(device)
    calls = [lower_or_refuse(launch, int(gpu.compute_capability.replace(".", ""))) for launch in launches]
    compile_calls([call for call in calls if isinstance(call, KernelLaunch)], gpu)


def main() -> None:
    """Write the lines as they come."""
    parser = argparse.ArgumentParser()
    parser.add_argument("file", type=Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--round", type=int, nargs="+", choices=sorted(ROUNDS), required=True)
    parser.add_argument("--half", choices=HALVES, default="all")
    parser.add_argument("--device", default="h200")
    parser.add_argument("--limit", type=int, default=MOST_S)
    options = parser.parse_args()
    lines = options.file.read_text().splitlines() if options.file.exists() else []
    known = {line["name"] for line in map(json.loads, lines) if line["device"] == options.device}
    cases = [case for case in cases_of(options.round, options.names).values() if case.blind in HALVES[options.half]]
    cases = [case for case in sorted(cases, key=lambda case: not case.blind) if case.name not in known]
    with tilesight.capture(options.device) as launches:
        cases_of([1])["own.gemm_4k"].make("meta")()
    of_launch(launches[0], options.device)  # so that forks find compiled code
    left = [pair for case in cases for pair in recorded(options.file, case, options.device)]
    left = [(line, launch) for line, launch in left if line["name"] not in known]
    compile_ahead([launch for _, launch in left], options.device)
    for line, launch in left:
        limited(options.file, line, launch, options.limit)


if __name__ == "__main__":
    main()
