"""Linear attention, delta rules and state-space models that were not used before, and decoding steps."""

import torch
from launching import Body, case, library
from libraries import fla, mamba
from made import backward, bf16, fp32


@case("fla.chunk_kda", "linear attention")
def kda(device: str) -> Body:
    op = fla("ops.kda.chunk").chunk_kda
    q, k, v = (bf16(device, 1, 8192, 16, 128) for _ in range(3))
    g, beta = -fp32(device, 1, 8192, 16, 128).abs(), bf16(device, 1, 8192, 16).sigmoid()
    return lambda: op(q, k, v, g, beta)


@case("fla.chunk_gsa", "linear attention")
def gsa(device: str) -> Body:
    op = fla("ops.gsa.chunk").chunk_gsa
    q, k, v = (bf16(device, 4, 2048, 8, 128) for _ in range(3))
    s, g = bf16(device, 4, 2048, 8, 64), -fp32(device, 4, 2048, 8, 64).abs()
    return lambda: op(q, k, v, s, g)


@case("fla.chunk_rwkv7", "linear attention")
def rwkv7(device: str) -> Body:
    op = fla("ops.rwkv7.chunk").chunk_rwkv7
    r, k, v, a, b = (bf16(device, 2, 4096, 32, 64) for _ in range(5))
    w = -fp32(device, 2, 4096, 32, 64).abs()
    return lambda: op(r, w, k, v, a, b)


@case("fla.chunk_delta_rule_backward", "linear attention")
def delta_backward(device: str) -> Body:
    op = fla("ops.delta_rule.chunk").chunk_delta_rule
    q, k, v = (bf16(device, 2, 4096, 16, 128, grad=True) for _ in range(3))
    beta = bf16(device, 2, 4096, 16).sigmoid()
    return lambda: backward(op(q, k, v, beta)[0], q, k, v)


@case("fla.fused_recurrent_gated_delta_rule", "decode")
def gated_delta_decode(device: str) -> Body:
    op = fla("ops.gated_delta_rule.fused_recurrent").fused_recurrent_gated_delta_rule
    q, k, v = (bf16(device, 64, 1, 32, 128) for _ in range(3))
    g, beta = -fp32(device, 64, 1, 32).abs(), bf16(device, 64, 1, 32).sigmoid()
    state = fp32(device, 64, 32, 128, 128)
    return lambda: op(q, k, v, g=g, beta=beta, initial_state=state, output_final_state=True)


@case("fla.parallel_based", "attention")
def based(device: str) -> Body:
    op = fla("ops.based.parallel").parallel_based
    q, k, v = bf16(device, 4, 2048, 16, 16), bf16(device, 4, 2048, 16, 16), bf16(device, 4, 2048, 16, 128)
    return lambda: op(q, k, v)


@case("fla.parallel_stickbreaking_attn", "attention")
def stickbreaking(device: str) -> Body:
    op = fla("ops.stickbreaking_attn.parallel").parallel_stickbreaking_attn
    q, k, v = (bf16(device, 1, 4096, 16, 64) for _ in range(3))
    return lambda: op(q, k, v)


@case("fla.parallel_simple_gla", "attention")
def parallel_simple_gla(device: str) -> Body:
    op = fla("ops.simple_gla.parallel").parallel_simple_gla
    q, k, v = (bf16(device, 2, 4096, 16, 64) for _ in range(3))
    g = -fp32(device, 2, 4096, 16).abs()
    return lambda: op(q, k, v, g)


@case("fla.chunk_hgrn", "scan")
def chunk_hgrn(device: str) -> Body:
    op = fla("ops.hgrn.chunk").chunk_hgrn
    x, g = bf16(device, 8, 4096, 2048), -bf16(device, 8, 4096, 2048).abs()
    return lambda: op(x, g)


@case("fla.chunk_ttt_linear", "linear attention")
def ttt(device: str) -> Body:
    op = fla("ops.ttt.chunk").chunk_ttt_linear
    q, k, v = (bf16(device, 4, 2048, 32, 64) for _ in range(3))
    w, b, eta = bf16(device, 32, 64), bf16(device, 32, 64), bf16(device, 4, 2048, 32, 1)
    return lambda: op(q, k, v, w, b, eta)


@case("fla.parallel_path_attn", "attention")
def path_attn(device: str) -> Body:
    op = fla("ops.path_attn.parallel").parallel_path_attn
    q, k, v = (bf16(device, 1, 4096, 16, 64) for _ in range(3))
    w, beta = fp32(device, 1, 4096, 16, 64), fp32(device, 1, 4096, 16).sigmoid()
    return lambda: op(q, k, v, w, beta)


@case("fla.chunk_lightning_attn", "linear attention")
def lightning(device: str) -> Body:
    op = fla("ops.lightning_attn.chunk").chunk_lightning_attn
    q, k, v = (bf16(device, 2, 8192, 32, 96) for _ in range(3))
    return lambda: op(q, k, v, layer_idx=3, num_layers=32)


@case("fla.causal_conv1d_backward", "convolution")
def conv_backward(device: str) -> Body:
    op = fla("modules.causal_conv1d.ops")
    x, dy, w = bf16(device, 2, 4096, 6144), bf16(device, 2, 4096, 6144), bf16(device, 6144, 4)
    return lambda: op.causal_conv1d_bwd(x, dy, None, w, None, None, None, "silu")


def _ssd(device: str) -> dict[str, torch.Tensor]:
    """Tensors of Mamba-2 at 2.7B: 80 heads of 64, a state of 128, chunks of 256."""
    batch, length, heads, dim, groups, state, chunk = 2, 4096, 80, 64, 1, 128, 256
    chunks = length // chunk
    return {
        "x": bf16(device, batch, length, heads, dim), "dt": fp32(device, batch, heads, chunks, chunk).abs(),
        "A": -fp32(device, heads).abs(), "C": bf16(device, batch, length, groups, state),
        "B": bf16(device, batch, length, groups, state), "raw_dt": bf16(device, batch, length, heads),
        "da": -fp32(device, batch, heads, chunks, chunk).abs().cumsum(-1),
        "states": bf16(device, batch, chunks, heads, dim, state),
        "cb": fp32(device, batch, chunks, groups, chunk, chunk),
        "dout": bf16(device, batch, length, heads, dim), "z": bf16(device, batch, length, heads, dim),
    }  # fmt: skip


@case("mamba.chunk_scan_gated", "state space")
def mamba_scan_gated(device: str) -> Body:
    op, t = mamba("ssd_chunk_scan"), _ssd(device)
    return lambda: op._chunk_scan_fwd(t["cb"], t["x"], t["dt"], t["da"], t["C"], t["states"], z=t["z"])


@case("mamba.chunk_scan_backward_dc", "state space")
def mamba_dc(device: str) -> Body:
    op, t = mamba("ssd_chunk_scan"), _ssd(device)
    return lambda: op._chunk_scan_bwd_dC(t["states"], t["da"], t["dout"], C=t["C"])


@case("mamba.chunk_scan_backward_dcb", "state space")
def mamba_dcb(device: str) -> Body:
    op, t = mamba("ssd_chunk_scan"), _ssd(device)
    return lambda: op._chunk_scan_bwd_dcb(t["x"], t["dt"], t["da"], t["dout"], CB=t["cb"])


@case("mamba.chunk_scan_backward_dz", "state space")
def mamba_dz(device: str) -> Body:
    op, t = mamba("ssd_chunk_scan"), _ssd(device)
    return lambda: op._chunk_scan_bwd_dz(t["x"], t["z"], t["x"], t["dout"], 256)


@case("mamba.chunk_cumsum_backward", "scan")
def mamba_cumsum_backward(device: str) -> Body:
    op, t = mamba("ssd_chunk_state"), _ssd(device)
    return lambda: op._chunk_cumsum_bwd(t["da"], t["dt"], t["raw_dt"], t["A"], dt_softplus=True)


@case("mamba.state_passing_backward", "scan")
def mamba_passing_backward(device: str) -> Body:
    op = mamba("ssd_state_passing")
    states, dout = bf16(device, 4, 32, 64, 8192), bf16(device, 4, 32, 64, 8192)
    da = -fp32(device, 4, 64, 32).abs()
    return lambda: op._state_passing_bwd(states, da, dout)


@case("mamba.bmm_chunk_backward", "matmul")
def mamba_bmm_backward(device: str) -> Body:
    op = mamba("ssd_bmm")
    a, dout = bf16(device, 4, 8192, 8, 128), bf16(device, 4, 32, 8, 256, 256)
    return lambda: op._bmm_chunk_bwd(a, dout)


@case("mamba.angle_dt", "scan")
def mamba_angle(device: str) -> Body:
    op = mamba("mamba3.angle_dt")
    angle, dt = fp32(device, 4, 4096, 32, 32), fp32(device, 4, 32, 4096)
    return lambda: op.angle_dt_fwd(angle, dt)


@case("mlstm.xl_chunk", "linear attention")
def mlstm(device: str) -> Body:
    root = "mlstm_kernels"
    op = library(
        f"{root}.torch.chunkwise.triton_xl_chunk.fw", root, f"{root}.torch", f"{root}.torch.chunkwise",
        f"{root}.torch.chunkwise.triton_xl_chunk", f"{root}.triton", f"{root}.triton.chunkwise",
    )  # fmt: skip
    q, k, v = bf16(device, 2, 8, 4096, 256), bf16(device, 2, 8, 4096, 256), bf16(device, 2, 8, 4096, 512)
    i, f = fp32(device, 2, 8, 4096), fp32(device, 2, 8, 4096)
    return lambda: op.mlstm_chunkwise_fw(q, k, v, i, f)
