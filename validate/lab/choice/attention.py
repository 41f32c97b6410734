"""Cells of attention, forward, as FlashAttention-2 has it."""

import itertools
import math

import torch
import triton
import triton.language as tl
from cells import SMEM_BYTES, Cell, Config, Launch, Tensors, cdiv, drawn, enter, normal, options


@triton.jit
def attention(Q, K, V, Out, N, scale, H: tl.constexpr, G: tl.constexpr, D: tl.constexpr, CAUSAL: tl.constexpr,
              BM: tl.constexpr, BN: tl.constexpr):  # fmt: skip
    """BM queries of a head; G heads of Q share one of K and V."""
    block, pid = tl.program_id(0), tl.program_id(1)
    shared = (pid // H * (H // G) + pid % H // G).to(tl.int64) * N * D
    rm, rd, rn = block * BM + tl.arange(0, BM), tl.arange(0, D), tl.arange(0, BN)
    head_at = pid.to(tl.int64) * N * D
    q = tl.load(Q + head_at + rm[:, None] * D + rd[None, :], mask=(rm < N)[:, None], other=0.0)
    most, sums, out = tl.full([BM], -1e30, tl.float32), tl.zeros([BM], tl.float32), tl.zeros([BM, D], tl.float32)
    high = min(N, (block + 1) * BM) if CAUSAL else N
    for at in range(0, high, BN):
        inside = at + rn < N
        k = tl.load(K + shared + (at + rn)[None, :] * D + rd[:, None], mask=inside[None, :], other=0.0)
        s = tl.dot(q, k) * scale
        if CAUSAL:
            s = tl.where(rm[:, None] >= (at + rn)[None, :], s, -1e30)
        else:
            s = tl.where(inside[None, :], s, -1e30)
        new = tl.maximum(most, tl.max(s, 1))
        p, shrink = tl.exp2(s - new[:, None]), tl.exp2(most - new)
        v = tl.load(V + shared + (at + rn)[:, None] * D + rd[None, :], mask=inside[:, None], other=0.0)
        out = tl.dot(p.to(v.dtype), v, out * shrink[:, None])
        sums = sums * shrink + tl.sum(p, 1)
        most = new
    tl.store(Out + head_at + rm[:, None] * D + rd[None, :], out / sums[:, None], mask=(rm < N)[:, None])


SHAPES = (
    (1, 24, 1, 2304, 128, False), (2, 16, 4, 4096, 128, True), (8, 12, 1, 1024, 64, False), (1, 40, 5, 3072, 128, True),
    (16, 16, 1, 577, 64, False), (1, 8, 1, 8192, 64, True), (4, 32, 8, 1536, 128, False), (3, 20, 4, 2000, 64, True),
)  # fmt: skip
"""Sequences, heads of Q, of Q for each of K and V, length, width, causal."""
SPACE = [
    {"BM": bm, "BN": bn, "num_warps": warps, "num_stages": stages}
    for bm, bn, warps, stages in itertools.product((32, 64, 128, 256), (16, 32, 64, 128, 256), (2, 4, 8), (1, 2, 3, 4))
    if 2048 * warps // 4 <= bm * bn <= 32768 and bm >= 16 * warps // 2 and bm <= 32 * warps
]


def _cell(index: int, b: int, h: int, g: int, n: int, d: int, causal: bool) -> Cell:
    def make(device: str) -> Tensors:
        return {
            "q": normal(device, b, h, n, d), "k": normal(device, b, h // g, n, d),
            "v": normal(device, b, h // g, n, d), "out": normal(device, b, h, n, d),
        }  # fmt: skip

    def launch(t: Tensors, config: Config) -> Launch:
        named = {"H": h, "G": g, "D": d, "CAUSAL": causal, "BM": config["BM"], "BN": config["BN"]}
        args = [t["q"], t["k"], t["v"], t["out"], n, math.log2(math.e) / math.sqrt(d)]
        return attention, (cdiv(n, config["BM"]), b * h), args, named | options(config)

    def reference(t: Tensors) -> torch.Tensor:
        call = torch.nn.functional.scaled_dot_product_attention
        return call(t["q"], t["k"], t["v"], is_causal=causal, enable_gqa=g > 1)

    fits = [
        config for config in SPACE
        if d * 2 * (config["BM"] + 2 * config["BN"] * max(1, config["num_stages"] - 1)) <= SMEM_BYTES
        and config["BM"] * d <= 32768
    ]  # fmt: skip
    return Cell(
        family="attention", name=f"attention-{b}x{h}x{g}x{n}x{d}{'-causal' if causal else ''}",
        shape={"B": b, "H": h, "G": g, "N": n, "D": d, "causal": causal}, configs=drawn(fits, 42, seed=50 + index),
        make=make, launch=launch, reference=reference,
    )  # fmt: skip


for _index, _shape in enumerate(SHAPES):
    enter(_cell(_index, *_shape))
