"""Predict every launch of the public cases, with no GPU.

    python validate/lab/public/foretell.py FILE --round 7 [--device h200] [--limit 150] [NAME ...]

Writes a JSON line for each launch: what is predicted on cold and on warm caches, or why it is refused, and how long
that took. NAME: parts of names; a case counts where one of them occurs. Launches that the file has are left out.
Each is predicted in a process of its own, with a limit on time [s] and memory.
"""

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import torch
import triton
import triton.language as tl
from launching import Case, kept, pinned
from rounds import ROUNDS, cases_of
from tilesight.simulator.prediction.timing import EVENTS_S

import tilesight

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from ahead import compile_ahead, limited, write

Recorded = tuple[dict[str, Any], Any]
MOST_S = 150
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


@triton.jit
def doubled(values):
    """Twice each of 1,024 values in a row."""
    places = tl.program_id(0) * 1024 + tl.arange(0, 1024)
    tl.store(values + places, 2 * tl.load(values + places))


def warm_up(device: str) -> None:
    """Predict a small launch, so that forks find compiled code."""
    with tilesight.capture(device) as launches:
        doubled[(4096,)](torch.empty(1 << 22, device="meta"))
    of_launch(launches[0], device)


def recorded(file: Path, case: Case, device: str) -> list[Recorded]:
    """A case's launches, each with what its line begins with; of a case that cannot be recorded a line says why."""
    about = {"case": case.name, "kind": case.kind, "round": case.round, "blind": True, "device": device}
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


def main() -> None:
    """Write the lines as they come."""
    parser = argparse.ArgumentParser()
    parser.add_argument("file", type=Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--round", type=int, nargs="+", choices=sorted(ROUNDS), required=True)
    parser.add_argument("--device", default="h200")
    parser.add_argument("--limit", type=int, default=MOST_S)
    options = parser.parse_args()
    lines = options.file.read_text().splitlines() if options.file.exists() else []
    known = {line["name"] for line in map(json.loads, lines) if line["device"] == options.device}
    cases = [case for case in cases_of(options.round, options.names).values() if case.name not in known]
    warm_up(options.device)
    left = [pair for case in cases for pair in recorded(options.file, case, options.device)]
    left = [(line, launch) for line, launch in left if line["name"] not in known]
    compile_ahead([launch for _, launch in left], options.device)
    for line, launch in left:
        limited(options.file, line, lambda launch=launch: of_launch(launch, options.device), options.limit)


if __name__ == "__main__":
    main()
