"""Advice, followed: kernels with an illness, what `predict` says would help, and the same kernels with that done.

    python validate/lab/advice.py OUT.ndjson --predict h100     anywhere: time, and causes with their gains
    python validate/lab/advice.py OUT.ndjson                    on a GPU: medians on an L2 full of other data [us]

Each case is a launch and the launch of somebody who did what the first line with a gain says, or comes as near to it
as an author can.
"""

import argparse
import json
import statistics
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import torch
import triton
import triton.language as tl
from few_ctas import ELEMENTS, REPEATS, order, paged, streamed
from launches import CleanL2, Run, times_us


@triton.jit
def pick(X, Y, COLUMNS: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(Y + i, tl.load(X + i * COLUMNS))


@triton.jit
def transposed(X, Y, R, C, B: tl.constexpr):
    i, j = tl.program_id(0) * B + tl.arange(0, B), tl.program_id(1) * B + tl.arange(0, B)
    x = tl.load(X + i[:, None] * C + j[None, :])
    tl.store(Y + j[:, None] * R + i[None, :], tl.trans(x))


@triton.jit
def column_sums(X, Y, rows, N, BLOCK: tl.constexpr, ADD: tl.constexpr):
    i = tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    for r in range(rows):
        total += tl.load(X + (tl.program_id(0) * rows + r).to(tl.int64) * N + i)
    if ADD:
        tl.atomic_add(Y + i, total)
    else:
        tl.store(Y + tl.program_id(0).to(tl.int64) * N + i, total)


@triton.jit
def softmax(X, Y, N: tl.constexpr, ROWS: tl.constexpr):
    at = (tl.program_id(0) * ROWS + tl.arange(0, ROWS))[:, None] * N + tl.arange(0, N)[None, :]
    x = tl.load(X + at)
    e = tl.exp(x - tl.max(x, 1)[:, None])
    tl.store(Y + at, e / tl.sum(e, 1)[:, None])


def cases(device: str) -> Iterator[tuple[str, Run, Run]]:
    """Name, the launch, and the launch as advised. Args: device: of the tensors, `cuda` or `meta`."""
    x = torch.empty(ELEMENTS, device=device, dtype=torch.float32)
    y = torch.empty(1 << 26, device=device, dtype=torch.float32)
    half = x.view(torch.bfloat16)[:ELEMENTS]
    streams, paging = partial(streamed, x, y), partial(paged, half, y)

    def product(n: int, bm: int, bn: int, warps: int, stages: int) -> Run:
        a, b, c = (torch.empty(n, n, device=device, dtype=torch.bfloat16) for _ in range(3))
        grid = (n // bm * (n // bn),)
        return lambda: order[grid](a, b, c, n, n, n, BM=bm, BN=bn, BK=64, GROUP=8, num_warps=warps, num_stages=stages)

    def summed(ctas: int, add: bool) -> Run:
        return lambda: column_sums[(ctas,)](x, y, 16384 // ctas, 4096, BLOCK=4096, ADD=add, num_warps=8)

    def turned(tile: int) -> Run:
        return lambda: transposed[(2048 // tile, 2048 // tile)](x, y, 2048, 2048, B=tile)

    yield "stream: CTAs on half of the SMs", streams(66, 4096, 1), streams(132, 4096, 1)
    yield "stream: no stages, 4 KiB a turn", streams(132, 1024, 1), streams(132, 1024, 4)
    yield "stream: a CTA an SM, no stages", streams(132, 4096, 1), streams(264, 4096, 1)
    yield "pages of 16 rows: no stages", paging(16, 132, 1), paging(16, 132, 3)
    yield "pages of 64 rows: a CTA an SM", paging(64, 132, 1), paging(64, 528, 1)
    yield "every eighth element", lambda: pick[(4096,)](x, y, 8, BLOCK=1024), lambda: pick[(4096,)](x, y, 1, BLOCK=1024)
    yield "transpose, an element a program", turned(1), turned(64)
    yield "column sums added by 2,048 CTAs", summed(2048, True), summed(2048, False)
    yield "product without stages", product(4096, 128, 128, 8, 1), product(4096, 128, 128, 8, 3)
    yield "product that spills", product(4096, 128, 256, 4, 3), product(4096, 128, 256, 8, 3)
    yield "product of one CTA an SM", product(4096, 64, 128, 4, 6), product(4096, 64, 128, 4, 4)
    yield "softmax of rows of 256", lambda: softmax[(131072,)](x, y, 256, 1), lambda: softmax[(16384,)](x, y, 256, 8)


def measure(out: Path) -> None:
    """Medians of single launches [us]."""
    clean = CleanL2()
    with out.open("a") as file:
        for name, *runs in cases("cuda"):
            medians = []
            for run in runs:
                run()
                medians.append(statistics.median(times_us(clean, run, REPEATS)))
            file.write(json.dumps({"case": name, "gpu": torch.cuda.get_device_name(), "us": medians}) + "\n")


def predict(out: Path, device: str) -> None:
    """What is predicted of both, and what is said of the first."""
    import tilesight

    with out.open("a") as file:
        for name, before, after in cases("meta"):
            predictions = []
            for run in (before, after):
                with tilesight.capture(device) as launches:
                    run()
                predictions.append(tilesight.predict(launches, device, l2="cold"))
            line = {
                "case": name,
                "device": device,
                "predicted_us": [prediction.total.time_s * 1e6 for prediction in predictions],
            }
            file.write(json.dumps(line | {"helps": [advice.to_dict() for advice in predictions[0].helps]}) + "\n")
            file.flush()


def main() -> None:
    """Measure or predict."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--predict", default="")
    options = parser.parse_args()
    if options.predict:
        predict(options.out, options.predict)
    else:
        measure(options.out)


if __name__ == "__main__":
    main()
