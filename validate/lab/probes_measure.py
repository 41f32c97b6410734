"""Predict the probes without a GPU, and measure them on one.

    python validate/lab/probes_measure.py predict FILE.ndjson [--device h200] [--limit 120] [NAME ...]
    python validate/lab/probes_measure.py measure FILE.ndjson [--commit COMMIT] [NAME ...]
    python validate/lab/probes_measure.py compare PREDICTED.ndjson MEASURED.ndjson

A line a variant. Variants that the file has are left out; NAME is a part of `probe` or of `probe key=value`.
`predict`: `cold_us` as do_bench would show it, all launches together, `warm_us` of repeated calls, or why refused.
`measure`: `cold_us` is the median of nine calls, each behind a write of 256 MB, between two CUDA events; `warm_us` is a
twentieth of twenty calls in a row. The GPU waits before it, so that the host has queued all launches when they begin.
Predictions are to be committed before anything is measured. `measure` needs torch, triton and a GPU, and no Tilesight.
"""

import argparse
import json
import lzma
import statistics
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import probes
import probes_arithmetic
import probes_memory
import torch
import triton
from probes_kept import PROBES, Launching

FLUSHED_BYTES = 256 * 1000 * 1000
COLD_CALLS, WARM_CALLS = 9, 20
HEAD_START_CYCLES = 3_000_000
"""What the GPU waits so that the host is ahead of it: about 1.5 ms."""
COMPILERS = 12
KINDS = (probes, probes_arithmetic, probes_memory)
"""Modules whose probes count."""

Variant = tuple[str, dict[str, Any]]


def named(variant: Variant) -> str:
    """What a variant is called."""
    return " ".join([variant[0], *(f"{key}={value}" for key, value in variant[1].items())])


def left(file: Path, names: list[str]) -> list[Variant]:
    """Variants that count and that the file has not."""
    lines = file.read_text("utf-8").splitlines() if file.exists() else []
    done = {named((row["probe"], row["variant"])) for row in map(json.loads, lines)}
    every = [(name, variant) for name, probe in PROBES.items() for variant in probe.variants]
    asked = [pair for pair in every if not names or any(name in named(pair) for name in names)]
    return [pair for pair in asked if named(pair) not in done]


def written(file: Path, variant: Variant, about: dict[str, Any], row: dict[str, Any]) -> None:
    """Add a line."""
    date = datetime.now(UTC).isoformat(timespec="seconds")
    line = {"probe": variant[0], "variant": variant[1], **row, "date": date, **about}
    with file.open("a", encoding="utf-8") as lines:
        lines.write(json.dumps(line) + "\n")
    print(f"{named(variant):40}", *(f"{key} {value}" for key, value in row.items()), flush=True)


def versions(commit: str | None) -> dict[str, str]:
    """What every line says of torch, Triton and this tree."""
    if commit is None:
        asked = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty", "--abbrev=12"]
        commit = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
    return {"torch": torch.__version__, "triton": triton.__version__, "commit": commit}


def predicted(variant: Variant, device: str, limit_s: float) -> dict[str, Any]:
    """Times that Tilesight says, or its reason not to."""
    import tilesight

    row: dict[str, Any] = {}
    with tilesight.capture() as launches:
        PROBES[variant[0]].build("meta", **variant[1])()
    for key, l2, timing in (("cold_us", "pipeline", "do_bench"), ("warm_us", "warm", "sustained")):
        answer = tilesight.predict(launches, device, l2=l2, timing=timing, time_limit_s=limit_s)
        if answer.refused:
            return {"refused": next(launch.refused for launch in answer.rows if launch.refused)}
        row[key] = round(answer.total.time_s * 1e6, 2)
        row[f"bound_{key.removesuffix('_us')}"] = answer.rows[0].to_dict()["bottleneck"]
        row["accesses"] = [sum(launch.known_accesses for launch in answer.rows), sum(r.accesses for r in answer.rows)]
    return row


def predict(options: argparse.Namespace) -> None:
    """Predict what the file has not."""
    about = {"device": options.device, **versions(options.commit)}
    for variant in left(options.file, options.names):
        try:
            row = predicted(variant, options.device, options.limit)
        except Exception as error:  # a fault of the program is an answer too
            row = {"refused": f"{type(error).__name__}: {error}".splitlines()[0]}
        written(options.file, variant, about, row)


def built(variants: list[Variant]) -> Iterator[tuple[Variant, Launching]]:
    """Tensors made and kernels compiled, those of all variants at a time: each has been called once."""

    def make(variant: Variant) -> Launching:
        launch = PROBES[variant[0]].build("cuda", **variant[1])
        launch()
        return launch

    with ThreadPoolExecutor(COMPILERS) as pool:
        launches = list(pool.map(make, variants))
    torch.cuda.synchronize()
    return zip(variants, launches, strict=True)


def timed_us(launch: Launching, calls: int, flush: torch.Tensor | None) -> float:
    """Microseconds of a call: of `calls` behind each other, with what was written before."""
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    torch.cuda._sleep(HEAD_START_CYCLES)
    if flush is not None:
        flush.zero_()
    begin.record()
    for _ in range(calls):
        launch()
    end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end) * 1000 / calls


def measure(options: argparse.Namespace) -> None:
    """Measure what the file has not."""
    asked = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    driver = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.split()[0]
    about = {"gpu": torch.cuda.get_device_name(), "driver": driver, **versions(options.commit)}
    flush = torch.empty(FLUSHED_BYTES, dtype=torch.int8, device="cuda")
    for variant, launch in built(left(options.file, options.names)):
        timed_us(launch, WARM_CALLS, None)  # wakes the clock
        cold = [timed_us(launch, 1, flush) for _ in range(COLD_CALLS)]
        warm = timed_us(launch, WARM_CALLS, None)
        row = {
            "cold_us": round(statistics.median(cold), 2),
            "cold_spread_us": [round(min(cold), 2), round(max(cold), 2)],
        }
        written(options.file, variant, about, row | {"warm_us": round(warm, 2)})


def compare(options: argparse.Namespace) -> None:
    """Print predicted over measured, cold and warm, as a table, and the mean error."""
    sides = []
    for file in (options.file, Path(options.names[0])):
        with (lzma.open if file.suffix == ".xz" else open)(file, "rt", encoding="utf-8") as text:
            rows = [json.loads(line) for line in text]
        sides.append({named((row["probe"], row["variant"])): row for row in rows})
    errors: dict[str, list[float]] = {"cold_us": [], "warm_us": []}
    for name, row in sides[0].items():
        ratios = []
        for key, kept in errors.items():
            if key in row and name in sides[1]:
                ratio = row[key] / sides[1][name][key]
                kept.append(abs(ratio - 1))
                ratios.append(f"{key} {row[key]:9.1f} /{sides[1][name][key]:9.1f} = {ratio:.2f}")
        print(f"{name:30}", *(ratios or [row.get("refused", "not measured")]))
    for key, kept in errors.items():
        if kept:
            print(f"{key}: {len(kept)} variants, {statistics.fmean(kept):.1%} off in the mean, worst {max(kept):.0%}")


def main() -> None:
    """Do what is asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("predict", "measure", "compare"))
    parser.add_argument("file", type=Path)
    parser.add_argument("names", nargs="*", default=[])
    parser.add_argument("--device", default="h200")
    parser.add_argument("--limit", type=float, default=120.0)
    parser.add_argument("--commit")
    options = parser.parse_args()
    {"predict": predict, "measure": measure, "compare": compare}[options.what](options)


if __name__ == "__main__":
    main()
