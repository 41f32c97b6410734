"""Cross entropy over a chunked vocabulary: loss and, in place, the gradient of the logits; each row is read twice."""

import torch
import triton
import triton.language as tl


@triton.jit
def cross_entropy(X, T, LOSS, V, stride, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    X += row * stride
    t = tl.load(T + row)
    m, d = float("-inf"), 0.0
    at = tl.load(X + t).to(tl.float32)
    for c in range(0, V, BLOCK):
        i = c + tl.arange(0, BLOCK)
        x = tl.load(X + i, mask=i < V, other=float("-inf")).to(tl.float32)
        new = tl.maximum(m, tl.max(x, 0))
        d = d * tl.exp(m - new) + tl.sum(tl.exp(x - new), 0)
        m = new
    for c in range(0, V, BLOCK):
        i = c + tl.arange(0, BLOCK)
        x = tl.load(X + i, mask=i < V, other=float("-inf")).to(tl.float32)
        g = tl.exp(x - m) / d - tl.where(i == t, 1.0, 0.0)
        tl.store(X + i, g.to(tl.bfloat16), mask=i < V)
    tl.store(LOSS + row, m + tl.log(d) - at)


def run(R=8192, V=128256, BLOCK=4096, warps=8):
    x = torch.empty(R, V, device="cuda", dtype=torch.bfloat16)
    t = torch.arange(R, device="cuda") * 12347 % V
    cross_entropy[(R,)](x, t, torch.empty(R, device="cuda"), V, V, BLOCK=BLOCK, num_warps=warps)
