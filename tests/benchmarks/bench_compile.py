"""What 16 configurations of a matrix product that nobody has compiled before cost, from the launch to the prediction.

    PYTHONPATH=tests/kernels python tests/benchmarks/bench_compile.py

Each way runs in a process of its own, with empty caches. CPU seconds of it and of all that it starts; other work on
the machine lengthens them for all ways alike: compare their ratios. `one call` predicts all together, `16 calls` one
after the other; `16 calls, new compilers` ends them after each, as if each call were a command of its own.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any

import torch
from tilesight.kernels.capture.recorded import RecordedLaunch
from tilesight.kernels.compile.pool import POOL
from zoo import tiled

import tilesight

DEVICE = "h100-sxm"
SIZE = 4096
CONFIGURATIONS = list(product((64, 128), (64, 128), (4, 8), (2, 3)))
"""Rows and columns of a tile, warps, stages."""


def launches() -> list[RecordedLaunch]:
    """A square product, fp16, in every configuration."""
    with tilesight.capture(DEVICE) as recorded:
        a, b, c = (torch.empty(SIZE, SIZE, dtype=torch.float16, device="meta") for _ in range(3))
        for rows, cols, warps, stages in CONFIGURATIONS:
            tiled.gemm_grouped[SIZE // rows * (SIZE // cols),](
                a, b, c, SIZE, SIZE, SIZE, BM=rows, BN=cols, BK=64, GROUP=8, num_warps=warps, num_stages=stages
            )
    return recorded


def together(recorded: Sequence[RecordedLaunch]) -> list[float]:
    """Times that one call predicts [s]."""
    return [row.traffic.time_s for row in tilesight.predict(recorded, DEVICE, l2="cold").rows]


def one_by_one(recorded: Sequence[RecordedLaunch]) -> list[float]:
    """Times that a call for each predicts [s]."""
    return [time_s for launch in recorded for time_s in together([launch])]


def apart(recorded: Sequence[RecordedLaunch]) -> list[float]:
    """The same, without compilers that stay."""
    times_s = []
    for launch in recorded:
        times_s += together([launch])
        POOL.close()
    return times_s


WAYS: Mapping[str, Callable[[Sequence[RecordedLaunch]], list[float]]] = {
    "one call": together,
    "16 calls": one_by_one,
    "16 calls, new compilers": apart,
}


def child(way: str) -> None:
    """Predict in one way, and print what it cost: seconds of this process, seconds of others; times predicted."""
    times_s = WAYS[way](launches())
    POOL.close()
    of_this, of_others = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    print(json.dumps([*(usage.ru_utime + usage.ru_stime for usage in (of_this, of_others)), times_s]))


def measured(way: str) -> list[Any]:
    """What `child` prints, with empty caches."""
    with tempfile.TemporaryDirectory() as folder:
        caches = {"TILESIGHT_CACHE_DIR": f"{folder}/tilesight", "TRITON_CACHE_DIR": f"{folder}/triton"}
        command = [sys.executable, __file__, "--child", way]
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ | caches)
        return list(json.loads(done.stdout.splitlines()[-1]))


def main() -> None:
    """Print a row for each way. Raises: AssertionError: they do not predict the same."""
    print("| way | own [CPU s] | compilers [CPU s] | both, of one call's |")
    first: list[Any] = []
    for way in WAYS:
        own_s, others_s, times_s = measured(way)
        first = first or [own_s + others_s, times_s]
        assert times_s == first[1], f"{way}: other predictions than in one call"
        print(f"| {way} | {own_s:.1f} | {others_s:.1f} | {(own_s + others_s) / first[0]:.2f} |", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--child", choices=WAYS, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.child:
        child(asked.child)
    else:
        main()
