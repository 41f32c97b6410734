"""Matrix products of Llama 3, Qwen 2.5, Mixtral and DeepSeek V3; casts, optimizers, routes of experts."""

import torch
from launching import Body, absent, case, library
from libraries import bitsandbytes, fla, lmdeploy, sglang, torchao, torchao_prototype, unsloth
from made import bf16, bounds, fp8, fp16, fp32, given, int8, permuted, seeded, words

ROUTED = [700, 1300, 64, 2048, 900, 1, 3000, 179]


@case("fla.matmul", "matmul")
def fla_matmul(device: str) -> Body:
    op = fla("ops.utils.matmul")
    a, b = bf16(device, 8192, 3584), bf16(device, 3584, 18944)
    return lambda: op.matmul(a, b)


@case("torchao.scaled_int8_mm", "matmul 8 bit")
def torchao_scaled_int8(device: str) -> Body:
    op = torchao_prototype("quantized_training.int8_mm").scaled_int8_mm_cuda
    a, b = int8(device, 4096, 4096), int8(device, 14336, 4096).t()
    return lambda: op(a, b, bf16(device, 4096), bf16(device, 14336))


@case("torchao.fp8_training_gemm", "matmul 8 bit")
def torchao_training_gemm(device: str) -> Body:
    op = torchao_prototype("blockwise_fp8_training.kernels").triton_fp8_gemm_1x128_128x128
    a, b = fp8(device, 4096, 7168), fp8(device, 2048, 7168).t()
    sa, sb = fp32(device, 56, 4096).t(), fp32(device, 16, 56).t()
    return lambda: op(a, b, sa, sb, 128, torch.bfloat16)


@case("torchao.fp8_training_quantise", "quantise")
def torchao_training_quantise(device: str) -> Body:
    op = torchao_prototype("blockwise_fp8_training.kernels")
    x = bf16(device, 8192, 7168)
    return lambda: (
        op.triton_fp8_blockwise_act_quant_lhs(x),
        op.triton_fp8_blockwise_act_quant_rhs(x),
        op.triton_fp8_blockwise_act_quant_transposed_lhs(x),
        op.triton_fp8_blockwise_weight_quant_transposed_rhs(x),
    )


@case("torchao.blockwise_fp8_gemm_decode", "matmul 8 bit")
def torchao_fp8_decode(device: str) -> Body:
    op = torchao("blockwise_quantization")
    a, b = fp8(device, 64, 7168), fp8(device, 24576, 7168)
    sa, sb = fp32(device, 64, 56), fp32(device, 192, 56)
    return lambda: op.blockwise_fp8_gemm(a, sa, b, sb)


@case("bitsandbytes.quantise_8bit", "quantise")
def bnb_quantise_8bit(device: str) -> Body:
    op = bitsandbytes("kernels_8bit_quant")
    a, code = bf16(device, 8192, 4096), fp32(device, 256)
    return lambda: op.quantize_blockwise_triton(a, code, 256)


@case("bitsandbytes.dequantise_8bit", "dequantise")
def bnb_dequantise_8bit(device: str) -> Body:
    op = bitsandbytes("kernels_8bit_quant")
    a = torch.empty(8192, 8192, device=device, dtype=torch.uint8)
    absmax, code = fp32(device, 8192 * 8192 // 256), fp32(device, 256)
    return lambda: op.dequant_8bit_blockwise(a, absmax, code, 256, torch.bfloat16)


@case("bitsandbytes.dequantise_fp4", "dequantise")
def bnb_dequantise_fp4(device: str) -> Body:
    op = bitsandbytes("kernels_4bit")
    n = 14336 * 4096
    a, absmax = torch.empty(n // 2, 1, device=device, dtype=torch.uint8), fp32(device, n // 128)
    out = fp16(device, 14336, 4096)
    return lambda: op.dequantize_4bit_impl(a, absmax, 128, "fp4", torch.float16, out)


@case("bitsandbytes.adam_32bit", "optimizer")
def bnb_adam(device: str) -> Body:
    op = bitsandbytes("kernels_optim").optimizer_update_32bit_impl
    g, p = bf16(device, 4096, 14336), bf16(device, 4096, 14336)
    m, v = fp32(device, 4096, 14336), fp32(device, 4096, 14336).abs()
    return lambda: op("adam", g, p, m, v, None, 0.0, 0.0, 0.9, 0.999, 0.0, 0.0, 1e-8, 0.01, 3, 1e-4, 1.0, False)


@case("lmdeploy.blocked_gemm_fp8", "matmul 8 bit")
def lmdeploy_gemm_fp8(device: str) -> Body:
    op = lmdeploy("blocked_gemm_fp8").blocked_gemm_fp8
    a, b = fp8(device, 4096, 7168), fp8(device, 4096, 7168).t()
    sa, sb = fp32(device, 4096, 56), fp32(device, 56, 32)
    return lambda: op(a, sa, b, sb, torch.bfloat16)


@case("lmdeploy.quant_fp8", "quantise")
def lmdeploy_quant_fp8(device: str) -> Body:
    op = lmdeploy("blocked_gemm_fp8").quant_fp8
    x = bf16(device, 16384, 7168)
    return lambda: op(x, 128)


@case("lmdeploy.w8a8_linear", "matmul 8 bit")
def lmdeploy_w8a8(device: str) -> Body:
    op = lmdeploy("w8a8_triton_kernels").matmul_kernel_dynamic_quant
    a, b = int8(device, 2048, 4096), int8(device, 6144, 4096)
    sa, sb = fp32(device, 2048, 1), fp32(device, 6144, 1)
    return lambda: op(a, b, sa, sb)


@case("lmdeploy.rms_norm_quant", "norm")
def lmdeploy_norm_quant(device: str) -> Body:
    op = lmdeploy("w8a8_triton_kernels").rms_norm_dynamic_quant
    x, r, w = bf16(device, 8192, 8192), bf16(device, 8192, 8192), bf16(device, 8192)
    return lambda: op(x, w, 1e-6, r)


@case("lmdeploy.awq_linear", "matmul 4 bit")
def lmdeploy_awq(device: str) -> Body:
    op = lmdeploy("awq_kernels").awq_linear
    x, w, s, z = fp16(device, 128, 4096), words(device, 4096, 1792), fp16(device, 32, 14336), words(device, 32, 1792)
    return lambda: op(x, w, s, z)


@case("lmdeploy.fused_moe", "grouped matmul")
def lmdeploy_fused_moe(device: str) -> Body:
    op = lmdeploy("moe.fused_moe").fused_moe_kernel_launcher
    tokens, top, experts = 1024, 2, 8
    chosen = seeded(experts, tokens * top, seed=31)
    order = chosen.argsort(stable=True)
    ends = torch.bincount(chosen, minlength=experts).cumsum(0)
    starts = torch.cat([torch.zeros(1, dtype=torch.int64), ends[:-1]])
    a, b, c = bf16(device, tokens, 4096), bf16(device, experts, 3584, 4096), bf16(device, tokens, top, 3584)
    order, starts, ends = given(device, order), given(device, starts), given(device, ends)
    return lambda: op(a, b, c, order, starts, ends, top_k=top, num_tokens=tokens, reindex_a=True, reindex_c=False)


@case("lmdeploy.noaux_routing", "routing")
def lmdeploy_routing(device: str) -> Body:
    op = lmdeploy("moe.route_noaux_tc").fused_noaux_tc_routing
    logits, bias = fp32(device, 32768, 256), fp32(device, 256)
    return lambda: op(logits, bias)


@case("sglang.fused_moe_fp8", "grouped matmul")
def sglang_fused_moe_fp8(device: str) -> Body:
    op = sglang("moe.fused_moe_triton.fused_moe_triton_kernels").invoke_fused_moe_kernel
    tokens, top, experts, block = 1024, 8, 64, 64
    import triton.language as tl

    chosen = seeded(experts, tokens, top, seed=32, dtype=torch.int32)
    slots, owner = [], []
    for expert in range(experts):
        mine = (chosen.flatten() == expert).nonzero().flatten().tolist()
        mine += [tokens * top] * (-len(mine) % block)
        slots += mine
        owner += [expert] * (len(mine) // block)
    a, b, c = bf16(device, tokens, 7168), fp8(device, experts, 2048, 7168), bf16(device, tokens, top, 2048)
    scale = fp32(device, experts, 16, 56)
    ids, weights = given(device, chosen), fp32(device, tokens, top)
    rows = given(device, torch.tensor(slots, dtype=torch.int32))
    experts_of = given(device, torch.tensor(owner, dtype=torch.int32))
    total = given(device, torch.tensor([len(slots)], dtype=torch.int32))
    sizes = {"BLOCK_SIZE_M": block, "BLOCK_SIZE_N": 128, "BLOCK_SIZE_K": 128, "GROUP_SIZE_M": 16, "num_warps": 4,
             "num_stages": 3}  # fmt: skip
    aq, sa = fp8(device, tokens, 7168), fp32(device, tokens, 56)
    module = sglang("moe.fused_moe_triton.fused_moe_triton_kernels")
    module.sglang_per_token_group_quant_fp8 = module.per_token_group_quant_fp8 = lambda *_, **__: (aq, sa)
    return lambda: op(
        a, b, None, c, None, scale, None, weights, ids, rows, experts_of, total, False, top, sizes, tl.bfloat16,
        True, False, False, False, False, [128, 128],
    )  # fmt: skip


@case("sglang.group_quant_fp8_columns", "quantise")
def sglang_group_quant_columns(device: str) -> Body:
    op = sglang("quantization.fp8_kernel")._per_token_group_quant_8bit_raw
    x = bf16(device, 8192, 7168)
    return lambda: op(x, 128, dtype=torch.float8_e4m3fn, column_major_scales=True)


@case("sglang.w8a8_block_fp8_decode", "matmul 8 bit")
def sglang_block_fp8_decode(device: str) -> Body:
    op = sglang("quantization.fp8_kernel").w8a8_block_fp8_matmul_triton
    a, b = fp8(device, 128, 7168), fp8(device, 18432, 7168)
    sa, sb = fp32(device, 128, 56), fp32(device, 144, 56)
    return lambda: op(a, b, sa, sb, [128, 128], torch.bfloat16)


@case("sglang.moe_router", "routing")
def sglang_router(device: str) -> Body:
    op = sglang("moe.router").fused_moe_router_cudacore
    x, w = bf16(device, 4096, 6144), bf16(device, 8, 6144)
    return lambda: op(x, w, 2, 30.0)


@case("sglang.awq_dequantise_70b", "dequantise")
def sglang_awq_70b(device: str) -> Body:
    op = sglang("quantization.awq_triton").awq_dequantize_triton
    w, s, z = words(device, 8192, 3584), fp16(device, 64, 28672), words(device, 64, 3584)
    return lambda: op(w, s, z)


@case("unsloth.fp8_weight_dequant", "dequantise")
def unsloth_fp8_dequant(device: str) -> Body:
    op = unsloth("fp8")
    x, s = fp8(device, 7168, 18432), fp32(device, 56, 144)
    return lambda: op.weight_dequant_block(x, s)


@case("unsloth.fp8_act_quant", "quantise")
def unsloth_fp8_act_quant(device: str) -> Body:
    op = unsloth("fp8")
    x = bf16(device, 8192, 4096)
    return lambda: op.act_quant(x)


@case("moe_ops.group_offsets", "routing")
def moe_offsets(device: str) -> Body:
    op = library("moe_ops.permute_ops", "moe_ops")
    chosen = given(device, seeded(64, 1 << 20, seed=33, dtype=torch.int32))
    return lambda: op._group_offsets(chosen, 64)


@case("moe_ops.unpermute_backward", "gather")
def moe_unpermute_backward(device: str) -> Body:
    op = library("moe_ops.unpermute_ops", "moe_ops").unpermute_backward
    grad, x, prob = bf16(device, 8192, 2048), bf16(device, 8 * 8192, 2048), fp32(device, 8192, 8)
    rows = given(device, permuted(8 * 8192, 8 * 8192, seed=34))
    return lambda: op(grad, x, rows, prob, 8192, 8)


@case("moe_ops.grouped_gemm_backward", "grouped matmul")
def moe_grouped_backward(device: str) -> Body:
    op = library("moe_ops.grouped_gemm_ops", "moe_ops").gmm_try_gradB
    a, b = bf16(device, sum(ROUTED), 2048), bf16(device, len(ROUTED), 1408, 2048)
    grad = bf16(device, sum(ROUTED), 1408)
    return lambda: op(a, b, given(device, bounds(ROUTED)), grad, True)


@case("grouped_mm_bf16.2d2d", "grouped matmul")
def grouped_mm_2d2d(device: str) -> Body:
    op = library("grouped_mm_bf16.kernels", "grouped_mm_bf16").grouped_mm_2d2d
    a, b = bf16(device, sum(ROUTED), 2048).t(), bf16(device, sum(ROUTED), 1408)
    ends = given(device, bounds(ROUTED)[1:].clone())
    return lambda: op(a, b, ends, bf16(device, len(ROUTED), 2048, 1408))


@case("conch.quantise_blockwise", "quantise")
def conch_quantise(device: str) -> Body:
    op = library("conch.ops.quantization.bitsandbytes.functional")
    x = bf16(device, 8192, 4096)
    return lambda: op.quantize_4bit(x, blocksize=64, quant_type="nf4")


@case("conch.reshape_and_cache", "gather")
def conch_cache(device: str) -> Body:
    op = library("conch.kernels.vllm.reshape_and_cache").reshape_and_cache_launcher
    k, v = bf16(device, 8192, 8, 128), bf16(device, 8192, 8, 128)
    kc, vc = bf16(device, 1024, 16, 8, 128), bf16(device, 1024, 16, 8, 128)
    slots = given(device, permuted(16384, 16384, seed=35, dtype=torch.int64)[:8192].clone())
    return lambda: op(k, v, kc, vc, slots)


@case("flash_kmeans.update", "atomic")
def kmeans_update(device: str) -> Body:
    absent("tqdm")
    op = library("flash_kmeans.centroid_update_triton", "flash_kmeans").triton_centroid_update_euclid
    x, old = fp16(device, 4, 65536, 128), fp16(device, 4, 1000, 128)
    owner = given(device, seeded(1000, 4, 65536, seed=36, dtype=torch.int32))
    return lambda: op(x, owner, old)


@case("trl.logprob_entropy_qwen", "loss")
def trl_logprob_qwen(device: str) -> Body:
    op = library("trl.kernels.logprob_entropy", "trl", "trl.kernels")
    x, i = bf16(device, 2, 1500, 152064, grad=True), given(device, seeded(152064, 2, 1500, seed=37))
    return lambda: op.selective_log_softmax_and_entropy(x, i, 1.0)


@case("cut_cross_entropy.lse_gemma", "loss")
def cce_gemma(device: str) -> Body:
    op = library("cut_cross_entropy.cce_lse_forward", "cut_cross_entropy").cce_lse_forward_kernel
    e, c = bf16(device, 2048, 3584), bf16(device, 64000, 3584)
    return lambda: op(e, c, softcap=30.0)
