"""Kernels with the parameters of the engines' own: a product of a mixture of experts, and one with scales of blocks."""

import triton
import triton.language as tl


@triton.jit
def fused_moe_kernel(
    a_ptr, b_ptr, c_ptr, a_scale_ptr, b_scale_ptr, topk_weights_ptr, sorted_token_ids_ptr, expert_ids_ptr,
    num_tokens_post_padded_ptr, N, K, EM, num_valid_tokens, stride_am, stride_ak, stride_be, stride_bk, stride_bn,
    stride_cm, stride_cn, group_n: tl.constexpr, group_k: tl.constexpr, BLOCK_SIZE_M: tl.constexpr,
    BLOCK_SIZE_N: tl.constexpr, BLOCK_SIZE_K: tl.constexpr, GROUP_SIZE_M: tl.constexpr,
    MUL_ROUTED_WEIGHT: tl.constexpr, top_k: tl.constexpr, compute_type: tl.constexpr, use_fp8_w8a8: tl.constexpr,
):  # fmt: skip
    tile, columns = tl.program_id(0), tl.cdiv(N, BLOCK_SIZE_N)
    first = tile // (GROUP_SIZE_M * columns) * GROUP_SIZE_M
    group = min(tl.cdiv(EM, BLOCK_SIZE_M) - first, GROUP_SIZE_M)
    within = tile % (GROUP_SIZE_M * columns)
    rows, column = first + within % group, within // group
    if rows * BLOCK_SIZE_M >= tl.load(num_tokens_post_padded_ptr):
        return
    place = tl.load(sorted_token_ids_ptr + rows * BLOCK_SIZE_M + tl.arange(0, BLOCK_SIZE_M)).to(tl.int64)
    inside, expert = place < num_valid_tokens, tl.load(expert_ids_ptr + rows).to(tl.int64)
    rn = (column * BLOCK_SIZE_N + tl.arange(0, BLOCK_SIZE_N).to(tl.int64)) % N
    rk = tl.arange(0, BLOCK_SIZE_K)
    a_at = a_ptr + place[:, None] // top_k * stride_am + rk[None, :] * stride_ak
    b_at = b_ptr + expert * stride_be + rk[:, None] * stride_bk + rn[None, :] * stride_bn
    sums = tl.zeros((BLOCK_SIZE_M, BLOCK_SIZE_N), tl.float32)
    for step in range(0, tl.cdiv(K, BLOCK_SIZE_K)):
        left = K - step * BLOCK_SIZE_K
        a = tl.load(a_at, mask=inside[:, None] & (rk[None, :] < left), other=0.0)
        b = tl.load(b_at, mask=rk[:, None] < left, other=0.0)
        sums = tl.dot(a, b, acc=sums)
        a_at += BLOCK_SIZE_K * stride_ak
        b_at += BLOCK_SIZE_K * stride_bk
    if use_fp8_w8a8:
        sums *= tl.load(a_scale_ptr) * tl.load(b_scale_ptr + expert)
    if MUL_ROUTED_WEIGHT:
        sums *= tl.load(topk_weights_ptr + place, mask=inside, other=0)[:, None]
    cn = column * BLOCK_SIZE_N + tl.arange(0, BLOCK_SIZE_N)
    c_at = c_ptr + stride_cm * place[:, None] + stride_cn * cn[None, :]
    tl.store(c_at, sums.to(compute_type), mask=inside[:, None] & (cn[None, :] < N))


@triton.jit
def block_scaled(
    A, B, C, As, Bs, M, N, K, group_n, group_k, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    stride_As_m, stride_As_k, stride_Bs_k, stride_Bs_n, BLOCK_SIZE_M: tl.constexpr, BLOCK_SIZE_N: tl.constexpr,
    BLOCK_SIZE_K: tl.constexpr, GROUP_SIZE_M: tl.constexpr,
):  # fmt: skip
    tile, columns = tl.program_id(0), tl.cdiv(N, BLOCK_SIZE_N)
    first = tile // (GROUP_SIZE_M * columns) * GROUP_SIZE_M
    group = min(tl.cdiv(M, BLOCK_SIZE_M) - first, GROUP_SIZE_M)
    within = tile % (GROUP_SIZE_M * columns)
    rm = ((first + within % group) * BLOCK_SIZE_M + tl.arange(0, BLOCK_SIZE_M)) % M
    rn = (within // group * BLOCK_SIZE_N + tl.arange(0, BLOCK_SIZE_N)) % N
    rk = tl.arange(0, BLOCK_SIZE_K)
    a_at = A + rm[:, None] * stride_am + rk[None, :] * stride_ak
    b_at = B + rk[:, None] * stride_bk + rn[None, :] * stride_bn
    sums = tl.zeros((BLOCK_SIZE_M, BLOCK_SIZE_N), tl.float32)
    for step in range(0, tl.cdiv(K, BLOCK_SIZE_K)):
        left, scale = K - step * BLOCK_SIZE_K, step * BLOCK_SIZE_K // group_k
        a = tl.load(a_at, mask=rk[None, :] < left, other=0.0)
        b = tl.load(b_at, mask=rk[:, None] < left, other=0.0)
        a_scale = tl.load(As + rm * stride_As_m + scale * stride_As_k)
        b_scale = tl.load(Bs + rn // group_n * stride_Bs_n + scale * stride_Bs_k)
        sums += tl.dot(a, b) * a_scale[:, None] * b_scale[None, :]
        a_at += BLOCK_SIZE_K * stride_ak
        b_at += BLOCK_SIZE_K * stride_bk
    cm = (first + within % group) * BLOCK_SIZE_M + tl.arange(0, BLOCK_SIZE_M)
    cn = within // group * BLOCK_SIZE_N + tl.arange(0, BLOCK_SIZE_N)
    c_at = C + stride_cm * cm[:, None] + stride_cn * cn[None, :]
    tl.store(c_at, sums.to(tl.bfloat16), mask=(cm[:, None] < M) & (cn[None, :] < N))
