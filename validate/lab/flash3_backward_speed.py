"""Speed of flash3_backward on a GPU beside cuDNN and flash_backward, all in one run.

    python validate/lab/flash3_backward_speed.py [DTYPE ...] > flash3-backward-speed.ndjson

16,384 tokens of 2,048 columns, as `tests/benchmarks/bench_backward.py` has them; some grouped and short ones beside.
A candidate runs for 10 ms uncounted and 10 ms counted, after a pause; all of a problem take turns in random order.
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
TURNS, PAUSE_S, RUN_MS = 3, 0.02, 10.0
Work = Callable[[], Any]


def timed(work: Work, count: int) -> float:
    """Time of a run in a row of so many [ms]."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(count):
        work()
    end.record()
    torch.cuda.synchronize()
    return float(begin.elapsed_time(end)) / count


def graph(work: Work) -> Work:
    """A run as a graph: without the time of the host, which is longer than that of the GPU."""
    work()
    torch.cuda.synchronize()
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        kept = work()

    def replay() -> Any:
        captured.replay()
        return kept

    return replay


def candidates(shape: tuple[int, ...], dtype: str, causal: bool) -> tuple[dict[str, Work], dict[str, float]]:
    """Work by name, and relative distances of our gradients from those of cuDNN."""
    batch, heads, kv_heads, length, dim = shape
    torch.manual_seed(1)
    q, do = (torch.randn(batch, heads, length, dim, device="cuda").to(DTYPES[dtype]) for _ in range(2))
    k, v = (torch.randn(batch, kv_heads, length, dim, device="cuda").to(DTYPES[dtype]) for _ in range(2))
    leaves = [x.clone().requires_grad_() for x in (q, k, v)]
    wide = [x.repeat_interleave(heads // x.shape[1], 1) for x in (q, k, v)]
    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
        out = F.scaled_dot_product_attention(*leaves, is_causal=causal, enable_gqa=heads != kv_heads)
        o, lse, *_ = torch.ops.aten._scaled_dot_product_cudnn_attention(*wide, None, True, 0.0, causal)
    lse = lse.reshape(q.shape[:3]).contiguous()
    given = {"q": q, "k": k, "v": v, "o": o.contiguous(), "lse": lse, "do": do}

    def cudnn() -> Any:
        return torch.autograd.grad(out, leaves, do, retain_graph=True)

    launch = prepare(given, problem_of_backward(given, causal=causal, window=0))
    launch.run()
    truth = zip(("dq", "dk", "dv"), launch.gradients, cudnn(), strict=True)
    off = {name: float((x.float() - y.float()).norm() / y.float().norm()) for name, x, y in truth}
    work: dict[str, Work] = {"cudnn": cudnn, "flash3_backward": launch.run}
    for block_m, block_n, stages in TODAY[dim]:
        config = Config(form="two_kernels", block_m=block_m, block_n=block_n, num_warps=4, num_stages=stages)
        work[f"{block_m}x{block_n} s{stages}"] = graph(
            lambda config=config: flash_backward(**given, causal=causal, config=config)
        )
    return work, off


def measured(shape: tuple[int, ...], dtype: str, causal: bool) -> dict[str, Any]:
    """Times of all candidates of a problem [ms]."""
    work, off = candidates(shape, dtype, causal)
    counts = {}
    for name, run in work.items():
        run()
        counts[name] = max(2, round(RUN_MS / timed(run, 2)))
    turns: dict[str, list[float]] = {name: [] for name in work}
    for _ in range(TURNS):
        for name in random.sample(list(work), len(work)):
            time.sleep(PAUSE_S)
            timed(work[name], counts[name])
            turns[name].append(timed(work[name], counts[name]))
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
