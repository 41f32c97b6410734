"""Optimizers, among them of quantised states, and norms of images and of weights with adapters."""

import torch
import triton.language as tl
from launching import Body, case
from libraries import axolotl, plain, vllm_omni
from made import bf16, fp16, fp32, int8


@case("optimi.adan", "optimizer")
def adan(device: str) -> Body:
    op, size = plain("optimi.adan")._adan_kernel, 1 << 25
    p, g, means, steps, squares, before, rest = (bf16(device, size) for _ in range(7))
    rates = 1e-3, 0.98, 0.02, 0.92, 0.92, 0.08, 0.99, 0.01, 1e-8, 0.02
    return lambda: op[(size // 1024,)](
        p, g, means, steps, squares, before, rest, *rates, True, False, True, True, size, BLOCK_SIZE=1024
    )


@case("optimi.stable_adamw", "optimizer")
def stable_adamw(device: str) -> Body:
    op, size = plain("optimi.stableadamw"), 1 << 25
    p, g, means, squares, rest = (bf16(device, size) for _ in range(5))
    mean = torch.zeros(1, device=device)
    return lambda: (
        op._stableadamw_exp_avg_kernel[(size // 1024,)](
            g, means, squares, mean, 1e-6, 0.9, 0.1, 0.99, 0.01, size, True, BLOCK_SIZE=1024, param_dtype=tl.bfloat16
        ),
        op._stableadamw_update_kernel[(size // 1024,)](
            p, means, squares, rest, mean, 1e-3, 1e-2, 1e-6, 1e-3, True, True, False, size, BLOCK_SIZE=1024
        ),
    )


@case("flashoptim.quantised_states", "optimizer")
def flash_optimizers(device: str) -> Body:
    op, size = plain("flashoptim.optimizers"), 1 << 26
    p, g, means, rest = bf16(device, size), bf16(device, size), int8(device, size), int8(device, size)
    squares, scales, more = int8(device, size).view(torch.uint8), *(fp16(device, size // 32).abs() for _ in range(2))
    options = {"PARAM_DTYPE": tl.bfloat16, "USE_ECC": True, "QUANTIZE_OPTIM_STATES": True, "SIGNED_ERROR_T": tl.int8}
    options |= {"NUM_MANTISSA_BITS": 7, "SIGNED_MAX_VAL": 127, "BLOCK_SIZE_N": 1024, "GROUP_SIZE": 32}
    return lambda: (
        op._triton_adam_kernel[(264,)](
            means, scales, squares, more, p, g, rest, size, 1e-4, 0.9, 0.95, 1e-8, 0.1, 7, DECOUPLED_WEIGHT_DECAY=True,
            **options,
        ),
        op._triton_momentum_kernel[(264,)](
            means, scales, p, g, rest, size, 1e-4, 0.99, 0.9, 0.1, DO_LION=True, NESTEROV=False,
            DECOUPLED_WEIGHT_DECAY=True, **options,
        ),
    )  # fmt: skip


@case("flashoptim.casts", "quantise")
def flash_casts(device: str) -> Body:
    op, size = plain("flashoptim.optimizers"), 1 << 26
    x, q, scales = fp32(device, size), int8(device, size), fp16(device, size // 32).abs()
    return lambda: (
        op._triton_quantize_kernel[(264,)](x, q, scales, size, 127.0, tl.int8, 32, False, True),
        op._triton_dequantize_kernel[(264,)](q, scales, x, size, 127.0, 32, False, True),
    )


@case("lion_pytorch.update", "optimizer")
def lion(device: str) -> Body:
    op, size = plain("lion_pytorch.triton").update_fn_kernel, 1 << 25
    p, g, means = (fp32(device, size) for _ in range(3))
    return lambda: op[lambda meta: (size // meta["BLOCK_SIZE"],)](p, g, means, 1e-4, 0.1, 0.9, 0.99, size)


@case("axolotl.sinkhorn_descent", "optimizer")
def sinkhorn_descent(device: str) -> Body:
    op, rows, columns = axolotl("utils.optimizers.sinkgd_triton"), 4096, 11008
    g, x, w, u, sums = *(bf16(device, 1, rows, columns) for _ in range(3)), fp32(device, columns), fp32(device, 1, 3)
    one, two, norms, v = (fp32(device, size).abs() for size in (columns, columns, rows, rows))
    place = rows * columns, columns
    tiles, root = {"BLOCK_M": 32, "BLOCK_N": 128}, (columns**0.5, rows**0.5)
    grid, part = (rows // 32, 3, 1), 3712
    return lambda: (
        op._rowsq_wide[grid](g, one, norms, rows, columns, root[1], 1e-8, part, *place, **tiles),
        op._scale_wide[grid](g, x, one, norms, two, rows, columns, *root, 1e-8, part, *place, **tiles),
        op._matvec1_partials[grid](
            x,
            one,
            w,
            u,
            v,
            sums,
            rows,
            columns,
            root[1],
            1e-8,
            part,
            *place,
            WITH_PARTIALS=True,
            ATOMIC_V=True,
            **tiles,
        ),
    )


@case("axolotl.dora_norm", "norm")
def dora_norm(device: str) -> Body:
    op = axolotl("kernels.dora")._dora_fused_norm_kernel
    w, b, a, size, out = (
        bf16(device, 14336, 4096),
        bf16(device, 14336, 16),
        bf16(device, 16, 4096),
        *(bf16(device, 14336) for _ in range(2)),
    )
    return lambda: op[(14336,)](w, b, a, size, out, 14336, 4096, 16, 2.0, BLOCK_IN=1024, BLOCK_R=16)


@case("vllm_omni.rms_norm_of_pixels", "norm")
def rms_norm_of_pixels(device: str) -> Body:
    op = vllm_omni("diffusion.distributed.autoencoders.wan_vae_fastpath.triton_rms_norm_cl")._rms_norm_cl_kernel
    rows, channels = 4 * 240 * 416, 256
    x, y, w, bias = (
        bf16(device, rows, channels),
        bf16(device, rows, channels),
        bf16(device, channels),
        bf16(device, 256),
    )
    return lambda: op[(rows // 16,)](
        x, w, bias, y, rows, 16.0, 1e-12, C=channels, BLOCK_C=256, SILU=True, HAS_BIAS=True, BLOCK_P=16, num_warps=4,
        enable_fp_fusion=False,
    )  # fmt: skip
