"""Matrix products: persistent, quantised on their way, gated, of outer products; weights of 4 bits."""

import triton.language as tl
from launching import Body, case
from libraries import miniworld, plain, unsloth
from made import bf16, fp16, fp32, int8, words


@case("tritonblas.persistent", "matmul")
def tritonblas_persistent(device: str) -> Body:
    op = plain("tritonblas.kernels.persistent_gemm").persistent_matmul
    a, b, c, bias = fp16(device, 4096, 8192), fp16(device, 6144, 8192), fp16(device, 4096, 6144), fp16(device, 6144)
    return lambda: op[(132,)](
        a, b, c, None, None, bias, 4096, 6144, 8192, 8192, 8192, 6144, 1, 1, 1, 1, BLOCK_SIZE_M=128, BLOCK_SIZE_N=128,
        BLOCK_SIZE_K=64, GROUP_SIZE_M=8, NUM_SMS=132, NUM_XCDS=1, CHUNK_SIZE=64, CACHE_MODIFIER_A=None,
        CACHE_MODIFIER_B=None, BIAS=True, EVEN_K=True, num_warps=8, num_stages=3,
    )  # fmt: skip


@case("tritonblas.mxfp4", "quantise")
def tritonblas_mxfp4(device: str) -> Body:
    op = plain("tritonblas.utils").dynamic_mxfp4_quant
    x = bf16(device, 8192, 4096)
    return lambda: op(x)


@case("mase.optical_linear", "matmul 8 bit")
def optical_linear(device: str) -> Body:
    op = plain("mase_triton.optical_compute.core.optical_transformer.linear")._ot_qlinear_forward_kernel
    x, w, y = (fp16(device, 4096, 4096) for _ in range(3))
    grid = lambda meta: (4096 // meta["BLOCK_SIZE_M"] * 4096 // meta["BLOCK_SIZE_N"],)  # noqa: E731
    return lambda: op[grid](
        x, w.T, y, x, 4096, 4096, 4096, -4.0, 4.0, -4.0, 4.0, 0.0, -99.0, 99.0, 256, 17, 4096, 1, 1, 4096, 4096, 1, 0,
        INPUT_DTYPE=tl.float16, ENABLE_LUT_MIN=False, SKIP_QUANTIZE=False, USE_BIAS=False,
    )  # fmt: skip


@case("mase.optical_matmul", "matmul 8 bit")
def optical_matmul(device: str) -> Body:
    op = plain("mase_triton.optical_compute.core.optical_transformer.matmul")._ot_qmatmul_forward_kernel
    a, b, c = fp16(device, 32, 2048, 128), fp16(device, 32, 2048, 128), fp16(device, 32, 2048, 2048)
    tiles = {"BLOCK_SIZE_M": 128, "BLOCK_SIZE_N": 128, "BLOCK_SIZE_K": 32, "GROUP_SIZE_M": 8}
    options = tiles | {"num_warps": 4, "num_stages": 4}
    return lambda: op.fn[(256, 32)](
        a, b, c, 32, 2048, 2048, 128, -4.0, 4.0, -4.0, 4.0, 0.0, -99.0, 99.0, 256, 19, *a.stride(), b.stride(0), 1, 128,
        *c.stride(), INPUT_DTYPE=tl.float16, ENABLE_LUT_MIN=False, SKIP_QUANTIZE=False, **options,
    )  # fmt: skip


@case("miniworld.gated_projections", "matmul")
def gated_projections(device: str) -> Body:
    one, two = (miniworld(f"kernels.{name}.triton.main") for name in ("tm1", "tm2"))
    x, left, right = (bf16(device, 512 * 512, 128) for _ in range(3))
    w = [bf16(device, 128, 128) for _ in range(4)]
    tiles = {"BLOCK_M1": 64, "BLOCK_N": 64, "BLOCK_K": 32, "GROUP_M": 4, "num_warps": 4, "num_stages": 2}
    return lambda: (
        one.fused_sigmoid_gate_fwd_kernel.fn[(8192,)](x, *w, left, right, 262144, 128, shape_key=3, **tiles),
        two.fused_sigmoid_gate2_fwd_kernel.fn[(8192,)](left, right, *w[:2], x, 262144, 128, shape_key=3, **tiles),
    )


@case("miniworld.outer_product_mean", "matmul")
def outer_product_mean(device: str) -> Body:
    op = miniworld("kernels.outer_product_mean.triton.main")
    x, scale, bias = bf16(device, 1024 * 384, 64), fp32(device, 64), fp32(device, 64)
    left, right, a, b = *(bf16(device, 32, 64) for _ in range(2)), *(bf16(device, 1024 * 384, 32) for _ in range(2))
    o, w, tail = bf16(device, 384 * 32, 384 * 32), bf16(device, 1024, 128), fp32(device, 128)
    norm, out, options = (
        fp32(device, 384, 384),
        bf16(device, 384, 384, 128),
        {"num_warps": 4, "num_stages": 2, "shape_key": 3},
    )
    return lambda: (
        op._opm_layernorm_gemm_kernel.fn[(6144,)](
            x, x, scale, bias, left, right, x, x, a, b, 1024 * 384, 1e-5, CM=64, CH=32, K=32, HAS_MASK=False,
            HAS_PBIAS=False, BT=64, **options,
        ),
        op._opm_epilogue_kernel.fn[(96, 6, 2)](
            o, w, tail, norm, out, out, 384, CH=32, CZ=128, HAS_RES=False, NORM_FIRST=True, TI=4, BJ=64, BN=64, BKD=4,
            **options,
        ),
    )  # fmt: skip


@case("miniworld.pair_weighted_average", "matmul")
def pair_weighted(device: str) -> Body:
    op = miniworld("kernels.pair_weighted_averaging.triton.main")
    x, z, scale, bias = bf16(device, 1024 * 384, 64), bf16(device, 384 * 384, 128), fp32(device, 128), fp32(device, 64)
    wb, w, wv = bf16(device, 8, 128), bf16(device, 8, 384, 384), bf16(device, 256, 64)
    v, wg, wo = bf16(device, 8, 384, 1024 * 32), bf16(device, 256, 64), bf16(device, 64, 256)
    out, options = bf16(device, 1024 * 384, 64), {"num_warps": 4, "num_stages": 2, "shape_key": 3}
    return lambda: (
        op._pwa_layernorm_gemm_softmax_kernel.fn[(384,)](
            z, z, scale, wb, w, 384, 1e-5, DZ=128, DZP=128, NH=8, HP=16, HAS_MASK=False, BJ=64, **options
        ),
        op._pwa_layernorm_gemm_kernel.fn[(384, 16, 4)](
            x, bias, bias, wv, v, 1024, 384, 1e-5, D=64, HC=256, C=32, BS=64, BN=64, **options
        ),
        op._pwa_gate_gemm_kernel.fn[(384, 16)](
            x, v, bias, bias, wg, wo, x, out, 1024, 384, 1e-5, 1.0, D=64, NH=8, C=32, CP=32, HAS_KEEP=False, BS=64,
            **options,
        ),
    )  # fmt: skip


@case("unsloth.packed_int4", "matmul 4 bit")
def packed_int4(device: str) -> Body:
    op = unsloth("int4_packed")
    w, scales, y, x = words(device, 8192, 512), bf16(device, 8192, 32), bf16(device, 8192, 4096), bf16(device, 4, 4096)
    out, kinds = fp32(device, 4, 8192), {"BITS": 4, "PF": 8, "GROUP": 128, "HAS_Z": False, "HAS_G": False}
    rest = w, scales, scales, scales
    return lambda: (
        op._dequant_kernel[(512, 8, 1)](
            *rest, y, 8192, 4096, 512, 512, 32, 0, 4096, BLOCK_N=16, BLOCK_KP=64, num_warps=4, **kinds
        ),
        op._gemv_kernel[(1024, 1, 4)](
            x, *rest, out, 4, 8192, 4096, 512, 4096, 512, 32, 0, 8192, BLOCK_N=8, BLOCK_KP=64, SPLIT_K=1, num_warps=4,
            **kinds,
        ),
    )  # fmt: skip


@case("conch.normal_float", "quantise")
def normal_float(device: str) -> Body:
    op = plain("conch.kernels.quantization.bitsandbytes.dequantize_blockwise").dequantize_blockwise_launcher
    x, y = int8(device, 4096 * 4096), bf16(device, 8192, 4096)
    scales = fp32(device, 8192 * 64)
    return lambda: op(x, scales, y, None, 64, 8192 * 4096, "nf4")
