"""Cases of linear attention, state-space models and convolutions: chunks, scans, states that pass on."""

import torch
from launching import Body, case
from libraries import fla, mamba
from made import backward, bf16, fp32, given, seeded


@case("fla.chunk_simple_gla", "linear attention")
def simple_gla(device: str) -> Body:
    op = fla("ops.simple_gla.chunk").chunk_simple_gla
    q, k, v = (bf16(device, 4, 4096, 16, 128) for _ in range(3))
    g = -fp32(device, 4, 4096, 16).abs()
    return lambda: op(q, k, v, g)


@case("fla.chunk_gla", "linear attention")
def gla(device: str) -> Body:
    op = fla("ops.gla.chunk").chunk_gla
    q, k, v = (bf16(device, 2, 4096, 16, 128, grad=True) for _ in range(3))
    g = -fp32(device, 2, 4096, 16, 128).abs()
    return lambda: backward(op(q, k, v, g)[0], q, k, v)


@case("fla.chunk_delta_rule", "linear attention")
def delta_rule(device: str) -> Body:
    op = fla("ops.delta_rule.chunk").chunk_delta_rule
    q, k, v = (bf16(device, 4, 4096, 16, 128) for _ in range(3))
    beta = bf16(device, 4, 4096, 16).sigmoid()
    return lambda: op(q, k, v, beta)


@case("fla.chunk_gated_delta_rule", "linear attention")
def gated_delta_rule(device: str) -> Body:
    op = fla("ops.gated_delta_rule.chunk").chunk_gated_delta_rule
    q, k, v = (bf16(device, 2, 8192, 16, 128) for _ in range(3))
    g, beta = -fp32(device, 2, 8192, 16).abs(), bf16(device, 2, 8192, 16).sigmoid()
    return lambda: op(q, k, v, g, beta)


@case("fla.chunk_retention", "linear attention")
def retention(device: str) -> Body:
    op = fla("ops.retention.chunk").chunk_retention
    q, k, v = (bf16(device, 4, 8192, 8, 128) for _ in range(3))
    return lambda: op(q, k, v)


@case("fla.fused_recurrent_hgrn", "scan")
def hgrn(device: str) -> Body:
    op = fla("ops.hgrn.fused_recurrent").fused_recurrent_hgrn
    x, g = bf16(device, 16, 2048, 2048), -bf16(device, 16, 2048, 2048).abs()
    return lambda: op(x, g)


@case("fla.fused_recurrent_gla", "scan")
def recurrent_gla(device: str) -> Body:
    op = fla("ops.gla.fused_recurrent").fused_recurrent_gla
    q, k, v = (bf16(device, 64, 128, 16, 128) for _ in range(3))
    g = -fp32(device, 64, 128, 16, 128).abs()
    return lambda: op(q, k, v, g)


@case("fla.chunk_rwkv6", "linear attention")
def rwkv6(device: str) -> Body:
    op = fla("ops.rwkv6.chunk").chunk_rwkv6
    r, k, v = (bf16(device, 2, 4096, 32, 64) for _ in range(3))
    w, u = -fp32(device, 2, 4096, 32, 64).abs(), bf16(device, 32, 64)
    return lambda: op(r, k, v, w, u)


@case("fla.parallel_attn", "attention")
def parallel_attn(device: str) -> Body:
    op = fla("ops.attn.parallel").parallel_attn
    q, k, v = (bf16(device, 2, 4096, 16, 128, grad=True) for _ in range(3))
    return lambda: backward(op(q, k, v), q, k, v)


@case("fla.parallel_forgetting_attn", "attention")
def forgetting(device: str) -> Body:
    op = fla("ops.forgetting_attn.parallel").parallel_forgetting_attn
    q, k, v = (bf16(device, 2, 4096, 16, 64) for _ in range(3))
    g = -fp32(device, 2, 4096, 16).abs()
    return lambda: op(q, k, v, g)


@case("fla.causal_conv1d", "convolution")
def causal_conv1d(device: str) -> Body:
    op = fla("modules.causal_conv1d.ops")
    x, w = bf16(device, 4, 8192, 4096), bf16(device, 4096, 4)
    return lambda: op.causal_conv1d_fwd(x, w, None, None, None, False, "silu")


@case("fla.l2norm", "norm")
def l2norm(device: str) -> Body:
    op = fla("modules.norm.l2norm")
    x = bf16(device, 8, 8192, 16, 128)
    return lambda: op.l2norm_fwd(x)


@case("fla.layer_norm_gated", "norm")
def norm_gate(device: str) -> Body:
    op = fla("modules.norm.fused_norm_gate")
    a, b, w = bf16(device, 16384, 2048), bf16(device, 16384, 2048), bf16(device, 2048)
    return lambda: op.layer_norm_gated_fwd(a, b, w, None, "swish", 1e-5, is_rms_norm=True)


@case("fla.token_shift", "convolution")
def token_shift(device: str) -> Body:
    op = fla("modules.token_shift").token_shift
    x = bf16(device, 8, 4096, 2048)
    return lambda: op(x)


@case("fla.cross_entropy", "loss")
def fla_cross_entropy(device: str) -> Body:
    op = fla("modules.fused_cross_entropy.ops")
    x, y = bf16(device, 4096, 65536, grad=True), given(device, seeded(65536, 4096))
    return lambda: op.cross_entropy_loss(x, y)


def _ssd(device: str) -> dict[str, torch.Tensor]:
    batch, length, heads, dim, groups, state, chunk = 4, 4096, 32, 64, 1, 128, 256
    chunks = length // chunk
    return {
        "x": bf16(device, batch, length, heads, dim), "dt": fp32(device, batch, heads, chunks, chunk).abs(),
        "raw_dt": bf16(device, batch, length, heads), "A": -fp32(device, heads).abs(),
        "B": bf16(device, batch, length, groups, state), "C": bf16(device, batch, length, groups, state),
        "da": -fp32(device, batch, heads, chunks, chunk).abs().cumsum(-1),
        "states": bf16(device, batch, chunks, heads, dim, state),
        "cb": fp32(device, batch, chunks, groups, chunk, chunk),
        "dout": bf16(device, batch, length, heads, dim), "D": fp32(device, heads),
    }  # fmt: skip


@case("mamba.chunk_cumsum", "scan")
def mamba_cumsum(device: str) -> Body:
    op, t = mamba("ssd_chunk_state"), _ssd(device)
    return lambda: op._chunk_cumsum_fwd(t["raw_dt"], t["A"], 256, dt_softplus=True)


@case("mamba.chunk_state", "state space")
def mamba_chunk_state(device: str) -> Body:
    op, t = mamba("ssd_chunk_state"), _ssd(device)
    return lambda: op._chunk_state_fwd(t["B"], t["x"], t["dt"], t["da"])


@case("mamba.state_passing", "scan")
def mamba_state_passing(device: str) -> Body:
    op = mamba("ssd_state_passing")
    states, da = fp32(device, 8, 32, 64, 8192), -fp32(device, 8, 64, 32).abs()
    return lambda: op._state_passing_fwd(states, da)


@case("mamba.bmm_chunk", "matmul")
def mamba_bmm(device: str) -> Body:
    op = mamba("ssd_bmm")
    a, b = bf16(device, 8, 8192, 8, 128), bf16(device, 8, 8192, 8, 128)
    return lambda: op._bmm_chunk_fwd(a, b, 256, causal=True, output_dtype=torch.float32)


@case("mamba.chunk_scan", "state space")
def mamba_chunk_scan(device: str) -> Body:
    op, t = mamba("ssd_chunk_scan"), _ssd(device)
    return lambda: op._chunk_scan_fwd(t["cb"], t["x"], t["dt"], t["da"], t["C"], t["states"], D=t["D"])


@case("mamba.chunk_scan_backward_states", "state space")
def mamba_dstates(device: str) -> Body:
    op, t = mamba("ssd_chunk_scan"), _ssd(device)
    return lambda: op._chunk_scan_bwd_dstates(t["C"], t["da"], t["dout"])


@case("mamba.chunk_scan_backward_dx", "state space")
def mamba_dx(device: str) -> Body:
    op, t = mamba("ssd_combined"), _ssd(device)
    return lambda: op._chunk_scan_chunk_state_bwd_dx(
        t["x"], t["dt"], t["da"], t["B"], t["cb"], t["dout"], t["states"], D=t["D"]
    )


@case("mamba.chunk_state_backward_db", "state space")
def mamba_db(device: str) -> Body:
    op, t = mamba("ssd_chunk_state"), _ssd(device)
    return lambda: op._chunk_state_bwd_db(t["x"], t["dt"], t["da"], t["states"], B=t["B"])


@case("mamba.selective_state_update", "decode")
def mamba_update(device: str) -> Body:
    op = mamba("selective_state_update").selective_state_update
    state, x, dt = fp32(device, 256, 80, 64, 128), bf16(device, 256, 80, 64), bf16(device, 256, 80, 64)
    skip, bias = fp32(device, 80, 64), fp32(device, 80, 64)
    a, b, c = -fp32(device, 80, 64, 128).abs(), bf16(device, 256, 1, 128), bf16(device, 256, 1, 128)
    return lambda: op(state, x, dt, a, b, c, D=skip, dt_bias=bias, dt_softplus=True)
