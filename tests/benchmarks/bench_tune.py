"""Seconds of `tilesight tune`: 60 configurations of a product, with empty caches, again, and at another shape.

    python tests/benchmarks/bench_tune.py

Needs torch and triton. Caches lie in a folder of their own. CPU seconds are those of all processes.
"""

import argparse
import ctypes
import os
import resource
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

PR_SET_CHILD_SUBREAPER = 36
"""Of `prctl` of Linux."""
KERNEL = """
import torch, triton, triton.language as tl

CONFIGS = [
    triton.Config({"BM": m, "BN": n, "BK": k}, num_warps=warps, num_stages=stages)
    for m in (16, 32, 64, 128, 256) for n in (64, 128, 256) for k in (32, 64) for warps, stages in ((4, 3), (8, 4))
]


@triton.autotune(configs=CONFIGS, key=["M", "N", "K"])
@triton.jit
def gemm(A, B, C, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    across = tl.cdiv(N, BN)
    first = tl.program_id(0) // (8 * across) * 8
    rows = min(tl.cdiv(M, BM) - first, 8)
    m, n = first + tl.program_id(0) % (8 * across) % rows, tl.program_id(0) % (8 * across) // rows
    rm, rn, rk = m * BM + tl.arange(0, BM), n * BN + tl.arange(0, BN), tl.arange(0, BK)
    a, b = A + rm[:, None] * K + rk[None, :], B + rk[:, None] * N + rn[None, :]
    acc = tl.zeros([BM, BN], tl.float32)
    for _ in range(0, K, BK):
        acc = tl.dot(tl.load(a), tl.load(b), acc)
        a += BK
        b += BK * N
    tl.store(C + rm[:, None] * N + rn[None, :], acc.to(tl.float16))


def run(M=4096, N=4096, K=4096):
    a, b, c = (torch.empty(size, device="cuda", dtype=torch.float16) for size in ((M, K), (K, N), (M, N)))
    gemm[lambda meta: (triton.cdiv(M, meta["BM"]) * triton.cdiv(N, meta["BN"]),)](a, b, c, M, N, K)
"""
QUESTIONS = {
    "empty caches": (),
    "again": (),
    "another shape": ("--shapes", "other.txt"),
    "the first, all 60 predicted": ("--screen", "off"),
}


def main() -> None:
    """Ask one question after the other, and print what each took."""
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    adopt_orphans()
    with TemporaryDirectory() as folder:
        Path(folder, "gemm.py").write_text(KERNEL, encoding="utf-8")
        Path(folder, "other.txt").write_text("M=8192, N=2048, K=4096\n", encoding="utf-8")
        caches = {name: str(Path(folder, name)) for name in ("TILESIGHT_CACHE_DIR", "TRITON_CACHE_DIR")}
        for name, options in QUESTIONS.items():
            command = [sys.executable, "-m", "tilesight", "tune", "gemm.py:run", "--device", "h100", *options]
            before, begun = cpu_s(), time.monotonic()
            subprocess.run(command, cwd=folder, env=os.environ | caches, check=True, capture_output=True)
            print(f"{name:30} {time.monotonic() - begun:6.1f} s  {cpu_s() - before:6.1f} CPU s", flush=True)


def adopt_orphans() -> None:
    """Workers whose parent ends first become children of this process, which counts them."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def cpu_s() -> float:
    """CPU time of all processes that were started, which have ended [s]."""
    with suppress(ChildProcessError):
        while True:
            os.waitpid(-1, 0)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
