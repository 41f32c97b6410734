import torch
import triton
import triton.language as tl


@triton.autotune([triton.Config({}, num_warps=warps) for warps in (2, 4, 8, 16)], key=["D"])
@triton.jit
def add_rms_norm(X, R, W, S, Y, D, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    s = tl.load(X + row * D + i, mask=i < D, other=0.0) + tl.load(R + row * D + i, mask=i < D, other=0.0)
    tl.store(S + row * D + i, s, mask=i < D)
    s = s.to(tl.float32)
    scale = tl.rsqrt(tl.sum(s * s, 0) / D + 1e-6)
    w = tl.load(W + i, mask=i < D, other=0.0)
    tl.store(Y + row * D + i, s * scale * w, mask=i < D)


def run():
    x = torch.empty(16384, 4096, device="cuda", dtype=torch.bfloat16)
    r, s, y = torch.empty_like(x), torch.empty_like(x), torch.empty_like(x)
    w = torch.empty(4096, device="cuda", dtype=torch.bfloat16)
    add_rms_norm[(16384,)](x, r, w, s, y, 4096, BLOCK=4096)
