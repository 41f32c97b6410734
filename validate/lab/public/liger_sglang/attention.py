"""Cases of attention: whole, causal, decoded in splits, paged, ragged, with integers; forward and backward."""

import math

import torch
from launching import Body, case, library
from libraries import liger, lmdeploy, sglang
from made import backward, bf16, bounds, fp16, fp32, given, permuted

LENGTHS = [4096, 1024, 2560, 512, 3072, 8192, 128, 1000]


@case("sageattention.int8", "attention")
def sage(device: str) -> Body:
    op = library("sageattention.attn_qk_int8_per_block", "sageattention")
    q, k = (torch.randint(-127, 127, (2, 24, 8192, 128), device=device, dtype=torch.int8) for _ in range(2))
    v = fp16(device, 2, 24, 8192, 128)
    qs, ks = fp32(device, 2, 24, 64), fp32(device, 2, 24, 128)
    return lambda: op.forward(q, k, v, qs, ks)


@case("sageattention.int8_causal", "attention")
def sage_causal(device: str) -> Body:
    op = library("sageattention.attn_qk_int8_per_block_causal", "sageattention")
    q, k = (torch.randint(-127, 127, (1, 32, 8192, 64), device=device, dtype=torch.int8) for _ in range(2))
    v = fp16(device, 1, 32, 8192, 64)
    qs, ks = fp32(device, 1, 32, 64), fp32(device, 1, 32, 128)
    return lambda: op.forward(q, k, v, qs, ks)


@case("sageattention.quantise", "quantise")
def sage_quantise(device: str) -> Body:
    op = library("sageattention.quant_per_block", "sageattention").per_block_int8
    q, k = bf16(device, 2, 24, 16384, 128), bf16(device, 2, 24, 16384, 128)
    return lambda: op(q, k)


@case("sglang.prefill", "attention")
def sglang_prefill(device: str) -> Body:
    op = sglang("attention.triton_ops.prefill_attention").context_attention_fwd
    total = sum(LENGTHS)
    q, k, v = bf16(device, total, 32, 128), bf16(device, total, 8, 128), bf16(device, total, 8, 128)
    starts, lengths = bounds(LENGTHS)[:-1].clone(), torch.tensor(LENGTHS, dtype=torch.int32)
    starts, lengths = given(device, starts), given(device, lengths)
    return lambda: op(q, k, v, torch.empty_like(q), starts, lengths, max(LENGTHS))


@case("sglang.decode", "decode")
def sglang_decode(device: str) -> Body:
    op = sglang("attention.triton_ops.decode_attention")
    batch, heads, kv_heads, dim, splits = 32, 32, 8, 128, 8
    lengths = [LENGTHS[i % 8] for i in range(batch)]
    total = sum(lengths)
    q, o = bf16(device, batch, heads, dim), bf16(device, batch, heads, dim)
    k, v = bf16(device, total, kv_heads, dim), bf16(device, total, kv_heads, dim)
    indptr, indices = given(device, bounds(lengths)), given(device, permuted(total, total, dtype=torch.int64))
    logits, lse = fp32(device, batch, heads, splits, dim), fp32(device, batch, heads, splits)
    count = given(device, torch.full((batch,), splits, dtype=torch.int32))
    return lambda: op.decode_attention_fwd_grouped(
        q, k, v, o, indptr, indices, logits, lse, count, splits, 1 / math.sqrt(dim), 1.0
    )


@case("sglang.decode_one_head", "decode")
def sglang_decode_normal(device: str) -> Body:
    op = sglang("attention.triton_ops.decode_attention")
    batch, heads, dim, splits = 16, 16, 128, 8
    lengths = [LENGTHS[i % 8] for i in range(batch)]
    total = sum(lengths)
    q, o = fp16(device, batch, heads, dim), fp16(device, batch, heads, dim)
    k, v = fp16(device, total, heads, dim), fp16(device, total, heads, dim)
    indptr, indices = given(device, bounds(lengths)), given(device, torch.arange(total))
    logits, lse = fp32(device, batch, heads, splits, dim), fp32(device, batch, heads, splits)
    count = given(device, torch.full((batch,), splits, dtype=torch.int32))
    return lambda: op.decode_attention_fwd_normal(
        q, k, v, o, indptr, indices, logits, lse, count, splits, 1 / math.sqrt(dim), 1.0
    )


@case("sglang.extend", "attention")
def sglang_extend(device: str) -> Body:
    op = sglang("attention.triton_ops.extend_attention").extend_attention_fwd
    prefix, new = [2048, 4096, 1024, 3000], [512, 256, 1024, 700]
    q, k, v = bf16(device, sum(new), 32, 128), bf16(device, sum(new), 8, 128), bf16(device, sum(new), 8, 128)
    kb, vb = bf16(device, sum(prefix), 8, 128), bf16(device, sum(prefix), 8, 128)
    qo, kv = given(device, bounds(new)), given(device, bounds(prefix))
    indices = given(device, permuted(sum(prefix), sum(prefix), dtype=torch.int64))
    return lambda: op(q, k, v, torch.empty_like(q), kb, vb, qo, kv, indices, None, True, None, max(new), 1.0, 1.0)


@case("sglang.merge_state", "elementwise")
def sglang_merge(device: str) -> Body:
    op = sglang("attention.triton_ops.merge_state").merge_state_triton
    a, b = bf16(device, 16384, 32, 128), bf16(device, 16384, 32, 128)
    s, t = fp32(device, 16384, 32), fp32(device, 16384, 32)
    return lambda: op(a, s, b, t)


@case("lmdeploy.flash_attn_varlen", "attention")
def lmdeploy_varlen(device: str) -> Body:
    op = lmdeploy("flashattention").flash_attn_varlen_func
    total = sum(LENGTHS)
    q, k, v = bf16(device, total, 32, 128), bf16(device, 8, total, 128), bf16(device, 8, total, 128)
    cu = given(device, bounds(LENGTHS))
    return lambda: op(q, k, v, cu, cu, max(LENGTHS), max(LENGTHS), causal=True, kv_layout="hsd")


@case("lmdeploy.paged_decode", "decode")
def lmdeploy_decode(device: str) -> Body:
    op = lmdeploy("pagedattention").flash_attn_with_kvcache
    batch, page = 32, 64
    lengths = [LENGTHS[i % 8] for i in range(batch)]
    pages = 8192 // page
    q = bf16(device, batch, 32, 128)
    k, v = bf16(device, batch * pages, page, 8, 128), bf16(device, batch * pages, page, 8, 128)
    seqlens = given(device, torch.tensor(lengths, dtype=torch.int32))
    table = given(device, permuted(batch * pages, batch, pages))
    return lambda: op(q, k, v, seqlens, table, max_seqlen_q=1)


@case("lmdeploy.fill_kv_cache", "gather")
def lmdeploy_fill(device: str) -> Body:
    op = lmdeploy("fill_kv_cache").fill_kv_cache
    batch, page, length = 16, 64, 1024
    k, v = bf16(device, batch * length, 8, 128), bf16(device, batch * length, 8, 128)
    kc, vc = (bf16(device, batch * length // page, page, 8, 128) for _ in range(2))
    starts = given(device, torch.arange(0, batch * length, length))
    lengths = given(device, torch.full((batch,), length))
    table = given(device, permuted(batch * length // page, batch, length // page))
    return lambda: op(k, v, kc, vc, starts, lengths, lengths, length, table)


@case("conch.paged_attention", "decode")
def conch_paged(device: str) -> Body:
    op = library("conch.ops.attention.paged_attention").paged_attention
    batch, page = 32, 32
    lengths = [LENGTHS[i % 8] for i in range(batch)]
    pages = 8192 // page
    q = fp16(device, batch, 32, 128)
    k, v = (fp16(device, batch * pages, page, 8, 128) for _ in range(2))
    table = given(device, permuted(batch * pages, batch, pages))
    seqlens = given(device, torch.tensor(lengths, dtype=torch.int32))
    return lambda: op(q, k, v, table, seqlens)


@case("fskernels.paged_decode", "decode")
def fskernels_paged(device: str) -> Body:
    op = library("fskernels.paged_attn.triton_paged_attn", "fskernels", "fskernels.paged_attn").paged_flash_decode
    batch, page = 32, 16
    lengths = [LENGTHS[i % 8] for i in range(batch)]
    pages = 8192 // page
    q = fp16(device, batch, 32, 128)
    k, v = (fp16(device, batch * pages, page, 8, 128) for _ in range(2))
    table = given(device, permuted(batch * pages, batch, pages))
    seqlens = given(device, torch.tensor(lengths, dtype=torch.int32))
    return lambda: op(q, k, v, table, seqlens, page)


@case("fskernels.flash_attention_2", "attention")
def fskernels_fa2(device: str) -> Body:
    op = library("fskernels.triton.triton_fa2", "fskernels", "fskernels.triton").flash_attention_2_fwd
    q, k, v = (fp16(device, 2, 16, 8192, 128) for _ in range(3))
    return lambda: op(q, k, v)


@case("fskernels.gqa_varlen", "decode")
def fskernels_gqa(device: str) -> Body:
    op = library("fskernels.triton.triton_gqa_decode", "fskernels", "fskernels.triton").flash_decode_gqa_varlen
    lengths = [LENGTHS[i % 8] for i in range(32)]
    q = fp16(device, 32, 32, 128)
    k, v = fp16(device, sum(lengths), 8, 128), fp16(device, sum(lengths), 8, 128)
    cu = given(device, bounds(lengths))
    return lambda: op(q, k, v, cu)


@case("tutorial.attention", "attention")
def tutorial(device: str) -> Body:
    op = library(
        "mlstm_kernels.baselines.flash_attention.triton_tutorial",
        "mlstm_kernels",
        "mlstm_kernels.baselines",
        "mlstm_kernels.baselines.flash_attention",
    ).attention
    q, k, v = (fp16(device, 4, 16, 4096, 64, grad=True) for _ in range(3))
    return lambda: backward(op(q, k, v, True, 0.5), q, k, v)


@case("adasplash.forward", "attention")
def adasplash(device: str) -> Body:
    op = library("adasplash.adasplash_no_block_mask", "adasplash").sparse_attn
    q, k, v = (bf16(device, 2, 16, 4096, 64) for _ in range(3))
    return lambda: op(q, k, v, 1.5, True, None, 5)


@case("liger.neighborhood", "attention")
def liger_neighborhood(device: str) -> Body:
    op = liger("fused_neighborhood_attention")
    q, k, v = (bf16(device, 2, 8, 2048, 64) for _ in range(3))
    return lambda: op.fused_neighborhood_attention_forward(q, k, v, 7, 1)
