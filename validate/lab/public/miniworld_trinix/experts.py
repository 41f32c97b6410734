"""Mixtures of experts and adapters, and what a server does between: masks, caps, caches, gathers."""

import torch
from launching import Body, absent, case
from libraries import lmdeploy, plain, sglang_kernels, vllm
from made import bf16, bounds, fp32, given, permuted, routes, seeded


@case("vllm.batched_experts", "grouped matmul")
def batched_experts(device: str) -> Body:
    root = "vllm.model_executor.layers"
    absent(f"{root}.fused_moe.modular_kernel", FusedMoEExpertsModular=object, ExpertTokensMetadata=object)
    absent(*(f"{root}.fused_moe.{name}" for name in ("config", "activation", "fused_moe", "topk_weight_and_reduce")))
    absent(f"{root}.fused_moe.utils")
    _casts()
    op = vllm("model_executor.layers.fused_moe.experts.fused_batched_moe")
    a, b, c = bf16(device, 32, 512, 2048), bf16(device, 32, 2816, 2048), bf16(device, 32, 512, 2816)
    counts = given(device, seeded(513, 32, seed=654, dtype=torch.int32))
    steps = *a.stride(), b.stride(0), b.stride(2), b.stride(1), *c.stride()
    return lambda: op.batched_triton_kernel[(32, 4 * 22)](
        a, b, c, counts, op.tl.bfloat16, 512, 2048, 2816, None, None, None, *steps, *[0] * 8, False, False, False,
        BLOCK_M=128, BLOCK_N=128, BLOCK_K=64, num_warps=4, num_stages=3,
    )  # fmt: skip


@case("lmdeploy.compact_experts", "grouped matmul")
def compact_experts(device: str) -> Body:
    op = lmdeploy("moe.fused_moe")
    order, starts, ends = routes("meta", 4096, 4, 32, seed=655)
    blocks = (ends - starts + 63) // 64
    own = torch.repeat_interleave(torch.arange(32), blocks)
    at = starts[own] + (torch.arange(own.numel()) - (blocks.cumsum(0) - blocks)[own]) * 64
    tables = [given(device, table.int()) for table in (order, ends, blocks.cumsum(0), own, at)]
    a, b, c = bf16(device, 4096, 2048), bf16(device, 32, 3072, 2048), bf16(device, 16384, 3072)
    ids, counts = given(device, seeded(32, 16384, seed=655)), torch.zeros(32, device=device, dtype=torch.int32)
    local, tiles = torch.empty(16384, device=device, dtype=torch.int32), {"BLOCK_SIZE_M": 64, "BLOCK_SIZE_N": 128}
    sizes = {"N": 3072, "K": 2048, "BLOCK_SIZE_K": 64, "top_k": 4, "expert_offset": 0, "num_local_experts": 32}
    steps = zip(("am", "ak", "be", "bn", "bk", "cm", "cn"), (*a.stride(), *b.stride(), *c.stride()), strict=True)
    strides = {f"stride_{name}": step for name, step in steps}
    return lambda: (
        op._sorted_idx_phase1_kernel[(64,)](ids, counts, local, 16384, BLOCK_R=256),
        op.fused_moe_compact_kernel[(own.numel(), 24)](
            a, b, None, c, *tables, stride_bie=0, stride_bin=0, reindex_a=True, reindex_c=True, num_warps=4,
            num_stages=3, **sizes, **tiles, **strides,
        ),
    )  # fmt: skip


@case("dlblas.adapters", "adapters")
def adapters(device: str) -> Body:
    op = plain("dlblas.kernels.mbgmm")
    lengths = [1024, 512, 2048, 300, 700, 128, 900, 1500]
    x, down, up = bf16(device, sum(lengths), 4096), bf16(device, 4 * 64, 4096), bf16(device, 4 * 64, 4096)
    starts, sizes = given(device, bounds(lengths)[:-1].clone()), given(device, torch.tensor(lengths, dtype=torch.int32))
    own = given(device, torch.tensor([3, 1, 0, 2, 3, 1, 2, 0], dtype=torch.int32))
    pages = given(device, permuted(256, 4, 64, seed=656, dtype=torch.int64) * 4096)
    ranks, scaling = given(device, torch.tensor([16, 64, 32, 8], dtype=torch.int32)), fp32(device, 4)
    small = bf16(device, sum(lengths), 64)
    return lambda: (
        op.mbgmm_a(x, down, starts, sizes, own, pages, ranks, 2048, 64),
        op.mbgmm_b(small, up, starts, sizes, own, scaling, pages, ranks, 2048, 64, 4096),
    )


@case("vllm.embed_and_norm", "embedding")
def embed_and_norm(device: str) -> Body:
    absent("vllm.distributed", "vllm.model_executor.layers.vocab_parallel_embedding")
    op = vllm("model_executor.layers.fused_embed_norm")
    ids, table, w = given(device, seeded(128256, 8192, seed=657)), bf16(device, 128256, 4096), bf16(device, 4096)
    at, before = given(device, torch.arange(8192)), bf16(device, 8192, 4096)
    return lambda: (
        op.fused_embed_norm(ids, table, w, 1e-6),
        op.fused_embed_eh_norm(at, ids, table, before, w, w, 1e-6),
    )


@case("vllm.grammar_mask", "sampling")
def grammar_mask(device: str) -> Body:
    op = vllm("v1.worker.gpu.structured_outputs")._apply_grammar_bitmask_kernel
    x, rows = fp32(device, 256, 151936), given(device, torch.arange(257, dtype=torch.int32))
    mask = given(device, seeded(1 << 32, 256, 4748, seed=658).int())
    return lambda: op[(256, 19)](x, 151936, rows, rows, mask, 4748, 151936, MASK_STRIDE=1, BLOCK_SIZE=8192)


@case("sglang.capped_logits", "elementwise")
def capped_logits(device: str) -> Body:
    op = sglang_kernels("activation.softcap")
    x, parts, y = bf16(device, 512, 256000), bf16(device, 8, 256, 32064), fp32(device, 256, 256000)
    return lambda: (op.softcap_inplace_logits(x, 30.0), op.gathered_softcap_logits(parts, 30.0, y))


@case("sglang.limited_swiglu", "elementwise")
def limited_swiglu(device: str) -> Body:
    op = sglang_kernels("activation.minimax_m3_swiglu")
    x = bf16(device, 8192, 2 * 6144)
    return lambda: (op.swiglu_oai_split(x, 1.7, 1.0, 7.0), op.swiglu_oai_mxfp8_quant(x, 1.7, 1.0, 7.0))


@case("sglang.upsample", "image")
def upsample(device: str) -> Body:
    op = sglang_kernels("diffusion.layout.nearest_upsample_nhwc_triton")._nearest_upsample_nhwc_kernel
    x, y = bf16(device, 2, 256, 256, 256), bf16(device, 2, 512, 512, 256)
    size = 2 * 512 * 512 * 256
    return lambda: op[(size // 1024,)](x, y, size, 256, 512, 512, 2, 2, *x.stride()[:3], IDX64=False, BLOCK=1024)


@case("vllm.cache_fill", "copy")
def cache_fill(device: str) -> Body:
    absent("vllm.v1.kv_cache_interface")
    _casts()
    op = vllm("v1.attention.ops.triton_reshape_and_cache_flash").reshape_and_cache_kernel_flash
    k, v = bf16(device, 16384, 8, 128), bf16(device, 16384, 8, 128)
    cache, values = bf16(device, 2048, 16, 8, 128), bf16(device, 2048, 16, 8, 128)
    slots = given(device, permuted(32768, 32768, seed=661, dtype=torch.int64)[:16384].clone())
    return lambda: op[(16384, 1)](
        k, v, cache, values, slots, None, None, 1024, 1024, 16384, 128, 0, 0, 1024, num_heads=8, head_size=128,
        block_size=16, x=1, USE_HEAD_MAJOR_LAYOUT=False, INTERLEAVED_V_PACK_FACTOR=0, FP8_KV_CACHE=False,
        TILE_SIZE=1024, num_warps=8, num_stages=2,
    )  # fmt: skip


def _casts() -> None:
    """Leave out what vllm knows of quantised types."""
    path = "vllm.model_executor.layers.quantization.utils.quant_utils"
    absent(path, get_fp8_min_max=lambda: (-448.0, 448.0), QuantKey=object)
