"""Further recurrences, linear attention, state spaces, both ways, and convolutions."""

import torch
from launching import Body, case, library
from libraries import fla, mamba, vllm
from made import bf16, fp32, given, permuted


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


@case("fla.chunk_iplr", "linear attention")
def iplr(device: str) -> Body:
    op = fla("ops.generalized_delta_rule.iplr.chunk").chunk_generalized_iplr_delta_rule_fwd
    q, k, v = _qkv(device, dim=64)
    a, b = bf16(device, 1, 8192, 16, 64), bf16(device, 1, 8192, 16, 64)
    return lambda: op(q, k, v, a, b, 0.125, None, False)


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


@case("mamba.mamba3_segment_sums", "scan")
def mamba3_sums(device: str) -> Body:
    op = mamba("mamba3.mamba3_mimo_utils")
    da = -fp32(device, 4, 64, 8192).abs()
    return lambda: op.compute_dacs_segsum_triton(da, 64)


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
