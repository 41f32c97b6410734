"""Kernels of matrix products, each with the edits that people make of it (EDIT)."""

import triton
import triton.language as tl


@triton.jit
def matmul(A, B, C, M, N, K, EDIT: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """C = A B; tiles go through the matrix in groups of eight rows."""
    pid = tl.program_id(0)
    across_m, across_n = tl.cdiv(M, BM), tl.cdiv(N, BN)
    if EDIT == "no groups of rows":
        m, n = pid // across_n, pid % across_n
    else:
        group = pid // (8 * across_n)
        high = min(across_m - group * 8, 8)
        m, n = group * 8 + pid % (8 * across_n) % high, pid % (8 * across_n) // high
    rm, rn, rk = m * BM + tl.arange(0, BM), n * BN + tl.arange(0, BN), tl.arange(0, BK)
    if EDIT == "int64 offsets":
        rm, rn = rm.to(tl.int64), rn.to(tl.int64)
    a = A + rm[:, None] * K + rk[None, :]
    b = B + rn[None, :] * K + rk[:, None] if EDIT == "B transposed" else B + rk[:, None] * N + rn[None, :]
    total = tl.zeros([BM, BN], tl.float32)
    for k in range(0, K, BK):
        if EDIT == "mask of K":
            x = tl.load(a, mask=rk[None, :] < K - k, other=0.0)
            y = tl.load(b, mask=rk[:, None] < K - k, other=0.0)
        elif EDIT == "mask of rows":
            x = tl.load(a, mask=rm[:, None] < M, other=0.0)
            y = tl.load(b)
        else:
            x, y = tl.load(a), tl.load(b)
        if EDIT == "A scaled before the product":
            x = (x * 0.5).to(tl.bfloat16)
        if EDIT == "sum in bfloat16":
            total += tl.dot(x, y).to(tl.bfloat16)
        else:
            total = tl.dot(x, y, total)
        a += BK
        b += BK if EDIT == "B transposed" else BK * N
    if EDIT == "GELU behind the product":
        total = 0.5 * total * (1.0 + tl.erf(total * 0.70710678))
    at = C + rm[:, None] * N + rn[None, :]
    if EDIT == "float32 output":
        tl.store(at, total)
    else:
        tl.store(at, total.to(tl.bfloat16))


@triton.jit
def attention(Q, K, V, O, N, EDIT: tl.constexpr, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):  # noqa: E741
    """Forward pass of one head and a tile of queries, with an online softmax."""
    head = tl.program_id(1).to(tl.int64) * N * D
    m, d = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, D)
    q = tl.load(Q + head + m[:, None] * D + d[None, :])
    if EDIT == "queries scaled before the loop":
        q = (q * 0.18033688).to(tl.bfloat16)
    peak, total = tl.full([BM], -float("inf"), tl.float32), tl.zeros([BM], tl.float32)
    out = tl.zeros([BM, D], tl.float32)
    for start in range(0, N, BN):
        n = start + tl.arange(0, BN)
        if EDIT == "mask of keys":
            k = tl.load(K + head + n[None, :] * D + d[:, None], mask=n[None, :] < N, other=0.0)
        else:
            k = tl.load(K + head + n[None, :] * D + d[:, None])
        s = tl.dot(q, k)
        if EDIT != "queries scaled before the loop":
            s *= 0.18033688
        if EDIT == "causal mask on every tile":
            s = tl.where(m[:, None] >= n[None, :], s, -1e30)
        if EDIT == "mask of keys":
            s = tl.where(n[None, :] < N, s, -1e30)
        if EDIT == "softcap":
            s = 20.0 * (2.0 * tl.sigmoid(s * 0.1) - 1.0)
        higher = tl.maximum(peak, tl.max(s, 1))
        if EDIT == "natural exponential":
            p, less = tl.exp(s - higher[:, None]), tl.exp(peak - higher)
        else:
            p, less = tl.exp2(s - higher[:, None]), tl.exp2(peak - higher)
        total = total * less + tl.sum(p, 1)
        v = tl.load(V + head + n[:, None] * D + d[None, :])
        if EDIT == "second product in tf32":
            out = tl.dot(p, v.to(tl.float32), out * less[:, None])
        else:
            out = tl.dot(p.to(tl.bfloat16), v, out * less[:, None])
        peak = higher
    tl.store(O + head + m[:, None] * D + d[None, :], (out / total[:, None]).to(tl.bfloat16))
