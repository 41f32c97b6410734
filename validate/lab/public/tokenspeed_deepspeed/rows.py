"""Norms, activations, losses, rotary embeddings, embeddings and streams of hyper-connections."""

import torch
from launching import Body, case
from libraries import bitsandbytes, deepspeed, liger, nemo, plain, tokenspeed, transformer_engine, vllm
from made import backward, bf16, fp16, fp32, given, seeded


@case("deepspeed.rms_norm", "norm")
def deepspeed_rms_norm(device: str) -> Body:
    op = deepspeed("ops.triton_ops.fused_rms_norm")
    x, w = bf16(device, 32768, 2048, grad=True), bf16(device, 2048, grad=True)
    return lambda: backward(op.fused_rms_norm(x, w, 1e-6), x, w)


@case("deepspeed.swiglu_packed", "activation")
def deepspeed_swiglu(device: str) -> Body:
    op = deepspeed("ops.triton_ops.swiglu_triton")
    x = bf16(device, 8192, 2 * 11008, grad=True)
    return lambda: backward(op.swiglu_packed(x), x)


@case("deepspeed.chunked_cross_entropy", "loss")
def deepspeed_cross_entropy(device: str) -> Body:
    op = deepspeed("runtime.chunked_cross_entropy")
    x, target = bf16(device, 2048, 151936, grad=True), given(device, seeded(151936, 2048, seed=501))
    return lambda: backward(op._TritonCrossEntropy.apply(x, target, -100), x)


@case("transformer_engine.cross_entropy", "loss")
def te_cross_entropy(device: str) -> Body:
    op = transformer_engine("cross_entropy")
    x, y = bf16(device, 1, 4096, 128256), bf16(device, 1, 4096, 128256)
    target = given(device, seeded(128256, 1, 4096, seed=502))
    stats, count, grad = fp32(device, 4096, 2), torch.ones(1, device=device, dtype=torch.int64), fp32(device)
    return lambda: (
        op.cross_entropy_forward(x, target, 0.1, True, None, -100, False),
        op.cross_entropy_backward(y, stats, target, count, grad, 0.1, True, 0, 1, -100),
    )


@case("transformer_engine.hyper_connections", "elementwise")
def te_streams(device: str) -> Body:
    op = transformer_engine("mhc")
    x, f, bias = bf16(device, 4096, 1, 4096, 4, grad=True), bf16(device, 4096, 1, 4096, grad=True), bf16(device, 4096)
    pre, post = fp32(device, 4096, 1, 4, grad=True), fp32(device, 4096, 1, 4, grad=True)
    mix = fp32(device, 4096, 1, 4, 4, grad=True)
    return lambda: (
        backward(op.mhc_fused_aggregate(x, pre, 4), x, pre),
        backward(op.mhc_fused_expand_combine(f, bias, post, x, mix, 4), f, post, x, mix),
    )


@case("transformer_engine.sinkhorn", "scan")
def te_sinkhorn(device: str) -> Body:
    op = transformer_engine("mhc")
    x = fp32(device, 16384, 2, 4, 4, grad=True)
    return lambda: backward(op.mhc_fused_sinkhorn(x), x)


@case("chalk.qk_norm_rope", "rotary")
def chalk_qk_norm_rope(device: str) -> Body:
    op = plain("chalk.ops.qkv")._build_qknorm_rope()
    x, w = bf16(device, 8192, 16, 256, grad=True), bf16(device, 256, grad=True)
    cos, sin = bf16(device, 8192, 64), bf16(device, 8192, 64)
    return lambda: backward(op(x, w, cos, sin), x, w)


@case("exllamav3.kl_divergence", "loss")
def exllamav3_kl(device: str) -> Body:
    op = plain("exllamav3.util.measures")
    x, y = fp16(device, 2048, 128256), fp16(device, 2048, 128256)
    target, parts = given(device, seeded(128256, 2048, seed=504)), [fp32(device, 2048, 126) for _ in range(3)]
    return lambda: (
        op.compute_kl_div(x, y, 128256),
        op._target_logprob_partial_kernel[(2048, 126)](x, target, *parts, 128256, 1, 128256, 126, 1024, num_warps=4),
    )


@case("nemo.rnnt_logprobs", "loss")
def nemo_rnnt(device: str) -> Body:
    op = nemo("k2.rnnt_logprobs_triton").RnntLogProbs
    x, targets = fp32(device, 8, 256, 65, 1025, grad=True), given(device, seeded(1024, 8, 64, seed=505))
    sources = given(device, torch.tensor([256, 200, 131, 256, 77, 180, 240, 64]))
    lengths = given(device, torch.tensor([64, 50, 33, 60, 20, 41, 64, 12]))
    return lambda: backward(op.apply(x, targets, 1024, sources, lengths)[0], x)


@case("tokenspeed.packed_qkv_rotary", "rotary")
def tokenspeed_rotary(device: str) -> Body:
    op = tokenspeed("attention.mha._triton.qkv_rotary")
    x, cos, sin = bf16(device, 16384, 3 * 1280), fp32(device, 16384, 80), fp32(device, 16384, 80)
    y = bf16(device, 16384, 3 * 1152)
    turns = torch.view_as_complex(fp32(device, 16384, 36, 2))
    return lambda: (
        op.packed_qkv_neox_rotary(x, 1280, 1280, 16, 80, cos, sin, copy_v=True),
        op.packed_qkv_complex_rotary(y, 1152, 1152, 16, 72, turns, copy_v=True),
    )


@case("tokenspeed.engram_hash", "embedding")
def tokenspeed_engram(device: str) -> Body:
    op = tokenspeed("embedding.triton")
    ids, before = given(device, seeded(129280, 16384, seed=506)), given(device, seeded(129280, 16384, 3, seed=507))
    mask, table = given(device, torch.ones(16384, dtype=torch.bool)), given(device, seeded(99000, 129280, seed=508))
    factors = given(device, seeded(1 << 31, 2, 4, seed=509) * 2 + 1)
    primes, starts = given(device, seeded(500000, 2, 3, 8, seed=510) + 400000), given(device, seeded(1 << 20, 2, 24))
    return lambda: op.engram_hash(ids, before, mask, table, factors, primes, starts, 2, -1)


@case("bitsandbytes.one_state", "optimizer")
def bnb_one_state(device: str) -> Body:
    op = bitsandbytes("kernels_optim")
    p, g, m = bf16(device, 1 << 26), bf16(device, 1 << 26), fp32(device, 1 << 26)
    return lambda: op.optimizer_update_32bit_impl(
        "lion", g, p, m, None, None, 0.0, 0.0, 0.9, 0.99, 0.0, 0.0, 1e-8, 0.01, 10, 1e-4
    )


@case("liger.add_rms_norm_backward", "norm")
def liger_backward(device: str) -> Body:
    op = liger("fused_add_rms_norm").fused_add_rms_norm_backward
    dy, ds, x, w = bf16(device, 16384, 4096), bf16(device, 16384, 4096), bf16(device, 16384, 4096), bf16(device, 4096)
    scale = fp32(device, 16384)
    return lambda: op(dy, ds, x, w, scale, 0.0, 0, 4096, 8, 3, False)


@case("vllm.qk_norm_rope_gate", "rotary")
def vllm_qk_norm_rope(device: str) -> Body:
    op = vllm("model_executor.layers.fused_qk_norm_rope").fused_qk_rmsnorm_rope_gate
    q, k, qw, kw = bf16(device, 8192, 2 * 16 * 256), bf16(device, 8192, 512), bf16(device, 256), bf16(device, 256)
    turns, positions = bf16(device, 32768, 64), given(device, seeded(32768, 8192, seed=511))
    return lambda: op(q, k, qw, kw, turns, positions, 1e-6, 16, 2, 256, 64)
