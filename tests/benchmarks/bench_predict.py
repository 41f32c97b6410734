"""How long a prediction of somebody's compiled launch takes, and how much memory: tracing, programs, engine.

    PYTHONPATH=tests/kernels python tests/benchmarks/bench_predict.py [--only NAME]

Kernels of the zoo (`tests/kernels/zoo`) at the sizes that people launch. Every case runs in a process of its own, which
compiles, predicts a small launch of another kernel so that numba's code is loaded, and then predicts its own, once.
CPU seconds, which other work on the machine does not lengthen; the peak of resident memory is of all of it.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from tilesight.kernels.capture.lowering import lower
from tilesight.kernels.compile.calls import compile_calls
from tilesight.simulator.predict_kernels import CompiledLaunch, predict_kernels
from tilesight.simulator.prediction.kernel_row import KernelRow
from tilesight.simulator.prediction.kernels import Request
from tilesight.simulator.residency.l1_room import kept_of
from tilesight.simulator.trace.cta.traced_kernel import CompiledKernel
from tilesight.simulator.trace.program.launch import launches_of, trace
from zoo import rowwise, tiled

import tilesight

DEVICE = "h200"
ELEMENTS = 1 << 30
"""Of the grid of 10^6 CTAs, 1024 each."""


def half(*shape: int) -> torch.Tensor:
    """A tensor without data, fp16."""
    return torch.empty(shape, dtype=torch.float16, device="meta")


def single(*shape: int) -> torch.Tensor:
    """The same, fp32."""
    return torch.empty(shape, dtype=torch.float32, device="meta")


def persistent(size: int) -> None:
    """A square product by a CTA per SM."""
    tiled.gemm_persistent[132,](
        half(size, size), half(size, size), half(size, size), size, size, size, BM=128, BN=128, BK=64, num_warps=8
    )


def grouped(size: int) -> None:
    """A square product, rows and columns taken modulo its size."""
    tiles = size // 128
    tiled.gemm_grouped[tiles * tiles,](
        half(size, size), half(size, size), half(size, size), size, size, size, BM=128, BN=128, BK=64, GROUP=8,
        num_warps=8,
    )  # fmt: skip


def ragged(sequences: int) -> None:
    """Attention over sequences of unlike lengths, up to 4096."""
    lengths = np.random.default_rng(0).integers(64, 4096, sequences)
    starts = np.concatenate(([0], np.cumsum(lengths)))
    rows = int(starts[-1])
    tiled.attention_ragged[32, sequences](
        half(rows, 64), half(rows, 64), single(rows), torch.tensor(starts, dtype=torch.int32), D=64, BM=128, BN=64
    )


def paged(sequences: int) -> None:
    """A sum over pages of a cache, in the order of a table, up to 256 of them."""
    source = np.random.default_rng(0)
    pages, lengths = 256, source.integers(64, 4096, sequences)
    table = torch.tensor(source.permutation(sequences * pages), dtype=torch.int32)
    cache = half(sequences * pages * 16, 128)
    tiled.paged_sum[sequences,](
        cache, table, torch.tensor(lengths, dtype=torch.int32), single(sequences, 128), pages, D=128, PAGE=16
    )


def causal(rows: int, heads: int, block: int) -> None:
    """Attention below the diagonal, in square blocks."""
    tensors = (half(heads, rows, 64) for _ in range(4))
    tiled.attention[rows // block, heads](*tensors, rows, 0.1, D=64, BM=block, BN=block, CAUSAL=True)


def elementwise() -> None:
    """A sum of two vectors by 10^6 CTAs."""
    vectors = (single(ELEMENTS) for _ in range(3))
    rowwise.add[ELEMENTS // 1024,](*vectors, ELEMENTS, BLOCK=1024)


def softmax_rows(rows: int, cols: int) -> None:
    """Softmax of long rows, in pieces."""
    rowwise.softmax_in_pieces[rows,](single(rows, cols), single(rows, cols), cols, BLOCK=4096)


def cross_entropy(rows: int, vocabulary: int, block: int) -> None:
    """Loss, and the gradient in the place of what was given: rows gone through twice."""
    labels = torch.tensor(np.random.default_rng(0).integers(0, vocabulary, rows))
    rowwise.cross_entropy_in_place[rows,](
        half(rows, vocabulary), vocabulary, labels, single(rows), rows, vocabulary, BLOCK=block, num_warps=32
    )


CASES: Mapping[str, Callable[[], None]] = {
    "small": lambda: softmax_rows(64, 8192),
    "persistent 4096": lambda: persistent(4096),
    "persistent 8192": lambda: persistent(8192),
    "grouped 8192": lambda: grouped(8192),
    "ragged 64 sequences": lambda: ragged(64),
    "paged 256 sequences": lambda: paged(256),
    "causal 4 x 32 x 4096": lambda: causal(4096, 128, 128),
    "causal, 10^6 CTAs": lambda: causal(2048, 16384, 32),
    "elementwise, 10^6 CTAs": elementwise,
    "softmax 8192 x 65536": lambda: softmax_rows(8192, 65536),
    "cross entropy 8192 x 128256": lambda: cross_entropy(8192, 128256, 32768),
    "cross entropy, blocks of 4096": lambda: cross_entropy(8192, 128256, 4096),
}


def compiled(case: Callable[[], None]) -> CompiledKernel:
    """The one launch of a case, with its machine code."""
    with tilesight.capture(DEVICE) as launches:
        case()
    (launch,) = launches
    (outcome,) = compile_calls([lower(launch, 90)], tilesight.load_device(DEVICE), workers=1)
    assert isinstance(outcome, CompiledKernel), outcome
    return outcome


def predicted(called: CompiledKernel) -> dict[str, Any]:
    """CPU seconds of tracing, of making the program, and of all of a prediction; its notes."""
    device = tilesight.load_device(DEVICE)
    begin = time.process_time()
    traced = trace(called, kept_of(called.resources, called.grid, device))
    traced = time.process_time()
    launches_of([traced])
    programmed = time.process_time()
    row = KernelRow(name=called.name, grid=called.grid, num_warps=called.num_warps, num_stages=called.num_stages)
    rows = predict_kernels(
        [CompiledLaunch(row=row, kernel=called)], Request(device=device, name=DEVICE, l2="cold")
    ).prediction.rows
    return {
        "trace_s": traced - begin,
        "program_s": programmed - traced,
        "predict_s": time.process_time() - programmed,
        "notes": [rows[0].refused] if rows[0].refused else list(rows[0].notes),
    }


def child(name: str) -> None:
    """Run one case, and print what was measured."""
    predicted(compiled(CASES["small"]))
    called = compiled(CASES[name])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    measured = predicted(called)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps({**measured, "peak_mib": peak / 1024, "before_mib": before / 1024}))


def main(names: list[str]) -> None:
    """Print a line for each case."""
    print("| case | traced [s] | program [s] | predicted [s] | memory, peak / before [MiB] | notes |")
    for name in names:
        ended = subprocess.run([sys.executable, __file__, "--child", name], capture_output=True, text=True)
        if ended.returncode:
            print(f"| {name} | failed: {ended.stderr.strip().splitlines()[-1:]} |", flush=True)
            continue
        measured = json.loads(ended.stdout.splitlines()[-1])
        seconds = " | ".join(f"{measured[key]:.2f}" for key in ("trace_s", "program_s", "predict_s"))
        memory = f"{measured['peak_mib']:.0f} / {measured['before_mib']:.0f}"
        print(f"| {name} | {seconds} | {memory} | {'; '.join(measured['notes'])} |", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=CASES, action="append", help="cases to run; all where none is named")
    parser.add_argument("--child", choices=CASES, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.child:
        child(asked.child)
    else:
        main(asked.only or list(CASES))
