"""Matrix products: persistent, split and streamed over K, by TMA, batched, in 8 and 4 bits, losses."""

import torch
from launching import Body, absent, case, library
from libraries import liger, plain, sglang_kernels, torchao_prototype, unsloth
from made import bf16, fp8, fp16, fp32, given, int8, seeded, words


@case("gemlite.vector_4bit", "matmul 4 bit")
def gemlite_vector(device: str) -> Body:
    op = library("gemlite.triton_kernels.gemv_revsplitK_kernels", "gemlite")
    a, b = fp16(device, 1, 8192), words(device, 1024, 28672)
    s, z = fp16(device, 64, 28672), fp16(device, 64, 28672)
    return lambda: op.gemv_revsplitK_forward(a, b, s, z, None, 4, 128, 15, 8, 1, 1, 0, 1, 0, 4, True, 1)


@case("liger.gemm_swiglu_backward", "matmul")
def liger_gemm_swiglu_backward(device: str) -> Body:
    op = liger("mlp")
    gate, up, both = bf16(device, 14336, 4096), bf16(device, 14336, 4096), bf16(device, 1, 4096, 3 * 14336)
    return lambda: op.swiglu_backward_dI(gate, up, both)


@case("liger.hyper_connections_mix", "matmul")
def liger_mix(device: str) -> Body:
    op = liger("mhc")
    x, phi = bf16(device, 16384, 16384), bf16(device, 16384, 24)
    return lambda: op.mhc_mm_norm_fwd(x, phi, 1e-6)


@case("torchao.fp8_gemm_rows_columns", "matmul 8 bit")
def torchao_gemm_columns(device: str) -> Body:
    op = torchao_prototype("blockwise_fp8_training.kernels").triton_fp8_gemm_1x128_128x1
    a, b = fp8(device, 7168, 4096), fp8(device, 2048, 4096).t()
    sa, sb = fp32(device, 32, 7168).t(), fp32(device, 32, 2048)
    return lambda: op(a, b, sa, sb, 128, torch.bfloat16)


@case("unsloth.nvfp4", "matmul 4 bit")
def unsloth_nvfp4(device: str) -> Body:
    unsloth("fp8")
    op = unsloth("nvfp4")
    x, w = bf16(device, 256, 5120), torch.randint(0, 256, (13824, 2560), device=device, dtype=torch.uint8)
    scale, all_scale = fp8(device, 13824, 320), fp32(device, 1)
    return lambda: op._nvfp4_matmul_fwd_fused(x, w, scale, all_scale)


@case("muon_adamw.newton_schulz", "matmul")
def newton_schulz(device: str) -> Body:
    op = plain("triton_muon_adamw.muon.triton_muon")
    x, gram, poly = bf16(device, 4096, 4096), bf16(device, 4096, 4096), bf16(device, 4096, 4096)
    out = bf16(device, 4096, 4096)
    return lambda: (
        op.solve_ns_kernel_1(x, gram),
        op.solve_ns_kernel_2(gram, -4.775, 2.0315, poly),
        op.solve_ns_kernel_3(x, poly, 3.4445, out),
    )


@case("sglang.absorbed_bmm_fp8", "matmul")
def sglang_absorbed(device: str) -> Body:
    op = sglang_kernels("attention.mla_qk_prep").absorbed_bmm_concat_cast_q_fp8
    out, w = fp8(device, 4096, 128, 576), bf16(device, 128, 128, 512)
    nope, rope = bf16(device, 4096, 128, 128), bf16(device, 4096, 128, 64)
    return lambda: op(out, nope, w, rope, 128, variant="two_dot")


@case("flash_kmeans.cosine_assign", "matmul")
def kmeans_cosine(device: str) -> Body:
    absent("tqdm")
    op = library("flash_kmeans.assign_euclid_triton", "flash_kmeans").cosine_assign_triton
    x, c = fp16(device, 2, 65536, 128), fp16(device, 2, 2048, 128)
    return lambda: op(x, c)


@case("flash_kmeans.sorted_update", "atomic")
def kmeans_sorted(device: str) -> Body:
    absent("tqdm")
    op = library("flash_kmeans.centroid_update_triton", "flash_kmeans").triton_centroid_update_sorted_euclid
    x, old = fp16(device, 4, 65536, 128), fp16(device, 4, 1000, 128)
    owner = given(device, seeded(1000, 4, 65536, seed=133, dtype=torch.int32))
    return lambda: op(x, owner, old)


@case("flashnn.gemm_a16w8", "matmul 8 bit")
def flashnn_a16w8(device: str) -> Body:
    op = plain("flashnn.triton_kernels.gemm_a16w8").triton_gemm_a16w8_forward
    a, w, s, out = fp16(device, 2048, 4096), int8(device, 11008, 4096), fp16(device, 11008), fp16(device, 2048, 11008)
    return lambda: op(out, a, w, s)
