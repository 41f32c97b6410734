"""Random numbers, images and points, sparse convolutions and pools."""

import torch
from launching import Body, case
from libraries import plain
from made import bf16, fp16, fp32, given, int8, seeded


@case("bm3d.patches", "image")
def bm3d(device: str) -> Body:
    op = plain("bm3d_triton._backend")
    image, basic, window, total, weight = (fp32(device, 1024, 1024) for _ in range(5))
    places = torch.arange(4096)
    rows, columns = places // 340 * 3 + 300, places % 340 * 3
    shifts = seeded(39 * 39, 4096, 32, seed=621)
    at = (rows[:, None] + shifts // 39 - 19) * 1024 + (columns[:, None] + shifts % 39 - 19).clamp(0, 1016)
    at, counts = given(device, at.int()), given(device, 2 ** seeded(6, 4096, seed=622, dtype=torch.int32))
    found, sizes = (torch.empty(size, device=device, dtype=torch.int32) for size in (4096 * 16, 4096))
    return lambda: (
        op._match[(4096,)](image, found, sizes, 1024, 1024, 340, 34000, 16, 2500 * 64 / 255**2),
        op._filter[(4096,)](image, basic, at, counts, window, total, weight, 1024, 32, 0.01, True),
        op._normalize[(4096,)](total, weight, image, basic, 1024 * 1024, 256),
    )


@case("lanczos.resize", "image")
def lanczos(device: str) -> Body:
    op = plain("lanczos_triton._kernels")
    x, y, z = bf16(device, 16, 3, 1080, 1920), fp32(device, 16, 3, 1080, 640), fp32(device, 16, 3, 360, 640)
    w, v = fp32(device, 18, 640), fp32(device, 18, 360)
    left, top = (given(device, (torch.arange(n) * 3 - 8).clamp(0, 3 * n - 18).int()) for n in (640, 360))
    return lambda: (
        op.horizontal[(10 * 48 * 270,)](x, y, w, left, 1920, 640, 48 * 1080, 18, 64, 4, num_warps=4),
        op.vertical[(3 * 360 * 48,)](y, z, v, top, 1080, 360, 640, 18, 256, num_warps=4),
    )


@case("localcorr.pyramid", "image")
def localcorr(device: str) -> Body:
    op = plain("localcorr.triton.pyramid_corr")
    sizes = [(96, 128), (48, 64), (24, 32), (12, 16)]
    one, two = fp16(device, 2, 96, 128, 128), fp16(device, 2 * 128 * sum(h * w for h, w in sizes))
    out = fp16(device, 2, 4, 81, 96, 128)
    generator = torch.Generator().manual_seed(623)
    grid = torch.stack(torch.meshgrid(torch.arange(96.0), torch.arange(128.0), indexing="ij")[::-1])
    at = given(device, grid + 4 * torch.randn(2, 2, 96, 128, generator=generator))
    starts = torch.tensor([0, *(2 * 128 * h * w for h, w in sizes)]).cumsum(0)[:4].int()
    starts, shapes = given(device, starts), given(device, torch.tensor(sizes, dtype=torch.int32))
    scales = given(device, torch.tensor([1.0, 0.5, 0.25, 0.125]))
    return lambda: op.corr_pyramid_forward_kernel[(2 * 96 * 32,)](
        one, two, at, starts, shapes, scales, out, 2, 96, 128, 128, 4, 4, *one.stride(), *at.stride(), *out.stride(),
        BLOCK_HW=4, BLOCK_C=128, num_warps=4,
    )  # fmt: skip


@case("localcorr.window", "image")
def localcorr_window(device: str) -> Body:
    op = plain("localcorr.triton.spatial_corr").TritonSpatialCorrelationFunction
    one, two = fp32(device, 4, 64, 96, 128), fp32(device, 4, 64, 96, 128)
    return lambda: op.apply(one, two, 4, 1)


@case("triton_augment.fused", "image")
def augment(device: str) -> Body:
    op = plain("triton_augment.kernels.fused_kernel").fused_augment_kernel
    x, y = fp32(device, 64, 3, 480, 640), fp32(device, 64, 3, 224, 224)
    top, left = (given(device, seeded(most, 64, seed=624).float()) for most in (256, 416))
    flips, grey = given(device, seeded(2, 64, seed=625).bool()), given(device, seeded(2, 64, seed=626).bool())
    generator = torch.Generator().manual_seed(627)
    turns = torch.tensor([1.0, 0.0, 0, 0, 1, 0]) + 0.1 * torch.randn(64, 6, generator=generator)
    turns, mean, std = given(device, turns.contiguous()), fp32(device, 3), fp32(device, 3).abs()
    factors = [fp32(device, 64).abs() for _ in range(3)]
    return lambda: op[lambda meta: (-(-64 * 224 * 224 // meta["BLOCK_SIZE"]),)](
        x, y, y.numel(), 64, 3, 480, 640, 224, 224, top, left, flips, turns, 0.0, 1, mean, std, *factors, grey,
        True, True, True, True, True, True,
    )  # fmt: skip


@case("torch_fps.farthest", "reduction")
def farthest(device: str) -> Body:
    op = plain("torch_fps._triton")
    points, mask = fp32(device, 128, 4096, 3), torch.ones(128, 4096, device=device, dtype=torch.bool)
    start = given(device, seeded(4096, 128, seed=628))
    flat, centres = fp32(device, 128 * 16384, 3), fp32(device, 128 * 256, 3)
    begins, counts = given(device, torch.arange(128) * 16384), given(device, torch.full((128,), 16384))
    return lambda: (
        op.fps(points, mask, start, 256),
        op.nearest_assign(flat, centres, begins, counts, 16384, 256),
    )


@case("triton_csprng.chacha", "sampling")
def chacha(device: str) -> Body:
    make, use = (plain(f"triton_csprng.{name}") for name in ("chacha20", "sampling"))
    words = int8(device, 1 << 18, 64).view(torch.uint32)
    out, key = torch.empty_like(words), given(device, seeded(1 << 31, 10, seed=629).to(torch.uint32))
    bounds, some = given(device, (seeded(1 << 40, 8, seed=630) + 2).to(torch.uint64)), fp32(device, 1 << 23)
    whole = torch.empty(1 << 23, device=device, dtype=torch.int64)
    return lambda: (
        make._chacha20_blocks_kernel[(1 << 11,)](words, out, 1 << 18, 1, BLOCK=128),
        use._fused_bounded_uint64_kernel[(1 << 14,)](
            bounds, whole, 1 << 23, 1 << 21, 1 << 20, key, 7, 0, BLOCK=128, num_warps=4
        ),
        use._fused_stochastic_round_kernel[(1 << 12,)](
            some, whole, 1 << 23, 1 << 19, key, 7, 0, BLOCK=128, num_warps=4
        ),
    )


@case("spconv.gathered_gemm", "convolution")
def spconv(device: str) -> Body:
    op = plain("spconv_triton.pytorch._impl.gemm")
    x, w, near = fp16(device, 100000, 128), fp16(device, 128, 27, 128), _near(device, 100000, 27, 631)
    out = fp16(device, 100000, 128)
    return lambda: op._gather_gemm_kernel[lambda meta: (-(-100000 // meta["BLOCK_M"]) * (128 // meta["BLOCK_N"]),)](
        x, w, near, out, x, near, near, 100000, 128, 128, 27, *x.stride(), w.stride(1), w.stride(2), w.stride(0),
        *near.stride(), *out.stride(), HAS_BIAS=False, IEEE=False, ALLOW_TF32=False, FP16_ACC=False, USE_MASK=False,
    )  # fmt: skip


@case("spconv.pools", "gather")
def spconv_pools(device: str) -> Body:
    op = plain("spconv_triton.pytorch._impl.pool")
    x, near = fp16(device, 400000, 64), _near(device, 400000, 27, 632)
    y, dy = fp16(device, 100000, 64), fp16(device, 100000, 64)
    back, few, counts = near[:8].contiguous() // 4, near[:8, :100000].contiguous(), near[0, :100000].abs()
    return lambda: (
        op.maxpool_forward(x, few, 100000),
        op.maxpool_backward(x, y, dy, back),
        op.avgpool_forward(x, few, 100000),
        op.avgpool_backward(dy, back, counts),
    )


def _near(device: str, points: int, offsets: int, seed: int) -> torch.Tensor:
    """For each offset of a kernel and each point the point there, -1 where there is none: about half of them."""
    shift = seeded(2000, offsets, points, seed=seed, dtype=torch.int32) - 1000
    at = (torch.arange(points, dtype=torch.int32) + shift).clamp(0, points - 1)
    return given(device, torch.where(seeded(2, offsets, points, seed=seed + 50).bool(), at, -1).contiguous())
