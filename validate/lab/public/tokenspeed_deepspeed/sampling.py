"""Samplers, counts and histograms, searches, gathers and scatters, images, casts to 8 and 4 bits."""

import torch
from launching import Body, case
from libraries import bitsandbytes, lmdeploy, modelopt, plain, sglang_kernels, tokenspeed
from made import bf16, bounds, fp32, given, permuted, pooled, seeded


@case("tokenspeed.logprob_topk", "sampling")
def tokenspeed_logprobs(device: str) -> Body:
    op = tokenspeed("sampling.triton.logprob_topk")
    x = fp32(device, 256, 151936)
    return lambda: op.logprob_topk(x, 10)


@case("tokenspeed.top_k_top_p", "sampling")
def tokenspeed_top_k(device: str) -> Body:
    op = tokenspeed("sampling.triton.topk_topp")
    x, own = fp32(device, 64, 129280), given(device, permuted(64, 64, seed=521))
    warmth, p = given(device, torch.full((64,), 0.8)), given(device, torch.full((64,), 0.95))
    k, seeds = given(device, torch.full((64,), 40, dtype=torch.int32)), given(device, seeded(1 << 30, 64, seed=522))
    at = given(device, seeded(8192, 64, seed=523, dtype=torch.int32))
    generator = torch.Generator().manual_seed(524)
    best = torch.randn(64, 64, 128, generator=generator).sort(-1, descending=True).values.view(64, 8192)
    ids = permuted(129280, 129280, seed=525)[:8192].expand(64, 8192).contiguous()
    ids, best = given(device, ids), given(device, best)
    found, logits = torch.empty(64, 8192, device=device, dtype=torch.int32), fp32(device, 64, 8192)
    out = torch.empty(64, device=device, dtype=torch.int32)
    return lambda: (
        op._top_k_top_p_candidates_stage1_kernel[(64, 64)](
            x, found, logits, 129280, 8192, 129280, 2048, 128, num_warps=8
        ),
        op._top_k_top_p_gumbel_stage2_kernel[(64,)](
            ids, best, own, warmth, k, p, None, seeds, at, out, 8192, 64, 129280, 128, 64, 1, num_warps=4, num_stages=3
        ),
    )


@case("sglang.temperature_softmax", "sampling")
def sglang_softmax(device: str) -> Body:
    op = sglang_kernels("sampling.temperature_softmax")
    x, t = fp32(device, 32, 151936), fp32(device, 32, 1).abs()
    return lambda: op.temperature_softmax(x, t)


@case("flashlib.naive_bayes", "atomic")
def flashlib_counts(device: str) -> Body:
    op = plain("flashlib.primitives.multinomial_nb.triton.nb_core")
    x, y = fp32(device, 131072, 512), given(device, seeded(20, 131072, seed=524))
    z = given(device, seeded(20, 131072, seed=524).sort().values)
    return lambda: (
        op.nb_count_features(x, y, 20, force_path="partial"),
        op.nb_count_features(x, z, 20, force_path="sorted"),
    )


@case("flashlib.forest_histogram", "atomic")
def flashlib_histogram(device: str) -> Body:
    op = plain("flashlib.primitives.random_forest.triton.histogram")
    x, g = given(device, seeded(256, 131072, 128, seed=525, dtype=torch.uint8)), fp32(device, 131072)
    return lambda: op.triton_rf_histogram(x, g, 128)


@case("flashlib.product_quantised_search", "gather")
def flashlib_pq(device: str) -> Body:
    tables, scan = (plain(f"flashlib.primitives.ivf_pq.triton.{name}") for name in ("lut", "fine_scan"))
    q, centres, books = fp32(device, 256, 128), fp32(device, 1024, 128), fp32(device, 16, 256, 8)
    probed = given(device, seeded(1024, 256, 32, seed=526, dtype=torch.int32))
    codes = given(device, seeded(256, 1 << 20, 16, seed=527, dtype=torch.uint8))
    generator = torch.Generator().manual_seed(531)
    lut = given(device, torch.rand(256, 32, 16, 256, generator=generator))
    lists = given(device, bounds([1024] * 1024, torch.int64))
    return lambda: (
        tables.pq_build_lut(q, centres, probed, books, by_residual=True),
        scan.ivf_pq_fine_scan(codes, probed, lists, lut, 16, by_residual=True, max_list_len=1024),
    )


@case("conch.bev_pool_backward", "scatter")
def conch_bev_backward(device: str) -> Body:
    op = plain("conch.kernels.vision.bev_pool").bev_pool_backward_launcher
    place, starts, lengths = pooled(device, 529)
    dx, dy = fp32(device, place.shape[0], 80), fp32(device, 2, 1, 180, 180, 80)
    return lambda: op(dx, dy, place, starts, lengths)


@case("sglang.patches", "image")
def sglang_patches(device: str) -> Body:
    op = sglang_kernels("mm.process.image").normalize_and_patchify
    x, scale, bias = fp32(device, 16, 3, 1008, 1008), fp32(device, 3), fp32(device, 3)
    return lambda: op(x, scale, bias, 14, 1036, 1036)


@case("bitsandbytes.fp4_and_back", "quantise")
def bnb_fp4(device: str) -> Body:
    op = bitsandbytes("kernels_4bit")
    x, scales, y = bf16(device, 4096 * 4096), fp32(device, 4096 * 64), bf16(device, 4096 * 4096)
    q = torch.empty(4096 * 2048, 1, device=device, dtype=torch.uint8)
    packed = given(device, seeded(256, 4096 * 2048, 1, seed=533, dtype=torch.uint8))
    code = given(device, torch.linspace(-1, 1, 16))
    return lambda: (
        op.quantize_4bit_blockwise_triton(x, 64, "fp4", scales.numel(), scales, x.numel(), q),
        op.dequantize_4bit_impl_passing_code(packed, scales, 64, code, torch.bfloat16, y),
    )


@case("modelopt.nvfp4", "quantise")
def modelopt_nvfp4(device: str) -> Body:
    fake, sweep = (modelopt(f"quantization.gemm.{name}") for name in ("fp4_kernel_hopper", "nvfp4_fp8_sweep"))
    x, w, most = bf16(device, 16384, 4096), bf16(device, 2048, 4096), fp32(device, 1).abs()
    tried, best = fp32(device, 126).abs(), fp32(device, 2048 * 256)
    blocks = lambda meta: (2048 * 256 // meta["BLOCKS_PER_PROGRAM"],)  # noqa: E731
    return lambda: (
        fake.fp4_fake_quant_block(x, most),
        sweep._fp8_scale_sweep_kernel[blocks](w, tried, most, best, 2048 * 256, BLOCK_SIZE=16, NUM_CANDIDATES=126),
    )


@case("tokenspeed.quantise", "quantise")
def tokenspeed_quantise(device: str) -> Body:
    op = tokenspeed("quantization.triton")
    x, y = bf16(device, 4096, 7168), bf16(device, 8192, 7168)
    return lambda: (
        op.triton_quantize_mxfp8(x),
        op.mxfp4_quantize(x),
        op.triton_fp8_quantize_dequantize(x, 128, "ue8m0"),
        op.triton_quantize_fp8_group32_ue8m0_swizzled(y),
    )


@case("lmdeploy.copy_cache", "copy")
def lmdeploy_copy(device: str) -> Body:
    op = lmdeploy("copy_cache").copy_cache_blocks
    cache, pages = bf16(device, 8, 1024, 64, 8, 128), permuted(1024, 2, 512, seed=532, dtype=torch.int64)
    source, target = given(device, pages[0, :256].clone()), given(device, pages[1, :256].clone())
    return lambda: op(cache, 1, source, target, 1)
