"""A product of two matrices with six configurations, for `tilesight tune` (docs/choose.md)."""

import torch
import triton
import triton.language as tl

CONFIGS = [
    triton.Config({"BM": bm, "BN": bn, "BK": 64}, num_warps=warps, num_stages=3)
    for bm, bn in ((128, 128), (128, 256), (64, 256))
    for warps in (4, 8)
]


@triton.autotune(CONFIGS, key=["M", "N", "K"])
@triton.jit
def gemm(A, B, C, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros([BM, BN], tl.float32)
    for k in range(0, K, BK):
        rk = k + tl.arange(0, BK)
        acc = tl.dot(tl.load(A + rm[:, None] * K + rk[None, :]), tl.load(B + rk[:, None] * N + rn[None, :]), acc)
    tl.store(C + rm[:, None] * N + rn[None, :], acc.to(tl.bfloat16))


def run(M=4096, N=4096, K=4096):
    a, b, c = (torch.empty(shape, device="cuda", dtype=torch.bfloat16) for shape in ((M, K), (K, N), (M, N)))
    gemm[lambda meta: (M // meta["BM"], N // meta["BN"])](a, b, c, M, N, K)
