"""Matrix products: persistent, split and streamed over K, by TMA, batched, in 8 and 4 bits, losses."""

import torch
import triton
from launching import Body, absent, case, library
from libraries import flag_gems, liger, plain, torchao_prototype, unsloth, vllm
from made import bf16, fp16, fp32, given, int8, seeded, words


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


@case("vllm.w4a16", "matmul 4 bit")
def vllm_w4a16(device: str) -> Body:
    absent("vllm.model_executor.layers.quantization.utils")
    absent("vllm.model_executor.parameter", BasevLLMParameter=object)
    absent("vllm.model_executor.kernels.linear.mixed_precision.MPLinearKernel", MPLinearKernel=object)
    op = vllm("model_executor.kernels.linear.mixed_precision.triton_w4a16")._triton_w4a16_gemm_impl
    a, b, s, z = fp16(device, 512, 5120), words(device, 5120, 3456), fp16(device, 40, 27648), words(device, 40, 3456)
    return lambda: op(a, b, s, z, 128)


@case("gemlite.split_k_4bit", "matmul 4 bit")
def gemlite_split(device: str) -> Body:
    op = library("gemlite.triton_kernels.gemm_splitK_kernels", "gemlite")
    a, b = fp16(device, 16, 8192), words(device, 1024, 28672)
    s, z = fp16(device, 64, 28672), fp16(device, 64, 28672)
    return lambda: op.gemm_splitK_forward(a, b, s, z, None, 4, 128, 15, 8, 1, 1, 0, 1, 0, 4, True, 1)


@case("flag_gems.stream_k", "matmul")
def gems_stream_k(device: str) -> Body:
    op = flag_gems("ops.mm_streamk").streamk_mm
    a, b, c = bf16(device, 4096, 8192), bf16(device, 8192, 4096), bf16(device, 4096, 4096)
    return lambda: op(a, b, c, 4096, 4096, 8192, 132)


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
    x, gate, up = bf16(device, 1, 2048, 4096), bf16(device, 14336, 4096), bf16(device, 14336, 4096)
    return lambda: op.gemm_swiglu(x, gate, up, 1.0)


@case("torchao.mixed_mm", "matmul 4 bit")
def torchao_mixed_mm(device: str) -> Body:
    op = torchao_prototype("hqq.mixed_mm").triton_mixed_mm
    a = fp16(device, 1024, 4096)
    b = torch.randint(0, 256, (2048, 14336), device=device, dtype=torch.uint8)
    s, z = fp16(device, 14336, 32), fp16(device, 14336, 32)
    return lambda: op(a, b, s, z, 128)


@case("unsloth.nf4_vector", "matmul 4 bit")
def unsloth_nf4(device: str) -> Body:
    op = unsloth("nf4_gemv")
    n, k = 28672, 8192
    x, w = bf16(device, 1, k), torch.randint(0, 256, (n * k // 2, 1), device=device, dtype=torch.uint8)
    most = given(device, seeded(256, n * k // 64, seed=131, dtype=torch.uint8))
    code2, most2, offset, code = fp32(device, 256), fp32(device, n * k // 64 // 256), fp32(device, 1), fp32(device, 16)
    out = bf16(device, 1, n)
    return lambda: op._launch(op._KERNELS, x, w, most, code2, most2, offset, code, out, n, k, 64, 256)


@case("cut_cross_entropy.backward", "loss")
def cce_backward(device: str) -> Body:
    op = library("cut_cross_entropy.cce_backward", "cut_cross_entropy").cce_backward_kernel
    e, c, lse, do = bf16(device, 1024, 2048), bf16(device, 16384, 2048), fp32(device, 1024), fp32(device, 1)
    targets = given(device, seeded(16384, 1024, seed=132))
    return lambda: op(do, e, c.requires_grad_(), lse, None, None, None, targets)


@case("flashnn.gemm_a8w8", "matmul 8 bit")
def flashnn_a8w8(device: str) -> Body:
    op = plain("flashnn.triton_kernels.gemm_a8w8").triton_gemm_a8w8_forward
    a, b, out = int8(device, 2048, 4096), int8(device, 11008, 4096), fp16(device, 2048, 11008)
    rows, columns = fp16(device, 2048, 1), fp16(device, 11008, 1)
    return lambda: op(out, a, b, rows, columns)
