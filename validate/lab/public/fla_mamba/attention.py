"""Attention of other models (latent, grouped, windowed, sparse), decoded and paged in other ways."""

import math

import torch
from launching import Body, case, library
from libraries import fla, fskernels, lmdeploy, sglang, unsloth
from made import bf16, bounds, fp16, fp32, given, permuted, seeded

LENGTHS = [3000, 700, 5120, 64, 2047, 6001, 1500, 4096]


@case("sglang.decode_latent", "decode")
def sglang_decode_latent(device: str) -> Body:
    op = sglang("attention.triton_ops.decode_attention")
    batch, heads, splits = 16, 128, 8
    lengths = [LENGTHS[i % 8] for i in range(batch)]
    total = sum(lengths)
    q, o = bf16(device, batch, heads, 576), bf16(device, batch, heads, 512)
    kv = bf16(device, total, 1, 576)
    indptr, indices = given(device, bounds(lengths)), given(device, permuted(total, total, seed=21, dtype=torch.int64))
    logits, lse = fp32(device, batch, heads, splits, 512), fp32(device, batch, heads, splits)
    count = given(device, torch.full((batch,), splits, dtype=torch.int32))
    return lambda: op.decode_attention_fwd_grouped(
        q, kv, kv[..., :512], o, indptr, indices, logits, lse, count, splits, 1 / math.sqrt(192), 1.0
    )


@case("sglang.extend_unified", "attention")
def sglang_unified(device: str) -> Body:
    op = sglang("attention.triton_ops.extend_attention").extend_attention_fwd_unified
    prefix, new = [1024, 3000, 500, 2048], [1024, 333, 800, 512]
    both = [a + b for a, b in zip(prefix, new, strict=True)]
    q = bf16(device, sum(new), 32, 128)
    k, v = bf16(device, sum(both), 8, 128), bf16(device, sum(both), 8, 128)
    qo, kv = given(device, bounds(new)), given(device, bounds(both))
    indices = given(device, permuted(sum(both), sum(both), seed=22, dtype=torch.int64))
    lengths = given(device, torch.tensor(prefix, dtype=torch.int32))
    return lambda: op(q, torch.empty_like(q), k, v, 1.0, 1.0, qo, kv, indices, lengths, max(new))


@case("sglang.prefill_qwen", "attention")
def sglang_prefill_qwen(device: str) -> Body:
    op = sglang("attention.triton_ops.prefill_attention").context_attention_fwd
    total = sum(LENGTHS)
    q, k, v = fp16(device, total, 28, 128), fp16(device, total, 4, 128), fp16(device, total, 4, 128)
    starts, lengths = bounds(LENGTHS)[:-1].clone(), torch.tensor(LENGTHS, dtype=torch.int32)
    starts, lengths = given(device, starts), given(device, lengths)
    return lambda: op(q, k, v, torch.empty_like(q), starts, lengths, max(LENGTHS))


@case("lmdeploy.paged_decode_70b", "decode")
def lmdeploy_decode_70b(device: str) -> Body:
    op = lmdeploy("pagedattention").flash_attn_with_kvcache
    batch, page = 48, 64
    lengths = [LENGTHS[i % 8] for i in range(batch)]
    pages = 6144 // page
    q = fp16(device, batch, 64, 128)
    k, v = fp16(device, batch * pages, page, 8, 128), fp16(device, batch * pages, page, 8, 128)
    seqlens = given(device, torch.tensor(lengths, dtype=torch.int32))
    table = given(device, permuted(batch * pages, batch, pages, seed=23))
    return lambda: op(q, k, v, seqlens, table, max_seqlen_q=1)


@case("lmdeploy.flatten_kv_cache", "gather")
def lmdeploy_flatten(device: str) -> Body:
    op = lmdeploy("flatten_kv_cache").flatten_kv_cache
    page, pages = 64, 6144 // 64
    k, v = bf16(device, 8 * pages, page, 8, 128), bf16(device, 8 * pages, page, 8, 128)
    lengths = given(device, torch.tensor(LENGTHS))
    table = given(device, permuted(8 * pages, 8, pages, seed=24))
    starts = given(device, bounds(LENGTHS, torch.int64)[:-1].clone())
    return lambda: op(k, v, lengths, table, start_loc=starts, out_size=sum(LENGTHS))


@case("conch.varlen_attention", "attention")
def conch_varlen(device: str) -> Body:
    op = library("conch.kernels.attention.varlen_attention").varlen_attention_launcher
    new, page, pages = [512, 300, 1024, 64], 64, 6144 // 64
    q = fp16(device, sum(new), 32, 128)
    k, v = fp16(device, 4 * pages, page, 8, 128), fp16(device, 4 * pages, page, 8, 128)
    cu, lengths = given(device, bounds(new)), given(device, torch.tensor([4096, 1300, 2048, 5000], dtype=torch.int32))
    table = given(device, permuted(4 * pages, 4, pages, seed=25))
    return lambda: op(torch.empty_like(q), q, k, v, cu, max(new), lengths, 5000, table, causal=True, scale=0.088)


@case("conch.unified_attention", "decode")
def conch_unified(device: str) -> Body:
    op = library("conch.third_party.vllm.unified_attention").unified_attention
    batch, page, pages = 64, 16, 4096 // 16
    lengths = given(device, seeded(4000, batch, seed=26, dtype=torch.int32) + 1)
    q = bf16(device, batch, 32, 128)
    k, v = bf16(device, batch * pages, page, 8, 128), bf16(device, batch * pages, page, 8, 128)
    cu = given(device, torch.arange(batch + 1, dtype=torch.int32))
    table = given(device, permuted(batch * pages, batch, pages, seed=27))
    return lambda: op(
        q, k, v, torch.empty_like(q), cu, 1, lengths, 4000, 0.088, True, (-1, -1), table, 0.0, None, 1.0, 1.0
    )


@case("fskernels.gqa_dense", "decode")
def fskernels_dense(device: str) -> Body:
    op = fskernels("triton_gqa_decode_hf")
    q = fp16(device, 16, 64, 128)
    k, v = fp16(device, 16, 8, 6144, 128), fp16(device, 16, 8, 6144, 128)
    lengths = given(device, torch.tensor(LENGTHS * 2, dtype=torch.int32))
    starts = given(device, torch.zeros(16, dtype=torch.int32))
    return lambda: op.flash_decode_gqa_hf_dense_optimized(q, k, v, lengths, starts, num_splits=8)


@case("sageattention.int8_96", "attention")
def sage_96(device: str) -> Body:
    op = library("sageattention.attn_qk_int8_per_block_h96", "sageattention")
    q, k = (torch.randint(-127, 127, (2, 32, 4096, 128), device=device, dtype=torch.int8) for _ in range(2))
    v, qs, ks = fp16(device, 2, 32, 4096, 128), fp32(device, 2, 32, 32), fp32(device, 2, 32, 64)
    return lambda: op.forward(q, k, v, qs, ks)


@case("sageattention.int8_varlen", "attention")
def sage_varlen(device: str) -> Body:
    op = library("sageattention.attn_qk_int8_per_block_causal_varlen", "sageattention")
    total = sum(LENGTHS)
    q, k = (torch.randint(-127, 127, (total, 24, 64), device=device, dtype=torch.int8) for _ in range(2))
    v, cu = fp16(device, total, 24, 64), bounds(LENGTHS)
    rows, columns = bounds([-(-size // 128) for size in LENGTHS]), bounds([-(-size // 64) for size in LENGTHS])
    qs, ks = fp32(device, int(rows[-1]), 24), fp32(device, int(columns[-1]), 24)
    cu, rows, columns = given(device, cu), given(device, rows), given(device, columns)
    return lambda: op.forward(q, k, v, cu, cu, max(LENGTHS), qs, ks, rows, columns)


@case("fla.parallel_nsa", "attention")
def nsa(device: str) -> Body:
    op = fla("ops.nsa.parallel").parallel_nsa_fwd
    q, k, v = bf16(device, 1, 4096, 64, 128), bf16(device, 1, 4096, 4, 128), bf16(device, 1, 4096, 4, 128)
    blocks = torch.arange(4096)[None, :, None, None] // 64 - torch.arange(16)[None, None, None, :] * 3
    blocks = given(device, blocks.clamp(min=0).expand(1, 4096, 4, 16).contiguous())
    return lambda: op(q, k, v, blocks, 16, 64, 128**-0.5)


@case("fla.attn_decoding", "decode")
def fla_decoding(device: str) -> Body:
    op = fla("ops.attn.decoding").attn_decoding_one_step
    total = sum(LENGTHS)
    q, k, v = bf16(device, 1, 8, 32, 128), bf16(device, 1, total, 8, 128), bf16(device, 1, total, 8, 128)
    cu = given(device, bounds(LENGTHS, torch.int64))
    return lambda: op(q, k, v, cu_seqlens=cu)


@case("fla.parallel_attn_grouped", "attention")
def fla_grouped(device: str) -> Body:
    op = fla("ops.attn.parallel").parallel_attn
    q = bf16(device, 1, 8192, 32, 64)
    k, v = bf16(device, 1, 8192, 4, 64), bf16(device, 1, 8192, 4, 64)
    return lambda: op(q, k, v, window_size=1024)


@case("unsloth.large_head_attention", "attention")
def unsloth_large_head(device: str) -> Body:
    op = unsloth("large_head_attention")
    q, k, v = bf16(device, 1, 8, 4096, 512), bf16(device, 1, 4, 4096, 512), bf16(device, 1, 4, 4096, 512)
    lo = given(device, torch.zeros(1, 4096, dtype=torch.int32))
    hi = given(device, torch.arange(1, 4097, dtype=torch.int32)[None])
    return lambda: op._fwd_impl(q, k, v, lo, hi, 512**-0.5)


@case("adasplash.entmax", "softmax")
def entmax(device: str) -> Body:
    op = library("adasplash.triton_entmax", "adasplash").triton_entmax
    x = fp32(device, 4096, 8192)
    return lambda: op(x, 1.5, 10)


@case("tutorial.attention_128", "attention")
def tutorial_128(device: str) -> Body:
    op = library(
        "mlstm_kernels.baselines.flash_attention.triton_tutorial",
        "mlstm_kernels",
        "mlstm_kernels.baselines",
        "mlstm_kernels.baselines.flash_attention",
    ).attention
    q, k, v = (fp16(device, 1, 32, 8192, 128) for _ in range(3))
    return lambda: op(q, k, v, True, 0.088)
