"""What picks tokens and rows, and moves them: samplers, sorts, reductions, gathers, scatters, images."""

import torch
from launching import Body, case, library
from libraries import flag_gems, lmdeploy, sglang_kernels, vllm
from made import bf16, fp32, given, permuted, pooled, seeded


@case("sglang.renormalise", "sampling")
def sglang_renormalise(device: str) -> Body:
    op = sglang_kernels("sampling.renorm_triton")._renorm_from_pivots
    p, pivots = fp32(device, 128, 151936), fp32(device, 128)
    return lambda: op(p, pivots)


@case("sglang.lanczos", "image")
def sglang_lanczos(device: str) -> Body:
    op = sglang_kernels("mm.process.lanczos")
    image = given(device, seeded(256, 16, 1080, 1920, 3, seed=73, dtype=torch.uint8))
    columns, wide, reach = op._coefficients(1920, 896, torch.device("cpu"))
    rows, high, tall = op._coefficients(1080, 504, torch.device("cpu"))
    columns, wide, rows, high = (given(device, table) for table in (columns, wide, rows, high))
    middle = torch.empty(16, 1080, 896, 3, device=device, dtype=torch.uint8)
    out = torch.empty(16, 504, 896, 3, device=device, dtype=torch.uint8)
    first, last = (-(-1080 * 896 * 3 // 256), 16), (-(-504 * 896 * 3 // 256), 16)
    return lambda: (
        op._horizontal_lanczos[first](image, middle, columns, wide, 1080, 896, 0, *image.stride(), reach, 256),
        op._vertical_lanczos[last](middle, out, rows, high, None, 504, 896, 0, middle.stride(0), tall, False, 256),
    )


@case("sglang.mla_cache_fp8", "gather")
def sglang_mla_cache_fp8(device: str) -> Body:
    op = sglang_kernels("kvcache.mla_buffer")
    pool = torch.empty(131072, 576, device=device, dtype=torch.uint8)
    nope, rope = bf16(device, 32768, 512), bf16(device, 32768, 64)
    slots = given(device, permuted(131072, 131072, seed=75, dtype=torch.int64)[:32768].clone())
    return lambda: op.set_mla_kv_buffer_triton_fp8_quant(pool, slots, nope, rope, torch.float8_e4m3fn)


@case("vllm.gumbel_sample", "sampling")
def vllm_gumbel(device: str) -> Body:
    op = vllm("v1.worker.gpu.sample.gumbel").gumbel_sample
    x, requests = fp32(device, 256, 128256), given(device, permuted(256, 256, seed=76))
    warmth = given(device, torch.full((256,), 0.8))
    seeds, positions = given(device, seeded(1 << 30, 256, seed=77)), given(device, seeded(8192, 256, seed=78))
    return lambda: op(x, requests, warmth, seeds, positions, True, False)


@case("vllm.penalties", "sampling")
def vllm_penalties(device: str) -> Body:
    op = vllm("v1.worker.gpu.sample.penalties").apply_penalties
    x, requests = fp32(device, 256, 151936), given(device, permuted(256, 256, seed=79))
    tokens, places = given(device, seeded(151936, 256, seed=80)), given(device, torch.zeros(256, dtype=torch.int64))
    repeated, frequent, present = (given(device, torch.full((256,), value)) for value in (1.1, 0.2, 0.1))
    seen = given(device, seeded(1 << 30, 256, 4748, seed=81, dtype=torch.int32))
    counts = given(device, seeded(3, 256, 151936, seed=82, dtype=torch.int32))
    return lambda: op(x, requests, tokens, places, repeated, frequent, present, seen, counts)


@case("lmdeploy.bitonic_topk", "sort")
def lmdeploy_bitonic(device: str) -> Body:
    op = lmdeploy("bitonic_topk").bitonic_topk
    x = fp32(device, 256, 32768)
    new, lengths = given(device, torch.ones(256, dtype=torch.int32)), seeded(20000, 256, seed=86, dtype=torch.int32)
    lengths = given(device, lengths + 12768)
    return lambda: op(x, new, lengths, 512)


@case("flag_gems.radix_sort", "sort")
def gems_sort(device: str) -> Body:
    op = flag_gems("ops.sort")
    x = given(device, seeded(1 << 30, 64, 65536, seed=87, dtype=torch.int32))
    return lambda: op.radix_sort(x)


@case("flag_gems.embedding_backward", "atomic")
def gems_embedding(device: str) -> Body:
    op = flag_gems("ops.embedding").embedding_backward
    grad, ids = bf16(device, 16384, 4096), given(device, seeded(32000, 16384, seed=88))
    return lambda: op(grad, ids, 32000)


@case("flag_gems.max_pool2d", "image")
def gems_max_pool(device: str) -> Body:
    op = flag_gems("ops.max_pool2d_with_indices").max_pool2d_with_indices
    x = bf16(device, 64, 64, 224, 224)
    return lambda: op(x, 3, 2, 1)


@case("flag_gems.hadamard", "transform")
def gems_hadamard(device: str) -> Body:
    op = flag_gems("ops.hadamard_transform").hadamard_transform
    x = bf16(device, 16384, 8192)
    return lambda: op(x, 8192**-0.5)


@case("flag_gems.bincount", "atomic")
def gems_bincount(device: str) -> Body:
    op = flag_gems("fused.bincount")
    x, weights = given(device, seeded(1 << 20, 1 << 24, seed=89)), fp32(device, 1 << 24)
    sums, warps = fp32(device, 1 << 20), op._select_params(1 << 24)
    return lambda: op.bincount_weights_fp32_kernel[(-(-(1 << 24) // warps[0]),)](
        x, weights, sums, 1 << 24, BLOCK_SIZE=warps[0], num_warps=warps[1]
    )


@case("conch.bev_pool", "gather")
def conch_bev_pool(device: str) -> Body:
    op = library("conch.kernels.vision.bev_pool").bev_pool_launcher
    place, starts, lengths = pooled(device, 90)
    x, out = fp32(device, place.shape[0], 80), fp32(device, 2, 1, 180, 180, 80)
    return lambda: op(out, x, place, starts, lengths)
