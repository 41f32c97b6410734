"""Norms, activations, rotary turns, biases, casts and optimizers, forward and backward."""

import torch
from launching import Body, case
from libraries import miniworld, plain
from made import bf16, fp16, fp32, int8


@case("trinix.mish", "elementwise")
def mish(device: str) -> Body:
    op = plain("trinix.kernels.mish_kernel")
    x, y, dy, dx = (bf16(device, 8192, 11008) for _ in range(4))
    grid, options = (8192 * 11008 // 16384,), {"BLOCK_SIZE": 16384, "num_warps": 32}
    return lambda: (
        op.mish_forward_kernel[grid](y, x, x.numel(), **options),
        op.mish_backward_kernel[grid](dx, dy, x, x.numel(), **options),
    )


@case("trinix.reglu", "elementwise")
def reglu(device: str) -> Body:
    op = plain("trinix.kernels.reglu_kernel")
    x, dx, y = bf16(device, 4096, 28672), bf16(device, 4096, 28672), bf16(device, 4096, 14336)
    sizes, options = (14336, 28672), {"BLOCK_SIZE": 16384, "num_warps": 32}
    return lambda: (
        op.reglu_forward_kernel[(4096,)](y, sizes[0], x, sizes[1], 14336, **options),
        op.reglu_backward_kernel[(4096,)](y, sizes[0], x, sizes[1], dx, sizes[1], 14336, **options),
    )


@case("trinix.scaled_lion", "optimizer")
def lion(device: str) -> Body:
    op = plain("trinix.kernels.lion_kernel").fused_lion_kernel_with_grad_scale
    p, g, m = bf16(device, 1 << 26), bf16(device, 1 << 26), fp32(device, 1 << 26)
    return lambda: op[(1 << 12,)](p, g, m, 1e-4, 0.9, 0.99, 0.01, 0.5, 1 << 26, BLOCK_SIZE=16384, num_warps=32)


@case("trinix.alibi", "elementwise")
def alibi(device: str) -> Body:
    op = plain("trinix.kernels.alibi_kernel").alibi_bias_kernel
    bias, slopes = bf16(device, 1, 32, 4096, 4096), bf16(device, 32)
    return lambda: op[(1, 32, 4096)](bias, slopes, 1, 32, 4096, *bias.stride(), BLOCK_SIZE_J=4096, num_warps=8)


@case("turboadam.packed_state", "optimizer")
def turboadam(device: str) -> Body:
    op = plain("turboadam.triton_kernels")
    size, blocks = 1 << 26, (1 << 26) // 256
    p, g, means, scales = bf16(device, size), bf16(device, size), bf16(device, size // 64), fp16(device, blocks, 2)
    q, v = (int8(device, size * bits // 8).view(torch.uint8) for bits in (2, 6))
    one, two, total = (fp32(device, 1).abs() for _ in range(3))
    rates = 0.65, 0.2, 0.69, 0.22, 0.9, 0.1, 0.999, 0.001, 1.4e-4, 1e-8, 0.99999
    options = {"N_BITS": 6, "BLOCK_SIZE": 256, "M_BLOCK_SIZE": 64, "M_BLOCKS_PER_V": 4}
    return lambda: op._fused_ustate_adamw_kernel[(4096,)](
        p, g, q, means, one, two, total, v, scales, *rates, 17, 19, size, blocks, V_BYTES_PER_BLOCK=192,
        Q_BYTES_PER_BLOCK=64, **options,
    )  # fmt: skip


@case("miniworld.modulated_rms_norm", "norm")
def adamod(device: str) -> Body:
    op = miniworld("kernels.rmsnorm.triton.main")
    q, y, gate, dq, dy = (bf16(device, 32768, 768) for _ in range(5))
    c, w, scale, shift, gates = bf16(device, 32768, 384), bf16(device, 768), *(bf16(device, 768, 384) for _ in range(3))
    rstd, both, dw = fp32(device, 32768), bf16(device, 32768, 3 * 768), torch.zeros(768, device=device)
    steps = *q.stride(), *c.stride(), *scale.stride()
    options = {"BLOCK_M1": 64, "BLOCK_N": 64, "BLOCK_K": 32, "HAS_WEIGHT": True, "num_warps": 4, "num_stages": 2}
    return lambda: (
        op.rmsnorm_adamod_fwd_kernel.fn[(512,)](
            q, c, scale, shift, gates, w, y, rstd, gate, *steps, 32768, 768, 384, 1e-6, shape_key=3, **options
        ),
        op.rmsnorm_adamod_bwd_kernel.fn[(512,)](
            dq, both, dw, dy, q, c, scale, w, rstd, *steps, *both.stride(), 32768, 768, 384, shape_key=3, **options
        ),
    )


@case("miniworld.qk_norm_rope", "rotary")
def qk_norm_rope(device: str) -> Body:
    op = miniworld("kernels.rope.triton.qk_norm")
    q, k, gq, gk, oq, ok = (bf16(device, 4, 4096, 16, 64) for _ in range(6))
    cos, sin = bf16(device, 4, 4096, 32), bf16(device, 4, 4096, 32)
    steps = *q.stride(), *k.stride(), *cos.stride(), *sin.stride(), *gq.stride(), *gk.stride()
    options = {"BLOCK_M1": 64, "num_warps": 4, "num_stages": 1}
    launch = lambda op: op.fn[(4096,)](  # noqa: E731
        q, k, cos, sin, gq, gk, oq, ok, 4, 4096, 16, 64, 32, *steps, 1e-6, shape_key=3, **options
    )
    return lambda: (launch(op.qk_norm_rope_fwd_kernel), launch(op.qk_norm_rope_bwd_kernel))


@case("mase.few_bits", "quantise")
def mase_casts(device: str) -> Body:
    op = plain("mase_triton.minifloat.kernels.cast")
    x, packed = bf16(device, 8192, 4096), torch.empty(8192, 4096, device=device, dtype=torch.uint16)
    many = lambda meta: (x.numel() // meta["BLK"],)  # noqa: E731
    types = op.TORCH_DTYPE_TO_TRITON
    return lambda: (
        op._extract_minifloat_component_kernel[many](
            x, packed, x.numel(), 4, 3, True, "rn", x_dtype=types[torch.bfloat16]
        ),
        op._compose_minifloat_component_kernel[many](
            packed, x, x.numel(), 4, 3, True, element_dtype=types[torch.uint16], output_dtype=types[torch.bfloat16]
        ),
    )


@case("mase.bit_flips", "elementwise")
def bit_flips(device: str) -> Body:
    op = plain("mase_triton.random_bitflip.core")
    x, y, dy, dx = (fp16(device, 4096, 4096) for _ in range(4))
    many, types = lambda meta: (x.numel() // meta["BLOCK_SIZE"],), op.TORCH_DTYPE_TO_TRITON
    kinds = {"INPUT_DTYPE": types[x.dtype], "BIN_DTYPE": op.BIT_FLIP_DTYPE_MAP[x.dtype]}
    options = {"SKIP_EXP_FLIP": False, "SKIP_FRAC_FLIP": False, "EXP_PHILOX_N_ROUNDS": 10, "FRAC_PHILOX_N_ROUNDS": 10}
    return lambda: (
        op._random_bitflip_forward_kernel[many](
            x, y, x.numel(), 4, 4, 11, 13, 200.0, ENABLE_ZERO_OUT=True, **kinds, **options
        ),
        op._random_bitflip_zero_outed_backward_kernel[many](
            x, dy, dx, x.numel(), 4, 4, 11, 13, 200.0, GRAD_DTYPE=types[dy.dtype], **kinds, **options
        ),
    )
