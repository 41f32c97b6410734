"""Cells of attention with one query a sequence, keys and values in splits: the launch that reads them."""

import itertools
import math

import torch
import triton
import triton.language as tl
from cells import Cell, Config, Launch, Tensors, cdiv, drawn, enter, normal, options


@triton.jit
def decode(Q, K, V, Out, L, N, scale, HK: tl.constexpr, G: tl.constexpr, D: tl.constexpr, SPLITS: tl.constexpr,
           BN: tl.constexpr):  # fmt: skip
    """A part of the keys of a head of K and V, for its G heads of Q; 16 rows of which G are real."""
    pid, split = tl.program_id(0), tl.program_id(1)
    sequence, head = pid // HK, pid % HK
    per_split = tl.cdiv(tl.cdiv(N, SPLITS), BN) * BN
    low, high = split * per_split, min(N, (split + 1) * per_split)
    rows, rd, rn = tl.arange(0, 16), tl.arange(0, D), tl.arange(0, BN)
    q = tl.load(Q + (pid * G + rows)[:, None] * D + rd[None, :], mask=(rows < G)[:, None], other=0.0)
    base = (sequence.to(tl.int64) * N * HK + head) * D
    most, sums, out = tl.full([16], -1e30, tl.float32), tl.zeros([16], tl.float32), tl.zeros([16, D], tl.float32)
    for at in range(low, high, BN):
        inside = at + rn < high
        place = base + (at + rn) * (HK * D)
        k = tl.load(K + place[None, :] + rd[:, None], mask=inside[None, :], other=0.0)
        s = tl.where(inside[None, :], tl.dot(q, k) * scale, -1e30)
        new = tl.maximum(most, tl.max(s, 1))
        p, shrink = tl.exp2(s - new[:, None]), tl.exp2(most - new)
        v = tl.load(V + place[:, None] + rd[None, :], mask=inside[:, None], other=0.0)
        out = tl.dot(p.to(v.dtype), v, out * shrink[:, None])
        sums = sums * shrink + tl.sum(p, 1)
        most = new
    at = (pid * SPLITS + split) * 16 + rows
    tl.store(Out + at[:, None] * D + rd[None, :], out / tl.maximum(sums, 1e-30)[:, None])
    tl.store(L + at, most + tl.log2(tl.maximum(sums, 1e-30)))


SHAPES = (
    (1, 8, 4, 16384, 128), (2, 4, 8, 32768, 128), (8, 8, 8, 4096, 128), (24, 8, 4, 2048, 128),
    (64, 2, 8, 6144, 128), (4, 16, 2, 12288, 64), (32, 8, 8, 1536, 64), (128, 4, 4, 3072, 128),
)  # fmt: skip
"""Sequences, heads of K and V, heads of Q for per_split, keys, width."""
SPACE = [
    {"SPLITS": splits, "BN": bn, "num_warps": warps, "num_stages": stages}
    for splits, bn, warps, stages in itertools.product(
        (1, 2, 4, 8, 16, 32, 64), (16, 32, 64, 128), (1, 2, 4, 8), (1, 2, 3, 4)
    )
    if bn >= 8 * warps
]  # fmt: skip


def _cell(index: int, b: int, hk: int, g: int, n: int, d: int) -> Cell:
    def make(device: str) -> Tensors:
        fp32 = torch.float32
        return {
            "q": normal(device, b * hk, g, d), "k": normal(device, b, n, hk, d), "v": normal(device, b, n, hk, d),
            "o": normal(device, b * hk * 64 * 16, d, dtype=fp32), "l": normal(device, b * hk * 64, 16, dtype=fp32),
        }  # fmt: skip

    def launch(t: Tensors, config: Config) -> Launch:
        named = {"HK": hk, "G": g, "D": d, "SPLITS": config["SPLITS"], "BN": config["BN"]}
        scale = math.log2(math.e) / math.sqrt(d)
        t["splits"] = config["SPLITS"]
        args = [t["q"], t["k"], t["v"], t["o"], t["l"], n, scale]
        return decode, (b * hk, config["SPLITS"]), args, named | options(config)

    def output(t: Tensors) -> torch.Tensor:
        count = b * hk * t["splits"]
        o = t["o"].view(-1)[: count * 16 * d].view(b * hk, t["splits"], 16, d)[:, :, :g]
        lse = t["l"].view(-1)[: count * 16].view(b * hk, t["splits"], 16)[:, :, :g]
        return (torch.softmax(lse * math.log(2), 1)[..., None] * o).sum(1)

    def reference(t: Tensors) -> torch.Tensor:
        q, k, v = t["q"].view(b, hk * g, 1, d), t["k"].transpose(1, 2), t["v"].transpose(1, 2)
        out = torch.nn.functional.scaled_dot_product_attention(q, k, v, enable_gqa=True)
        return out.view(b * hk, g, d)

    most = max(1, cdiv(n, 128))
    space = [config for config in SPACE if config["SPLITS"] <= most and 48 <= b * hk * config["SPLITS"] <= 8192]
    return Cell(
        family="decode", name=f"decode-{b}x{hk}x{g}x{n}x{d}", shape={"B": b, "HK": hk, "G": g, "N": n, "D": d},
        configs=drawn(space, 42, seed=10 + index), make=make, launch=launch, output=output, reference=reference,
    )  # fmt: skip


for _index, _shape in enumerate(SHAPES):
    enter(_cell(_index, *_shape))
