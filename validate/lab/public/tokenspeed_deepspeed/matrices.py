"""Matrix products: with losses, in 8 and 4 bits, of block-sparse matrices, thin ones, adapters."""

import torch
from launching import Body, absent, case
from libraries import deepspeed, gptqmodel, plain, tokenspeed, torchao, unsloth, verl
from made import bf16, bounds, fp8, fp16, fp32, given, int8, seeded, words
from triton import Config


@case("verl.linear_entropy", "matmul")
def verl_entropy(device: str) -> Body:
    op = verl("kernel.kernels")
    x, w = bf16(device, 2048, 4096), bf16(device, 32768, 4096)
    labels = given(device, seeded(32768, 2048, seed=541))
    return lambda: op.efficient_entropy_forward(x, w, labels, 0, 1.0)


@case("verl.linear_entropy_backward", "matmul")
def verl_backward(device: str) -> Body:
    op = verl("kernel.kernels")
    x, w = bf16(device, 2048, 4096), bf16(device, 32768, 4096)
    labels = given(device, seeded(32768, 2048, seed=541))
    rows = [fp32(device, 2048) for _ in range(5)]
    return lambda: op.efficient_entropy_backward(*rows[:2], x, w, labels, *rows[2:], 0, False, 1.0)


@case("gptqmodel.gptq", "matmul 4 bit")
def gptq(device: str) -> Body:
    parts = "gptq_gemm", "gptq_gemv", "dequant"
    small, vector, whole = (gptqmodel(f"nn_modules.triton_utils.{part}") for part in parts)
    x, one, w = fp16(device, 16, 5120), fp16(device, 1, 5120), words(device, 640, 27648)
    s, z, groups = fp16(device, 40, 27648), words(device, 40, 3456), given(device, (torch.arange(5120) // 128).int())
    return lambda: (
        small.gptq_gemm(x, w, s, z, groups),
        vector.gptq_gemv(one, w, s, z, groups),
        whole.dequant(torch.float16, w, s, z, groups, 4, 32, 15),
    )


@case("gptqmodel.awq", "matmul 4 bit")
def awq(device: str) -> Body:
    op = gptqmodel("quantization.awq.modules.triton.gemm")
    x, w, s, z = fp16(device, 64, 4096), words(device, 4096, 1792), fp16(device, 32, 14336), words(device, 32, 1792)
    return lambda: op.awq_gemm_triton(x, w, s, z, 4, 64, 64, 64)


@case("gptqmodel.paroquant", "matmul 4 bit")
def paroquant(device: str) -> Body:
    op = gptqmodel("quantization.paroquant.modules.triton.gemm")
    x, w, s, z = fp16(device, 1024, 4096), words(device, 4096, 1792), fp16(device, 32, 14336), words(device, 32, 1792)
    return lambda: (op.paroquant_gemm_triton_prefill(x, w, s, z), op.paroquant_dequantize_triton(w, s, z))


@case("stk.block_sparse", "sparse matmul")
def stk(device: str) -> Body:
    op = plain("stk.backend.triton_kernels")
    down, across = torch.arange(64).repeat_interleave(8), torch.cat([torch.arange(8) + 8 * (i // 4) for i in range(64)])
    turned = across.argsort(stable=True)
    tables = [*(table.to(torch.int16) for table in (down, across, down[turned])), bounds([8] * 64), bounds([4] * 128)]
    rows, columns, rows_t, starts, starts_t = (given(device, table) for table in tables)
    blocks = given(device, turned.int())
    x, w, w2 = bf16(device, 8192, 2048), bf16(device, 2048, 16384), bf16(device, 16384, 2048)
    h, y, dw = bf16(device, 512, 128, 128), bf16(device, 8192, 2048), bf16(device, 2048, 16384)
    shape, turn = (8192, 16384), bf16(device, 2048, 8192)
    return lambda: (
        op.sdd(x, w, shape, h, starts, rows, columns),
        op.dsd(shape, h, starts, rows, columns, starts_t, rows_t, blocks, False, w2, y),
        op.dds(turn, shape, h, starts, rows, columns, starts_t, rows_t, blocks, False, dw),
    )


@case("chalk.lora", "adapters")
def chalk_lora(device: str) -> Body:
    op = plain("chalk.ops.lora")
    x, a, b = bf16(device, 8192, 4096), bf16(device, 16, 4096), bf16(device, 4096, 16)
    y, t = bf16(device, 8192, 4096), bf16(device, 8192, 16)
    return lambda: (op.lora_fwd(x, a, b, 2.0, y, True), op.lora_bwd(y, x, a, b, 2.0, t))


@case("deepspeed.fp8_gemm", "matmul 8 bit")
def deepspeed_fp8(device: str) -> Body:
    op = deepspeed("ops.fp_quantizer.fp8_gemm_triton")
    x, w, s = bf16(device, 64, 4096), fp8(device, 4096, 11008).view(torch.uint8), fp32(device, 4096 * 11008 // 128)
    return lambda: op.matmul_fp8_triton(x, w, s, 128)


@case("exllamav3.packed_hessian", "matmul")
def exllamav3_hessian(device: str) -> Body:
    op = plain("exllamav3.modules.quant.exl3_lib.hessian_packed")
    x, packed = fp16(device, 4096, 4096), fp32(device, op.packed_numel(4096))
    return lambda: op.accumulate_(packed, x)


@case("tokenspeed.row_gemv", "matvec")
def tokenspeed_gemv(device: str) -> Body:
    absent("tokenspeed_kernel.ops.gemm.flashinfer")
    op = tokenspeed("gemm.triton_gemv")
    x, w, a, c = bf16(device, 1, 8192), bf16(device, 7168, 8192), bf16(device, 1, 7168), bf16(device, 1, 7168)
    return lambda: (op.rowcta_gemv_add3(x, w, a, c), op.triton_rowcta_gemv(x, w))


@case("flashlib.covariance", "matmul")
def flashlib_covariance(device: str) -> Body:
    op = plain("flashlib.linalg.cov_gemm.triton.cov_gemm")
    x = bf16(device, 1 << 18, 512)
    return lambda: op.cov_gemm(x)


@case("torchao.int8_scaled", "matmul 8 bit")
def torchao_int8(device: str) -> Body:
    op = torchao("intmm_triton")
    best = Config({"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64, "GROUP_M": 8}, num_warps=8, num_stages=3)
    a, b = int8(device, 4096, 4096), int8(device, 4096, 4096)
    c, s = bf16(device, 4096, 4096), bf16(device, 4096, 1).expand(4096, 4096)
    return lambda: op.int_scaled_matmul_kernel(a, b, s, c, best)


@case("unsloth.nvfp4_backward", "matmul 4 bit")
def unsloth_nvfp4(device: str) -> Body:
    unsloth("fp8")
    op = unsloth("nvfp4")
    dy, w = bf16(device, 1024, 13824), torch.randint(0, 256, (13824, 2560), device=device, dtype=torch.uint8)
    scale, all_scale = fp8(device, 13824, 320), fp32(device, 1)
    return lambda: (
        op._nvfp4_matmul_dx_fused(dy, w, scale, all_scale),
        op._nvfp4_dequantize_triton(w, scale, all_scale, torch.bfloat16),
    )


@case("flash_sinkhorn.split_targets", "matmul")
def sinkhorn_split(device: str) -> Body:
    op = plain("flash_sinkhorn.kernels.sinkhorn_splitn_sqeuclid").flashsinkhorn_lse_splitn
    x, y, bias = fp32(device, 4096, 128), fp32(device, 65536, 128), fp32(device, 65536)
    return lambda: op(x, y, bias, 0.1, num_splits=8)
