"""Norms, losses, activations, rotary embeddings, gathers, in shapes of Llama 3, Qwen 2.5, DeepSeek V3."""

import torch
from launching import Body, case, library
from libraries import fla, flash_attn, liger, mamba, sglang, unsloth, xformers
from made import backward, bf16, bounds, fp16, fp32, given, permuted, seeded


@case("liger.rms_norm_heads", "norm")
def liger_rms_norm_heads(device: str) -> Body:
    op = liger("rms_norm").LigerRMSNormFunction
    x, w = bf16(device, 262144, 128, grad=True), bf16(device, 128, grad=True)
    return lambda: backward(op.apply(x, w, 1e-6, 0.0, "llama", False), x, w)


@case("liger.cross_entropy_qwen", "loss")
def liger_cross_entropy_qwen(device: str) -> Body:
    op = liger("cross_entropy").LigerCrossEntropyFunction
    x, y = bf16(device, 3000, 152064, grad=True), given(device, seeded(152064, 3000, seed=11))
    return lambda: op.apply(x, y, None, -100, 1e-4, 0.1, "mean", 30.0, False)


@case("liger.grpo_loss", "loss")
def liger_grpo(device: str) -> Body:
    op = liger("grpo_loss").GrpoLossFunction
    x, old, ref = bf16(device, 8, 257, 151936, grad=True), fp32(device, 8, 256), fp32(device, 8, 256)
    ids, advantages = given(device, seeded(151936, 8, 256, seed=12)), fp32(device, 8)
    return lambda: op.apply(x, old, ref, ids, advantages, None, 0.9, 0.04, 0.2, 0.4, True)


@case("liger.fused_ce_tvd", "loss")
def liger_ce_tvd(device: str) -> Body:
    op = liger("fused_ce_tvd")
    x, y = bf16(device, 2048, 128256), bf16(device, 2048, 128256)
    target = given(device, seeded(128256, 2048, seed=13))
    return lambda: op.fused_ce_tvd_forward(x, y, target, -100)


@case("liger.qwen2vl_mrope", "rotary")
def liger_mrope(device: str) -> Body:
    op = liger("qwen2vl_mrope")
    q, k = bf16(device, 2, 4096, 28, 128).transpose(1, 2), bf16(device, 2, 4096, 4, 128).transpose(1, 2)
    cos, sin = bf16(device, 3, 2, 4096, 128), bf16(device, 3, 2, 4096, 128)
    return lambda: op.qwen2vl_mrope_forward(q, k, cos, sin, [16, 24, 24])


@case("liger.attention_residual", "norm")
def liger_attention_residual(device: str) -> Body:
    op = liger("attn_res")
    v, query, w = bf16(device, 6, 2, 4096, 2048), bf16(device, 2048), bf16(device, 2048)
    return lambda: op.attn_res_forward(v, query, w)


@case("liger.hyper_connections", "elementwise")
def liger_hyper_connections(device: str) -> Body:
    op = liger("mhc")
    x, f = bf16(device, 8192, 4, 4096), bf16(device, 8192, 4096)
    pre, post, res = fp32(device, 8192, 4), fp32(device, 8192, 4), fp32(device, 8192, 4, 4)
    return lambda: (op.mhc_pre_fwd(x, pre), op.mhc_post_res_fwd(x, f, post, res))


@case("liger.modulated_rms_norm", "norm")
def liger_modulated(device: str) -> Body:
    op = liger("modulated_rms_norm")
    x, w, scale, shift = bf16(device, 8, 4096, 3072), bf16(device, 3072), bf16(device, 8, 3072), bf16(device, 8, 3072)
    return lambda: op.modulated_rms_norm_forward(x, w, scale, shift, 1e-6, 0.0, "llama")


@case("liger.fused_gate_up", "activation")
def liger_fused_gate_up(device: str) -> Body:
    op = liger("swiglu").LigerFusedGateUpSiLUMulFunction
    y = bf16(device, 4096, 2 * 28672, grad=True)
    return lambda: backward(op.apply(y, False), y)


@case("fla.layer_norm_residual", "norm")
def fla_layer_norm(device: str) -> Body:
    op = fla("modules.norm.layernorm")
    x, r, w, b = bf16(device, 16384, 3584), bf16(device, 16384, 3584), bf16(device, 3584), bf16(device, 3584)
    return lambda: op.layer_norm_fwd(x, w, b, 1e-5, residual=r)


@case("fla.layer_norm_backward", "norm")
def fla_layer_norm_backward(device: str) -> Body:
    op = fla("modules.norm.layernorm")
    dy, x, w = bf16(device, 16384, 4096), bf16(device, 16384, 4096), bf16(device, 4096)
    rstd = fp32(device, 16384)
    return lambda: op.layer_norm_bwd(dy, x, w, None, None, rstd, is_rms_norm=True)


@case("fla.rotary", "rotary")
def fla_rotary(device: str) -> Body:
    op = fla("modules.rotary.ops")
    x, cos, sin = bf16(device, 2, 8192, 40, 128), bf16(device, 8192, 64), bf16(device, 8192, 64)
    return lambda: op.rotary_embedding_fwdbwd(x, cos, sin)


@case("fla.swiglu", "activation")
def fla_swiglu(device: str) -> Body:
    op = fla("modules.activations.ops")
    x, y, g = bf16(device, 8192, 13824), bf16(device, 8192, 13824), bf16(device, 8192, 13824)
    return lambda: (op.swiglu_fwd(x, y), op.swiglu_fwdbwd(x, y, g, use_weight=True))


@case("fla.grpo", "loss")
def fla_grpo(device: str) -> Body:
    op = fla("modules.grpo.ops").GrpoLoss
    x, ref = bf16(device, 4, 513, 128256, grad=True), fp32(device, 4, 512)
    ids, advantages = given(device, seeded(128256, 4, 512, seed=14)), fp32(device, 4)
    return lambda: backward(op.apply(x, ref, ids, advantages, 0.1, None, False), x)


@case("fla.sinkhorn", "scan")
def fla_sinkhorn(device: str) -> Body:
    op = fla("ops.utils.sinkhorn.ops")
    logits = fp32(device, 65536, 4, 4)
    return lambda: op.sinkhorn_fwd(logits, 20)


@case("fla.mean_pooling", "reduction")
def fla_mean_pooling(device: str) -> Body:
    op = fla("ops.utils.pooling")
    x = bf16(device, 2, 16384, 8, 128)
    return lambda: op.mean_pooling_fwd(x, 64)


@case("fla.pack_sequence", "gather")
def fla_pack(device: str) -> Body:
    op = fla("ops.utils.pack")
    lengths = [4096, 1000, 2050, 3333, 517, 4000, 129, 2222]
    x, cu = bf16(device, 8, 4096, 4096), given(device, bounds(lengths, torch.int64))
    return lambda: op.pack_sequence_fwdbwd(x, cu, "left")


@case("fla.rwkv7_addcmul", "elementwise")
def fla_addcmul(device: str) -> Body:
    op = fla("ops.rwkv7.fused_addcmul")
    h, d = bf16(device, 4, 4096, 4096), bf16(device, 4, 4096, 4096)
    mixed = [bf16(device, 1, 1, 4096) for _ in range(6)]
    return lambda: op.fused_addcmul_rwkv7(h, d, *mixed)


@case("fla.rwkv7_gate_correction", "elementwise")
def fla_gate_correction(device: str) -> Body:
    op = fla("ops.rwkv7.gate_output_correction")
    o, g = bf16(device, 4, 4096, 4096), bf16(device, 4, 4096, 4096)
    r, k, v = (bf16(device, 4, 4096, 64, 64) for _ in range(3))
    weight = bf16(device, 64, 64)
    return lambda: op.gate_output_correction(o, r, k, weight, v, g)


@case("flash_attn.rms_norm_backward", "norm")
def flash_attn_rms_backward(device: str) -> Body:
    op = flash_attn("layer_norm")
    x, r = fp16(device, 8192, 4096, grad=True), fp16(device, 8192, 4096, grad=True)
    w = fp16(device, 4096, grad=True)

    def run() -> object:
        y, res = op.rms_norm_fn(x, w, None, residual=r, prenorm=True)
        return torch.autograd.grad([y, res], [x, w], [torch.empty_like(y), torch.empty_like(res)])

    return run


@case("flash_attn.rotary_varlen", "rotary")
def flash_attn_rotary_varlen(device: str) -> Body:
    op = flash_attn("rotary").apply_rotary
    lengths = [4096, 100, 2048, 777, 8192, 3, 1024, 1500]
    x, cos, sin = bf16(device, sum(lengths), 64, 128), bf16(device, 8192, 64), bf16(device, 8192, 64)
    cu = given(device, bounds(lengths))
    return lambda: op(x, cos, sin, cu_seqlens=cu, max_seqlen=8192)


@case("unsloth.qk_norm_rope", "rotary")
def unsloth_qk_norm_rope(device: str) -> Body:
    op = unsloth("qk_norm_rope").Fast_QK_Norm_RoPE
    q, k = bf16(device, 2, 4096, 32, 128), bf16(device, 2, 4096, 8, 128)
    wq, wk, cos, sin = bf16(device, 128), bf16(device, 128), bf16(device, 4096, 128), bf16(device, 4096, 128)
    positions = given(device, torch.zeros(1, dtype=torch.int32))
    return lambda: op.apply(q, k, wq, wk, cos, sin, positions, 1e-6, 1e-6, False)


@case("unsloth.swiglu_forward", "activation")
def unsloth_swiglu_forward(device: str) -> Body:
    op = unsloth("swiglu")
    e, g = bf16(device, 2, 4096, 18944), bf16(device, 2, 4096, 18944)
    return lambda: op.swiglu_fg_kernel(e, g)


@case("unsloth.cross_entropy_llama", "loss")
def unsloth_cross_entropy_llama(device: str) -> Body:
    op = unsloth("cross_entropy_loss").Fast_CrossEntropyLoss
    x, y = bf16(device, 4096, 128256, grad=True), given(device, seeded(128256, 4096, seed=15))
    return lambda: backward(op.apply(x, y, 0, 0), x)


@case("unsloth.gemma_rms_norm", "norm")
def unsloth_gemma(device: str) -> Body:
    op = unsloth("rms_layernorm").Fast_RMS_Layernorm
    x, w = fp16(device, 4, 2048, 3584, grad=True), fp16(device, 3584)
    return lambda: backward(op.apply(x, w, 1e-6, True), x)


@case("xformers.index_select_cat_backward", "gather")
def xformers_index_select_backward(device: str) -> Body:
    op = xformers("k_index_select_cat")
    grad = fp16(device, 24000, 2048)
    index = given(device, permuted(65536, 65536, seed=16, dtype=torch.int64)[:24000].clone())
    return lambda: op.index_select_cat_bwd(fp16(device, 65536, 2048), index, grad)


@case("xformers.scaled_index_add_backward", "gather")
def xformers_scaled_index_add_backward(device: str) -> Body:
    op = xformers("k_scaled_index_add")
    grad, source = fp16(device, 48, 2048, 1024), fp16(device, 24, 2048, 1024)
    index, scale = given(device, torch.arange(0, 48, 2)), fp16(device, 1024)
    made = fp16(device, 24, 2048, 1024), fp16(device, 24, 2048, 1024)
    return lambda: op.scaled_index_add_bwd(grad, *made, source, scale, index, 0.5)


@case("xformers.rms_norm", "norm")
def xformers_rms_norm(device: str) -> Body:
    op = xformers("rmsnorm_kernels")
    x, w = fp16(device, 12000, 7168), fp16(device, 7168)
    return lambda: op._rms_norm_forward(x, w, 1e-6)


@case("conch.silu_and_mul", "activation")
def conch_silu(device: str) -> Body:
    op = library("conch.ops.activation.silu_and_mul")
    x = fp16(device, 6000, 2 * 18432)
    return lambda: op.silu_and_mul(x)


@case("conch.fused_add_rms_norm", "norm")
def conch_fused_add(device: str) -> Body:
    op = library("conch.ops.normalization.rms_norm")
    x, r, w = bf16(device, 8192, 7168), bf16(device, 8192, 7168), bf16(device, 7168)
    return lambda: op.fused_add_rms_norm(x, r, w, 1e-6)


@case("mamba.swiglu", "activation")
def mamba_swiglu(device: str) -> Body:
    op = mamba("k_activations")
    xy, dout = bf16(device, 8192, 2 * 8192), bf16(device, 8192, 8192)
    return lambda: (op._swiglu_fwd(xy), op._swiglu_bwd(xy, dout))


@case("sglang.dual_residual_rms_norm", "norm")
def sglang_dual_residual(device: str) -> Body:
    op = sglang("elementwise")
    x, r, w, v = bf16(device, 8192, 6144), bf16(device, 8192, 6144), bf16(device, 6144), bf16(device, 6144)
    return lambda: op.fused_dual_residual_rmsnorm(x, r, w, v, 1e-5)


@case("sglang.gelu_and_mul", "activation")
def sglang_gelu(device: str) -> Body:
    op = sglang("elementwise")
    x = bf16(device, 8192, 2 * 4096)
    return lambda: op.gelu_and_mul_triton(x)


@case("sglang.experts_combine", "elementwise")
def sglang_experts_combine(device: str) -> Body:
    op = sglang("elementwise")
    moe, mlp = bf16(device, 4096, 2, 6144), bf16(device, 4096, 6144)
    return lambda: op.experts_combine_triton(moe, mlp)
