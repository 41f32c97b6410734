"""What `triton.testing.do_bench` adds to the time of a kernel: events, an L2 full of zeros, the clock of its rhythm.

    python validate/lab/do_bench.py OUT.ndjson [--parts events l2 dirty clock] [--count]

`events`: kernels that do arithmetic alone, for so many cycles, on one SM and on all, between two CUDA events.
`l2`: kernels that read, write or copy so many MB, on an L2 that is empty (`clean`: other data were read), full of
zeros that are yet to be written back (`dirty`, as do_bench leaves it), or as the launch before left it (`warm`).
`dirty`: 128 MB are read behind so many MB of zeros. `clock`: products, each launch by itself after a rest (`rest`),
behind each other (`chain`), and in the rhythm of do_bench (`bench`), launch by launch.
--count runs `events`, `l2` and `dirty` under ncu instead, and adds its counters: duration, bytes of HBM.
Needs a GPU, torch and triton; nothing of Tilesight.
"""

import argparse
import json
import os
import statistics
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
import triton
import triton.language as tl
from launches import COUNTED, PAUSE_CYCLES, Case, CleanL2, count, launch_once, times_us

MB = 1_000_000
REPEATS = 25
ZEROED_BYTES = 256 << 20
"""What do_bench zeroes before each call (triton 3.6) [B]."""
CYCLES = (0, 5_000, 20_000, 50_000, 100_000, 400_000)
SIZES_MB = (1, 2, 4, 8, 12, 16, 24, 32, 40, 48, 64, 96, 128, 192, 256, 512)
DIRTIED_MB = (0, 2, 4, 8, 12, 16, 20, 24, 28, 32, 40, 48, 64, 128, 256)
PRODUCTS = ((512, 512, 512), (1024, 1024, 1024), (2048, 2048, 2048), (4096, 4096, 1024), (4096, 4096, 4096),
            (8192, 8192, 2048), (8192, 8192, 8192), (128, 8192, 8192), (1024, 8192, 8192))  # fmt: skip


@triton.jit
def spin(out, cycles):
    """Wait for so many cycles of the SM."""
    begin = tl.inline_asm_elementwise("mov.u64 $0, %clock64;", "=l", [], dtype=tl.int64, is_pure=False, pack=1)
    now = begin
    while now - begin < cycles:
        now = tl.inline_asm_elementwise("mov.u64 $0, %clock64;", "=l", [], dtype=tl.int64, is_pure=False, pack=1)
    tl.store(out + tl.program_id(0), now)


@triton.jit
def read(x, out, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + tl.program_id(0), tl.sum(tl.load(x + at), 0))


@triton.jit
def write(x, out, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + at, 1.0)


@triton.jit
def copy(x, out, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at))


class Bench:
    """Memory, and ways to leave L2."""

    def __init__(self) -> None:
        self.zeroed = torch.empty(ZEROED_BYTES, dtype=torch.uint8, device="cuda")
        self.clean = CleanL2()
        self.x = torch.zeros(512 * MB // 4, dtype=torch.float32, device="cuda")
        self.y = torch.zeros(512 * MB // 4, dtype=torch.float32, device="cuda")

    def leave(self, kind: str, zeros_mb: int = 0) -> None:
        """Leave L2 `clean`, `dirty` or `warm`; behind so many MB of zeros where given."""
        if kind == "clean":
            self.clean()
        if kind == "dirty":
            self.zeroed.zero_() if not zeros_mb else self.zeroed[: zeros_mb * MB].zero_()

    def cases(self, parts: list[str]) -> Iterator[Case]:
        """A case, what leaves L2 as it says, and the launch."""
        for ctas in (1, 132) if "events" in parts else ():
            for cycles in CYCLES:
                line = {"part": "events", "ctas": ctas, "spin_cycles": cycles, "l2": "clean"}
                yield line, lambda: self.leave("clean"), lambda c=ctas, n=cycles: spin[(c,)](self.x, n, num_warps=4)
        for kernel in (read, write, copy) if "l2" in parts else ():
            for size_mb in SIZES_MB:
                grid = (size_mb * MB // 4 // 4096,)
                for kind in ("clean", "dirty", "warm"):
                    line = {"part": "l2", "kernel": kernel.__name__, "mb": size_mb, "l2": kind}
                    yield line, lambda k=kind: self.leave(k), lambda f=kernel, g=grid: f[g](self.x, self.y, BLOCK=4096)
        for zeros_mb in DIRTIED_MB if "dirty" in parts else ():

            def left(zeros_mb: int = zeros_mb) -> None:
                self.leave("clean")
                self.leave("dirty" if zeros_mb else "warm", zeros_mb)

            grid = (128 * MB // 4 // 4096,)
            line = {"part": "dirty", "kernel": "read", "mb": 128, "zeros_mb": zeros_mb}
            yield line, left, lambda g=grid: read[g](self.x, self.y, BLOCK=4096)


def clocks(bench: Bench) -> Iterator[dict[str, Any]]:
    """Products in three rhythms, each launch by itself [us]."""
    for m, n, k in PRODUCTS:
        a, b = (torch.randn(*shape, device="cuda", dtype=torch.bfloat16) for shape in ((m, k), (k, n)))
        out = torch.empty(m, n, device="cuda", dtype=torch.bfloat16)
        torch.mm(a, b, out=out)
        torch.cuda.synchronize()

        def timed(count: int, zero: bool, pause_s: float = 0.0, a: Any = a, b: Any = b, out: Any = out) -> list[float]:
            events = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(count)]
            for begin, end in events:
                if pause_s:
                    torch.cuda.synchronize()
                    time.sleep(pause_s)
                    torch.cuda._sleep(PAUSE_CYCLES)
                if zero:
                    bench.zeroed.zero_()
                begin.record()
                torch.mm(a, b, out=out)
                end.record()
            torch.cuda.synchronize()
            return [round(begin.elapsed_time(end) * 1e3, 2) for begin, end in events]

        line: dict[str, Any] = {"part": "clock", "m": m, "n": n, "k": k}
        time.sleep(1.0)
        line["rest"] = timed(12, False, 0.05)
        us = statistics.median(line["rest"])
        time.sleep(1.0)
        line["rest_zeroed"] = timed(12, True, 0.05)
        time.sleep(1.0)
        product = partial(torch.mm, a, b, out=out)
        line["bench_ms"] = triton.testing.do_bench(product, return_mode="all")
        time.sleep(1.0)
        line["bench"] = timed(max(20, min(2000, int(4e5 / (us + 100)))), True)
        time.sleep(1.0)
        line["chain"] = timed(max(20, min(4000, int(6e5 / us))), False)
        time.sleep(1.0)
        yield line


def main() -> None:
    """What is asked for, a JSON line for each case."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--parts", nargs="+", default=["events", "l2", "dirty", "clock"])
    parser.add_argument("--count", action="store_true")
    options = parser.parse_args()
    bench = Bench()
    if COUNTED in os.environ:
        launch_once(bench.cases(options.parts))
        return
    if options.count:
        parts = [part for part in options.parts if part != "clock"]
        lines = [line for line, _, _ in bench.cases(parts)]
        count(options.out, [__file__, str(options.out), "--parts", *parts], lines)
        return
    with options.out.open("a") as file:
        gpu = {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "triton": triton.__version__}
        file.write(json.dumps(gpu) + "\n")
        for line, before, run in bench.cases(options.parts):
            for _ in range(2):
                run()
            spent = times_us(before, run, REPEATS)
            file.write(json.dumps(line | {"us": round(statistics.median(spent), 3), "least_us": min(spent)}) + "\n")
        for line in clocks(bench) if "clock" in options.parts else ():
            file.write(json.dumps(line) + "\n")
            file.flush()


if __name__ == "__main__":
    main()
