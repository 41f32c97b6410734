"""Mixtures of experts and adapters, routes to them and back; casts to 8 and 4 bits around them."""

import torch
from launching import Body, case, library
from libraries import fla, lmdeploy, sglang_kernels, torchao_prototype, vllm
from made import ROUTED, bf16, bounds, fp8, fp16, fp32, given, int8, routes, seeded


@case("lmdeploy.fused_moe_int8", "grouped matmul")
def lmdeploy_moe_int8(device: str) -> Body:
    op = lmdeploy("moe.w8a8").fused_moe_w8a8_kernel_launcher
    order, starts, ends = routes(device, 1024, 2, 8, 143)
    a, b, c = int8(device, 1024, 4096), int8(device, 8, 7168, 4096), bf16(device, 1024, 2, 7168)
    sa, sb = fp32(device, 1024, 1), fp32(device, 8, 7168, 1)
    return lambda: op(a, sa, b, sb, c, order, starts, ends, top_k=2, num_tokens=1024, reindex_c=False)


@case("lmdeploy.moe_reduce", "routing")
def lmdeploy_reduce(device: str) -> Body:
    op = lmdeploy("moe.fused_moe").moe_reduce
    x, w = bf16(device, 8192, 8, 4096), fp32(device, 8192, 8)
    return lambda: op(x, w)


@case("lmdeploy.single_group_router", "routing")
def lmdeploy_router(device: str) -> Body:
    op = lmdeploy("moe.route_single_group").fused_single_group_topk_router
    x, bias = fp32(device, 32768, 192), fp32(device, 192)
    return lambda: op(x, bias, num_experts=192, top_k=8, routed_scaling_factor=2.5)


@case("lmdeploy.silu_and_mul_experts", "activation")
def lmdeploy_silu_experts(device: str) -> Body:
    op = lmdeploy("activation").silu_and_mul_moe_ep
    x = bf16(device, 32, 2048, 4096)
    rows = given(device, seeded(2048, 32, seed=144, dtype=torch.int32))
    return lambda: op(x, rows)


@case("lmdeploy.fused_lora", "adapters")
def lmdeploy_lora(device: str) -> Body:
    op = lmdeploy("fused_lora").fused_lora
    lengths, ranks = [1024, 512, 2048, 300, 700, 128, 900, 1500], [16, 8, 32, 64, 16, 32, 8, 16]
    x, a, b = bf16(device, sum(lengths), 4096), bf16(device, sum(ranks), 4096), bf16(device, sum(ranks), 4096)
    scale, own = fp32(device, 8), given(device, torch.arange(8))
    starts, sizes = given(device, bounds(lengths, torch.int64)[:-1].clone()), given(device, torch.tensor(lengths))
    first, count = given(device, bounds(ranks, torch.int64)[:-1].clone()), given(device, torch.tensor(ranks))
    return lambda: op(x, a, b, scale, first, count, starts, sizes, own, 64, 2048)


@case("vllm.moe_mul_sum", "routing")
def vllm_mul_sum(device: str) -> Body:
    op = vllm("model_executor.layers.fused_moe.moe_fused_mul_sum").moe_fused_mul_sum
    x, w, out = bf16(device, 8192, 8, 7168), fp32(device, 8192, 8), bf16(device, 8192, 7168)
    return lambda: op(x, w, out)


@case("grouped_mm_bf16.3d2d", "grouped matmul")
def grouped_3d2d(device: str) -> Body:
    op = library("grouped_mm_bf16.kernels", "grouped_mm_bf16").grouped_mm_3d2d
    a, b = bf16(device, len(ROUTED), 1024, 2048), bf16(device, 2048, sum(ROUTED))
    ends = given(device, bounds(ROUTED)[1:].clone())
    return lambda: op(a, b, ends, bf16(device, 1024, sum(ROUTED)))


@case("torchao.hadamard_rope_quantise", "quantise")
def torchao_hadamard(device: str) -> Body:
    name = "attention.quantization.triton_hadamard_rope_qkv_quantization"
    op = torchao_prototype(name).triton_fp8_hadamard_rope_sdpa_quantize
    q, k, v = (bf16(device, 1, 8192, 24, 128) for _ in range(3))
    cos, sin = fp32(device, 8192, 128), fp32(device, 8192, 128)
    return lambda: op(q, k, v, cos, sin)


@case("torchao.rowwise_by_group_fp8", "quantise")
def torchao_by_group(device: str) -> Body:
    op = torchao_prototype("moe_training.kernels.jagged_float8_scales")
    x, ends = bf16(device, 5120, sum(ROUTED)), given(device, bounds(ROUTED)[1:].clone())
    return lambda: op.triton_fp8_per_group_rowwise_scales(x, ends)


@case("gemlite.quantise_rows", "quantise")
def gemlite_rows(device: str) -> Body:
    op = library("gemlite.quant_utils", "gemlite").scale_activations_per_token_triton_v3
    x = fp16(device, 16384, 8192)
    return lambda: op(x, torch.int8)


@case("sglang.silu_quant_experts", "quantise")
def sglang_silu_quant(device: str) -> Body:
    op = sglang_kernels("moe.ep_moe_kernels").silu_and_mul_masked_post_quant_fwd
    x, out, scale = bf16(device, 32, 1024, 4096), fp8(device, 32, 1024, 2048), fp32(device, 32, 1024, 16)
    rows = given(device, seeded(1024, 32, seed=151, dtype=torch.int32))
    return lambda: op(x, out, scale, 128, rows)


@case("fla.token_shift_backward", "convolution")
def token_shift_backward(device: str) -> Body:
    op = fla("modules.token_shift").token_shift_bwd
    dy = bf16(device, 4, 8192, 4096)
    return lambda: op(dy, 4, 8192)
