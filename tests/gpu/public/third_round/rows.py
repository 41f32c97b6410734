"""Third round: norms, activations, softmax, losses, rotary embeddings and optimizers of further models and libraries."""

import torch
import torch.distributed.tensor  # liger asks whether a tensor is one
from launching import Body, in_round
from libraries import bitsandbytes, fla, liger, lmdeploy, plain, sglang_kernels, unsloth, vllm
from made import backward, bf16, fp16, fp32, given, seeded

case = in_round(3)


@case("liger.llama4_rope", "rotary")
def liger_llama4_rope(device: str) -> Body:
    op = liger("llama4_rope")
    q, k, angles = bf16(device, 2, 4096, 40, 128), bf16(device, 2, 4096, 8, 128), fp32(device, 4096, 64, 2)
    return lambda: op.llama4_rope_forward(q, k, angles)


@case("liger.modulated_rms_norm_backward", "norm")
def liger_modulated_backward(device: str) -> Body:
    op = liger("modulated_rms_norm").LigerModulatedRMSNormFunction
    x, w = bf16(device, 4, 4096, 3072, grad=True), bf16(device, 3072, grad=True)
    scale, shift = bf16(device, 4, 3072, grad=True), bf16(device, 4, 3072, grad=True)
    return lambda: backward(op.apply(x, w, scale, shift, 1e-6, 0.0, "llama", False), x, w, scale, shift)


@case("liger.attention_residual_backward", "norm")
def liger_attention_residual_backward(device: str) -> Body:
    op = liger("attn_res").LigerAttnResFunction
    v = bf16(device, 8, 2, 4096, 2048, grad=True)
    query, w = bf16(device, 2048, grad=True), bf16(device, 2048, grad=True)
    return lambda: backward(op.apply(v, query, w, 1e-6), v, query, w)


@case("fla.logsumexp", "reduction")
def fla_logsumexp(device: str) -> Body:
    op = fla("ops.utils.logsumexp")
    x = bf16(device, 2048, 128256)
    return lambda: op.logsumexp_fwd(x)


@case("fla.softmax_backward", "softmax")
def fla_softmax_backward(device: str) -> Body:
    op = fla("ops.utils.softmax")
    p, dp = fp32(device, 16384, 4096), fp32(device, 16384, 4096)
    return lambda: op.softmax_bwd(p, dp)


@case("fla.logsigmoid", "activation")
def fla_logsigmoid(device: str) -> Body:
    op = fla("modules.activations.ops")
    x, dy = bf16(device, 4, 8192, 4096), bf16(device, 4, 8192, 4096)
    return lambda: (op.logsigmoid_fwd(x, 16.0), op.logsigmoid_bwd(x, dy, 16.0))


@case("fla.powglu", "activation")
def fla_powglu(device: str) -> Body:
    op = fla("modules.activations.ops")
    x, y, g = bf16(device, 8192, 11008), bf16(device, 8192, 11008), bf16(device, 8192, 11008)
    return lambda: op.powglu_fwdbwd(x, y, g)


@case("fla.fused_kl_div", "loss")
def fla_kl_div(device: str) -> Body:
    op = fla("modules.fused_kl_div.ops")
    x, t = bf16(device, 4096, 1024), bf16(device, 4096, 2048)
    w, v = bf16(device, 128256, 1024), bf16(device, 128256, 2048)
    return lambda: op.fused_kl_div_fwd(x, t, w, v)


@case("fla.kda_gate", "elementwise")
def fla_kda_gate(device: str) -> Body:
    op = fla("ops.kda.gate")
    g, log, bias, dy = bf16(device, 2, 8192, 32, 128), fp32(device, 32), fp32(device, 4096), fp32(device, 2, 8192, 32, 128)
    return lambda: (op.kda_gate_fwd(g, log, bias), op.kda_gate_bwd(g, log, bias, dy))


@case("torchnorm.layer_norm", "norm")
def torchnorm_layer_norm(device: str) -> Body:
    op = plain("torchnorm._triton").fused_layer_norm
    x = fp16(device, 16384, 5120, grad=True)
    w, b = fp16(device, 5120, grad=True), fp16(device, 5120, grad=True)
    return lambda: backward(op(x, w, b, 1e-5), x, w, b)


@case("unsloth.add_rms_inference", "norm")
def unsloth_add_rms(device: str) -> Body:
    op = unsloth("fused_add_rms_layernorm").fast_add_rms_layernorm_inference
    x, r, w = bf16(device, 16384, 5120), bf16(device, 16384, 5120), bf16(device, 5120)
    return lambda: op(x, r, w, 1e-6)


@case("sglang.gemma_dual_rms_norm", "norm")
def sglang_gemma_dual(device: str) -> Body:
    op = sglang_kernels("layernorm.gemma4_fused_ops").gemma_dual_rmsnorm_residual_scalar
    x, y, r = bf16(device, 8192, 2816), bf16(device, 8192, 2816), bf16(device, 8192, 2816)
    a, b, c, s = bf16(device, 2816), bf16(device, 2816), bf16(device, 2816), bf16(device, 1)
    return lambda: op(x, a, y, b, c, r, s)


@case("sglang.group_norm_silu", "norm")
def sglang_group_norm(device: str) -> Body:
    op = sglang_kernels("diffusion.norm.group_norm_silu_triton")
    x, w, b = bf16(device, 1, 256, 8, 240, 416), bf16(device, 256), bf16(device, 256)
    return lambda: op._launch_chunked(x, w, b, 32, 1e-6)


@case("sglang.ltx2_rotary", "rotary")
def sglang_ltx2(device: str) -> Body:
    op = sglang_kernels("diffusion.rope.ltx2_rotary_triton").apply_ltx2_split_rotary_emb
    x, cos, sin = bf16(device, 1, 16384, 4096), bf16(device, 1, 32, 16384, 64), bf16(device, 1, 32, 16384, 64)
    return lambda: op(x, cos, sin)


@case("sglang.causal_conv3d_pad", "copy")
def sglang_conv3d_pad(device: str) -> Body:
    op = sglang_kernels("diffusion.layout.causal_conv3d_cat_pad_triton")
    kernel = op._fused_cat_pad_5d_kernel
    x, cache, out = bf16(device, 1, 192, 4, 240, 416), bf16(device, 1, 192, 2, 240, 416), bf16(device, 1, 192, 6, 242, 418)
    grid = (-(-out.numel() // 256),)
    return lambda: kernel[grid](x, cache, out, out.numel(), 192, 4, 240, 416, 2, 6, 242, 418, 0, 1, 1, 256)


@case("siglip.sigmoid_bce", "loss")
def siglip_bce(device: str) -> Body:
    op = plain("siglip_kernel.triton_sigmoid_bce").sigmoid_bce_forward
    x, t, b = fp32(device, 16384, 16384), fp32(device), fp32(device)
    return lambda: op(x, 0, 16384, temperature=t, bias_val=b)


@case("vllm.log_softmax", "softmax")
def vllm_log_softmax(device: str) -> Body:
    op = vllm("model_executor.determinism.batch_invariant").log_softmax
    x = bf16(device, 1024, 151936)
    return lambda: op(x)


@case("vllm.mean_of_columns", "reduction")
def vllm_mean(device: str) -> Body:
    op = vllm("model_executor.determinism.batch_invariant").mean_dim
    x = fp32(device, 4, 2048, 4096)
    return lambda: op(x, 1)


@case("lmdeploy.swiglu_quant", "quantise")
def lmdeploy_swiglu_quant(device: str) -> Body:
    op = lmdeploy("moe.v4_swiglu_quant").v4_swiglu_and_quant_fp8
    x = bf16(device, 32768, 4096)
    return lambda: op(x, 7.0)


@case("muon_adamw.adamw", "optimizer")
def adamw(device: str) -> Body:
    op = plain("triton_muon_adamw.adamw.triton_adam").solve_adamw_step
    p, g, m, v = fp32(device, 4096, 14336), fp32(device, 4096, 14336), fp32(device, 4096, 14336), fp32(device, 4096, 14336)
    v = v.abs()
    return lambda: op(p, g, m, v, 1e-4, 0.1, 0.001, 0.9, 0.999, 0.01, 1e-7)


@case("bitsandbytes.adam_8bit", "optimizer")
def bnb_adam_8bit(device: str) -> Body:
    op = bitsandbytes("kernels_optim").optimizer_update_8bit_blockwise_impl
    p, g = bf16(device, 4096, 4096), bf16(device, 4096, 4096)
    first, second = (given(device, seeded(256, 4096, 4096, seed=61 + i, dtype=torch.uint8)) for i in range(2))
    ramp = given(device, torch.linspace(-1, 1, 256)), given(device, torch.linspace(0, 1, 256))
    most = fp32(device, 65536).abs(), fp32(device, 65536).abs()
    return lambda: op("adam", g, p, first, second, 0.9, 0.999, 0.0, 0.0, 1e-8, 3, 1e-4, *ramp, *most)
