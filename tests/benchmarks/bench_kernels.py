"""Speed of the kernels on a GPU, in one run beside what PyTorch has: prints the tables of `docs/kernel-speed.md`.

    python tests/benchmarks/bench_kernels.py [--part attention|naive] [--json FILE]

Tiled kernels beside `scaled_dot_product_attention` with the flash and the cuDNN backend: every candidate is timed once,
then the fastest few and both backends take turns, because a GPU that warms up slows down; the median of turns counts.
The naive pipeline, kernel by kernel, beside `torch.matmul` and a copy of the same size. All warm, random data, fp16.
"""

import argparse
import json
from collections.abc import Callable, Iterator
from datetime import date
from functools import partial
from math import exp, log
from pathlib import Path
from statistics import fmean, median
from typing import Any

import torch
import triton
from tilesight.kernels.compile.compile import compile_many
from tilesight.kernels.compile.outcomes import Compiled
from tilesight.kernels.launch.launch import device_of, run
from tilesight.simulator.launch.program import Launch
from tilesight.simulator.problems.attention import AttentionProblem
from tilesight.simulator.schedules.registry import find_schedule
from tilesight.validate.measure.pipeline import prepare
from tilesight.validate.timing.timing import tare_s, time_run
from tilesight.validate.timing.track import Track
from torch.nn.attention import SDPBackend, sdpa_kernel

SHAPES = ((4, 32, 1024, 64), (4, 32, 2048, 64), (4, 32, 4096, 64), (4, 16, 4096, 128), (1, 16, 16384, 128))
PRODUCT_SHAPES = ((4, 32, 1024, 64), (4, 32, 4096, 64), (4, 16, 4096, 128))
TILES = {
    64: ((64, 64, 4, 2), (64, 64, 4, 3), (64, 128, 4, 2), (128, 64, 4, 3), (128, 64, 8, 3), (128, 128, 4, 3)),
    128: ((64, 64, 4, 2), (64, 64, 4, 3), (64, 128, 4, 2), (128, 64, 8, 2), (128, 64, 8, 3), (128, 128, 8, 2)),
}
"""Head dimension -> block_m, block_n, num_warps, num_stages to try."""
SPECIALISED = {64: ((128, 128, 4, 2),), 128: ((128, 128, 4, 2), (128, 64, 4, 2))}
"""The same, with specialised warps, which take two stages at most."""
ORDERS = {False: ("m-fast",), True: ("longest-first", "m-reversed")}
BACKENDS = {"sdpa-flash": SDPBackend.FLASH_ATTENTION, "sdpa-cudnn": SDPBackend.CUDNN_ATTENTION}
FINALISTS, TURNS = 4, 5
PRODUCT_TILES = ((128, 64, 4, 4), (256, 64, 8, 4), (128, 128, 4, 3), (128, 128, 8, 3), (128, 64, 8, 3), (128, 64, 4, 3))


def candidates(problem: AttentionProblem, device: Any) -> Iterator[tuple[str, Launch]]:
    """Names and launches of the tiled kernels to try on a problem."""
    for schedule, tiles, more in (
        ("flash2", TILES, {}),
        ("flash2_tma", TILES, {}),
        ("flash2_tma", SPECIALISED, {"warp_specialize": 1}),
    ):
        chosen = find_schedule(schedule)
        for block_m, block_n, num_warps, num_stages in tiles[problem.head_dim]:
            for order in ORDERS[problem.causal]:
                options = {"block_m": block_m, "block_n": block_n, "num_warps": num_warps, "num_stages": num_stages}
                config = chosen.config(**options, cta_order=order, **more)
                (launch,) = chosen.launches(problem, config, device)
                name = f"{schedule} {block_m}x{block_n} w{num_warps} s{num_stages}"
                yield name + (f" {order}" if order != "m-fast" else "") + (" specialised" if more else ""), launch


def sdpa(backend: SDPBackend, causal: bool, *tensors: torch.Tensor) -> torch.Tensor:
    """O (B, H, M, D) of Q, K, V by one of torch's backends."""
    with sdpa_kernel(backend):
        return torch.nn.functional.scaled_dot_product_attention(*tensors, is_causal=causal)


def timed(track: Track, tare: float, work: Callable[[], Any]) -> float:
    """Median time of a run, L2 warm [s]."""
    return time_run(track, work, l2="warm", tare=tare, cap_s=0.15).median_s


def attention(track: Track, tare: float, problem: AttentionProblem, device: Any) -> dict[str, Any]:
    """Our kernels and the backends on one problem: name -> FLOP/s, of the finalists' turns."""
    named = list(candidates(problem, device))
    outcomes = compile_many([launch for _, launch in named], device)
    works, place = {}, torch.device("cuda")
    for (name, launch), outcome in zip(named, outcomes, strict=True):
        if isinstance(outcome, Compiled):
            pipeline, _ = prepare((launch,), problem, place)
            works[name], tensors = pipeline.run, pipeline.tensors
    first = {name: timed(track, tare, work) for name, work in works.items()}
    final = sorted(first, key=first.__getitem__)[:FINALISTS]
    shape = (problem.batch, problem.heads, problem.seqlen_q, problem.head_dim)
    given = [tensors[name].view(shape) for name in "QKV"]
    peers = {name: partial(sdpa, backend, problem.causal, *given) for name, backend in BACKENDS.items()}
    turns: dict[str, list[float]] = {name: [] for name in (*final, *peers)}
    for _ in range(TURNS):
        for name, taken in turns.items():
            taken.append(timed(track, tare, peers.get(name) or works[name]))
    flop = 4 * problem.batch * problem.heads * problem.seqlen_q * problem.seqlen_k * problem.head_dim
    rate = {name: flop / (2 if problem.causal else 1) / median(taken) for name, taken in turns.items()}
    best = max(final, key=rate.__getitem__)
    return {
        "problem": [problem.batch, problem.heads, problem.seqlen_q, problem.head_dim, problem.causal],
        "flop_per_s": rate,
        "first_s": first,
        "best": best,
        "over_flash": rate[best] / rate["sdpa-flash"],
        "over_cudnn": rate[best] / rate["sdpa-cudnn"],
    }


def products(track: Track, tare: float, problem: AttentionProblem, device: Any) -> dict[str, Any]:
    """The three kernels of naive attention beside matmul and copy: name -> time over theirs, configuration."""
    chosen, place = find_schedule("naive"), torch.device("cuda")
    best: dict[str, tuple[float, str]] = {}
    configs = [
        chosen.config(block_m=m, block_n=n, num_warps=warps, num_stages=stages) for m, n, warps, stages in PRODUCT_TILES
    ]
    wanted = [launch for config in configs for launch in chosen.launches(problem, config, device)]
    compile_many(wanted, device)
    for config in configs:
        pipeline, _ = prepare(chosen.launches(problem, config, device), problem, place)
        for launch, twin in zip(pipeline.launches, pipeline.twins, strict=True):
            taken = timed(track, tare, lambda p=pipeline, launch=launch, twin=twin: run(twin, launch, p.tensors))
            label = f"{config.block_m}x{config.block_n} w{config.num_warps} s{config.num_stages}"
            best[launch.name] = min(best.get(launch.name, (taken, label)), (taken, label))
        tensors = pipeline.tensors
    shape = (problem.batch, problem.heads, problem.seqlen_q)
    q, k, v = (tensors[name].view(*shape, problem.head_dim) for name in "QKV")
    s, p = (tensors[name].view(*shape, problem.seqlen_k) for name in "SP")
    theirs = {
        "scores": timed(track, tare, lambda: torch.matmul(q, k.transpose(2, 3), out=s)),
        "softmax": timed(track, tare, lambda: p.copy_(s)),
        "output": timed(track, tare, lambda: torch.matmul(p, v)),
    }
    return {
        "problem": [problem.batch, problem.heads, problem.seqlen_q, problem.head_dim],
        "over": {name: best[name][0] / theirs[name] for name in theirs},
        "best_s": best,
        "theirs_s": theirs,
    }


def main() -> None:
    """Time, print, and write what was found."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--part", choices=("attention", "naive"))
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    track = Track()
    tare, device = tare_s(track), device_of(torch.empty(0, device="cuda"))
    facts = {
        "schema": "tilesight.kernel-speed/1",
        "date": date.today().isoformat(),
        "gpu": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "triton": triton.__version__,
        "cudnn": torch.backends.cudnn.version(),
    }
    if given.part != "naive":
        facts["attention"] = print_attention(track, tare, device)
    if given.part != "attention":
        facts["naive"] = print_products(track, tare, device)
    if given.json:
        given.json.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")


def print_attention(track: Track, tare: float, device: Any) -> list[dict[str, Any]]:
    """The table of tiled kernels and backends. Returns: its rows."""
    rows = []
    print("| B, H, N, D | mask | best of ours | TFLOP/s | flash | cuDNN | over flash | over cuDNN |")
    print("|---|---|---|---|---|---|---|---|")
    for batch, heads, length, dim in SHAPES:
        for causal in (False, True):
            problem = AttentionProblem(
                batch=batch, heads=heads, seqlen_q=length, seqlen_k=length, head_dim=dim, causal=causal
            )
            row = attention(track, tare, problem, device)
            rows.append(row)
            rate = {name: value / 1e12 for name, value in row["flop_per_s"].items()}
            print(
                f"| {batch}, {heads}, {length}, {dim} | {'causal' if causal else 'none'} | {row['best']} "
                f"| {rate[row['best']]:.0f} | {rate['sdpa-flash']:.0f} | {rate['sdpa-cudnn']:.0f} "
                f"| {row['over_flash']:.2f} | {row['over_cudnn']:.3f} |",
                flush=True,
            )
    mean = exp(fmean(log(row["over_cudnn"]) for row in rows))
    print(f"\nover cuDNN, geometric mean: {mean:.3f}\n")
    return rows


def print_products(track: Track, tare: float, device: Any) -> list[dict[str, Any]]:
    """The table of the naive pipeline. Returns: its rows."""
    rows = []
    print("| B, H, N, D | scores / matmul | softmax / copy | output / matmul |\n|---|---|---|---|")
    for batch, heads, length, dim in PRODUCT_SHAPES:
        problem = AttentionProblem(batch=batch, heads=heads, seqlen_q=length, seqlen_k=length, head_dim=dim)
        row = products(track, tare, problem, device)
        rows.append(row)
        over = row["over"]
        print(
            f"| {batch}, {heads}, {length}, {dim} | {over['scores']:.3f} ({row['best_s']['scores'][1]}) "
            f"| {over['softmax']:.3f} | {over['output']:.3f} ({row['best_s']['output'][1]}) |",
            flush=True,
        )
    return rows


if __name__ == "__main__":
    main()
