"""Experiment: how long an iteration of a pipelined product takes whose weights come from device memory.

A CTA multiplies BM x K by K x BN, weights K-major as in a grouped product: `trips` iterations of one tile of `tile`
bytes, 2 to 4 stages, loaded by cp.async or by TMA; 16 to 264 CTAs on 132 SMs, each with weights of its own. The other
operand is the same for all. What an iteration takes is the difference between numbers of trips.
"""

import itertools

import torch
import triton
import triton.language as tl
from cells import SMEM_BYTES, Cell, Config, Launch, Tensors, enter, normal, options
from triton.tools.tensor_descriptor import TensorDescriptor

WARM_BYTES = 16 << 20
MOST_CTAS, MOST_BN, MOST_K = 264, 256, 128 * 128


@triton.jit
def product(A, W, C, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Loads by cp.async."""
    pid = tl.program_id(0)
    rm, rn, rk = tl.arange(0, BM), pid * BN + tl.arange(0, BN), tl.arange(0, BK)
    a, w = A + rm[:, None] * K + rk[None, :], W + rn[None, :].to(tl.int64) * K + rk[:, None]
    total = tl.zeros([BM, BN], tl.float32)
    for _ in range(0, K, BK):
        total = tl.dot(tl.load(a), tl.load(w), total)
        a += BK
        w += BK
    tl.store(C + (pid * BM + rm)[:, None] * BN + tl.arange(0, BN)[None, :], total.to(tl.bfloat16))


@triton.jit
def product_tma(A, W, C, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Loads by TMA."""
    pid = tl.program_id(0)
    rm = tl.arange(0, BM)
    total = tl.zeros([BM, BN], tl.float32)
    for k in range(0, K, BK):
        total = tl.dot(A.load([0, k]), W.load([pid * BN, k]).T, total)
    tl.store(C + (pid * BM + rm)[:, None] * BN + tl.arange(0, BN)[None, :], total.to(tl.bfloat16))


def _launch(tensors: Tensors, config: Config) -> Launch:
    bm, bn, bk, ctas = config["BM"], config["BN"], config["BK"], config["ctas"]
    k = bk * config["trips"]
    a, w = tensors["a"][: bm * k].view(bm, k), tensors["w"][: ctas * bn * k].view(ctas * bn, k)
    if config["by"] == "tma":
        a, w = TensorDescriptor.from_tensor(a, [bm, bk]), TensorDescriptor.from_tensor(w, [bn, bk])
    kernel = product_tma if config["by"] == "tma" else product
    return kernel, (ctas,), [a, w, tensors["c"], k], {"BM": bm, "BN": bn, "BK": bk} | options(config)


def fits_l2(cell: Cell, index: int) -> bool:
    """Whether a configuration's weights stay in L2 from launch to launch: one of these, and small."""
    config = cell.configs[index]
    return cell.family == "loops" and config["ctas"] * config["tile_bytes"] * config["trips"] <= WARM_BYTES


def _points() -> list[Config]:
    tiles = ((64, 64), (128, 64), (256, 64), (64, 128), (128, 128), (256, 128))
    narrow = itertools.product((2, 3, 4), tiles, (16, 64, 128), (16, 66, 132, 264), ("cp.async", "tma"), (16,))
    wide = itertools.product((2, 3, 4), tiles, (16, 64, 128), (132,), ("cp.async",), (64,))
    points: list[Config] = []
    for stages, (bn, bk), trips, ctas, by, bm in [*narrow, *wide]:
        if stages * (bn + bm) * bk * 2 + 1024 <= SMEM_BYTES:
            points.append({
                "BM": bm, "BN": bn, "BK": bk, "trips": trips, "ctas": ctas, "by": by, "tile_bytes": bn * bk * 2,
                "num_warps": 4, "num_stages": stages,
            })  # fmt: skip
    return points


def _make(device: str) -> Tensors:
    return {
        "a": normal(device, 64 * MOST_K),
        "w": normal(device, MOST_CTAS, MOST_BN, MOST_K).view(-1),
        "c": torch.empty(MOST_CTAS * 64 * MOST_BN, device=device, dtype=torch.bfloat16),
    }


enter(Cell(family="loops", name="loops", shape={}, configs=_points(), make=_make, launch=_launch))
