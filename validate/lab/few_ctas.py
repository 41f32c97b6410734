"""Kernels of kinds that were found off: few CTAs that stream or reduce, pages of few keys, orders of tiles.

    python validate/lab/few_ctas.py OUT.ndjson          on a GPU: medians on an L2 of other data [us], counters of ncu
    python validate/lab/few_ctas.py OUT.ndjson --predict h100   anywhere: the same launches, predicted

`stream`: CTAs read rows of their own, pipelined; bytes in flight by BLOCK and STAGES. `rounds`: a few CTAs reduce
blocks one after the other, each round waiting for the sum before. `pages`: rows of 256 B in pages of 1 to 64 rows,
in the order of a random table. `order`: products whose tiles go through the matrix in groups of rows.
"""

import argparse
import json
import os
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import triton
import triton.language as tl
from launches import COUNTED, CleanL2, Run, count, launch_once, times_us

REPEATS = 15
ELEMENTS = 128 << 20


@triton.jit
def stream(x, out, trips, BLOCK: tl.constexpr, STAGES: tl.constexpr):
    pid = tl.program_id(0)
    base = x + pid.to(tl.int64) * trips * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    for i in tl.range(0, trips, num_stages=STAGES):
        total += tl.load(base + i * BLOCK)
    tl.store(out + pid * BLOCK + tl.arange(0, BLOCK), total)


@triton.jit
def rounds(x, out, trips, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    base = x + pid.to(tl.int64) * trips * BLOCK + tl.arange(0, BLOCK)
    scale = 1.0
    for i in range(trips):
        scale = tl.sum(tl.load(base + i * BLOCK) * scale, 0) * 1e-6 + 1.0
    tl.store(out + pid, scale)


@triton.jit
def pages(x, table, out, per_cta, PAGE: tl.constexpr, ROWS: tl.constexpr, D: tl.constexpr, STAGES: tl.constexpr):
    pid = tl.program_id(0)
    row, column = tl.arange(0, ROWS), tl.arange(0, D)
    total = tl.zeros([ROWS, D], tl.float32)
    for i in tl.range(0, per_cta, num_stages=STAGES):
        key = (pid * per_cta + i) * ROWS + row
        page = tl.load(table + key // PAGE)
        total += tl.load(x + (page * PAGE + key % PAGE)[:, None].to(tl.int64) * D + column[None, :])
    tl.store(out + pid * D + column, tl.sum(total, 0))


@triton.jit
def order(A, B, C, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr):
    pid = tl.program_id(0)
    across_m, across_n = tl.cdiv(M, BM), tl.cdiv(N, BN)
    group = pid // (GROUP * across_n)
    high = min(across_m - group * GROUP, GROUP)
    m, n = group * GROUP + pid % (GROUP * across_n) % high, pid % (GROUP * across_n) // high
    rm, rn, rk = m * BM + tl.arange(0, BM), n * BN + tl.arange(0, BN), tl.arange(0, BK)
    a, b = A + rm[:, None] * K + rk[None, :], B + rk[:, None] * N + rn[None, :]
    total = tl.zeros([BM, BN], tl.float32)
    for _ in range(0, K, BK):
        total = tl.dot(tl.load(a), tl.load(b), total)
        a += BK
        b += BK * N
    tl.store(C + rm[:, None] * N + rn[None, :], total.to(tl.bfloat16))


def streamed(x: Any, out: Any, ctas: int, block: int, stages: int, warps: int = 4) -> Run:
    """256 MB read by so many CTAs."""
    trips = (256 << 20) // 4 // ctas // block
    return lambda: stream[(ctas,)](x, out, trips, BLOCK=block, STAGES=stages, num_warps=warps)


def paged(half: Any, out: Any, page: int, ctas: int, stages: int) -> Run:
    """256 MB read in pages of so many rows, in the order of a random table."""
    number = ELEMENTS // 128 // page
    table = torch.randperm(number, generator=torch.Generator().manual_seed(page)).to(torch.int32)
    table = table if half.device.type == "meta" else table.to(half.device)  # values on the CPU can be looked at
    per_cta = ELEMENTS // 128 // 64 // ctas
    return lambda: pages[(ctas,)](half, table, out, per_cta, PAGE=page, ROWS=64, D=128, STAGES=stages, num_warps=4)


def cases(device: str) -> Iterator[tuple[dict[str, Any], Run]]:
    """What each launch is, and the launch. Args: device: of its tensors, `cuda` or `meta`."""
    x = torch.empty(ELEMENTS, device=device, dtype=torch.float32)
    out = torch.empty(1 << 24, device=device, dtype=torch.float32)
    for ctas in (16, 66, 132, 264):
        for block, stages, warps in ((1024, 1, 4), (1024, 4, 4), (4096, 1, 4), (4096, 3, 4), (4096, 3, 8), (8192, 2, 8),
                                     (8192, 4, 8)):  # fmt: skip
            trips = (256 << 20) // 4 // ctas // block
            line = {"kind": "stream", "ctas": ctas, "block": block, "stages": stages, "warps": warps, "trips": trips}
            yield line, streamed(x, out, ctas, block, stages, warps)
    for ctas in (1, 4, 16, 132):
        for block, warps in ((128, 1), (1024, 4), (4096, 4), (4096, 8)):
            line = {"kind": "rounds", "ctas": ctas, "block": block, "warps": warps, "trips": 200}
            yield line, lambda g=ctas, b=block, w=warps: rounds[(g,)](x, out, 200, BLOCK=b, num_warps=w)
    half = torch.empty(ELEMENTS, device=device, dtype=torch.bfloat16)
    for page in (1, 2, 4, 16, 64):
        for ctas in (132, 528):
            for stages in (1, 3):
                trips = ELEMENTS // 128 // 64 // ctas
                line = {"kind": "pages", "page": page, "ctas": ctas, "stages": stages, "trips": trips}
                yield line, paged(half, out, page, ctas, stages)
    for m, n, k in ((8192, 8192, 4096), (16384, 4096, 4096)):
        a, b, c = (torch.empty(*shape, device=device, dtype=torch.bfloat16) for shape in ((m, k), (k, n), (m, n)))
        for group in (1, 4, 8, 16, 64):
            grid = (m // 128 * (n // 256),)
            line = {"kind": "order", "m": m, "n": n, "k": k, "group": group}
            yield (
                line,
                lambda g=grid, q=group, s=(m, n, k), t=(a, b, c): order[g](
                    *t, *s, BM=128, BN=256, BK=64, GROUP=q, num_warps=8, num_stages=3
                ),
            )


def measure(out: Path) -> None:
    """Medians of single launches on an L2 full of other data that were read [us], and counters."""
    clean = CleanL2()
    with out.open("a") as file:
        file.write(json.dumps({"gpu": torch.cuda.get_device_name(), "torch": torch.__version__}) + "\n")
        for line, run in cases("cuda"):
            run()
            us = round(statistics.median(times_us(clean, run, REPEATS)), 3)
            file.write(json.dumps(line | {"us": us}) + "\n")
    count(out, [__file__, str(out)], [line for line, _ in cases("cuda")])


def predict(out: Path, device: str) -> None:
    """The launches as they are predicted, each by itself on empty caches."""
    import tilesight

    every = []
    with tilesight.capture(device) as launches:
        for line, run in cases("meta"):
            run()
            every.append(line)
    with out.open("a") as file:
        for line, row in zip(every, tilesight.predict(launches, device, l2="cold").rows, strict=True):
            traffic = row.traffic
            figures = {"time_s": traffic.time_s, "hbm_read_bytes": traffic.hbm_read_bytes, "cycles": traffic.cycles}
            figures |= {"smem_fill_bytes": traffic.smem_fill_bytes, "refused": row.refused}
            file.write(json.dumps(line | {"device": device, "predicted": figures}) + "\n")


def main() -> None:
    """Measure and count, or predict."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--predict", default="")
    options = parser.parse_args()
    if options.predict:
        predict(options.out, options.predict)
    elif COUNTED in os.environ:
        clean = CleanL2()
        launch_once((line, clean, run) for line, run in cases("cuda"))
    else:
        measure(options.out)


if __name__ == "__main__":
    main()
