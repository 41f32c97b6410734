"""Third round: mixtures of experts and adapters, routes to them and back; casts to 8 and 4 bits around them."""

import torch
from launching import Body, absent, in_round, library
from libraries import fla, liger, lmdeploy, plain, sglang_kernels, torchao_prototype, unsloth, vllm
from made import bf16, bounds, fp8, fp16, fp32, given, int8, permuted, seeded, words

case = in_round(3)

ROUTED = [900, 300, 1500, 10, 2200, 512, 1024, 700, 128, 64, 1800, 1111, 0, 430, 999, 1106]
Table = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def _routes(device: str, tokens: int, top: int, experts: int, seed: int) -> Table:
    """Chosen experts: routes in their order, where each expert's begin, and where they end."""
    chosen = seeded(experts, tokens * top, seed=seed)
    ends = torch.bincount(chosen, minlength=experts).cumsum(0)
    starts = torch.cat([torch.zeros(1, dtype=torch.int64), ends[:-1]])
    return given(device, chosen.argsort(stable=True)), given(device, starts), given(device, ends)


@case("lmdeploy.fused_moe_fp8", "grouped matmul")
def lmdeploy_moe_fp8(device: str) -> Body:
    op = lmdeploy("moe.blocked_fp8").fused_moe_blocked_fp8_kernel_launcher
    order, starts, ends = _routes(device, 512, 8, 32, 141)
    a, b, c = fp8(device, 512, 7168), fp8(device, 32, 4096, 7168), bf16(device, 512, 8, 4096)
    sa, sb = fp32(device, 512, 56), fp32(device, 32, 32, 56)
    return lambda: op(a, sa, b, sb, c, order, starts, ends, top_k=8, num_tokens=512, reindex_c=False)


@case("lmdeploy.fused_moe_w4a16", "grouped matmul")
def lmdeploy_moe_w4a16(device: str) -> Body:
    op = lmdeploy("compressed_tensors_w4a16").fused_moe_w4a16_kernel_launcher
    order, starts, ends = _routes(device, 256, 8, 64, 142)
    a, b, c = bf16(device, 256, 2048), words(device, 64, 1536, 256), bf16(device, 256, 8, 1536)
    s = bf16(device, 64, 1536, 64)
    return lambda: op(a, b, s, c, order, starts, ends, 8, 256, True, False)


@case("lmdeploy.fused_moe_int8", "grouped matmul")
def lmdeploy_moe_int8(device: str) -> Body:
    op = lmdeploy("moe.w8a8").fused_moe_w8a8_kernel_launcher
    order, starts, ends = _routes(device, 1024, 2, 8, 143)
    a, b, c = int8(device, 1024, 4096), int8(device, 8, 7168, 4096), bf16(device, 1024, 2, 7168)
    sa, sb = fp32(device, 1024, 1), fp32(device, 8, 7168, 1)
    return lambda: op(a, sa, b, sb, c, order, starts, ends, top_k=2, num_tokens=1024, reindex_c=False)


@case("lmdeploy.moe_reduce", "routing")
def lmdeploy_reduce(device: str) -> Body:
    op = lmdeploy("moe.fused_moe").moe_reduce
    x, w = bf16(device, 8192, 8, 4096), fp32(device, 8192, 8)
    return lambda: op(x, w)


@case("lmdeploy.single_group_router", "routing")
def lmdeploy_router(device: str) -> Body:
    op = lmdeploy("moe.route_single_group").fused_single_group_topk_router
    x, bias = fp32(device, 32768, 256), fp32(device, 256)
    return lambda: op(x, bias, num_experts=256, top_k=8, routed_scaling_factor=2.5)


@case("lmdeploy.silu_and_mul_experts", "activation")
def lmdeploy_silu_experts(device: str) -> Body:
    op = lmdeploy("activation").silu_and_mul_moe_ep
    x = bf16(device, 32, 2048, 4096)
    rows = given(device, seeded(2048, 32, seed=144, dtype=torch.int32))
    return lambda: op(x, rows)


@case("lmdeploy.ep_gather", "gather")
def lmdeploy_gather(device: str) -> Body:
    op = lmdeploy("moe.ep").ep_gather
    x, out, w = bf16(device, 65536, 2048), bf16(device, 8192, 2048), fp32(device, 8192, 8)
    ids = given(device, seeded(64, 8192, 8, seed=145))
    rows = given(device, permuted(65536, 8192, 8, seed=146))
    return lambda: op(x, ids, w, rows, out)


@case("lmdeploy.fused_lora", "adapters")
def lmdeploy_lora(device: str) -> Body:
    op = lmdeploy("fused_lora").fused_lora
    lengths, ranks = [1024, 512, 2048, 300, 700, 128, 900, 1500], [16, 8, 32, 64, 16, 32, 8, 16]
    x, a, b = bf16(device, sum(lengths), 4096), bf16(device, sum(ranks), 4096), bf16(device, sum(ranks), 4096)
    scale, own = fp32(device, 8), given(device, torch.arange(8))
    starts, sizes = given(device, bounds(lengths, torch.int64)[:-1].clone()), given(device, torch.tensor(lengths))
    first, count = given(device, bounds(ranks, torch.int64)[:-1].clone()), given(device, torch.tensor(ranks))
    return lambda: op(x, a, b, scale, first, count, starts, sizes, own, 64, 2048)


def _adapters(device: str, tokens: int, count: int) -> list[torch.Tensor]:
    """How vllm tells of adapters: of each token, tokens by adapter, how many, where they begin, and which there are."""
    own = seeded(count, tokens, seed=147, dtype=torch.int32)
    sizes = torch.bincount(own, minlength=count + 1)
    tables = own, own.argsort(stable=True), sizes, bounds(sizes.tolist()), torch.arange(count + 1)
    moved = [given(device, table.to(torch.int32)) for table in tables]
    return [*moved, torch.tensor([False]), torch.tensor([count], dtype=torch.int32)]


@case("vllm.lora_shrink", "adapters")
def vllm_shrink(device: str) -> Body:
    op = vllm("lora.ops.triton_ops.lora_shrink_op")._lora_shrink
    x, a, out = bf16(device, 8192, 4096), bf16(device, 8, 32, 4096), fp32(device, 1, 8192, 32)
    about = _adapters(device, 8192, 8)
    return lambda: op(x, [a], out, *about, 0.5)


@case("vllm.lora_expand", "adapters")
def vllm_expand(device: str) -> Body:
    op = vllm("lora.ops.triton_ops.lora_expand_op")._lora_expand
    x, b, out = fp32(device, 1, 8192, 32), bf16(device, 8, 14336, 32), bf16(device, 8192, 14336)
    about = _adapters(device, 8192, 8)
    return lambda: op(x, [b], out, *about, 0, True)


@case("vllm.moe_mul_sum", "routing")
def vllm_mul_sum(device: str) -> Body:
    op = vllm("model_executor.layers.fused_moe.moe_fused_mul_sum").moe_fused_mul_sum
    x, w, out = bf16(device, 8192, 8, 7168), fp32(device, 8192, 8), bf16(device, 8192, 7168)
    return lambda: op(x, w, out)


@case("moe_ops.permute", "gather")
def moe_permute(device: str) -> Body:
    op = library("moe_ops.permute_ops", "moe_ops")._permute_countsort_kernel
    chosen = seeded(64, 8192 * 8, seed=148, dtype=torch.int32)
    starts = bounds(torch.bincount(chosen, minlength=64).tolist())[:-1].clone()
    x, out = bf16(device, 8192, 2048), bf16(device, 65536, 2048)
    rows, chosen, starts = given(device, torch.zeros(65536, dtype=torch.int32)), given(device, chosen), given(device, starts)
    return lambda: op[(65536,)](
        chosen, x, out, rows, starts, 8192, 2048, 65536, 8, 1, 2048, 1, 2048, 1, BLOCK_C=1024
    )


@case("grouped_mm_bf16.3d2d", "grouped matmul")
def grouped_3d2d(device: str) -> Body:
    op = library("grouped_mm_bf16.kernels", "grouped_mm_bf16").grouped_mm_3d2d
    a, b = bf16(device, len(ROUTED), 1024, 2048), bf16(device, 2048, sum(ROUTED))
    ends = given(device, bounds(ROUTED)[1:].clone())
    return lambda: op(a, b, ends, bf16(device, 1024, sum(ROUTED)))


@case("liger.fused_moe", "grouped matmul")
def liger_moe(device: str) -> Body:
    op = liger("fused_moe")
    kernels = liger("fused_moe_kernels")
    tile = op.BLOCK_M_TOKEN
    x, w = bf16(device, 4096, 2048), bf16(device, 16, 2 * 768, 2048)
    starts = bounds(ROUTED)
    tiles = [(at, e) for e, (a, b) in enumerate(zip(starts, starts[1:], strict=False)) for at in range(a, b, tile)]
    rows, owner = (given(device, torch.tensor(part, dtype=torch.int32)) for part in zip(*tiles, strict=True))
    gathered = given(device, seeded(4096, sum(ROUTED), seed=149, dtype=torch.int32))
    before, after, starts = bf16(device, sum(ROUTED), 1536), bf16(device, sum(ROUTED), 768), given(device, starts)
    grid = lambda meta: (len(tiles), -(-768 // meta["BLOCK_N"]))  # noqa: E731
    return lambda: kernels._fused_up_proj_swiglu_kernel[grid](
        x, w, gathered, starts, rows, owner, before, after, H_dim=2048, I_dim=768, stride_x_T=2048, stride_x_H=1,
        stride_w_E=1536 * 2048, stride_w_N=2048, stride_w_K=1, stride_pre_TK=1536, stride_pre_N=1, stride_post_TK=768,
        stride_post_N=1, BLOCK_M=tile,
    )  # fmt: skip


@case("unsloth.grouped_gemm", "grouped matmul")
def unsloth_grouped(device: str) -> Body:
    unsloth("utils")
    op = library("unsloth.kernels.moe.grouped_gemm.interface", "unsloth", "unsloth.kernels", "unsloth.kernels.moe")
    x, w = bf16(device, sum(ROUTED), 2048), bf16(device, 16, 1536, 2048)
    sizes = given(device, torch.tensor(ROUTED, dtype=torch.int32))
    return lambda: op.grouped_gemm_forward(x, w, 1, sizes, gather_indices=None, use_tma_load_x=False)


@case("triton_kernels.matmul_experts", "grouped matmul")
def triton_kernels_experts(device: str) -> Body:
    op = plain("triton_kernels.matmul")
    ragged = plain("triton_kernels.tensor").make_ragged_tensor_metadata_torch
    x, w = bf16(device, sum(ROUTED), 2048), bf16(device, 16, 2048, 1536)
    about = ragged(torch.tensor(ROUTED, dtype=torch.int32), sum(ROUTED))
    for name in ("slice_sizes", "slice_offs", "block_offs_data", "block_schedule_data"):
        setattr(about, name, given(device, getattr(about, name)))
    return lambda: op.matmul(x, w, None, a_ragged_metadata=about)


@case("triton_kernels.topk", "routing")
def triton_kernels_topk(device: str) -> Body:
    op = plain("triton_kernels.topk").topk_forward
    x = bf16(device, 65536, 128)
    return lambda: op(x, 4)


@case("torchao.hadamard_rope_quantise", "quantise")
def torchao_hadamard(device: str) -> Body:
    name = "attention.quantization.triton_hadamard_rope_qkv_quantization"
    op = torchao_prototype(name).triton_fp8_hadamard_rope_sdpa_quantize
    q, k, v = (bf16(device, 1, 8192, 24, 128) for _ in range(3))
    cos, sin = fp32(device, 8192, 128), fp32(device, 8192, 128)
    return lambda: op(q, k, v, cos, sin)


@case("torchao.rowwise_transpose_fp8", "quantise")
def torchao_rowwise(device: str) -> Body:
    op = torchao_prototype("moe_training.kernels.float8_rowwise")
    w = bf16(device, 16, 5120, 2048)
    return lambda: op.triton_fp8_rowwise_3d_transpose_rhs(w)


@case("torchao.rowwise_by_group_fp8", "quantise")
def torchao_by_group(device: str) -> Body:
    op = torchao_prototype("moe_training.kernels.jagged_float8_scales")
    x, ends = bf16(device, 5120, sum(ROUTED)), given(device, bounds(ROUTED)[1:].clone())
    return lambda: op.triton_fp8_per_group_rowwise_scales(x, ends)


@case("lmdeploy.fill_kv_cache_int8", "quantise")
def lmdeploy_fill_int8(device: str) -> Body:
    op = lmdeploy("fill_kv_cache").fill_kv_cache
    batch, page, length = 16, 64, 2048
    k, v = bf16(device, batch * length, 8, 128), bf16(device, batch * length, 8, 128)
    blocks = batch * length // page
    kc, vc = (torch.empty(blocks, page, 8, 128, device=device, dtype=torch.uint8) for _ in range(2))
    ks, vs = bf16(device, blocks, page, 8, 2), bf16(device, blocks, page, 8, 2)
    starts = given(device, torch.arange(0, batch * length, length))
    lengths = given(device, torch.full((batch,), length))
    table = given(device, permuted(blocks, batch, length // page, seed=150))
    return lambda: op(k, v, kc, vc, starts, lengths, lengths, length, table, ks, vs, 8)


@case("gemlite.quantise_rows", "quantise")
def gemlite_rows(device: str) -> Body:
    op = plain("gemlite.quant_utils").scale_activations_per_token_triton_v3
    x = fp16(device, 16384, 8192)
    return lambda: op(x, torch.int8)


@case("sglang.silu_quant_experts", "quantise")
def sglang_silu_quant(device: str) -> Body:
    op = sglang_kernels("moe.ep_moe_kernels").silu_and_mul_masked_post_quant_fwd
    x, out, scale = bf16(device, 32, 1024, 4096), fp8(device, 32, 1024, 2048), fp32(device, 32, 1024, 16)
    rows = given(device, seeded(1024, 32, seed=151, dtype=torch.int32))
    return lambda: op(x, out, scale, 128, rows)


@case("fla.token_shift_backward", "convolution")
def token_shift_backward(device: str) -> Body:
    op = fla("modules.token_shift").token_shift_bwd
    dy = bf16(device, 4, 8192, 4096)
    return lambda: op(dy, 4, 8192)
