"""Third round: further recurrences, linear attention and state spaces, forward and backward, and their convolutions."""

import torch
from launching import Body, in_round, library
from libraries import fla, mamba, vllm
from made import bf16, bounds, fp32, given, permuted

case = in_round(3)


def _qkv(device: str, heads: int = 16, length: int = 8192, dim: int = 128) -> list[torch.Tensor]:
    return [bf16(device, 1, length, heads, dim) for _ in range(3)]


@case("fla.comba", "linear attention")
def comba(device: str) -> Body:
    op, cumsum = fla("ops.comba.wy_fast"), fla("ops.comba.utils").chunk_comba_cumsum_scalar_fwd
    p, k, v = _qkv(device)
    g, beta = -fp32(device, 1, 8192, 16).abs(), fp32(device, 1, 8192, 16).sigmoid()
    before, a = fp32(device, 1, 8192, 16), bf16(device, 1, 8192, 16, 64)
    return lambda: (
        cumsum(g, 64),
        op.chunk_scaled_dot_comba_pkt_fwd(k, p, beta, before, g, None, 64),
        op.recompute_w_u_fwd(k, v, beta, g, a, None),
    )


@case("fla.comba_backward", "linear attention")
def comba_backward(device: str) -> Body:
    op = fla("ops.comba.wy_fast")
    k, v, p = _qkv(device)
    before, g, beta = (fp32(device, 1, 8192, 16) for _ in range(3))
    a, dw, du = bf16(device, 1, 8192, 16, 64), bf16(device, 1, 8192, 16, 128), bf16(device, 1, 8192, 16, 128)
    return lambda: op.prepare_wy_repr_bwd(k, v, p, before, g, beta, a, dw, du, None)


@case("fla.gated_delta_product", "linear attention")
def delta_product(device: str) -> Body:
    state, out = fla("ops.gated_delta_product.chunk_deltaproduct_h"), fla("ops.gated_delta_product.chunk_deltaproduct_o")
    q, g = bf16(device, 1, 8192, 16, 128), -fp32(device, 1, 8192, 16).abs()
    k, w, u = _qkv(device, length=16384)
    h = bf16(device, 1, 128, 16, 128, 128)
    return lambda: (
        state.chunk_gated_delta_product_fwd_h(k, w, u, g, num_householder=2),
        out.chunk_gated_delta_product_fwd_o(q, k, u, h, g, num_householder=2),
    )


@case("fla.mesa_net", "linear attention")
def mesa(device: str) -> Body:
    op = fla("ops.mesa_net.chunk")
    op.chunk_local_cumsum = lambda g, *_, **__: g
    q, k, v = _qkv(device, heads=12, length=4096)
    g, beta, lamb = -fp32(device, 1, 4096, 12).abs(), fp32(device, 1, 4096, 12).sigmoid(), fp32(device, 12, 128).abs()
    return lambda: op.chunk_fwd_mesa_net_fwd(q, k, v, g, beta, lamb, None, 8)


@case("fla.log_linear_attn", "linear attention")
def log_linear(device: str) -> Body:
    op = fla("ops.log_linear_attn.chunk")
    op.chunk_local_cumsum = lambda g, *_, **__: g
    q, k, v = bf16(device, 2, 4096, 1, 128), bf16(device, 2, 4096, 1, 128), bf16(device, 2, 4096, 32, 64)
    g, scales = -fp32(device, 2, 4096, 32).abs(), fp32(device, 2, 4096, 32, 13)
    return lambda: op.chunk_log_linear_attn(q, k, v, g, scales)


@case("fla.rwkv4", "scan")
def rwkv4(device: str) -> Body:
    op = fla("ops.rwkv4.fused_recurrent").fused_recurrent_rwkv4_forward
    w, u, k, v = fp32(device, 4096), fp32(device, 4096), fp32(device, 16, 1024, 4096), fp32(device, 16, 1024, 4096)
    state = fp32(device, 16, 3, 1, 4096)
    return lambda: op(w, u, k, v, state)


@case("fla.fused_recurrent_rwkv6", "scan")
def rwkv6(device: str) -> Body:
    op = fla("ops.rwkv6.fused_recurrent").fused_recurrent_rwkv6_fwd
    r, k, v = _qkv(device, heads=64, length=512, dim=64)
    w, u = -fp32(device, 1, 512, 64, 64).abs(), bf16(device, 64, 64)
    return lambda: op(r, k, v, w, u, 0.125)


@case("fla.gla_backward", "linear attention")
def gla_backward(device: str) -> Body:
    op = fla("ops.gla.chunk")
    q, k, v = _qkv(device)
    g, do, a = -fp32(device, 1, 8192, 16, 128).abs(), bf16(device, 1, 8192, 16, 128), bf16(device, 1, 8192, 16, 64)
    h, dh = bf16(device, 1, 128, 16, 128, 128), bf16(device, 1, 128, 16, 128, 128)
    da, dq, dk = fp32(device, 1, 8192, 16, 64), fp32(device, 1, 8192, 16, 128), fp32(device, 1, 8192, 16, 128)
    return lambda: (
        op.chunk_gla_bwd_dv(k, g, a, do, dh),
        op.chunk_gla_bwd_dA(v, do, 0.088),
        op.chunk_gla_bwd_dqk_intra(q, k, g, da),
        op.chunk_gla_bwd_dqkg(q, k, v, h, g, do, dh, dq, dk, 0.088),
    )


@case("fla.kda_backward", "linear attention")
def kda_backward(device: str) -> Body:
    op = fla("ops.kda.chunk_bwd")
    q, k, v = _qkv(device)
    new, do, dv = _qkv(device)
    g, beta, a = -fp32(device, 1, 8192, 16, 128).abs(), fp32(device, 1, 8192, 16).sigmoid(), bf16(device, 1, 8192, 16, 64)
    h, dh = bf16(device, 1, 128, 16, 128, 128), bf16(device, 1, 128, 16, 128, 128)
    return lambda: (
        op.chunk_kda_bwd_dAv(q, k, v, do, a, 0.088),
        op.chunk_kda_bwd_wy_dqkg_fused(q, k, v, new, g, beta, a, h, do, dh, dv, 0.088),
    )


@case("fla.chunk_iplr", "linear attention")
def iplr(device: str) -> Body:
    op = fla("ops.generalized_delta_rule.iplr.chunk").chunk_generalized_iplr_delta_rule_fwd
    q, k, v = _qkv(device, dim=64)
    a, b = bf16(device, 1, 8192, 16, 64), bf16(device, 1, 8192, 16, 64)
    return lambda: op(q, k, v, a, b, 0.125, None, False)


@case("fla.hgrn_backward", "scan")
def hgrn_backward(device: str) -> Body:
    op = fla("ops.hgrn.fused_recurrent").fused_recurrent_hgrn_bwd
    g, o, do = -fp32(device, 8, 2048, 2048).abs(), fp32(device, 8, 2048, 2048), fp32(device, 8, 2048, 2048)
    return lambda: op(g, o, do)


@case("fla.logcumsumexp", "scan")
def logcumsumexp(device: str) -> Body:
    op = fla("ops.utils.logcumsumexp").logcumsumexp_fwd_kernel
    s, z = fp32(device, 16, 8, 4096, 128), fp32(device, 16, 8, 4096, 128)
    return lambda: op[(128,)](s, z, T=4096, S=128)


@case("fla.fused_chunk_ttt", "linear attention")
def ttt(device: str) -> Body:
    op = fla("ops.ttt.fused_chunk").fused_chunk_ttt_linear_fwd
    q, k, v = (bf16(device, 8, 2048, 32, 64) for _ in range(3))
    w, b, eta = bf16(device, 32, 64), bf16(device, 32, 64), bf16(device, 8, 2048, 32, 1)
    return lambda: op(q, k, v, w, b, eta, 0.125, 1e-6, None, None, False)


@case("mamba.mamba3", "state space")
def mamba3(device: str) -> Body:
    op = mamba("mamba3.mamba3_siso_fwd").mamba3_siso_fwd
    q, k, v = bf16(device, 2, 4096, 1, 128), bf16(device, 2, 4096, 1, 128), bf16(device, 2, 4096, 32, 64)
    decay, dt, trap = -fp32(device, 2, 32, 4096).abs(), fp32(device, 2, 32, 4096).abs(), bf16(device, 2, 32, 4096)
    qb, kb, angles = bf16(device, 32, 128), bf16(device, 32, 128), fp32(device, 2, 4096, 32, 32)
    return lambda: op(q, k, v, decay, dt, trap, qb, kb, angles, fp32(device, 32), bf16(device, 2, 4096, 32, 64))


@case("mamba.mamba3_segment_sums", "scan")
def mamba3_sums(device: str) -> Body:
    op = mamba("mamba3.mamba3_mimo_utils")
    da = -fp32(device, 4, 64, 8192).abs()
    return lambda: op.compute_dacs_segsum_triton(da, 64)


@case("mamba.decay_backward", "state space")
def mamba_decay(device: str) -> Body:
    scan, state = mamba("ssd_chunk_scan"), mamba("ssd_chunk_state")
    x, dout, b = bf16(device, 2, 4096, 80, 64), bf16(device, 2, 4096, 80, 64), bf16(device, 2, 4096, 1, 128)
    dt, da = fp32(device, 2, 80, 16, 256).abs(), -fp32(device, 2, 80, 16, 256).abs().cumsum(-1)
    cb, dstates = fp32(device, 2, 16, 1, 256, 256), bf16(device, 2, 16, 80, 64, 128)
    return lambda: (
        scan._chunk_scan_bwd_ddAcs_stable(x, dt, da, dout, cb),
        state._chunk_state_bwd_ddAcs_stable(b, x, dt, da, dstates),
        state._chunk_state_bwd_dx(b, x, dt, da, dstates),
    )


@case("vllm.causal_conv1d", "convolution")
def vllm_conv(device: str) -> Body:
    op = vllm("model_executor.layers.mamba.ops.causal_conv1d").causal_conv1d_fn
    lengths = [4096, 1000, 2050, 3333, 517, 4000, 129, 2222]
    x, w, b = bf16(device, sum(lengths), 8192).t(), bf16(device, 8192, 4), bf16(device, 8192)
    states = bf16(device, 64, 3, 8192).transpose(1, 2)
    starts, slots = given(device, bounds(lengths)), given(device, permuted(63, 63, seed=101)[:8] + 1)
    blocks = [(row, at) for row, size in enumerate(lengths) for at in range(-(-size // 8))]
    rows, places = (given(device, torch.tensor(part, dtype=torch.int32)) for part in zip(*blocks, strict=True))
    warm = given(device, torch.tensor([True, False] * 4))
    made = type("Metadata", (), {"cu_seqlen": sum(lengths), "nums_dict": {8: {
        "tot": len(blocks), "mlist_len": len(blocks), "mlist": rows, "offsetlist": places, "batch_ptr": rows, "token_chunk_offset_ptr": places,
    }}, "batch_ptr": rows, "token_chunk_offset_ptr": places})  # fmt: skip
    return lambda: op(x, w, b, states, starts, slots, warm, metadata=made)


@case("vllm.causal_conv1d_update", "convolution")
def vllm_conv_update(device: str) -> Body:
    op = vllm("model_executor.layers.mamba.ops.causal_conv1d").causal_conv1d_update
    x, w, b = bf16(device, 512, 10240), bf16(device, 10240, 4), bf16(device, 10240)
    states = bf16(device, 1024, 3, 10240).transpose(1, 2)
    slots = given(device, permuted(1023, 1023, seed=102)[:512] + 1)
    return lambda: op(x, states, w, b, "silu", conv_state_indices=slots)


@case("vllm.lightning_attention", "linear attention")
def vllm_lightning(device: str) -> Body:
    op = vllm("model_executor.layers.lightning_attn").lightning_attention
    q, k, v = (bf16(device, 1, 64, 8192, 128) for _ in range(3))
    decay = fp32(device, 1, 64, 1, 1).abs()
    return lambda: op(q, k, v, decay)


@case("vllm.lightning_decode", "decode")
def vllm_lightning_decode(device: str) -> Body:
    op = vllm("model_executor.layers.lightning_attn").linear_decode_forward_triton
    q, k, v = (bf16(device, 128, 64, 1, 128) for _ in range(3))
    states, decay = fp32(device, 256, 64, 128, 128), fp32(device, 64).abs()
    slots = given(device, permuted(256, 256, seed=103)[:128].clone())
    return lambda: op(q, k, v, states, decay, slots)


@case("mlstm.siging_chunk", "linear attention")
def mlstm_siging(device: str) -> Body:
    root = "mlstm_kernels"
    op = library(
        f"{root}.torch.chunkwise.triton_xl_chunk_siging.fw", root, f"{root}.torch", f"{root}.torch.chunkwise",
        f"{root}.torch.chunkwise.triton_xl_chunk_siging", f"{root}.triton", f"{root}.triton.chunkwise",
    )  # fmt: skip
    q, k, v = bf16(device, 2, 8, 4096, 256), bf16(device, 2, 8, 4096, 256), bf16(device, 2, 8, 4096, 512)
    i, f = fp32(device, 2, 8, 4096), fp32(device, 2, 8, 4096)
    return lambda: op.mlstm_siging_chunkwise_fw(q, k, v, i, f)


@case("mlstm.chunk_backward", "linear attention")
def mlstm_backward(device: str) -> Body:
    root = "mlstm_kernels"
    op = library(
        f"{root}.torch.chunkwise.triton_xl_chunk.bw", root, f"{root}.torch", f"{root}.torch.chunkwise",
        f"{root}.torch.chunkwise.triton_xl_chunk", f"{root}.triton", f"{root}.triton.chunkwise",
    )  # fmt: skip
    q, k, v = bf16(device, 2, 8, 4096, 256), bf16(device, 2, 8, 4096, 256), bf16(device, 2, 8, 4096, 512)
    i, f = fp32(device, 2, 8, 4096), fp32(device, 2, 8, 4096)
    n, m, dh = fp32(device, 2, 8, 4096), fp32(device, 2, 8, 4096), bf16(device, 2, 8, 4096, 512)
    c, ns, ms = fp32(device, 2, 8, 33 * 256, 512), fp32(device, 2, 8, 33 * 256), fp32(device, 2, 8, 33)
    return lambda: op.mlstm_chunkwise_bw(
        q, k, v, i, f, matCstate_all=c, vecNstate_all=ns, scaMstate_all=ms, vecN_out=n, vecM_out=m, matDeltaH_out=dh
    )
