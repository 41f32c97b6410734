"""Cases that go through rows: norms, activations, rotary embeddings, gathers."""

import torch
from launching import Body, case, library
from libraries import flash_attn, liger, lmdeploy, mamba, sglang, unsloth, xformers
from made import backward, bf16, fp16, fp32, given, seeded


@case("liger.rms_norm", "norm")
def liger_rms_norm(device: str) -> Body:
    op = liger("rms_norm").LigerRMSNormFunction
    x, w = bf16(device, 16384, 4096, grad=True), bf16(device, 4096, grad=True)
    return lambda: backward(op.apply(x, w, 1e-6, 0.0, "llama", False), x, w)


@case("liger.layer_norm", "norm")
def liger_layer_norm(device: str) -> Body:
    op = liger("layer_norm").LigerLayerNormFunction
    x, w, b = bf16(device, 8192, 8192, grad=True), bf16(device, 8192, grad=True), bf16(device, 8192, grad=True)
    return lambda: backward(op.apply(x, w, b, 1e-6), x, w, b)


@case("liger.group_norm", "norm")
def liger_group_norm(device: str) -> Body:
    op = liger("group_norm").LigerGroupNormFunction
    x, w, b = fp32(device, 64, 256, 4096, grad=True), fp32(device, 256, grad=True), fp32(device, 256, grad=True)
    return lambda: backward(op.apply(x, w, b, 256, 32, 1e-6), x, w, b)


@case("liger.fused_add_rms_norm", "norm")
def liger_fused_add(device: str) -> Body:
    op = liger("fused_add_rms_norm").LigerFusedAddRMSNormFunction
    x, r, w = bf16(device, 8192, 5120, grad=True), bf16(device, 8192, 5120, grad=True), bf16(device, 5120, grad=True)
    return lambda: op.apply(x, r, w, 1e-6, 0.0, "llama", False)


@case("liger.dyt", "norm")
def liger_dyt(device: str) -> Body:
    op = liger("dyt").LigerDyTFunction
    x = bf16(device, 16384, 4096, grad=True)
    a, g, b = fp32(device, 1, grad=True), fp32(device, 4096, grad=True), fp32(device, 4096, grad=True)
    return lambda: backward(op.apply(x, a, g, b), x, a, g, b)


@case("liger.poly_norm", "norm")
def liger_poly_norm(device: str) -> Body:
    op = liger("poly_norm").LigerPolyNormFunction
    x, w, b = bf16(device, 16384, 2048, grad=True), bf16(device, 3, grad=True), bf16(device, 1)
    return lambda: backward(op.apply(x, w, b, 1e-6, False), x, w)


@case("liger.geglu", "activation")
def liger_geglu(device: str) -> Body:
    op = liger("geglu").LigerGELUMulFunction
    a, b = bf16(device, 8192, 11008, grad=True), bf16(device, 8192, 11008, grad=True)
    return lambda: backward(op.apply(a, b), a, b)


@case("liger.swiglu", "activation")
def liger_swiglu(device: str) -> Body:
    op = liger("swiglu").LigerSiLUMulFunction
    a, b = bf16(device, 8192, 14336, grad=True), bf16(device, 8192, 14336, grad=True)
    return lambda: backward(op.apply(a, b), a, b)


@case("liger.relu_squared", "activation")
def liger_relu_squared(device: str) -> Body:
    op = liger("relu_squared").LigerReLUSquaredFunction
    x = bf16(device, 16384, 8192, grad=True)
    return lambda: op.apply(x)


@case("liger.rope", "rotary")
def liger_rope(device: str) -> Body:
    op = liger("rope").LigerRopeFunction
    q, k = bf16(device, 4, 32, 4096, 128), bf16(device, 4, 8, 4096, 128)
    cos, sin = bf16(device, 1, 4096, 128), bf16(device, 1, 4096, 128)
    return lambda: op.apply(q, k, cos, sin)


@case("liger.softmax", "softmax")
def liger_softmax(device: str) -> Body:
    op = liger("softmax").LigerSoftmaxFunction
    x = bf16(device, 16384, 4096, grad=True)
    return lambda: backward(op.apply(x), x)


@case("liger.sparsemax", "softmax")
def liger_sparsemax(device: str) -> Body:
    op = liger("sparsemax").LigerSparsemaxFunction
    x = fp32(device, 8192, 2048, grad=True)
    return lambda: op.apply(x, -1)


@case("liger.embedding", "gather")
def liger_embedding(device: str) -> Body:
    op = liger("experimental.embedding").LigerEmbeddingFunction
    w, i = bf16(device, 32000, 4096, grad=True), given(device, seeded(32000, 16384))
    return lambda: op.apply(w, i)


@case("liger.embedding_backward", "atomic")
def liger_embedding_backward(device: str) -> Body:
    op = liger("experimental.embedding").LigerEmbeddingFunction
    w, i = fp32(device, 32000, 1024, grad=True), given(device, seeded(32000, 16384))
    return lambda: backward(op.apply(w, i), w)


@case("flash_attn.layer_norm", "norm")
def flash_attn_layer_norm(device: str) -> Body:
    op = flash_attn("layer_norm")
    x, w, b = bf16(device, 16384, 2560, grad=True), fp32(device, 2560, grad=True), fp32(device, 2560, grad=True)
    return lambda: backward(op.layer_norm_fn(x, w, b), x, w, b)


@case("flash_attn.rms_norm_residual", "norm")
def flash_attn_rms_norm(device: str) -> Body:
    op = flash_attn("layer_norm")
    x, r, w = bf16(device, 8192, 8192), bf16(device, 8192, 8192), fp32(device, 8192)
    return lambda: op.rms_norm_fn(x, w, None, residual=r, prenorm=True, residual_in_fp32=True)


@case("flash_attn.rotary", "rotary")
def flash_attn_rotary(device: str) -> Body:
    op = flash_attn("rotary").apply_rotary
    x, cos, sin = bf16(device, 8, 4096, 32, 128), bf16(device, 4096, 64), bf16(device, 4096, 64)
    return lambda: op(x, cos, sin)


@case("flash_attn.rotary_interleaved", "rotary")
def flash_attn_rotary_interleaved(device: str) -> Body:
    op = flash_attn("rotary").apply_rotary
    x, cos, sin = fp16(device, 4, 2048, 16, 64), fp16(device, 2048, 16), fp16(device, 2048, 16)
    return lambda: op(x, cos, sin, interleaved=True, inplace=True)


@case("unsloth.rms_layernorm", "norm")
def unsloth_rms(device: str) -> Body:
    op = unsloth("rms_layernorm").Fast_RMS_Layernorm
    x, w = bf16(device, 4, 4096, 4096, grad=True), bf16(device, 4096)
    return lambda: backward(op.apply(x, w, 1e-6, False), x)


@case("unsloth.geglu_exact", "activation")
def unsloth_geglu(device: str) -> Body:
    op = unsloth("geglu")
    g, u = bf16(device, 2, 4096, 14336), bf16(device, 2, 4096, 14336)
    return lambda: op.geglu_exact_forward_kernel(g, u)


@case("unsloth.geglu_approx_backward", "activation")
def unsloth_geglu_backward(device: str) -> Body:
    op = unsloth("geglu")
    d, e, g = fp16(device, 8192, 14336), fp16(device, 8192, 14336), fp16(device, 8192, 14336)
    return lambda: op.geglu_approx_backward_kernel(d, e, g)


@case("unsloth.swiglu_backward", "activation")
def unsloth_swiglu(device: str) -> Body:
    op = unsloth("swiglu")
    d, e, g = bf16(device, 8192, 11008), bf16(device, 8192, 11008), bf16(device, 8192, 11008)
    return lambda: op.swiglu_DWf_DW_dfg_kernel(d, e, g)


@case("unsloth.rope", "rotary")
def unsloth_rope(device: str) -> Body:
    op = unsloth("rope_embedding").Fast_RoPE_Embedding
    q, cos, sin = bf16(device, 4, 4096, 32, 128), bf16(device, 4096, 128), bf16(device, 4096, 128)
    return lambda: op.apply(q, cos, sin)


@case("unsloth.layernorm", "norm")
def unsloth_layernorm(device: str) -> Body:
    op = unsloth("layernorm").Fast_Layernorm
    x, w, b = bf16(device, 4, 4096, 3072, grad=True), bf16(device, 3072), bf16(device, 3072)
    return lambda: backward(op.apply(x, w, b, 1e-6), x)


@case("xformers.rms_norm_add", "norm")
def xformers_rms_norm_add(device: str) -> Body:
    op = xformers("rmsnorm_kernels")
    x, y, w = bf16(device, 16384, 5120), bf16(device, 16384, 5120), bf16(device, 5120)
    return lambda: op._rms_norm_add_forward(x, y, w, 1e-6)


@case("xformers.index_select_cat", "gather")
def xformers_index_select(device: str) -> Body:
    op = xformers("k_index_select_cat")
    source, index = fp16(device, 65536, 1536), given(device, seeded(65536, 20000))
    return lambda: op.index_select_cat_fwd(fp16(device, 20000, 1536), source, index)


@case("xformers.scaled_index_add", "gather")
def xformers_scaled_index_add(device: str) -> Body:
    op = xformers("k_scaled_index_add")
    x, source = fp16(device, 64, 1024, 1536), fp16(device, 32, 1024, 1536)
    index, scale = given(device, torch.arange(0, 64, 2)), fp16(device, 1536)
    return lambda: op.scaled_index_add_fwd(x, index, source, scale, 0.5)


@case("conch.gelu_tanh_and_mul", "activation")
def conch_gelu(device: str) -> Body:
    op = library("conch.ops.activation.gelu_tanh_and_mul")
    x = bf16(device, 8192, 2 * 11008)
    return lambda: op.gelu_tanh_and_mul(x)


@case("conch.rotary_embedding", "rotary")
def conch_rotary(device: str) -> Body:
    op = library("conch.ops.embedding.rotary_embedding")
    positions = given(device, torch.arange(8192))
    q, k, cache = bf16(device, 8192, 32 * 128), bf16(device, 8192, 8 * 128), bf16(device, 16384, 128)
    return lambda: op.rotary_embedding(positions, q, k, 128, cache)


@case("conch.gemma_rms_norm", "norm")
def conch_gemma_rms_norm(device: str) -> Body:
    op = library("conch.ops.normalization.gemma_rms_norm")
    x, w = bf16(device, 8192, 3584), bf16(device, 3584)
    return lambda: op.gemma_rms_norm(x, w, 1e-6)


@case("lmdeploy.rms_norm", "norm")
def lmdeploy_rms_norm(device: str) -> Body:
    op = lmdeploy("rms_norm").rms_norm
    x, r, w = bf16(device, 8192, 4096), bf16(device, 8192, 4096), bf16(device, 4096)
    return lambda: op(x, w, 1e-6, r)


@case("lmdeploy.silu_and_mul", "activation")
def lmdeploy_silu(device: str) -> Body:
    op = lmdeploy("activation").silu_and_mul
    x = bf16(device, 8192, 2 * 14336)
    return lambda: op(x)


@case("lmdeploy.rotary", "rotary")
def lmdeploy_rotary(device: str) -> Body:
    op = lmdeploy("apply_rotary_pos_emb").apply_rotary_pos_emb
    q, k = bf16(device, 16384, 32, 128), bf16(device, 16384, 8, 128)
    cos, sin = bf16(device, 16384, 128), bf16(device, 16384, 128)
    return lambda: op(q, k, cos, sin)


@case("mamba.layernorm_gated", "norm")
def mamba_layernorm_gated(device: str) -> Body:
    op = mamba("layernorm_gated")
    x, z, w = bf16(device, 8192, 4096, grad=True), bf16(device, 8192, 4096, grad=True), fp32(device, 4096, grad=True)
    return lambda: backward(op.rmsnorm_fn(x, w, None, z=z, group_size=1024), x, w, z)


@case("sglang.softcap", "activation")
def sglang_softcap(device: str) -> Body:
    op = sglang("elementwise")
    x = fp32(device, 512, 256000)
    return lambda: op.fused_softcap(x, 30.0)
