"""How long a step of a scan takes: lines loaded of some tensors, used, and lines stored; predicted, and measured.

    python validate/lab/scan_latency.py predict|measure > FILE      (13 s on an H200; some minutes to predict)

Tensors of fp32, batches x STEPS x columns: a CTA walks down BD columns, and loads nothing before it has used what the
step before loaded. A JSON line for each launch: its time [us], and cycles of 1.98 GHz for a step.
"""

import json
import sys
from collections.abc import Iterator
from typing import Any

import torch
import triton
import triton.language as tl

import tilesight

STEPS = 1024
CLOCK_MHZ = 1980
LAUNCH_US = 6.4
"""What `do_bench` shows more than the kernel takes."""
ELEMENTS = 256 << 20


@triton.jit
def scan(a, b, c, d, e, f, columns, LOADS: tl.constexpr, STORES: tl.constexpr, BD: tl.constexpr, STEPS: tl.constexpr):
    """Walk down BD columns."""
    across = columns // BD
    pid = tl.program_id(0)
    at = (pid // across).to(tl.int64) * STEPS * columns + pid % across * BD + tl.arange(0, BD)
    a, b, c, d, e, f = a + at, b + at, c + at, d + at, e + at, f + at
    first = e
    state = tl.zeros([BD], dtype=tl.float32)
    for _ in range(STEPS):
        seen = tl.load(a)
        if LOADS > 1:
            more = tl.load(b)
        if LOADS > 2:
            third = tl.load(c)
        if LOADS > 3:
            fourth = tl.load(d)
        state = state * 0.5 + seen
        if LOADS > 1:
            state = state * more
        if LOADS > 2:
            state = state * 0.5 + third
        if LOADS > 3:
            state = state * fourth
        if STORES > 0:
            tl.store(e, state)
        if STORES > 1:
            tl.store(f, state * 2.0)
        a += columns
        b += columns
        c += columns
        d += columns
        e += columns
        f += columns
    if STORES == 0:
        tl.store(first, state)


MOVED = ((1, 0), (1, 1), (2, 0), (2, 1), (3, 0), (3, 1), (3, 2), (4, 0), (4, 2))
"""Tensors that are loaded, and stored. Without a store the loads of several steps are in flight."""
GRIDS = (
    (16, 128, 4, 2048),
    (128, 128, 4, 2048),
    (512, 128, 4, 2048),
    (1024, 128, 4, 2048),
    (512, 32, 1, 2048),
    (2048, 32, 1, 2048),
    (4096, 32, 1, 2048),
    (512, 128, 4, 65536),
    (512, 128, 1, 2048),
)
"""CTAs, columns of each, its warps, and columns of the tensors."""


def cases() -> Iterator[dict[str, int]]:
    """All of them."""
    for loads, stores in MOVED:
        for ctas, wide, warps, columns in GRIDS:
            yield {
                "loads": loads, "stores": stores, "ctas": ctas, "bd": wide, "warps": warps, "columns": columns
            }  # fmt: skip


def launch(case: dict[str, int], tensors: list[torch.Tensor]) -> None:
    """Launch the kernel of a case."""
    options = {"LOADS": case["loads"], "STORES": case["stores"], "BD": case["bd"], "STEPS": STEPS}
    scan[(case["ctas"],)](*tensors, case["columns"], **options, num_warps=case["warps"])


def predicted_us(case: dict[str, int]) -> float:
    """Predicted time, on an H200."""
    tensors = [torch.empty(ELEMENTS, device="meta") for _ in range(6)]
    with tilesight.capture("h200") as launches:
        launch(case, tensors)
    prediction: Any = tilesight.predict(launches, "h200", l2="cold").rows[0].prediction
    return float(prediction.traffic.time_s * 1e6)


def measured_us(case: dict[str, int], tensors: list[torch.Tensor]) -> float:
    """Median time, on the GPU that there is."""
    milliseconds = triton.testing.do_bench(lambda: launch(case, tensors), warmup=5, rep=30, return_mode="median")
    return float(milliseconds * 1e3 - LAUNCH_US)


def main() -> None:
    """Print a line for each case."""
    measures = sys.argv[1] == "measure"
    tensors = [torch.zeros(ELEMENTS, device="cuda") for _ in range(6)] if measures else []
    for case in cases():
        spent_us = measured_us(case, tensors) if measures else predicted_us(case)
        print(json.dumps(case | {"us": spent_us, "cycles": spent_us * CLOCK_MHZ / STEPS}), flush=True)


if __name__ == "__main__":
    main()
