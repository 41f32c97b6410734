"""An int8 product with scales for each row and each 128 of K: loads of a column of scales, 4 B of each sector."""

import torch
import triton
import triton.language as tl


@triton.jit
def int8_product(A, B, SA, SB, C, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr):
    pid = tl.program_id(0)
    nm, nn = tl.cdiv(M, BM), tl.cdiv(N, BN)
    first = pid // (GROUP * nn) * GROUP
    size = min(nm - first, GROUP)
    pm = first + pid % (GROUP * nn) % size
    pn = pid % (GROUP * nn) // size
    rm, rn, rk = pm * BM + tl.arange(0, BM), pn * BN + tl.arange(0, BN), tl.arange(0, BK)
    a_ptr = A + rm[:, None] * K + rk[None, :]
    b_ptr = B + rn[None, :] * K + rk[:, None]
    groups = K // BK
    acc = tl.zeros((BM, BN), tl.float32)
    for g in range(groups):
        a, b = tl.load(a_ptr + g * BK), tl.load(b_ptr + g * BK)
        sa, sb = tl.load(SA + rm * groups + g), tl.load(SB + rn * groups + g)
        acc += tl.dot(a, b, out_dtype=tl.int32).to(tl.float32) * sa[:, None] * sb[None, :]
    tl.store(C + rm[:, None] * N + rn[None, :], acc.to(tl.bfloat16))


def run(M=4096, N=4096, K=4096, BM=64, BN=128):
    a = torch.empty(M, K, device="cuda", dtype=torch.int8)
    b = torch.empty(N, K, device="cuda", dtype=torch.int8)
    sa = torch.empty(M, K // 128, device="cuda")
    sb = torch.empty(N, K // 128, device="cuda")
    c = torch.empty(M, N, device="cuda", dtype=torch.bfloat16)
    grid = (triton.cdiv(M, BM) * triton.cdiv(N, BN),)
    int8_product[grid](a, b, sa, sb, c, M, N, K, BM=BM, BN=BN, BK=128, GROUP=8, num_warps=4, num_stages=3)
