"""Attention backward, paged, sparse, latent and in other forms; sums over exponents shaped like it."""

import torch
from launching import Body, absent, case
from libraries import fla, flag_gems, fskernels, lmdeploy, plain, sglang_kernels
from made import bf16, fp8, fp32, given, permuted, some_of

LENGTHS = [3000, 700, 5120, 64, 2047, 6001, 1500, 4096]


@case("fla.nsa_compression", "attention")
def nsa_compression(device: str) -> Body:
    op = fla("ops.nsa.compression").parallel_nsa_compression_fwd
    q, k, v = bf16(device, 1, 8192, 64, 128), bf16(device, 1, 128, 4, 128), bf16(device, 1, 128, 4, 128)
    return lambda: op(q, k, v, 8192, 64, 0.088)


@case("fla.wall_attention", "attention")
def wall(device: str) -> Body:
    op = fla("ops.wall_attn.parallel").parallel_wall_attn_fwd
    q, k, v = (bf16(device, 1, 4096, 16, 64) for _ in range(3))
    g = -fp32(device, 1, 4096, 16, 64).abs()
    return lambda: op(q, k, v, g, None, 0.125)


@case("fla.deltaformer", "attention")
def deltaformer(device: str) -> Body:
    absent("fla.layers", "fla.layers.utils")
    op = fla("ops.deltaformer.parallel").parallel_deltaformer_chunk_fwd
    q, k, v, u = (
        bf16(device, 4096, 16, 64),
        bf16(device, 4096, 16, 64),
        bf16(device, 4096, 16, 64),
        bf16(device, 4096, 16, 64),
    )
    beta = bf16(device, 4096, 16)
    return lambda: op(q, k, v, u, 0.125, beta)


@case("fla.rebased", "linear attention")
def rebased(device: str) -> Body:
    op = fla("ops.rebased.parallel")
    q, k, v = bf16(device, 4, 16, 4096, 16), bf16(device, 4, 16, 4096, 16), bf16(device, 4, 16, 4096, 64)
    return lambda: op.ParallelBasedFunction.apply(q, k, v, 0.25)


@case("lmdeploy.paged_decode_int8", "decode")
def lmdeploy_decode_int8(device: str) -> Body:
    op = lmdeploy("pagedattention").flash_attn_with_kvcache
    batch, page, pages = 64, 64, 6144 // 64
    q = bf16(device, batch, 32, 128)
    k, v = (torch.randint(0, 256, (batch * pages, page, 8, 128), device=device, dtype=torch.uint8) for _ in range(2))
    ks, vs = bf16(device, batch * pages, page, 8, 2), bf16(device, batch * pages, page, 8, 2)
    lengths = given(device, torch.tensor(LENGTHS * 8, dtype=torch.int32))
    table = given(device, permuted(batch * pages, batch, pages, seed=113))
    return lambda: op(q, k, v, lengths, table, max_seqlen_q=1, k_scales_zeros=ks, v_scales_zeros=vs, quant_policy=8)


@case("flag_gems.sparse_mla", "attention")
def gems_sparse_mla(device: str) -> Body:
    op = flag_gems("fused.DSA.sparse_mla").triton_sparse_mla_fwd_interface
    q, kv = bf16(device, 1, 512, 128, 576), bf16(device, 1, 16384, 1, 576)
    chosen = given(device, some_of(15872, 2048, 512, 120)[None, :, None].contiguous())
    return lambda: op(q, kv, chosen)


@case("flag_gems.sparse_attention", "attention")
def gems_sparse(device: str) -> Body:
    op = flag_gems("fused.sparse_attention").sparse_attn_triton
    q, kv, sink = bf16(device, 1, 1024, 64, 512), bf16(device, 1, 4096, 512), fp32(device, 64)
    chosen = given(device, some_of(4096, 640, 1024, 122)[None].contiguous())
    return lambda: op(q, kv, sink, chosen, 512**-0.5)


@case("sglang.sparse_diffusion", "attention")
def sglang_sparse(device: str) -> Body:
    op = sglang_kernels("diffusion.attention.sparse_linear_attn_triton")._attn_fwd
    q, k, v, o = (bf16(device, 1, 12, 16384, 128) for _ in range(4))
    chosen, lse = given(device, some_of(256, 32, 12 * 256, 123)), fp32(device, 12, 16384)
    return lambda: op[(256, 12)](q, k, v, 0.088, 32, chosen, lse, o, 16384, 256, 128, 64, 64, num_warps=4, num_stages=3)


@case("memeff.clip_backward", "matmul")
def clip_backward(device: str) -> Body:
    op = plain("memeff.clip_loss").clip_fa_grad_kernel
    a, b, da = fp32(device, 16384, 512), fp32(device, 16384, 512), fp32(device, 16384, 512)
    own, other, warmth, grad = fp32(device, 16384).abs(), fp32(device, 16384).abs(), fp32(device, 1), fp32(device, 1)
    return lambda: op[(512,)](
        a, b, own, other, da, warmth, grad, 16384, 16384, BIDIR=True, BLOCK_SIZE_I=32, BLOCK_SIZE_J=64, D_POW2=512,
        D_MODEL=512, INPUT_PRECISION="tf32", num_warps=8, num_stages=2,
    )  # fmt: skip


@case("fskernels.gqa_fp8", "decode")
def fskernels_fp8(device: str) -> Body:
    op = fskernels("triton_gqa_decode_hf_fp8")
    op.set_num_splits_fp8(8)
    q, k, v = fp8(device, 32, 64, 128), fp8(device, 32, 8, 6144, 128), fp8(device, 32, 8, 6144, 128)
    lengths, one = given(device, torch.tensor(LENGTHS * 4, dtype=torch.int32)), fp32(device, 1)
    return lambda: op.flash_decode_gqa_hf_fp8(q, k, v, lengths, one, one, one, torch.bfloat16)


@case("sglang.mla_keys", "copy")
def sglang_mla_keys(device: str) -> Body:
    op = sglang_kernels("attention.mla_qk_prep").concat_and_cast_mha_k_triton
    k, nope, rope = bf16(device, 8192, 128, 192), bf16(device, 8192, 128, 128), bf16(device, 8192, 1, 64)
    return lambda: op(k, nope, rope)
