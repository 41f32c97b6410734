"""Speed of gradients and of decoding on a GPU: prints the tables of `docs/kernel-speed.md` on them.

    python tests/benchmarks/bench_backward.py [--head-dim 64|128] [--jsonl FILE]

`flash_backward` beside the backward passes of `scaled_dot_product_attention` (flash and cuDNN), 16,384 tokens of 2,048
columns in bf16: all configurations at 4,096 tokens a sequence, the fastest two of each form at other lengths.
`flash_decode` of 16 sequences of 32,768 keys beside a sum of as many bytes. Medians of `do_bench`, in one process.
"""

import argparse
import json
from collections.abc import Callable
from itertools import product
from math import exp, log
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from tilesight.kernels.compile.compile import compile_many
from tilesight.kernels.launch.launch import device_of
from tilesight.simulator.problems.attention import AttentionProblem
from tilesight.simulator.problems.attention_backward import AttentionBackwardProblem
from tilesight.simulator.schedules.config import Config
from tilesight.simulator.schedules.registry import find_schedule
from tilesight.validate.measure.pipeline import prepare
from torch.nn.attention import SDPBackend, sdpa_kernel
from triton.testing import do_bench

TOKENS, COLUMNS = 16384, 2048
SWEPT, LENGTHS = 4096, (2048, 4096, 8192, 16384)
HEAD_DIMS = (64, 128)
KEPT = 2
"""Configurations of a form that are timed at lengths other than the one at which all are."""
BACKENDS = {"flash": SDPBackend.FLASH_ATTENTION, "cuDNN": SDPBackend.CUDNN_ATTENTION}
DECODED = AttentionProblem(
    batch=16, heads=64, kv_heads=8, seqlen_q=1, seqlen_k=32768, head_dim=128, dtype="bf16", causal=True
)


def milliseconds(work: Callable[[], object]) -> float:
    """Median time of a run [ms]."""
    work()
    return float(do_bench(work, warmup=3, rep=15, return_mode="median"))


def problem_of(length: int, head_dim: int, causal: bool) -> AttentionBackwardProblem:
    """As many tokens and columns whatever the length and the head dimension."""
    return AttentionBackwardProblem(
        batch=TOKENS // length,
        heads=COLUMNS // head_dim,
        seqlen_q=length,
        seqlen_k=length,
        head_dim=head_dim,
        dtype="bf16",
        causal=causal,
    )


def compiled(schedule: str, problem: AttentionProblem, configs: list[Config]) -> None:
    """Compile all configurations on all cores; Triton then finds them in its cache."""
    device = device_of(torch.empty(0, device="cuda"))
    chains = [find_schedule(schedule).launches(problem, config, device) for config in configs]
    compile_many([launch for chain in chains for launch in chain], device)


def ours(schedule: str, problem: AttentionProblem, config: Config) -> float | None:
    """Time of a configuration [ms]; None where it does not fit."""
    place = torch.device("cuda")
    launches = find_schedule(schedule).launches(problem, config, device_of(torch.empty(0, device=place)))
    try:
        return milliseconds(prepare(launches, problem, place)[0].run)
    except Exception as error:
        if "out of resource" in str(error):
            return None
        raise


def theirs(problem: AttentionBackwardProblem, backend: SDPBackend) -> float:
    """Time of the backward pass of a backend of SDPA [ms]."""
    shape = (problem.batch, problem.heads, problem.seqlen_q, problem.head_dim)
    q, k, v, do = (torch.randn(shape, device="cuda", dtype=torch.bfloat16) for _ in range(4))
    leaves = [x.requires_grad_() for x in (q, k, v)]
    with sdpa_kernel(backend):
        o = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=problem.causal)
    return milliseconds(lambda: torch.autograd.grad(o, leaves, do, retain_graph=True))


def gradients(head_dims: tuple[int, ...]) -> list[dict[str, Any]]:
    """A row for each length, head dimension and mask, printed as it is known."""
    rows = []
    configs = list(find_schedule("flash_backward").configs())
    print("| N, D | mask | best of ours | TFLOP/s | flash | cuDNN | over flash | over cuDNN |\n" + "|---" * 8 + "|")
    for head_dim, causal in product(head_dims, (False, True)):
        compiled("flash_backward", problem_of(SWEPT, head_dim, causal), configs)
        swept = {config: ours("flash_backward", problem_of(SWEPT, head_dim, causal), config) for config in configs}
        times_ms = {config: time_ms for config, time_ms in swept.items() if time_ms is not None}
        ranked = sorted(times_ms, key=times_ms.__getitem__)
        forms = dict.fromkeys(config.form for config in ranked)
        kept = [config for form in forms for config in [other for other in ranked if other.form == form][:KEPT]]
        for length in LENGTHS:
            problem = problem_of(length, head_dim, causal)
            taken = times_ms if length == SWEPT else {item: ours("flash_backward", problem, item) for item in kept}
            best = min(taken, key=lambda config: taken[config] or float("inf"))
            peers = {name: theirs(problem, backend) for name, backend in BACKENDS.items()}
            row = {"problem": problem.to_dict(), "config": best.named(), "ms": taken[best], "peers_ms": peers}
            rows.append(row)
            rate = {name: problem.matmul_flop / ms / 1e9 for name, ms in {"ours": row["ms"], **peers}.items()}
            print(
                f"| {length}, {head_dim} | {'causal' if causal else 'none'} | {best} | {rate['ours']:.0f}"
                f" | {rate['flash']:.0f} | {rate['cuDNN']:.0f} | {rate['ours'] / rate['flash']:.2f}"
                f" | {rate['ours'] / rate['cuDNN']:.3f} |",
                flush=True,
            )
    print(f"\nover cuDNN, geometric mean: {exp(fmean(log(row['peers_ms']['cuDNN'] / row['ms']) for row in rows)):.3f}")
    return rows


def decoding() -> dict[str, Any]:
    """Read bandwidth of the best configuration of a decode step, and that of a sum [B/s]."""
    numbers = torch.ones(1 << 27, dtype=torch.int64, device="cuda")
    read = numbers.nbytes / milliseconds(numbers.sum) * 1e3
    del numbers
    configs = list(find_schedule("flash_decode").configs())
    compiled("flash_decode", DECODED, configs)
    times_ms = {config: ours("flash_decode", DECODED, config) for config in configs}
    best = min(times_ms, key=lambda config: times_ms[config] or float("inf"))
    rate = DECODED.compulsory.read_bytes / (times_ms[best] or float("inf")) * 1e3
    print(f"decode: {best}: {rate / 1e12:.2f} TB/s; a sum reads {read / 1e12:.2f} TB/s: {rate / read:.3f}")
    return {"config": best.named(), "bytes_per_s": rate, "sum_bytes_per_s": read}


def main() -> None:
    """Time, print, and write what was measured."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--head-dim", type=int, choices=HEAD_DIMS, help="only this one, and no decoding")
    parser.add_argument("--jsonl", type=Path)
    given = parser.parse_args()
    rows = gradients((given.head_dim,)) if given.head_dim else [decoding(), *gradients(HEAD_DIMS)]
    if given.jsonl:
        given.jsonl.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


if __name__ == "__main__":
    main()
