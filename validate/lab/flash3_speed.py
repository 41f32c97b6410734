"""Speed of flash3 on a GPU beside cuDNN, flash2 and FlashAttention-3, and with its options off one by one.

    python validate/lab/flash3_speed.py [DTYPE ...] > flash3-speed.ndjson

FlashAttention-3 stands beside in bf16 and fp8 where its wheel is installed (fa3-fwd, which has no fp16).

Every candidate is a CUDA graph of 10 ms. All of a problem take turns in random order:
a pause, a replay, and a replay that counts.
"""

import json
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
import triton
from tilesight.kernels.flash2 import RECOMMENDED as FLASH2
from tilesight.kernels.flash2 import flash2
from tilesight.kernels.flash2_tma import RECOMMENDED as FLASH2_TMA
from tilesight.kernels.flash2_tma import flash2_tma
from tilesight.kernels.flash3 import Options
from tilesight.kernels.flash3.call import Prepared, prepare
from tilesight.kernels.flash3.values import transposed
from tilesight.kernels.launch.launch import problem_of
from torch.nn.attention import SDPBackend, sdpa_kernel

D64 = (
    (32, 512, 32),
    (16, 1024, 32),
    (4, 1024, 32),
    (4, 2048, 32),
    (8, 2048, 32),
    (4, 4096, 32),
    (2, 8192, 32),
    (1, 16384, 32),
)
D128 = (
    (32, 512, 16),
    (16, 1024, 16),
    (8, 1024, 16),
    (4, 2048, 16),
    (8, 2048, 16),
    (4, 4096, 16),
    (2, 8192, 16),
    (1, 16384, 16),
)
"""B, N and H at each head dimension."""
OFF: dict[str, dict[str, Any]] = {
    "all": {},
    "no pingpong": {"pingpong": False},
    "no overlap": {"overlap": False},
    "not balanced": {"balanced": False},
    "not persistent": {"persistent": False},
    "neither": {"pingpong": False, "overlap": False, "balanced": False, "persistent": False},
}
DTYPES = {"fp16": torch.float16, "bf16": torch.bfloat16, "fp8": torch.float8_e4m3fn}
TURNS, PAUSE_S, GRAPH_MS = 3, 0.06, 10.0


def timed(work: Callable[[], Any], count: int = 2) -> float:
    """Time of so many runs [ms]."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(count):
        work()
    end.record()
    torch.cuda.synchronize()
    return float(begin.elapsed_time(end))


Graph = tuple[Any, int, Callable[[], Any]]
"""A graph of many runs, how many, and the work, which holds the tensors: a capture gives free memory back."""


def graph(work: Callable[[], Any]) -> Graph:
    """A graph of many runs of the work."""
    work()
    count = max(1, round(GRAPH_MS / (timed(work) / 2)))
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        for _ in range(count):
            work()
    return captured, count, work


def problems() -> Iterator[tuple[str, tuple[int, int, int, int, int], str]]:
    """Part, (B, H, N, D, D_v) and dtype."""
    table = [(b, h, n, dim, dim) for dim, shapes in ((64, D64), (128, D128)) for b, n, h in shapes]
    yield from (("table", shape, "fp16") for shape in table)
    yield from (("table", shape, "fp8") for shape in (*table[10:11], *table[12:], table[5]))
    yield from (("ablation", table[place], "fp16") for place in (13, 12))
    yield from (("table", shape, "bf16") for shape in table)
    yield from (("table", shape, "fp16") for shape in ((4, 8, 4096, 256, 256), (4, 16, 4096, 192, 128)))


def launch(given: list[torch.Tensor], causal: bool, options: Options | None) -> Prepared:
    """A launch of flash3."""
    sms = torch.cuda.get_device_properties(0).multi_processor_count
    problem = problem_of(*given, causal=causal, head_dim_v=given[2].shape[-1])
    return prepare(*given, problem, options=options, sms=sms)


def flash_attention_3(given: list[torch.Tensor], causal: bool) -> dict[str, Graph]:
    """Its graph, where it is installed; its tensors are (B, N, H, D)."""
    try:
        from fa3_fwd_interface import flash_attn_func
    except ImportError:
        return {}
    turned = [x.transpose(1, 2).contiguous() for x in given]
    return {"fa3": graph(lambda: flash_attn_func(*turned, causal=causal))}


def candidates(part: str, shape: tuple[int, ...], dtype: str, causal: bool) -> dict[str, Graph]:
    """Graphs by name."""
    batch, heads, length, dim, out_dim = shape
    torch.manual_seed(1)
    made = [torch.randn(batch, heads, length, width, device="cuda") for width in (dim, dim, out_dim)]
    plain = [x.to(torch.bfloat16 if dtype == "bf16" else torch.float16) for x in made]
    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
        graphs = {"cudnn": graph(lambda: F.scaled_dot_product_attention(*plain, is_causal=causal))}
    if part == "ablation":
        return graphs | {name: graph(launch(plain, causal, Options(**off)).run) for name, off in OFF.items()}
    if dtype == "fp8":
        narrow = [x.to(DTYPES[dtype]) for x in made]
        prepared = launch(narrow, causal, None)

        def turned() -> None:
            transposed(narrow[2])
            prepared.run()

        return graphs | {
            "fp16": graph(launch(plain, causal, None).run),
            "flash3": graph(prepared.run),
            "flash3+turn": graph(turned),
            **flash_attention_3(narrow, causal),
        }
    if dtype == "bf16":
        graphs |= flash_attention_3(plain, causal)
    graphs["flash3"] = graph(launch(plain, causal, None).run)
    for name, function, usual in (("flash2", flash2, FLASH2), ("flash2_tma", flash2_tma, FLASH2_TMA)):
        if (dim, causal) in usual and dtype == "fp16":
            config = usual[dim, causal]
            graphs[name] = graph(
                lambda function=function, config=config: function(*plain, causal=causal, config=config)
            )
    return graphs


def main() -> None:
    """Print a header, and a line for each problem of the dtypes that are named."""
    asked = sys.argv[1:] or DTYPES
    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    driver = subprocess.run(query, capture_output=True, text=True, check=True).stdout.strip()
    versions = {"torch": torch.__version__, "triton": triton.__version__, "cudnn": torch.backends.cudnn.version()}
    print(json.dumps({"gpu": torch.cuda.get_device_name(), "driver": driver, **versions}))
    drawn = random.Random(0)
    for part, shape, dtype in problems():
        if dtype not in asked:
            continue
        for causal in (False, True):
            graphs = candidates(part, shape, dtype, causal)
            turns: dict[str, list[float]] = {name: [] for name in graphs}
            for _ in range(TURNS):
                for name in drawn.sample(list(graphs), len(graphs)):
                    captured, count, _ = graphs[name]
                    time.sleep(PAUSE_S)
                    captured.replay()
                    turns[name].append(timed(captured.replay, 1) / count)
            batch, heads, length, dim, out_dim = shape
            facts = {"shape": [batch, heads, heads, length, length, dim, out_dim], "dt": dtype, "causal": causal}
            print(json.dumps({**facts, "part": part, "burst_ms": turns}), flush=True)


if __name__ == "__main__":
    main()
