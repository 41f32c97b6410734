"""Attention backward, paged, sparse, latent and in other forms; sums over exponents shaped like it."""

import torch
from launching import Body, case
from libraries import fla, flag_gems, lmdeploy, plain, unsloth, vllm
from made import bf16, bounds, fp8, fp16, fp32, given, permuted, some_of

LENGTHS = [3000, 700, 5120, 64, 2047, 6001, 1500, 4096]


@case("fla.parallax", "attention")
def parallax(device: str) -> Body:
    op = fla("ops.parallax.parallel").parallel_parallax_fwd
    q, r = bf16(device, 1, 4096, 16, 64), bf16(device, 1, 4096, 16, 64)
    k, v = bf16(device, 1, 4096, 16, 64), bf16(device, 1, 4096, 16, 64)
    return lambda: op(q, r, k, v, 0.125)


@case("flashnn.flash_attention", "attention")
def flashnn_attention(device: str) -> Body:
    op = plain("flashnn.triton_kernels.flash_attn_v2").triton_flash_attention_forward
    q, k, v = fp16(device, 2, 4096, 32, 128), fp16(device, 2, 4096, 8, 128), fp16(device, 2, 4096, 8, 128)
    return lambda: op(q, k, v, True)


@case("flashnn.paged_attention", "decode")
def flashnn_paged(device: str) -> Body:
    op = plain("flashnn.triton_kernels.paged_attn").paged_attention
    batch, page, pages = 32, 16, 6144 // 16
    q, o = bf16(device, batch, 64, 128), bf16(device, batch, 64, 128)
    k, v = bf16(device, batch * pages, 8, page, 128), bf16(device, batch * pages, 8, page, 128)
    lengths = given(device, torch.tensor(LENGTHS * 4, dtype=torch.int32))
    table = given(device, permuted(batch * pages, batch, pages, seed=111))
    return lambda: op(o, q, k, v, lengths, table, 0.088, 6144, 8)


@case("lmdeploy.fp8_index", "attention")
def lmdeploy_index(device: str) -> Body:
    op = lmdeploy("ds_index").fp8_index
    q, qs = fp8(device, 2048, 64, 128), fp32(device, 2048, 64)
    k, ks = fp8(device, 1024, 64, 128), fp32(device, 1024, 64)
    starts, lengths = given(device, bounds([1024, 1024])), given(device, torch.tensor([8192, 5000], dtype=torch.int32))
    table = given(device, permuted(1024, 1024, seed=112)[:256].reshape(2, 128).clone())
    return lambda: op(q, qs, k, ks, starts, lengths, table, 1024, 8192, True)


@case("vllm.prefix_prefill", "attention")
def vllm_prefix(device: str) -> Body:
    op = vllm("v1.attention.ops.prefix_prefill").context_attention_fwd
    new, before, page, pages = [1024, 300, 512, 700], [2048, 4096, 1000, 3000], 16, 512
    q, o = bf16(device, sum(new), 32, 128), bf16(device, sum(new), 32, 128)
    k, v = bf16(device, sum(new), 8, 128), bf16(device, sum(new), 8, 128)
    cached, values = bf16(device, 4 * pages, 8, 16, page, 8), bf16(device, 4 * pages, 8, 128, page)
    table, starts = given(device, permuted(4 * pages, 4, pages, seed=114)), given(device, bounds(new))
    lengths = given(device, torch.tensor([a + b for a, b in zip(new, before, strict=True)], dtype=torch.int32))
    one = fp32(device, 1)
    return lambda: op(q, k, v, o, "auto", cached, values, table, starts, lengths, 8192, 1024, one, one, sm_scale=0.088)


@case("vllm.minimax_sparse", "attention")
def vllm_minimax(device: str) -> Body:
    op = vllm("models.minimax_m3.common.ops.sparse_attn").minimax_m3_sparse_attn
    length, top = 4096, 16
    q, o, kv = bf16(device, length, 64, 128), bf16(device, length, 64, 128), bf16(device, 128, 4, 128, 256)
    chosen = torch.stack([some_of(32, top, length, 115 + head) for head in range(4)])
    chosen = chosen.minimum(torch.arange(length, dtype=torch.int32)[None, :, None] // 128)
    table, chosen = given(device, permuted(128, 128, seed=119)[None, :32].clone()), given(device, chosen)
    starts, total, none = (given(device, torch.tensor(x, dtype=torch.int32)) for x in ([0, length], [length], [0]))
    return lambda: op(q, kv, chosen, table, starts, total, none, length, 4, 0.088, o)


@case("flag_gems.flash_mla", "decode")
def gems_flash_mla(device: str) -> Body:
    op = flag_gems("fused.flash_mla").flash_mla_attn_kernel
    batch, page, pages = 64, 64, 96
    q, kv = bf16(device, batch, 128, 576), bf16(device, batch * pages * page, 576)
    o = bf16(device, batch, 128, 512)
    lengths = given(device, torch.tensor(LENGTHS * 8, dtype=torch.int32))
    table = given(device, permuted(batch * pages, batch, pages, seed=121))
    return lambda: op[(2, batch)](
        q, kv, table, lengths, o, 576**-0.5, 128, 128 * 576, 576, 576, pages, 128 * 512, 512, 1,
        BLOCK_H=64, BLOCK_N=64, PAGE_SIZE=page, HEAD_DIM_V=512, HEAD_DIM=576, num_warps=8, num_stages=3,
    )  # fmt: skip


@case("unsloth.large_head_backward", "attention backward")
def unsloth_backward(device: str) -> Body:
    op = unsloth("large_head_attention")._bwd_impl
    q, o, do = (bf16(device, 1, 8, 2048, 512) for _ in range(3))
    k, v, lse = bf16(device, 1, 4, 2048, 512), bf16(device, 1, 4, 2048, 512), fp32(device, 1, 8, 2048)
    lo = given(device, torch.zeros(1, 2048, dtype=torch.int32))
    hi = given(device, torch.arange(1, 2049, dtype=torch.int32)[None])
    return lambda: op(do, q, k, v, o, lse, lo, hi, 512**-0.5)


@case("late_interaction.maxsim", "matmul")
def maxsim(device: str) -> Body:
    op = plain("late_interaction_kernels.forward")._run_forward
    q, d = fp16(device, 32, 32, 128), fp16(device, 2048, 512, 128)
    return lambda: op(q, d, None, None, True)


@case("flash_sinkhorn.logsumexp", "matmul")
def sinkhorn(device: str) -> Body:
    op = plain("flash_sinkhorn.kernels.sinkhorn_flashstyle_sqeuclid").flashsinkhorn_lse
    x, y, bias = fp32(device, 32768, 64), fp32(device, 32768, 64), fp32(device, 32768)
    return lambda: op(x, y, bias, 0.1)
