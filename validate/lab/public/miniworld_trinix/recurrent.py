"""Scans, gated recurrences, linear attention and what belongs to it."""

from launching import Body, case
from libraries import fla, plain, sglang_kernels
from made import bf16, fp32


@case("mingru.linear_scan", "scan")
def linear_scan(device: str) -> Body:
    op = plain("mingru.triton_scans")
    a, b, one, two, da, db = (fp32(device, 8, 2048, 4096) for _ in range(6))
    return lambda: (
        op._linear_scan_fwd_kernel[(8, 32)](a, b, one, two, 2048, 4096, 128),
        op._linear_scan_bwd_kernel[(8, 32)](a, one, two, da, db, da, db, 2048, 4096, 128),
    )


@case("mingru.log_scan", "scan")
def log_scan(device: str) -> Body:
    op = plain("mingru.triton_scans")._parallel_scan_log_fwd_kernel
    factors, values, out = fp32(device, 8, 1024, 4096), fp32(device, 8, 1025, 4096), fp32(device, 8, 1024, 4096)
    return lambda: op[(8, 32)](factors, values, out, 1024, 4096, 128)


@case("mingru.delta", "linear attention")
def mingru_delta(device: str) -> Body:
    op = plain("mingru.triton_scans")._delta_forward_launch
    q, k, v = fp32(device, 4, 16, 4096, 64), fp32(device, 4, 16, 4096, 1, 64), fp32(device, 4, 16, 4096, 1, 64)
    beta, state = fp32(device, 4, 16, 4096, 1), fp32(device, 4, 16, 64, 64)
    return lambda: op(q, k, v, beta, state, 64)


@case("gru_qat.diagonal", "scan")
def gru_diagonal(device: str) -> Body:
    op = plain("gru_qat.triton_kernels.scan_diagonal")
    x, dx = fp32(device, 256, 256, 3072), fp32(device, 256, 256, 3072)
    out, do = fp32(device, 256, 256, 1024), fp32(device, 256, 256, 1024)
    state, dstate, w, b = fp32(device, 256, 1024), fp32(device, 256, 1024), fp32(device, 3, 1024), fp32(device, 3072)
    dw, db = fp32(device, 8, 3, 1024), fp32(device, 8, 3072)
    scales = 1.0, -(2**31), 2**31 - 1, 1.0, -(2**31), 2**31 - 1
    options = {"H": 1024, "BLOCK_B": 32, "BLOCK_H": 64, "QUANT_H_IN": False, "QUANT_H_OUT": False, "num_stages": 2}
    steps, narrow = x.stride()[:2], out.stride()[:2]
    return lambda: (
        op.gru_scan_diagonal_fwd_kernel[(8, 16)](
            x, state, w, b, out, 256, 256, *steps, 1024, 1024, *narrow, *scales, **options
        ),
        op.gru_scan_diagonal_bwd_kernel[(8, 16)](
            x, state, w, b, out, do, dx, dstate, dw, db, 256, 256, *steps, 1024, 1024, *narrow, *narrow, *steps, 1024,
            3072, 1024, 3072, *scales, **options,
        ),
    )  # fmt: skip


@case("fla.additive_gate", "scan")
def additive_gate(device: str) -> Body:
    op = fla("ops.gsa.gate")
    x, z, dk, dg = (fp32(device, 8, 4096, 4, 64) for _ in range(4))
    return lambda: (
        op.fused_additive_gate_fwd(x, None, None, True),
        op.fused_additive_gate_bwd(x, z, None, None, dk, dg, None),
    )


@case("fla.pooling_backward", "elementwise")
def pooling_backward(device: str) -> Body:
    op = fla("ops.utils.pooling").mean_pooling_bwd
    dy = bf16(device, 2, 128, 16, 128)
    return lambda: op(dy, 2, 8192, 64)


@case("fla.global_cumsum", "scan")
def global_cumsum(device: str) -> Body:
    op = fla("ops.utils.cumsum").chunk_global_cumsum_vector
    x = fp32(device, 4, 8192, 16, 128)
    return lambda: op(x, reverse=True)


@case("fla.channel_mixing", "elementwise")
def channel_mixing(device: str) -> Body:
    op = fla("ops.rwkv7.channel_mixing")
    x, before, mix = bf16(device, 8, 2048, 4096), bf16(device, 8, 4096), bf16(device, 1, 1, 4096)
    y, dx, dbefore = bf16(device, 8, 2048, 4096), bf16(device, 8, 2048, 4096), bf16(device, 8, 4096)
    blocks = lambda meta: (-(-x.numel() // meta["BLOCK_SIZE"]), 1, 1)  # noqa: E731
    return lambda: (
        op.rwkv_mix_fwd(x, before, mix),
        op.rwkv_relu_and_square_fwd(x, False),
        op.relu_square_bwd_kernel[blocks](y, x, x.numel(), BLOCK_SIZE=4096),
        op.rwkv_mix_bwd_kenel[blocks](y, mix.view(4096), dx, dbefore, 8, 2048, 4096),
    )


@case("fla.grouped_gated_norm", "norm")
def grouped_gated_norm(device: str) -> Body:
    op = fla("modules.norm.layernorm_gated")
    x, z, w, dy = bf16(device, 8192, 4096), bf16(device, 8192, 4096), bf16(device, 4096), bf16(device, 8192, 4096)
    dx, dz, dw, scale = bf16(device, 8192, 4096), bf16(device, 8192, 4096), fp32(device, 264, 4096), fp32(device, 65536)
    about = {"IS_RMS_NORM": True, "NORM_BEFORE_GATE": False, "BD": 512, "eps": 1e-6, "T": 8192, "D": 512}
    steps = {f"stride_{name}_row": 4096 for name in ("g", "dy", "dx", "dg", "dw")}
    return lambda: (
        op.layer_norm_fwd(x, w, None, 1e-6, z=z, group_size=512, norm_before_gate=False, is_rms_norm=True),
        op.layer_norm_bwd_kernel_group[(33, 8)](
            x=x, w=w, b=None, g=z, y=None, dy=dy, dx=dx, dw=dw, db=None, dg=dz, mean=None, rstd=scale,
            stride_x_row=4096, stride_y_row=0, stride_db_row=0, BS=249, num_warps=4, **steps, **about,
        ),
    )  # fmt: skip


@case("sglang.inverse_rms", "reduction")
def inverse_rms(device: str) -> Body:
    op = sglang_kernels("diffusion.attention.sana_wm_gdn_triton").fused_qk_inv_rms
    x = bf16(device, 2, 16384, 3, 20, 112)
    return lambda: op(x)
