"""Scans, state spaces, linear attention and convolutions, both ways."""

from types import SimpleNamespace

import torch
from launching import Body, absent, case
from libraries import fla, mamba, plain, tokenspeed
from made import backward, bf16, bounds, fp16, fp32, given, permuted


@case("accelerated_scan.scalar", "scan")
def scalar_scan(device: str) -> Body:
    op = plain("accelerated_scan.scalar").Scan
    forget, x = fp32(device, 4, 2048, 4096).sigmoid().requires_grad_(), fp32(device, 4, 2048, 4096, grad=True)
    return lambda: backward(op.apply(forget, x), forget, x)


@case("accelerated_scan.complex", "scan")
def complex_scan(device: str) -> Body:
    op = plain("accelerated_scan.complex").Scan
    forget, x = (torch.randn(4, 1024, 4096, device=device, dtype=torch.complex64) / 2 for _ in range(2))
    forget, x = forget.requires_grad_(), x.requires_grad_()
    return lambda: backward(op.apply(forget, x), forget, x)


@case("tokenspeed.mamba2_chunk_scan", "linear attention")
def tokenspeed_mamba2(device: str) -> Body:
    op = tokenspeed("attention.mamba2.triton", Mamba2ChunkMetadata=object).triton_mamba2_chunk_scan
    x, dt, out = bf16(device, 8192, 128, 64), bf16(device, 8192, 128), bf16(device, 8192, 128, 64)
    a, d, bias = fp32(device, 128), fp32(device, 128), fp32(device, 128)
    b, c, states = bf16(device, 8192, 8, 128), bf16(device, 8192, 8, 128), fp32(device, 4, 128, 64, 128)
    about = SimpleNamespace(
        chunk_size=128, seq_idx=given(device, (torch.arange(64) // 16).int()),
        cu_chunk_seqlens=given(device, bounds([128] * 64)),
        last_chunk_indices=given(device, torch.tensor([15, 31, 47, 63], dtype=torch.int32)),
    )  # fmt: skip
    starts = given(device, bounds([2048] * 4))
    return lambda: op(
        x, dt, a, b, c, d, bias, dt_limit=(0.0, float("inf")), initial_states=states, cu_seqlens=starts,
        chunk_metadata=about, out=out,
    )  # fmt: skip


@case("tokenspeed.grouped_convolution", "convolution")
def tokenspeed_conv(device: str) -> Body:
    op = tokenspeed("conv.triton.grouped")
    x, delta, base = bf16(device, 16384, 4096), bf16(device, 16384, 4, 32), bf16(device, 4, 4096)
    return lambda: op.dflash2_grouped_conv(x, delta, base, 8, 128)


@case("exllamav3.slotted_convolution", "convolution")
def exllamav3_conv(device: str) -> Body:
    absent("exllamav3.ext", "exllamav3.util.tensor")
    op = plain("exllamav3.modules.gated_delta_net_fn.conv1d").causal_conv1d_update_slotted_triton
    states, w, b = fp16(device, 256, 8192, 4), fp16(device, 8192, 4), fp16(device, 8192)
    long, short = fp16(device, 4, 8192, 2048), fp16(device, 128, 8192, 4)
    slots = given(device, permuted(256, 256, seed=571)[:128].clone())
    return lambda: (op(long, states, slots[:4], w, b), op(short, states, slots, w, b))


@case("dlblas.selective_scan", "scan")
def selective_scan(device: str) -> Body:
    absent("dlblas.utils")
    op = plain("dlblas.kernels.selective_scan").SelectiveScan
    u, delta = fp32(device, 2, 1024, 4096, grad=True), fp32(device, 2, 1024, 4096).abs().requires_grad_()
    a, b, c = -fp32(device, 4096, 16).abs(), fp32(device, 2, 1024, 16), fp32(device, 2, 1024, 16)
    return lambda: backward(op.apply(u, delta, a, b, c)[0], u, delta)


@case("fla.rwkv7_key_update", "elementwise")
def rwkv7_keys(device: str) -> Body:
    op = fla("ops.rwkv7.fused_k_update")
    k, a, dy = (bf16(device, 4, 4096, 4096) for _ in range(3))
    ka = bf16(device, 4096)
    return lambda: (op.k_update_fwd(k, a, ka), op.k_update_bwd(dy, k, a, ka, None, False, 4, 4096))


@case("fla.gated_oja_states", "linear attention")
def oja(device: str) -> Body:
    op = fla("ops.gated_oja_rule.chunk_h")
    v, w, u, k = (bf16(device, 1, 8192, 16, 128) for _ in range(4))
    gv, dk = -fp32(device, 1, 8192, 16, 128).abs(), bf16(device, 1, 8192, 16, 128)
    h, dh = bf16(device, 1, 128, 16, 128, 128), bf16(device, 1, 128, 16, 128, 128)
    return lambda: (op.chunk_oja_fwd_h(v, w, u, gv), op.chunk_oja_bwd_dvwg_h(k, v, h, dh, dk, gv))


@case("fla.quantised_layer_norm", "norm")
def quantised_norm(device: str) -> Body:
    op = fla("modules.norm.layernorm_quant")
    x, w, b, dy = bf16(device, 16384, 4096), bf16(device, 4096), bf16(device, 4096), bf16(device, 16384, 4096)
    mean, scale = fp32(device, 16384), fp32(device, 16384)
    return lambda: (op.layer_norm_quant_fwd(x, w, b, 1e-5), op.layer_norm_quant_bwd(dy, x, w, b, mean, scale))


@case("mamba.mamba3_backward", "linear attention")
def mamba3_backward(device: str) -> Body:
    op = mamba("mamba3.mamba3_siso_bwd")
    do, z, o = (bf16(device, 2, 8192, 32, 64) for _ in range(3))
    steps = [fp32(device, 2, 32, 8192) for _ in range(4)]
    return lambda: (op.compute_dzdo(do, z, o), op.compute_ddt_dtrap_dinput_states(*steps))


@case("fla.rwkv6_backward", "linear attention")
def rwkv6_backward(device: str) -> Body:
    op = fla("ops.rwkv6.chunk")
    q, k, v, do = (bf16(device, 1, 8192, 32, 64) for _ in range(4))
    gi, ge, da = (-fp32(device, 1, 8192, 32, 64).abs() for _ in range(3))
    return lambda: (
        op.chunk_rwkv6_bwd_dh(q, k, v, gi, ge, do, None, None, 0.125),
        op.chunk_rwkv6_bwd_dqk_intra(q, k, gi, ge, da),
    )
