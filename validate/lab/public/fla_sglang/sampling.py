"""What picks tokens and rows, and moves them: samplers, sorts, reductions, gathers, scatters, images."""

import torch
from launching import Body, case, library
from libraries import flag_gems, lmdeploy, sglang_kernels, vllm
from made import bf16, fp32, given, permuted, seeded


@case("sglang.denoiser_statistics", "sampling")
def sglang_denoiser(device: str) -> Body:
    op = sglang_kernels("sampling.denoiser_statistics").denoiser_statistics
    x, t = fp32(device, 2, 256, 126464), fp32(device, 2).abs() + 0.5
    return lambda: op(x, t)


@case("sglang.row_argmax", "reduction")
def sglang_row_argmax(device: str) -> Body:
    op = sglang_kernels("speculative.row_argmax").row_argmax
    x, y = fp32(device, 64, 151936), fp32(device, 256, 129280)
    return lambda: (op(x), op(y))


@case("sglang.murmur_hash", "sampling")
def sglang_murmur(device: str) -> Body:
    op = sglang_kernels("sampling.murmur_hash").murmur_hash32
    seeds, positions = given(device, seeded(1 << 30, 256, seed=71)), given(device, seeded(8192, 256, seed=72))
    columns = given(device, torch.arange(151936))
    return lambda: op(seeds, positions, columns)


@case("sglang.tensor_hash", "reduction")
def sglang_tensor_hash(device: str) -> Body:
    op = sglang_kernels("memory.gpu_tensor_hash")
    x = torch.randint(-(2**31), 2**31 - 1, (1 << 27,), device=device, dtype=torch.int32).view(torch.uint32)
    sums = torch.empty(x.numel() // 8192, device=device, dtype=torch.uint64)
    sizes = {"FM_C1": op.FMIX32_C1, "FM_C2": op.FMIX32_C2, "POS_A": op.POS_C1, "POS_B": op.POS_C2, "TILE": 8192}
    return lambda: op.hash_tiles32_kernel_blocked[(sums.numel(),)](
        x, sums, x.numel(), 608135816, 3735928559, **sizes, BLOCK=256, USE_CG=True, num_warps=4, num_stages=4
    )


@case("sglang.mla_cache", "gather")
def sglang_mla_cache(device: str) -> Body:
    op = sglang_kernels("kvcache.mla_buffer")
    pool, nope, rope = bf16(device, 131072, 576), bf16(device, 32768, 512), bf16(device, 32768, 64)
    slots = given(device, permuted(131072, 131072, seed=74, dtype=torch.int64)[:32768].clone())
    return lambda: op.get_mla_kv_buffer_triton(pool, slots, nope, rope)


@case("vllm.token_logprobs", "sampling")
def vllm_logprobs(device: str) -> Body:
    op = vllm("v1.worker.gpu.sample.logprob").compute_token_logprobs
    x, ids = fp32(device, 1024, 128256), given(device, seeded(128256, 1024, 20, seed=83))
    return lambda: op(x, ids)


@case("vllm.min_p", "sampling")
def vllm_min_p(device: str) -> Body:
    op = vllm("v1.worker.gpu.sample.min_p").apply_min_p
    x, requests = fp32(device, 512, 151936), given(device, permuted(512, 512, seed=84))
    least = given(device, torch.full((512,), 0.05))
    return lambda: op(x, requests, least)


@case("lmdeploy.recovered_tokens", "sampling")
def lmdeploy_recovered(device: str) -> Body:
    op = lmdeploy("rejection_sampling").sample_recovered_tokens
    out, draft = given(device, torch.zeros(64, 4, dtype=torch.int64)), given(device, seeded(151936, 64, 4, seed=85))
    p, q, noise = fp32(device, 64, 4, 151936), fp32(device, 64, 4, 151936), fp32(device, 64, 151936)
    return lambda: op(out, draft, p, q, noise)


@case("flag_gems.topk", "sort")
def gems_topk(device: str) -> Body:
    op = flag_gems("ops.topk").topk
    x = fp32(device, 1024, 65536)
    return lambda: op(x, 8)


@case("flag_gems.cumsum", "scan")
def gems_cumsum(device: str) -> Body:
    op = flag_gems("ops.cumsum")
    x = fp32(device, 64, 1 << 20)
    return lambda: op.scan_then_fan(x, torch.empty_like(x), 64, 1 << 20, 1, torch.float32)


@case("conch.voxelise", "atomic")
def conch_voxelise(device: str) -> Body:
    op = library("conch.kernels.vision.voxelization").generate_voxels_triton_kernel
    count, most = given(device, seeded(40, 1 << 20, seed=92, dtype=torch.int32)), 10
    dense, out = fp32(device, 1 << 20, most, 4), fp32(device, 1 << 20, most, 4)
    filled, points = (
        given(device, torch.zeros(1, dtype=torch.int32)),
        given(device, torch.zeros(1 << 20, dtype=torch.int32)),
    )
    where = torch.empty(1 << 20, 4, device=device, dtype=torch.int32)
    return lambda: op[(4096,)](
        dense, count, 1024, 1024, most, 1 << 20, filled, points, out, where, cxpr_block_size=256, num_warps=8
    )


@case("conch.overlap_of_boxes", "image")
def conch_boxes(device: str) -> Body:
    op = library("conch.kernels.vision.nms")._create_iou_mask_kernel
    corner = torch.rand(8192, 2, generator=torch.Generator().manual_seed(93)) * 1000
    boxes = given(device, torch.cat([corner, corner + 40], 1))
    mask = torch.empty(8192, 8192, device=device, dtype=torch.bool)
    return lambda: op[(8192,)](boxes, mask, 8192, 0.5, 4, 8192)


@case("sglang.pack_and_pad", "gather")
def sglang_pack(device: str) -> Body:
    op = sglang_kernels("diffusion.layout.varlen_pack_pad_triton")
    q, k, v = (bf16(device, 8, 2048, 24, 128) for _ in range(3))
    flat = [x.view(16384, 3072) for x in (q, k, v)]
    places = given(device, permuted(16384, 16384, seed=94, dtype=torch.int64)[:11000].sort().values.clone())
    out = [bf16(device, 11000, 3072) for _ in range(3)]
    return lambda: op._fused_pack_qkv_kernel[(11000,)](*flat, *out, places, 3072, 3072, 3072, BLOCK_HD=4096)
