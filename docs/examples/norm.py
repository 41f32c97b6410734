import torch
import triton
import triton.language as tl


@triton.jit
def add(X, R, S, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(S + i, tl.load(X + i, mask=i < n) + tl.load(R + i, mask=i < n), mask=i < n)


@triton.jit
def rms_norm(S, W, Y, D, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    s = tl.load(S + row * D + i, mask=i < D, other=0.0).to(tl.float32)
    scale = tl.rsqrt(tl.sum(s * s, 0) / D + 1e-6)
    w = tl.load(W + i, mask=i < D, other=0.0)
    tl.store(Y + row * D + i, s * scale * w, mask=i < D)


def run():
    x = torch.empty(16384, 4096, device="cuda", dtype=torch.bfloat16)
    r, s, y = torch.empty_like(x), torch.empty_like(x), torch.empty_like(x)
    w = torch.empty(4096, device="cuda", dtype=torch.bfloat16)
    add[(triton.cdiv(x.numel(), 1024),)](x, r, s, x.numel(), BLOCK=1024)
    rms_norm[(16384,)](s, w, y, 4096, BLOCK=4096)
