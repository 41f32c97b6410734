"""Attention: sparse, paged, over keys in few bits, merged of parts, and backward."""

import torch
from launching import Body, case
from libraries import fla, minference, modelopt, plain, ring_attention
from made import backward, bf16, bounds, fp16, fp32, given, permuted, seeded, some_of, words

LENGTHS = [3000, 700, 5120, 64, 2047, 6001, 1500, 4096]


@case("modelopt.paged_decode", "decode")
def modelopt_decode(device: str) -> Body:
    op = modelopt("common.attention.decode_attention").attention_decode
    q, pages = bf16(device, 32, 32, 128), 6144 // 16
    k, v = bf16(device, 32 * pages, 16, 8, 128), bf16(device, 32 * pages, 16, 8, 128)
    table = given(device, permuted(32 * pages, 32, pages, seed=561))
    lengths = given(device, torch.tensor(LENGTHS * 4, dtype=torch.int32))
    return lambda: op(q, k, v, table, lengths, num_kv_splits=8)


@case("modelopt.two_of_four", "attention")
def modelopt_sparse(device: str) -> Body:
    op = modelopt("common.attention.triton_fa").attention
    lengths = [2048, 700, 1500, 1024]
    q = bf16(device, sum(lengths), 32, 128, grad=True)
    k, v = bf16(device, sum(lengths), 8, 128, grad=True), bf16(device, sum(lengths), 8, 128, grad=True)
    starts, sizes = given(device, bounds(lengths)[:-1].clone()), given(device, torch.tensor(lengths, dtype=torch.int32))
    return lambda: backward(op(q, k, v, starts, sizes, 2048, sparsity_n=2, sparsity_m=4), q, k, v)


@case("ring_attention.both_ways", "attention")
def ring(device: str) -> Body:
    op = ring_attention("triton_flash_attn")
    q, k, v, do, o, dq, dk, dv = (bf16(device, 4, 2048, 16, 64) for _ in range(8))
    lse = fp32(device, 4, 16, 2048)
    return lambda: (
        op.flash_attn_forward(q, k, v, causal=True, return_normalized_output=True, load_accumulated=False),
        op.flash_attn_backward(do, q, k, v, o, lse, dq, dk, dv, causal=True, softmax_scale=0.125),
    )


@case("lmcache.block_sparse", "attention")
def lmcache_sparse(device: str) -> Body:
    op = plain("lmcache.v1.compute.attention.triton_kernels.block_sparse_attention")
    q, k, v = bf16(device, 8192, 32, 128), bf16(device, 8192, 8, 128), bf16(device, 8192, 8, 128)
    blocks, starts = given(device, some_of(128, 16, 128, 562).flatten()), given(device, bounds([16] * 128))
    one, two = fp32(device, 8192, 32), fp32(device, 8192, 32)
    return lambda: (
        op.block_sparse_attention(q, k, v, blocks, starts, 0.088),
        op.causal_prefill_attention(q[:4096], k[:4096], v[:4096], 0.088),
        op.merge_attention_outputs(q, one, torch.empty_like(q), two),
    )


@case("minference.block_sparse", "attention")
def minference_blocks(device: str) -> Body:
    op = minference("ops.block_sparse_flash_attention")
    q, k, v = (bf16(device, 1, 32, 16384, 128) for _ in range(3))
    rows = torch.arange(256)[:, None]
    chosen = (seeded(1 << 20, 1, 32, 256, 32, seed=563) % (rows + 1)).sort(-1).values.int()
    chosen, lengths = given(device, chosen.contiguous()), given(device, torch.tensor([16384], dtype=torch.int32))
    return lambda: op._triton_block_sparse_attention(q, k, v, lengths, chosen, 0.088)


@case("minference.vertical_slash", "attention")
def minference_slash(device: str) -> Body:
    op = minference("ops.pit_sparse_flash_attention_v2")
    q, k, v = (bf16(device, 1, 16, 16384, 128) for _ in range(3))
    blocks = torch.minimum(torch.arange(256) + 1, torch.tensor(16)).int().expand(1, 16, 256).contiguous()
    starts = (torch.arange(256)[:, None] - torch.arange(16)).clamp(min=0).mul(64).flip(1).int()
    counts = (torch.arange(256) * 4).clamp(max=256).int().expand(1, 16, 256).contiguous()
    columns = (torch.arange(256) * 4).int().expand(1, 16, 256, 256).contiguous()
    tables = [blocks, starts.expand(1, 16, 256, 16).contiguous(), counts, columns]
    lengths, tables = given(device, torch.tensor([16384], dtype=torch.int32)), [given(device, t) for t in tables]
    return lambda: op._triton_mixed_sparse_attention(q, k, v, lengths, *tables, 0.088)


@case("minference.antidiagonals", "attention")
def minference_xattention(device: str) -> Body:
    op = minference("ops.xattention_fa")
    q, k, scores = bf16(device, 1, 16, 16384, 128), bf16(device, 1, 16, 16384, 128), bf16(device, 1, 16, 2048, 2048)
    return lambda: (
        op.flat_group_gemm_fuse_reshape(q, k, 8, 0, 2048),
        op.softmax_fuse_block_sum(scores, 16, 2048, 0, 2048, 2048, 0.0125),
    )


@case("minference.kivi", "decode")
def minference_kivi(device: str) -> Body:
    op = minference("modules.kivi")
    x, q, keys = fp16(device, 4, 8, 128, 16384), fp16(device, 4, 8, 1, 128), words(device, 4, 8, 128, 1024)
    scale, least = fp16(device, 4, 8, 128, 128), fp16(device, 4, 8, 128, 128)
    return lambda: (
        op.triton_quantize_and_pack_along_last_dim(x, 128, 2),
        op.triton_bmm_fA_qB_outer(128, q, keys, scale, least, 2),
    )


@case("fused_turboquant.keys", "decode")
def turboquant(device: str) -> Body:
    parts = "encode", "decode", "attention"
    encode, decode, scores = (plain(f"fused_turboquant.kernels.triton_{part}") for part in parts)
    x, signs, q = bf16(device, 8 * 16384, 128), fp32(device, 128).sign(), fp32(device, 1, 32, 1, 128)
    keys = given(device, seeded(256, 1, 8, 16384, 64, seed=564, dtype=torch.uint8))
    norms, levels, edges = fp32(device, 1, 8, 16384), fp32(device, 16), fp32(device, 15)
    return lambda: (
        encode.triton_fused_encode(x, signs, edges, 4),
        decode.triton_fused_decode(keys.view(-1, 64), norms, levels, signs, 4, 128),
        scores.fused_qk_scores_rht(q, keys, norms, levels, 0.088, 4),
    )


@case("fla.stickbreaking_backward", "attention")
def fla_stickbreaking(device: str) -> Body:
    op = fla("ops.stickbreaking_attn.parallel").parallel_stickbreaking_attn_bwd
    q, k, v, do = (bf16(device, 1, 4096, 16, 64) for _ in range(4))
    drem = bf16(device, 1, 4096, 16)
    return lambda: op(q, k, v, do, drem, 0.125)


@case("fla.nsa_top_blocks", "attention")
def nsa_topk(device: str) -> Body:
    op = fla("ops.nsa.parallel").parallel_nsa_topk
    q, k, lse = bf16(device, 1, 8192, 64, 128), bf16(device, 1, 128, 4, 128), fp32(device, 1, 8192, 64)
    return lambda: op(q, k, 8192, lse, 16, 64, 0.088)
