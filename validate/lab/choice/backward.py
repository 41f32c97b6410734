"""Cells of attention, backward, as FlashAttention-2 has it: a launch for the gradients of K and V, and one for Q's.

What both take of the pass forward, the logarithms of its sums and the dot products of its output with the gradient of
the output, is made by torch.
"""

import itertools
import math

import torch
import triton
import triton.language as tl
from cells import SMEM_BYTES, Cell, Config, Launch, Tensors, cdiv, drawn, enter, normal, options


@triton.jit(do_not_specialize=["G"])
def backward_kv(Q, K, V, dO, L, Delta, dK, dV, N, G, scale, D: tl.constexpr, CAUSAL: tl.constexpr, BM: tl.constexpr,
                BN: tl.constexpr):  # fmt: skip
    """Gradients of BN keys and values, for each head of Q its own; G heads of Q share one of K and V."""
    block, pid = tl.program_id(0), tl.program_id(1)
    shared, head_at = (pid // G).to(tl.int64) * N * D, pid.to(tl.int64) * N * D
    rn, rd, rm = block * BN + tl.arange(0, BN), tl.arange(0, D), tl.arange(0, BM)
    k = tl.load(K + shared + rn[:, None] * D + rd[None, :], mask=(rn < N)[:, None], other=0.0)
    v = tl.load(V + shared + rn[:, None] * D + rd[None, :], mask=(rn < N)[:, None], other=0.0)
    dk, dv = tl.zeros([BN, D], tl.float32), tl.zeros([BN, D], tl.float32)
    low = block * BN // BM * BM if CAUSAL else 0
    for at in range(low, N, BM):
        row = at + rm
        inside = row < N
        qt = tl.load(Q + head_at + row[None, :] * D + rd[:, None], mask=inside[None, :], other=0.0)
        logs = tl.load(L + pid * N + row, mask=inside, other=float("inf"))
        p = tl.exp2(tl.dot(k, qt) * (scale * 1.4426950408889634) - logs[None, :])
        if CAUSAL:
            p = tl.where(row[None, :] >= rn[:, None], p, 0.0)
        do = tl.load(dO + head_at + row[:, None] * D + rd[None, :], mask=inside[:, None], other=0.0)
        dv = tl.dot(p.to(do.dtype), do, dv)
        delta = tl.load(Delta + pid * N + row, mask=inside, other=0.0)
        ds = p * (tl.dot(v, tl.trans(do)) - delta[None, :])
        dk = tl.dot(ds.to(do.dtype), tl.trans(qt), dk)
    at = head_at + rn[:, None] * D + rd[None, :]
    tl.store(dK + at, dk * scale, mask=(rn < N)[:, None])
    tl.store(dV + at, dv, mask=(rn < N)[:, None])


@triton.jit(do_not_specialize=["G"])
def backward_q(Q, K, V, dO, L, Delta, dQ, N, G, scale, D: tl.constexpr, CAUSAL: tl.constexpr, BM: tl.constexpr,
               BN: tl.constexpr):  # fmt: skip
    """Gradients of BM queries of a head."""
    block, pid = tl.program_id(0), tl.program_id(1)
    shared, head_at = (pid // G).to(tl.int64) * N * D, pid.to(tl.int64) * N * D
    rm, rd, rn = block * BM + tl.arange(0, BM), tl.arange(0, D), tl.arange(0, BN)
    real = rm < N
    q = tl.load(Q + head_at + rm[:, None] * D + rd[None, :], mask=real[:, None], other=0.0)
    do = tl.load(dO + head_at + rm[:, None] * D + rd[None, :], mask=real[:, None], other=0.0)
    logs = tl.load(L + pid * N + rm, mask=real, other=float("inf"))
    delta = tl.load(Delta + pid * N + rm, mask=real, other=0.0)
    dq = tl.zeros([BM, D], tl.float32)
    high = min(N, (block + 1) * BM) if CAUSAL else N
    for at in range(0, high, BN):
        row = at + rn
        inside = row < N
        kt = tl.load(K + shared + row[None, :] * D + rd[:, None], mask=inside[None, :], other=0.0)
        p = tl.exp2(tl.dot(q, kt) * (scale * 1.4426950408889634) - logs[:, None])
        if CAUSAL:
            p = tl.where(rm[:, None] >= row[None, :], p, 0.0)
        vt = tl.load(V + shared + row[None, :] * D + rd[:, None], mask=inside[None, :], other=0.0)
        ds = p * (tl.dot(do, vt) - delta[:, None])
        dq = tl.dot(ds.to(q.dtype), tl.trans(kt), dq)
    tl.store(dQ + head_at + rm[:, None] * D + rd[None, :], dq * scale, mask=real[:, None])


SHAPES = (
    (2, 8, 1, 2048, 128, False), (1, 16, 4, 4096, 128, True), (4, 12, 1, 1024, 64, False), (1, 10, 1, 3072, 128, True),
    (1, 8, 1, 8192, 64, True), (2, 20, 4, 2000, 64, True), (2, 16, 2, 2304, 64, False), (3, 8, 2, 1280, 128, False),
)  # fmt: skip
"""Sequences, heads of Q, of Q for each of K and V, length, width, causal."""
HALVES = {(64, False): torch.float16, (128, True): torch.float16}
"""Width and causal of those that are not bfloat16."""


COUNT = {64: 42, 128: 45}
"""Configurations by width; of the wider, up to three do not fit shared memory."""


def space_of(gradients: str, d: int) -> list[Config]:
    """Configurations of a launch: a CTA holds `stay` rows, and loads `pass_by` in each iteration.

    Left out: more than 320 accumulators a thread, which spill beyond use; and what shared memory surely does not hold,
    not all that it does not.
    """
    space = []
    for stay, pass_by, warps, stages in itertools.product((32, 64, 128, 256), (16, 32, 64, 128), (4, 8), (1, 2, 3, 4)):
        accumulators = ((2 if gradients == "kv" else 1) * stay * d + 2 * stay * pass_by) // (32 * warps)
        smem_bytes = 2 * d * (2 * stay + 2 * pass_by * max(1, stages - 1))
        if accumulators <= 320 and smem_bytes <= SMEM_BYTES and stay * pass_by >= 256 * warps and stay >= 8 * warps:
            blocks = {"BM": pass_by, "BN": stay} if gradients == "kv" else {"BM": stay, "BN": pass_by}
            space.append(blocks | {"num_warps": warps, "num_stages": stages})
    return space


def forward(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """Output, and logarithms to base 2 of the sums, a head at a time."""
    out, logs = torch.empty_like(q), torch.empty(q.shape[:3], device=q.device)
    for b, h in itertools.product(range(q.shape[0]), range(q.shape[1])):
        shared = h * k.shape[1] // q.shape[1]
        scores = (q[b, h] @ k[b, shared].T).float() / math.sqrt(q.shape[-1])
        if causal:
            scores.masked_fill_(torch.ones_like(scores, dtype=torch.bool).triu(1), float("-inf"))
        sums = torch.logsumexp(scores, -1, keepdim=True)
        out[b, h] = (scores - sums).exp().to(v.dtype) @ v[b, shared]
        logs[b, h] = sums[:, 0] / math.log(2)
    return out, logs


def cell_of(gradients: str, b: int, h: int, g: int, n: int, d: int, causal: bool) -> Cell:
    """The cell of a launch, `kv` or `q`, at a shape."""
    dtype = HALVES.get((d, causal), torch.bfloat16)

    def make(device: str) -> Tensors:
        of_kv, of_q = (b, h // g, n, d), (b, h, n, d)
        t: Tensors = {name: normal(device, *of_q, dtype=dtype) for name in ("q", "do")}
        t |= {name: normal(device, *of_kv, dtype=dtype) for name in ("k", "v")}
        t["out"] = normal(device, *((2, *of_q) if gradients == "kv" else of_q), dtype=dtype)
        if device == "meta":
            return t | {name: torch.empty(b, h, n, device=device) for name in ("logs", "delta")}
        out, t["logs"] = forward(t["q"], t["k"], t["v"], causal)
        return t | {"delta": (out.float() * t["do"].float()).sum(-1)}

    def launch(t: Tensors, config: Config) -> Launch:
        args = [t[name] for name in ("q", "k", "v", "do", "logs", "delta")]
        args += [*(t["out"] if gradients == "kv" else [t["out"]]), n, g, 1 / math.sqrt(d)]
        named = {"D": d, "CAUSAL": causal, "BM": config["BM"], "BN": config["BN"]} | options(config)
        if gradients == "kv":
            return backward_kv, (cdiv(n, config["BN"]), b * h), args, named
        return backward_q, (cdiv(n, config["BM"]), b * h), args, named

    def reference(t: Tensors) -> torch.Tensor:
        k, v = (t[name].repeat_interleave(g, 1) for name in ("k", "v"))
        leaves = [x.detach().requires_grad_() for x in (t["q"], k, v)]
        out = torch.nn.functional.scaled_dot_product_attention(*leaves, is_causal=causal)
        dq, dk, dv = torch.autograd.grad(out, leaves, t["do"])
        return torch.stack([dk, dv]) if gradients == "kv" else dq

    return Cell(
        family=f"backward_{gradients}", name=f"backward-{gradients}-{b}x{h}x{g}x{n}x{d}{'-causal' if causal else ''}",
        shape={"gradients": gradients, "B": b, "H": h, "G": g, "N": n, "D": d, "causal": causal},
        configs=drawn(space_of(gradients, d), COUNT[d], seed=90 + d + causal), make=make, launch=launch,
        reference=reference,
    )  # fmt: skip


for _gradients, _shape in itertools.product(("kv", "q"), SHAPES):
    enter(cell_of(_gradients, *_shape))
