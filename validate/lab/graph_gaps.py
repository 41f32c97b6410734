"""What a launch takes beside the run of its CTAs in a replayed CUDA graph.

On a GPU: python graph_gaps.py measure FILE; without: python graph_gaps.py compare FILE DEVICE.

`measure` times graphs of 60 and of 20 launches of one kernel on the same tensors, and takes the difference.
`compare` predicts each kernel on what itself has left in L2, takes `launch_ramp_cycles` off, and prints what is left of
the measured time: the gap, and its median of either half.
"""

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median

import torch
import triton
import triton.language as tl

FEW, MANY, REPLAYS, TURNS = 20, 60, 20, 5


@triton.jit
def nothing(x, N: tl.constexpr):
    if N < 0:
        tl.store(x, 0.0)


@triton.jit
def scale(x, y, N, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < N) * 0.25, mask=at < N)


@triton.jit
def softmax(x, y, N: tl.constexpr):
    at = tl.program_id(0) * N + tl.arange(0, N)
    row = tl.load(x + at).to(tl.float32)
    row = tl.exp(row - tl.max(row, 0))
    tl.store(y + at, (row / tl.sum(row, 0)).to(y.dtype.element_ty))


@triton.jit
def chained(ids, x, y, STEPS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    for _ in range(STEPS):
        row = tl.load(ids + row)
    at = tl.arange(0, BLOCK)
    tl.store(y + tl.program_id(0) * BLOCK + at, tl.load(x + row * BLOCK + at))


@triton.jit
def tile(a, b, c, K, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    columns = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK, BLOCK), tl.float32)
    for k in range(0, K, BLOCK):
        inner = k + tl.arange(0, BLOCK)
        left = tl.load(a + rows[:, None] * K + inner[None])
        total += tl.dot(left, tl.load(b + inner[:, None] * BLOCK + columns[None]))
    tl.store(c + rows[:, None] * BLOCK + columns[None], total.to(c.dtype.element_ty))


@triton.jit
def turned(state, x, SIZE: tl.constexpr):
    at = tl.program_id(0) * SIZE * SIZE + tl.arange(0, SIZE)[:, None] * SIZE + tl.arange(0, SIZE)[None]
    held = tl.load(state + at)
    held = held * 0.5 + tl.sum(held, 1)[:, None] * tl.load(x + tl.arange(0, SIZE))[None]
    tl.store(state + at, held)


def calls(device: str) -> Iterator[tuple[str, Callable[[], object]]]:
    """Launches by name."""

    def made(*shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
        return torch.empty(shape, device=device, dtype=dtype)

    for ctas in (1, 132, 1056):
        yield f"nothing {ctas}", lambda ctas=ctas: nothing[(ctas,)](made(1), N=1)
    for size in (1 << 10, 1 << 14, 1 << 17, 1 << 19, 1 << 20, 1 << 21, 1 << 22):
        x, y = made(size), made(size)
        yield f"scale {size}", lambda x=x, y=y, n=size: scale[(triton.cdiv(n, 1024),)](x, y, n, BLOCK=1024)
        yield (
            f"scale small {size}",
            lambda x=x, y=y: scale[(triton.cdiv(len(x), 256),)](x, y, len(x), BLOCK=256, num_warps=1),
        )
    for rows, length in ((1, 1024), (132, 1024), (16, 8192), (264, 4096), (2048, 1024), (1024, 8192)):
        x, y = made(rows, length), made(rows, length)
        yield f"softmax {rows} x {length}", lambda x=x, y=y: softmax[(x.shape[0],)](x, y, N=x.shape[1])
    for ctas, steps in ((1, 1), (132, 1), (132, 4), (1024, 2), (8192, 1)):
        ids = torch.arange(ctas, dtype=torch.int32).flip(0).to(device if device != "meta" else "cpu")
        x, y = made(ctas, 512), made(ctas, 512)
        yield f"chained {ctas} x {steps}", lambda i=ids, x=x, y=y, s=steps: chained[(len(i),)](i, x, y, s, BLOCK=512)
    for ctas, inner in ((1, 64), (16, 512), (132, 1024), (264, 2048)):
        a, b, c = made(ctas * 64, inner), made(inner, 64), made(ctas * 64, 64)
        yield f"tile {ctas} x {inner}", lambda a=a, b=b, c=c: tile[(len(a) // 64,)](a, b, c, a.shape[1], BLOCK=64)
    for ctas in (1, 64, 264, 1024, 2048):
        state, x = made(ctas, 64, 64, dtype=torch.float32), made(64, dtype=torch.float32)
        yield f"turned {ctas}", lambda s=state, x=x: turned[(len(s),)](s, x, SIZE=64, num_warps=1)


def graph_us(call: Callable[[], object], launches: int) -> float:
    """A replay of a graph of so many launches [us]."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(launches):
            call()
    times = []
    for _ in range(TURNS):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        graph.replay()
        begin.record()
        for _ in range(REPLAYS):
            graph.replay()
        end.record()
        torch.cuda.synchronize()
        times.append(1e3 * begin.elapsed_time(end) / REPLAYS)
    return median(times)


def measure(file: str) -> None:
    """Times of all launches, one line each."""
    with Path(file).open("w") as out:
        for name, call in calls("cuda"):
            call()
            taken = (graph_us(call, MANY) - graph_us(call, FEW)) / (MANY - FEW)
            print(json.dumps({"name": name, "us": taken}), file=out, flush=True)
            print(name, f"{taken:.3f} us", flush=True)


def compare(file: str, device: str) -> None:
    """Gaps of all launches that were measured."""
    from tilesight.simulator.device.device import load_device

    import tilesight

    measured = {line["name"]: line["us"] for line in map(json.loads, Path(file).read_text().splitlines())}
    gpu, gaps = load_device(device), []
    for name, call in calls("meta"):
        with tilesight.capture(device) as launches:
            call()
        launch = tilesight.predict(launches, device=device, l2="warm", workers=1).rows[0].prediction
        run_us = 1e6 * (launch.traffic.cycles - gpu.launch_ramp_cycles) / launch.clock_hz
        gaps.append(measured[name] - run_us)
        print(f"{name:24} measured {measured[name]:7.2f} run {run_us:7.2f} gap {gaps[-1]:6.2f}", flush=True)
    print(f"median of the first, third, ... {median(gaps[::2]):.2f} us, of the others {median(gaps[1::2]):.2f} us")


if __name__ == "__main__":
    measure(sys.argv[2]) if sys.argv[1] == "measure" else compare(*sys.argv[2:])
