"""Third round: matrix products: persistent, split and streamed over K, by TMA, batched, in 8 and 4 bits, with losses."""

import torch
import triton
from launching import Body, absent, in_round, library
from libraries import flag_gems, liger, plain, sglang_kernels, torchao_prototype, unsloth, vllm
from made import bf16, fp8, fp16, fp32, given, int8, seeded, words

case = in_round(3)


@case("vllm.matmul_persistent", "matmul")
def vllm_persistent(device: str) -> Body:
    op = vllm("model_executor.determinism.batch_invariant").matmul_persistent
    a, b = bf16(device, 4096, 5120), bf16(device, 13824, 5120).t()
    return lambda: op(a, b)


@case("vllm.matmul_batched", "matmul")
def vllm_batched(device: str) -> Body:
    op = vllm("model_executor.determinism.batch_invariant").bmm_batch_invariant
    a, b = bf16(device, 128, 1024, 128), bf16(device, 128, 128, 512)
    return lambda: op(a, b)


@case("vllm.scaled_mm_fp8", "matmul 8 bit")
def vllm_scaled_mm(device: str) -> Body:
    op = vllm("model_executor.layers.quantization.compressed_tensors.triton_scaled_mm").triton_scaled_mm
    a, b = fp8(device, 4096, 4096), fp8(device, 28672, 4096).t()
    sa, sb = fp32(device, 4096, 1), fp32(device, 28672, 1)
    return lambda: op(a, b, sa, sb, torch.bfloat16)


@case("vllm.w4a16", "matmul 4 bit")
def vllm_w4a16(device: str) -> Body:
    absent("vllm.model_executor.layers.quantization.utils", "vllm.scalar_type")
    absent("vllm.model_executor.parameter", BasevLLMParameter=object)
    absent("vllm.model_executor.kernels.linear.mixed_precision.MPLinearKernel", MPLinearKernel=object)
    op = vllm("model_executor.kernels.linear.mixed_precision.triton_w4a16")._triton_w4a16_gemm_impl
    a, b, s, z = fp16(device, 512, 5120), words(device, 5120, 3456), fp16(device, 40, 27648), words(device, 40, 3456)
    return lambda: op(a, b, s, z, 128)


@case("gemlite.split_k_4bit", "matmul 4 bit")
def gemlite_split(device: str) -> Body:
    op = plain("gemlite.triton_kernels.gemm_splitK_kernels")
    a, b = fp16(device, 16, 8192), words(device, 1024, 28672)
    s, z = fp16(device, 64, 28672), fp16(device, 64, 28672)
    return lambda: op.gemm_splitK_forward(a, b, s, z, None, 4, 128, 15, 8, 1, 1, 0, 1, 0, 4, True, 1)


@case("gemlite.vector_4bit", "matmul 4 bit")
def gemlite_vector(device: str) -> Body:
    op = plain("gemlite.triton_kernels.gemv_revsplitK_kernels")
    a, b = fp16(device, 1, 8192), words(device, 1024, 28672)
    s, z = fp16(device, 64, 28672), fp16(device, 64, 28672)
    return lambda: op.gemv_revsplitK_forward(a, b, s, z, None, 4, 128, 15, 8, 1, 1, 0, 1, 0, 4, True, 1)


@case("flag_gems.stream_k", "matmul")
def gems_stream_k(device: str) -> Body:
    op = flag_gems("ops.mm_streamk").streamk_mm
    a, b, c = bf16(device, 4096, 8192), bf16(device, 8192, 3072), bf16(device, 4096, 3072)
    return lambda: op(a, b, c, 4096, 3072, 8192, 132)


@case("flashinfer.persistent_tma", "matmul")
def flashinfer_persistent(device: str) -> Body:
    op = plain("flashinfer.triton.kernels.sm_constraint_gemm").gemm_kernel_descriptor_persistent
    a, b, c = bf16(device, 4096, 4096), bf16(device, 6144, 4096), bf16(device, 4096, 6144)
    triton.set_allocator(lambda size, *_: torch.empty(size, device=device, dtype=torch.int8))
    return lambda: op[(128,)](
        a, b, c, 4096, 6144, 4096, 1.0, 0.5, BLOCK_SIZE_M=128, BLOCK_SIZE_N=128, BLOCK_SIZE_K=64, GROUP_SIZE_M=8,
        EPILOGUE_SUBTILE=False, NUM_SMS=128, num_stages=3, num_warps=8,
    )  # fmt: skip


@case("liger.gemm_swiglu", "matmul")
def liger_gemm_swiglu(device: str) -> Body:
    op = liger("mlp")
    x, gate, up = bf16(device, 1, 4096, 4096), bf16(device, 14336, 4096), bf16(device, 14336, 4096)
    return lambda: op.gemm_swiglu(x, gate, up, 1.0)


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


@case("torchao.mixed_mm", "matmul 4 bit")
def torchao_mixed_mm(device: str) -> Body:
    op = torchao_prototype("hqq.mixed_mm").triton_mixed_mm
    a = fp16(device, 1024, 4096)
    b = torch.randint(0, 256, (2048, 14336), device=device, dtype=torch.uint8)
    s, z = fp16(device, 14336, 32), fp16(device, 14336, 32)
    return lambda: op(a, b, s, z, 128)


@case("torchao.fp8_gemm_rows_columns", "matmul 8 bit")
def torchao_gemm_columns(device: str) -> Body:
    op = torchao_prototype("blockwise_fp8_training.kernels").triton_fp8_gemm_1x128_128x1
    a, b = fp8(device, 7168, 4096), fp8(device, 2048, 4096).t()
    sa, sb = fp32(device, 32, 7168).t(), fp32(device, 32, 2048)
    return lambda: op(a, b, sa, sb, 128, torch.bfloat16)


@case("unsloth.nf4_vector", "matmul 4 bit")
def unsloth_nf4(device: str) -> Body:
    op = unsloth("nf4_gemv")
    n, k = 28672, 8192
    x, w = bf16(device, 1, k), torch.randint(0, 256, (n * k // 2, 1), device=device, dtype=torch.uint8)
    most = given(device, seeded(256, n * k // 64, seed=131, dtype=torch.uint8))
    code2, most2, offset, code = fp32(device, 256), fp32(device, n * k // 64 // 256), fp32(device, 1), fp32(device, 16)
    out = bf16(device, 1, n)
    return lambda: op._launch(op._KERNELS, x, w, most, code2, most2, offset, code, out, n, k, 64, 256)


@case("unsloth.nvfp4", "matmul 4 bit")
def unsloth_nvfp4(device: str) -> Body:
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


@case("cut_cross_entropy.backward", "loss")
def cce_backward(device: str) -> Body:
    op = library("cut_cross_entropy.cce_backward", "cut_cross_entropy").cce_backward_kernel
    e, c, lse, do = bf16(device, 2048, 2048), bf16(device, 32000, 2048), fp32(device, 2048), fp32(device, 1)
    targets = given(device, seeded(32000, 2048, seed=132))
    return lambda: op(do, e, c.requires_grad_(), lse, None, None, None, targets)


@case("sglang.absorbed_bmm_fp8", "matmul")
def sglang_absorbed(device: str) -> Body:
    op = sglang_kernels("attention.mla_qk_prep").absorbed_bmm_concat_cast_q_fp8
    out, w = fp8(device, 4096, 128, 576), bf16(device, 128, 128, 512)
    nope, rope = bf16(device, 4096, 128, 128), bf16(device, 4096, 128, 64)
    return lambda: op(out, nope, w, rope, 128)


@case("flash_kmeans.cosine_assign", "matmul")
def kmeans_cosine(device: str) -> Body:
    absent("tqdm")
    op = library("flash_kmeans.assign_euclid_triton", "flash_kmeans").cosine_assign_triton
    x, c = fp16(device, 2, 65536, 128), fp16(device, 2, 2048, 128)
    return lambda: op(x, c)


@case("flash_kmeans.sorted_update", "atomic")
def kmeans_sorted(device: str) -> Body:
    absent("tqdm")
    op = library("flash_kmeans.centroid_update_triton", "flash_kmeans")._centroid_update_chunk_kernel
    owner = seeded(1000, 4, 65536, seed=133, dtype=torch.int32)
    owner, order = owner.sort(1)
    x, sums, counts = fp16(device, 4, 65536, 128), fp32(device, 4, 1000, 128), given(device, torch.zeros(4, 1000, dtype=torch.int32))
    order, owner = given(device, order.to(torch.int32)), given(device, owner)
    return lambda: op[(256, 4)](x, order, owner, sums, counts, 4, 65536, 128, 1000, BLOCK_N=256, BLOCK_D=128)


@case("flashnn.gemm_a16w8", "matmul 8 bit")
def flashnn_a16w8(device: str) -> Body:
    op = plain("flashnn.triton_kernels.gemm_a16w8").triton_gemm_a16w8_forward
    a, w, s, out = fp16(device, 2048, 4096), int8(device, 11008, 4096), fp16(device, 11008), fp16(device, 2048, 11008)
    return lambda: op(out, a, w, s)


@case("flashnn.gemm_a8w8", "matmul 8 bit")
def flashnn_a8w8(device: str) -> Body:
    op = plain("flashnn.triton_kernels.gemm_a8w8").triton_gemm_a8w8_forward
    a, b, out = int8(device, 2048, 4096), int8(device, 11008, 4096), fp16(device, 2048, 11008)
    rows, columns = fp32(device, 2048, 1), fp32(device, 11008, 1)
    return lambda: op(out, a, b, rows, columns)
