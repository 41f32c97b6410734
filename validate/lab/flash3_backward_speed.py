"""Speed of flash3_backward on a GPU beside cuDNN and flash_backward, all in one run.

    python validate/lab/flash3_backward_speed.py [DTYPE ...] > flash3-backward-speed.ndjson

16,384 tokens of 2,048 columns, as `tests/benchmarks/bench_backward.py` has them; some grouped and short ones beside.
Every candidate is a CUDA graph of 10 ms. All of a problem take turns in random order:
a pause, a replay, and a replay that counts.
"""

import json
import random
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
import triton
from tilesight.kernels.backward.call import problem_of_backward
from tilesight.kernels.flash3_backward.call import prepare
from tilesight.kernels.flash_backward import flash_backward
from tilesight.simulator.schedules.config import Config
from torch.nn.attention import SDPBackend, sdpa_kernel

SHAPES = (
    *((16384 // n, 2048 // dim, 2048 // dim, n, dim) for dim in (64, 128) for n in (2048, 4096, 8192, 16384)),
    (32, 16, 16, 512, 128),
    (16, 32, 32, 1024, 64),
    (4, 32, 8, 4096, 128),
    (1, 16, 16, 1024, 128),
    (1, 32, 32, 512, 64),
)
"""B, H, G, N and D."""
TODAY = {64: ((64, 64, 3), (128, 64, 2)), 128: ((64, 64, 2),)}
"""block_m, block_n and stages of the fastest configurations of flash_backward: two kernels, four warps."""
DTYPES = {"fp16": torch.float16, "bf16": torch.bfloat16}
TURNS, PAUSE_S, GRAPH_MS = 3, 0.03, 10.0
Work = Callable[[], Any]


def timed(work: Work, count: int = 2) -> float:
    """Time of so many runs [ms]."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(count):
        work()
    end.record()
    torch.cuda.synchronize()
    return float(begin.elapsed_time(end))


Graph = tuple[Work, int, Work]
"""A replay of many runs, how many, and the work, which holds the tensors: a capture gives free memory back."""


def graph(work: Work) -> Graph:
    """A graph of many runs of the work."""
    work()
    count = max(1, round(GRAPH_MS / (timed(work) / 2)))
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        for _ in range(count):
            work()
    return captured.replay, count, work


def cudnn_of(given: dict[str, torch.Tensor], causal: bool) -> Graph:
    """Gradients by cuDNN: its operation; where heads are grouped torch's derivative, without a graph."""
    q, k, v, do = (given[name] for name in ("q", "k", "v", "do"))
    wide = [x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (q, k, v)]
    o, lse, *rest = torch.ops.aten._scaled_dot_product_cudnn_attention(*wide, None, True, 0.0, causal)
    given |= {"o": o.contiguous(), "lse": lse.reshape(q.shape[:3]).contiguous()}
    if q.shape[1] == k.shape[1]:
        cumulated, longest, drawn = rest[0:2], rest[2:4], rest[4:6]
        operation = torch.ops.aten._scaled_dot_product_cudnn_attention_backward
        return graph(lambda: operation(do, q, k, v, o, lse, *drawn, None, *cumulated, *longest, 0.0, causal))
    leaves = [x.clone().requires_grad_() for x in (q, k, v)]
    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
        out = F.scaled_dot_product_attention(*leaves, is_causal=causal, enable_gqa=True)

    def derivative() -> Any:
        return torch.autograd.grad(out, leaves, do, retain_graph=True)

    derivative()
    count = max(1, round(GRAPH_MS / (timed(derivative) / 2)))
    return lambda: [derivative() for _ in range(count)], count, derivative


def candidates(shape: tuple[int, ...], dtype: str, causal: bool) -> tuple[dict[str, Graph], dict[str, float]]:
    """Graphs by name, and relative distances of our gradients from those of cuDNN."""
    batch, heads, kv_heads, length, dim = shape
    torch.manual_seed(1)
    q, do = (torch.randn(batch, heads, length, dim, device="cuda").to(DTYPES[dtype]) for _ in range(2))
    k, v = (torch.randn(batch, kv_heads, length, dim, device="cuda").to(DTYPES[dtype]) for _ in range(2))
    given = {"q": q, "k": k, "v": v, "do": do}
    cudnn = cudnn_of(given, causal)
    launch = prepare(given, problem_of_backward(given, causal=causal, window=0))
    graphs = {"cudnn": cudnn, "flash3_backward": graph(launch.run)}
    truth = zip(("dq", "dk", "dv"), launch.gradients, cudnn[2](), strict=True)
    off = {name: float((x.float() - y.float()).norm() / y.float().norm()) for name, x, y in truth}
    for block_m, block_n, stages in TODAY[dim]:
        config = Config(form="two_kernels", block_m=block_m, block_n=block_n, num_warps=4, num_stages=stages)
        graphs[f"{block_m}x{block_n} s{stages}"] = graph(
            lambda config=config: flash_backward(**given, causal=causal, config=config)
        )
    return graphs, off


def measured(shape: tuple[int, ...], dtype: str, causal: bool) -> dict[str, Any]:
    """Times of all candidates of a problem [ms]."""
    graphs, off = candidates(shape, dtype, causal)
    turns: dict[str, list[float]] = {name: [] for name in graphs}
    for _ in range(TURNS):
        for name in random.sample(list(graphs), len(graphs)):
            replay, count, _ = graphs[name]
            time.sleep(PAUSE_S)
            replay()
            turns[name].append(timed(replay, 1) / count)
    return {"shape": shape, "dt": dtype, "causal": causal, "burst_ms": turns, "off_cudnn": off}


def main() -> None:
    """Print a header, and a line for each problem of the dtypes that are named."""
    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    driver = subprocess.run(query, capture_output=True, text=True, check=True).stdout.strip()
    versions = {"torch": torch.__version__, "triton": triton.__version__, "cudnn": torch.backends.cudnn.version()}
    print(json.dumps({"gpu": torch.cuda.get_device_name(), "driver": driver, **versions}), flush=True)
    for dtype in sys.argv[1:] or DTYPES:
        for shape in SHAPES:
            for causal in (False, True):
                print(json.dumps(measured(shape, dtype, causal)), flush=True)
                torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
