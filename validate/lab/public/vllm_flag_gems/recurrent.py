"""Further recurrences, linear attention, state spaces, both ways, and convolutions."""

from types import SimpleNamespace

import torch
from launching import Body, case, library
from libraries import fla, mamba, vllm
from made import bf16, bounds, fp32, given, permuted


def _qkv(device: str, heads: int = 16, length: int = 8192, dim: int = 128) -> list[torch.Tensor]:
    return [bf16(device, 1, length, heads, dim) for _ in range(3)]


@case("fla.gated_delta_product", "linear attention")
def delta_product(device: str) -> Body:
    state, out = (
        fla("ops.gated_delta_product.chunk_deltaproduct_h"),
        fla("ops.gated_delta_product.chunk_deltaproduct_o"),
    )
    q, g = bf16(device, 1, 8192, 16, 128), -fp32(device, 1, 8192, 16).abs()
    k, w, u = _qkv(device, length=16384)
    h = bf16(device, 1, 128, 16, 128, 128)
    return lambda: (
        state.chunk_gated_delta_product_fwd_h(k, w, u, g, num_householder=2),
        out.chunk_gated_delta_product_fwd_o(q, k, u, h, g, 0.088, num_householder=2),
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
    g, scales = -fp32(device, 2, 4096, 32).abs(), bf16(device, 2, 4096, 32, 13)
    return lambda: op.chunk_log_linear_attn(q, k, v, g, scales)


@case("fla.rwkv4", "scan")
def rwkv4(device: str) -> Body:
    op = fla("ops.rwkv4.fused_recurrent").fused_recurrent_rwkv4_forward
    w, u, k, v = fp32(device, 4096), fp32(device, 4096), fp32(device, 16, 1024, 4096), fp32(device, 16, 1024, 4096)
    state = fp32(device, 16, 3, 1, 4096)
    return lambda: op(w, u, k, v, state)


@case("fla.kda_backward", "linear attention")
def kda_backward(device: str) -> Body:
    op = fla("ops.kda.chunk_bwd")
    q, k, v = _qkv(device)
    new, do, dv = _qkv(device)
    g, beta, a = (
        -fp32(device, 1, 8192, 16, 128).abs(),
        fp32(device, 1, 8192, 16).sigmoid(),
        bf16(device, 1, 8192, 16, 64),
    )
    h, dh = bf16(device, 1, 128, 16, 128, 128), bf16(device, 1, 128, 16, 128, 128)
    return lambda: (
        op.chunk_kda_bwd_dAv(q, k, v, do, a, 0.088),
        op.chunk_kda_bwd_wy_dqkg_fused(q, k, v, new, g, beta, a, h, do, dh, dv, 0.088),
    )


@case("fla.hgrn_backward", "scan")
def hgrn_backward(device: str) -> Body:
    op = fla("ops.hgrn.fused_recurrent").fused_recurrent_hgrn_bwd
    g, o, do = -fp32(device, 8, 2048, 2048).abs(), fp32(device, 8, 2048, 2048), fp32(device, 8, 2048, 2048)
    return lambda: op(g, o, do)


@case("mamba.mamba3", "state space")
def mamba3(device: str) -> Body:
    op = mamba("mamba3.mamba3_siso_fwd").mamba3_siso_fwd
    q, k, v = bf16(device, 2, 4096, 1, 128), bf16(device, 2, 4096, 1, 128), bf16(device, 2, 4096, 32, 64)
    decay, dt, trap = -fp32(device, 2, 32, 4096).abs(), fp32(device, 2, 32, 4096).abs(), bf16(device, 2, 32, 4096)
    qb, kb, angles = bf16(device, 32, 128), bf16(device, 32, 128), fp32(device, 2, 4096, 32, 32)
    return lambda: op(q, k, v, decay, dt, trap, qb, kb, angles, fp32(device, 32), bf16(device, 2, 4096, 32, 64))


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
    table = {"tot": len(blocks), "mlist_len": len(blocks), "mlist": rows, "offsetlist": places}
    own = {"batch_ptr": rows, "token_chunk_offset_ptr": places}
    made = SimpleNamespace(cu_seqlen=sum(lengths), nums_dict={8: table | own}, **own)
    return lambda: op(x, w, b, states, starts, slots, warm, metadata=made)


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
