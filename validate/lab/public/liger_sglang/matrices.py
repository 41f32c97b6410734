"""Cases of matrix products and what is round them: grouped, persistent, in 8 and 4 bits, by experts; casts."""

import torch
from launching import Body, case, library
from libraries import bitsandbytes, sglang, torchao
from made import bf16, bounds, fp8, fp16, fp32, given, int8, permuted, seeded, words

ROUTED = [900, 300, 1500, 10, 2200, 512, 1024, 700, 128, 64, 1800, 1111, 0, 430, 999, 1106]


def _offsets(device: str, first: bool = True) -> torch.Tensor:
    table = bounds(ROUTED)
    return given(device, table if first else table[1:].clone())


@case("moe_ops.grouped_gemm", "grouped matmul")
def moe_grouped(device: str) -> Body:
    op = library("moe_ops.grouped_gemm_ops", "moe_ops").gmm_try_fn
    a, b = bf16(device, sum(ROUTED), 2048), bf16(device, len(ROUTED), 1024, 2048)
    return lambda: op(a, b, _offsets(device), True)


@case("moe_ops.grouped_gemm_tma", "grouped matmul")
def moe_grouped_tma(device: str) -> Body:
    op = library("moe_ops.grouped_gemm_ops_sm90", "moe_ops").group_gemm_tma_fn
    a, b = bf16(device, sum(ROUTED), 2048), bf16(device, len(ROUTED), 1024, 2048)
    return lambda: op(a, b, _offsets(device), True)


@case("moe_ops.topk_softmax", "routing")
def moe_topk(device: str) -> Body:
    op = library("moe_ops.fused_topk_softmax_ops", "moe_ops")._fused_topk_softmax_fwd
    logits = fp32(device, 65536, 128)
    return lambda: op(logits, 8)


@case("moe_ops.unpermute", "gather")
def moe_unpermute(device: str) -> Body:
    op = library("moe_ops.unpermute_ops", "moe_ops").unpermute_forward
    x, prob = bf16(device, 8 * 8192, 2048), fp32(device, 8192, 8)
    rows = given(device, permuted(8 * 8192, 8 * 8192))
    return lambda: op(x, rows, prob, 8192, 8)


@case("grouped_mm_bf16.2d3d", "grouped matmul")
def grouped_mm(device: str) -> Body:
    op = library("grouped_mm_bf16.kernels", "grouped_mm_bf16").grouped_mm_2d3d
    a, b = bf16(device, sum(ROUTED), 2048), bf16(device, len(ROUTED), 2048, 1024)
    return lambda: op(a, b, _offsets(device, False), bf16(device, sum(ROUTED), 1024))


@case("grouped_mm_bf16.3d3d", "grouped matmul")
def grouped_mm_batched(device: str) -> Body:
    op = library("grouped_mm_bf16.kernels", "grouped_mm_bf16").grouped_mm_3d3d
    a, b = bf16(device, 16, 1024, 2048), bf16(device, 16, 2048, 1536)
    return lambda: op(a, b, bf16(device, 16, 1024, 1536))


@case("sglang.w8a8_block_fp8", "matmul 8 bit")
def sglang_block_fp8(device: str) -> Body:
    op = sglang("quantization.fp8_kernel").w8a8_block_fp8_matmul_triton
    a, b = fp8(device, 4096, 7168), fp8(device, 4096, 7168)
    sa, sb = fp32(device, 4096, 56), fp32(device, 32, 56)
    return lambda: op(a, b, sa, sb, [128, 128], torch.bfloat16)


@case("sglang.scaled_mm", "matmul 8 bit")
def sglang_scaled_mm(device: str) -> Body:
    op = sglang("quantization.fp8_kernel").triton_scaled_mm
    a, b = fp8(device, 2048, 4096), fp8(device, 6144, 4096).t()
    sa, sb = fp32(device, 2048, 1), fp32(device, 6144, 1)
    return lambda: op(a, b, sa, sb, torch.bfloat16)


@case("sglang.token_group_quant_int8", "quantise")
def sglang_group_quant(device: str) -> Body:
    op = sglang("quantization.int8_kernel").per_token_group_quant_int8
    x = bf16(device, 16384, 7168)
    return lambda: op(x, 128)


@case("sglang.token_quant_int8", "quantise")
def sglang_token_quant(device: str) -> Body:
    op = sglang("quantization.int8_kernel").per_token_quant_int8
    x = bf16(device, 16384, 5120)
    return lambda: op(x)


@case("sglang.w8a8_block_int8", "matmul 8 bit")
def sglang_block_int8(device: str) -> Body:
    op = sglang("quantization.int8_kernel").w8a8_block_int8_matmul
    a, b = int8(device, 1024, 4096), int8(device, 4096, 4096)
    sa, sb = fp32(device, 1024, 32), fp32(device, 32, 32)
    return lambda: op(a, b, sa, sb, [128, 128], torch.float16)


@case("sglang.awq_dequantise", "dequantise")
def sglang_awq_dequantise(device: str) -> Body:
    op = sglang("quantization.awq_triton").awq_dequantize_triton
    w, s, z = words(device, 8192, 1024), fp16(device, 64, 8192), words(device, 64, 1024)
    return lambda: op(w, s, z)


@case("sglang.awq_gemm", "matmul 4 bit")
def sglang_awq_gemm(device: str) -> Body:
    op = sglang("quantization.awq_triton").awq_gemm_triton
    x, w, s, z = fp16(device, 64, 8192), words(device, 8192, 1024), fp16(device, 64, 8192), words(device, 64, 1024)
    return lambda: op(x, w, s, z, 8)


@case("sglang.moe_sum_reduce", "routing")
def sglang_moe_sum(device: str) -> Body:
    op = sglang("moe.fused_moe_triton.fused_moe_triton_kernels").moe_sum_reduce_triton
    x, y = bf16(device, 8192, 8, 4096), bf16(device, 8192, 4096)
    return lambda: op(x, y, 1.0)


@case("sglang.fused_moe", "grouped matmul")
def sglang_fused_moe(device: str) -> Body:
    op = sglang("moe.fused_moe_triton.fused_moe_triton_kernels").invoke_fused_moe_kernel
    tokens, top, experts, block = 2048, 4, 32, 64
    import triton.language as tl

    chosen = seeded(experts, tokens, top, seed=3, dtype=torch.int32)
    slots, owner = [], []
    for expert in range(experts):
        mine = (chosen.flatten() == expert).nonzero().flatten().tolist()
        mine += [tokens * top] * (-len(mine) % block)
        slots += mine
        owner += [expert] * (len(mine) // block)
    a, b, c = bf16(device, tokens, 2048), bf16(device, experts, 1536, 2048), bf16(device, tokens, top, 1536)
    ids, weights = given(device, chosen), fp32(device, tokens, top)
    rows = given(device, torch.tensor(slots, dtype=torch.int32))
    experts_of = given(device, torch.tensor(owner, dtype=torch.int32))
    total = given(device, torch.tensor([len(slots)], dtype=torch.int32))
    sizes = {"BLOCK_SIZE_M": block, "BLOCK_SIZE_N": 128, "BLOCK_SIZE_K": 64, "GROUP_SIZE_M": 8, "num_warps": 4,
             "num_stages": 3}  # fmt: skip
    return lambda: op(
        a, b, None, c, None, None, None, weights, ids, rows, experts_of, total, False, top, sizes, tl.bfloat16,
        False, False, False, False, False,
    )  # fmt: skip


@case("torchao.int_matmul", "matmul 8 bit")
def torchao_int(device: str) -> Body:
    import triton

    op = torchao("intmm_triton")
    a, b = int8(device, 4096, 4096), int8(device, 4096, 4096).t()
    c = torch.empty(4096, 4096, device=device, dtype=torch.int32)
    config = triton.Config({"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64, "GROUP_M": 8}, num_warps=8, num_stages=3)
    return lambda: op.int_matmul_kernel(a, b, c, config)


@case("torchao.fp8_blockwise_weight_dequant", "dequantise")
def torchao_dequant(device: str) -> Body:
    op = torchao("blockwise_quantization")
    x, s = fp8(device, 8192, 8192), fp32(device, 64, 64)
    return lambda: op.fp8_blockwise_weight_dequant(x, s)


@case("torchao.fp8_blockwise_act_quant", "quantise")
def torchao_act_quant(device: str) -> Body:
    op = torchao("blockwise_quantization")
    x = bf16(device, 8192, 8192)
    return lambda: op.fp8_blockwise_act_quant(x)


@case("torchao.blockwise_fp8_gemm", "matmul 8 bit")
def torchao_fp8_gemm(device: str) -> Body:
    op = torchao("blockwise_quantization")
    a, b = fp8(device, 2048, 4096), fp8(device, 4096, 4096)
    sa, sb = fp32(device, 2048, 32), fp32(device, 32, 32)
    return lambda: op.blockwise_fp8_gemm(a, sa, b, sb)


@case("bitsandbytes.quantise_4bit", "quantise")
def bnb_quantise(device: str) -> Body:
    op = bitsandbytes("kernels_4bit")
    a, n = bf16(device, 8192, 8192), 8192 * 8192
    absmax = fp32(device, n // 64)
    out = torch.empty(n // 2, 1, device=device, dtype=torch.uint8)
    return lambda: op.quantize_4bit_blockwise_triton(a, 64, "nf4", n // 64, absmax, n, out)


@case("bitsandbytes.dequantise_4bit", "dequantise")
def bnb_dequantise(device: str) -> Body:
    op = bitsandbytes("kernels_4bit")
    n = 8192 * 8192
    a, absmax = torch.empty(n // 2, 1, device=device, dtype=torch.uint8), fp32(device, n // 64)
    out = bf16(device, 8192, 8192)
    return lambda: op.dequantize_4bit_impl(a, absmax, 64, "nf4", torch.bfloat16, out)


@case("cut_cross_entropy.lse", "loss")
def cce(device: str) -> Body:
    op = library("cut_cross_entropy.cce_lse_forward", "cut_cross_entropy").cce_lse_forward_kernel
    e, c = bf16(device, 4096, 2048), bf16(device, 32000, 2048)
    return lambda: op(e, c)


@case("cut_cross_entropy.indexed_dot", "gather")
def cce_dot(device: str) -> Body:
    op = library("cut_cross_entropy.indexed_dot", "cut_cross_entropy").indexed_neg_dot_forward_kernel
    e, c, i = bf16(device, 16384, 2048), bf16(device, 128256, 2048), given(device, seeded(128256, 16384))
    return lambda: op(e, c, i)


@case("conch.scaled_gemm", "matmul 8 bit")
def conch_scaled(device: str) -> Body:
    op = library("conch.ops.quantization.gemm").scaled_gemm
    a, b = fp8(device, 4096, 4096), fp8(device, 4096, 4096).t()
    return lambda: op(a, b, fp32(device, 4096, 1), fp32(device, 4096, 1), torch.bfloat16)


@case("conch.mixed_precision_gemm", "matmul 4 bit")
def conch_mixed(device: str) -> Body:
    op = library("conch.ops.quantization.gemm").mixed_precision_gemm
    x, w, s = fp16(device, 512, 4096), words(device, 512, 8192), fp16(device, 32, 8192)
    return lambda: op(x, w, s, None, 4, 8, 128)


@case("conch.int8_quant", "quantise")
def conch_int8(device: str) -> Body:
    op = library("conch.ops.quantization.int8").static_scaled_int8_quant
    x, y = bf16(device, 16384, 4096), int8(device, 16384, 4096)
    return lambda: op(y, x, fp32(device, 1))


@case("flash_kmeans.assign", "matmul")
def kmeans(device: str) -> Body:
    op = library("flash_kmeans.assign_euclid_triton", "flash_kmeans").euclid_assign_triton
    x, c = bf16(device, 8, 65536, 128), bf16(device, 8, 1024, 128)
    return lambda: op(x, c, fp32(device, 8, 65536))
