"""Images, sound and graphs; verification of drafted tokens; ragged rows."""

import torch
from launching import Body, case
from libraries import megatron, plain, vllm_omni
from made import bf16, bounds, fp32, given, permuted, seeded


@case("sam3.connected_components", "image")
def connected_components(device: str) -> Body:
    op, size = plain("sam3.perflib.triton.connected_components"), 64 * 288 * 288
    roots = torch.arange(64)[:, None, None] * 288 * 288 + seeded(288 * 288, 64, 9, 9, seed=703) // 6 * 6
    labels = given(device, torch.where(seeded(4, 64, 9, 9, seed=702) > 0, roots, -1).int())
    labels = labels.repeat_interleave(32, 1).repeat_interleave(32, 2).contiguous()
    out, sizes = (torch.zeros(size, device=device, dtype=torch.int32) for _ in range(2))
    many = (size // 256,)
    return lambda: (
        op._count_labels_kernel[many](labels, sizes, size, BLOCK_SIZE=256),
        op._broadcast_sizes_kernel[many](labels, sizes, out, size, BLOCK_SIZE=256),
    )


@case("colortransfer.moments", "image")
def colour_moments(device: str) -> Body:
    op, pixels = plain("colortransfer_triton._kernels"), 1080 * 1920
    x, y, part, stats, wanted = (
        *(fp32(device, 8, 3, pixels) for _ in range(2)),
        fp32(device, 24, 507, 2),
        *(fp32(device, 24, 2).abs() for _ in range(2)),
    )
    return lambda: (
        op.moments_part[(24, 507)](x, part, pixels, 507, 4096),
        op.adain_apply[(4050, 24)](x, y, stats, wanted, pixels, 24 * pixels, 8, 1e-5, 1.0, True, 512),
    )


@case("colortransfer.wavelet", "image")
def colour_wavelet(device: str) -> Body:
    op, height, width = plain("colortransfer_triton._kernels").wavelet_pass, 720, 1280
    x, r, low, y = (fp32(device, 8, 3, height, width) for _ in range(4))
    size, grid = x.numel(), (x.numel() // 256,)
    return lambda: op[grid](x, r, low, y, height, width, size, 8, False, False, 8, 1.0, True, 256)


@case("colortransfer.table", "image")
def colour_table(device: str) -> Body:
    op, pixels = plain("colortransfer_triton._kernels"), 540 * 960
    generator = torch.Generator().manual_seed(704)
    x, y = given(device, torch.rand(1, 3, pixels, generator=generator)), fp32(device, 1, 3, pixels)
    table, packed = fp32(device, 1, 33, 33, 33, 3), fp32(device, 32**3 * 24)
    return lambda: (
        op.lut_apply_packed[(pixels // 64, 1)](x, packed, y, pixels, 33, 1, 1.0, True, 64),
        op.lut_apply[(pixels // 256,)](x, table, y, pixels, pixels, 33, 1, 1.0, True, 256),
    )


@case("colortransfer.lab", "image")
def colour_lab(device: str) -> Body:
    op, pixels = plain("colortransfer_triton._kernels").rgb_lab, 1080 * 1920
    x, y = fp32(device, 8, 3, pixels).abs(), fp32(device, 8, 3, pixels)
    return lambda: op[(8 * pixels // 256,)](x, y, pixels, 8 * pixels, 256)


@case("colortransfer.transport", "image")
def colour_transport(device: str) -> Body:
    op, size = plain("colortransfer_triton._kernels"), 4096
    x, y, cost, back = *(fp32(device, size, 3) for _ in range(2)), *(fp32(device, size, size) for _ in range(2))
    u, v, points, out = fp32(device, size), fp32(device, size), fp32(device, 33**3, 3), fp32(device, 33**3, 3)
    ways, sorted_all = fp32(device, 256, 3), fp32(device, 256, size)
    return lambda: (
        op.cost_matrix[(size * size // 256,)](x, y, cost, back, size, size, False, size, size, 256),
        op.sinkhorn_step[(size // 4,)](cost, v, u, size, size, size, size, 1.0, 0.03, size, 4),
        op.barycentric[(-(-(33**3) // 16),)](points, y, v, out, 33**3, size, 0.03, False, 16, 512, num_warps=4),
        op.project_sort[(256,)](x, ways, sorted_all, size, -1, size, ALL=True, enable_fp_fusion=False),
    )


@case("vllm_omni.istft", "audio")
def istft(device: str) -> Body:
    op = vllm_omni("model_executor.models.common.ming.fused_istft")._istft_kernel
    batch, hop, frames = 16, 480, 3000
    raw = (frames + 3) * hop
    x = fp32(device, batch, frames, 4 * hop).transpose(1, 2)
    window, out = fp32(device, 4 * hop), fp32(device, batch, raw - 3 * hop)
    envelope = fp32(device, raw - 3 * hop)
    start = 3 * hop // 2
    return lambda: op[(batch, -(-raw // 256))](
        x, window, None, None, out, envelope, None, None, *x.stride(), 0, 0, 0, frames, raw, start, raw - 3 * hop,
        hop_size=hop, streaming=False, has_buffer=False, block_size=256, enable_fp_fusion=False,
    )  # fmt: skip


@case("vllm_omni.snake", "audio")
def snake(device: str) -> Body:
    kind = vllm_omni("model_executor.models.common.snake_activation").SnakeBeta
    kind._init_triton()
    x, y, alpha, beta = *(bf16(device, 4, 192, 96000) for _ in range(2)), *(fp32(device, 192).abs() for _ in range(2))
    return lambda: kind._triton_kernel[(4, 192, 24)](x, alpha, beta, y, *x.stride()[:2], t_len=96000, block_t=4096)


@case("vllm_omni.upsample_2x", "image")
def upsample_2x(device: str) -> Body:
    op = vllm_omni("diffusion.distributed.autoencoders.wan_vae_fastpath.triton_upsample")
    x, y = bf16(device, 4, 192, 180, 320), bf16(device, 4, 192, 360, 640)
    places = 180 * 320 * 192, 320 * 192, 192
    return lambda: op._upsample2x_pixels_kernel[(4 * 180 * 40,)](
        x, y, 192, 180, 320, 40, *places, BLOCK_W=8, BLOCK_C=256, num_warps=4
    )


@case("flashspec.verify", "sampling")
def flashspec_verify(device: str) -> Body:
    op = plain("flashspec.kernels.verify_kernel")._verify_acceptance_kernel
    draft, target, chance = bf16(device, 256, 7, 32000), bf16(device, 256, 7, 32000), fp32(device, 256, 7).abs()
    tokens, out = given(device, seeded(32000, 256, 7, seed=705)), torch.empty(256, 7, device=device, dtype=torch.bool)
    return lambda: op[lambda meta: (256 // meta["BLOCK_B"], 7)](
        draft, target, tokens, chance, out, BATCH_SIZE=256, GAMMA=7, VOCAB_SIZE=32000
    )


LENGTHS = [int(length) for length in seeded(400, 1024, seed=706) + 100]
"""Rows of each of 1024 sequences, 100 to 499."""


@case("fbgemm.ragged_softmax", "ragged")
def ragged_softmax(device: str) -> Body:
    op, total = plain("fbgemm_gpu.sll.triton.triton_jagged_softmax"), sum(LENGTHS)
    x, y, dy, dx = (fp32(device, total, 16) for _ in range(4))
    ends = given(device, bounds(LENGTHS, torch.int64))
    steps = x.stride()
    return lambda: (
        op.jagged_softmax_kernel[(1024, 16)](x, y, ends, *steps, *steps, 512, 512),
        op.jagged_softmax_backward_kernel[(1024, 16)](dy, y, dx, ends, *steps, *steps, *steps, 512, 512),
    )


@case("fbgemm.ragged_squares", "ragged")
def ragged_squares(device: str) -> Body:
    op, some = plain("fbgemm_gpu.sll.triton.triton_jagged2_to_padded_dense"), LENGTHS[:256]
    total = sum(length * length for length in some)
    x, y, dense = fp32(device, total), fp32(device, total), fp32(device, 256, 512, 512)
    begins = given(device, bounds([length * length for length in some], torch.int64))
    lengths = given(device, torch.tensor(some, dtype=torch.int32))
    grid, tail = (16, 16, 256), (*dense.stride(), 512, 32, 32)
    return lambda: (
        op.jagged2_to_padded_dense_kernel[grid](x, lengths, begins, dense, *tail),
        op.padded_dense_to_jagged2_kernel[grid](dense, lengths, begins, y, *tail),
    )


@case("sam3.nms", "image")
def nms(device: str) -> Body:
    op = plain("sam3.perflib.triton.nms")._nms_suppression_kernel
    overlap, keep = given(device, seeded(50, 1000, 1000, seed=707) == 0), given(device, torch.ones(1000).bool())
    return lambda: op[(1,)](overlap, keep, 1000, 1000)


@case("megatron.drafted_states", "sampling")
def drafted_states(device: str) -> Body:
    op = megatron("inference.text_generation_controllers.mtp_utils_triton")._mamba_state_selective_copy_kernel
    size = 128 * 64 * 64
    drafted, states = bf16(device, 2, 64, 4, size), bf16(device, 2, 64, size)
    prefill, place, taken = (
        given(device, table.int()) for table in (torch.arange(64) // 56, permuted(64, 64), seeded(4, 64, seed=708))
    )
    return lambda: op[(64, 2, size // 1024)](
        drafted, states, prefill, place, taken, *drafted.stride()[:3], *states.stride()[:2], size, BLOCK_SIZE=1024
    )


@case("ibu_boost.histograms", "graph")
def tree_histograms(device: str) -> Body:
    op = plain("ibu_boost.kernels.screening_split_triton")._hist_scatter_kernel
    rows, features, bins = 1 << 18, 28, 255
    x = given(device, seeded(bins + 1, rows, features, seed=709, dtype=torch.int32) - 1)
    node = given(device, seeded(16, rows, seed=710, dtype=torch.int32))
    g, h = fp32(device, rows), fp32(device, rows)
    one, two = (torch.zeros(16, features, bins, device=device) for _ in range(2))
    return lambda: op[(rows // 1024,)](x, g, h, node, one, two, rows, F=features, B=bins, BLOCK=1024)


@case("cuzipnn.byte_planes", "quantise")
def byte_planes(device: str) -> Body:
    op, size = plain("cuzipnn._kernels"), 1 << 27
    x, planes = bf16(device, size), torch.empty(2 * size, device=device, dtype=torch.uint8)
    return lambda: op.split(x, planes, size, True)
