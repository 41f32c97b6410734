"""Norms, activations, softmax, losses, rotary embeddings, optimizers, of further libraries."""

import torch
import torch.distributed.tensor  # liger asks whether a tensor is one
from launching import Body, case
from libraries import bitsandbytes, fla, liger, lmdeploy, plain, sglang_kernels, unsloth, vllm
from made import backward, bf16, fp16, fp32, given, seeded


@case("liger.llama4_rope", "rotary")
def liger_llama4_rope(device: str) -> Body:
    op = liger("llama4_rope")
    q, k, angles = bf16(device, 2, 4096, 40, 128), bf16(device, 2, 4096, 8, 128), fp32(device, 4096, 64, 2)
    return lambda: op.llama4_rope_forward(q, k, angles)


@case("liger.attention_residual_backward", "norm")
def liger_attention_residual_backward(device: str) -> Body:
    op = liger("attn_res").attn_res_backward
    dh, v, query, w = bf16(device, 8192, 2048), bf16(device, 8, 8192, 2048), bf16(device, 2048), bf16(device, 2048)
    alpha, rstd = fp32(device, 8, 8192), fp32(device, 8, 8192)
    return lambda: op(dh, v, query, w, alpha, rstd)


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


@case("fla.fused_kl_div", "loss")
def fla_kl_div(device: str) -> Body:
    op = fla("modules.fused_kl_div.ops")
    x, t = bf16(device, 4096, 1024), bf16(device, 4096, 2048)
    w, v = bf16(device, 128256, 1024), bf16(device, 128256, 2048)
    return lambda: op.fused_kl_div_fwd(x, t, w, v)


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


@case("sglang.group_norm_silu", "norm")
def sglang_group_norm(device: str) -> Body:
    op = sglang_kernels("diffusion.norm.group_norm_silu_triton")
    x, w, b = bf16(device, 1, 256, 8, 240, 416), bf16(device, 256), bf16(device, 256)
    return lambda: op._launch_chunked(x, w, b, 32, 1e-6)


@case("sglang.causal_conv3d_pad", "copy")
def sglang_conv3d_pad(device: str) -> Body:
    op = sglang_kernels("diffusion.layout.causal_conv3d_cat_pad_triton")
    kernel = op._fused_cat_pad_5d_kernel
    x, cache = bf16(device, 1, 192, 4, 240, 416), bf16(device, 1, 192, 2, 240, 416)
    out = bf16(device, 1, 192, 6, 242, 418)
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
    p, g, m = (fp32(device, 4096, 14336) for _ in range(3))
    v = fp32(device, 4096, 14336).abs()
    return lambda: op(p, g, m, v, 1e-4, 0.1, 0.001, 0.9, 0.999, 0.01, 1e-7)


@case("bitsandbytes.adam_8bit", "optimizer")
def bnb_adam_8bit(device: str) -> Body:
    op = bitsandbytes("kernels_optim").optimizer_update_8bit_blockwise_impl
    p, g = bf16(device, 4096, 4096), bf16(device, 4096, 4096)
    first, second = (given(device, seeded(256, 4096, 4096, seed=61 + i, dtype=torch.uint8)) for i in range(2))
    ramp = given(device, torch.linspace(-1, 1, 256)), given(device, torch.linspace(0, 1, 256))
    most = fp32(device, 65536).abs(), fp32(device, 65536).abs()
    return lambda: op("adam", g, p, first, second, 0.9, 0.999, 0.0, 0.0, 1e-8, 3, 1e-4, *ramp, *most)
