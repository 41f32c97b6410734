"""Mixtures of experts and adapters, routes to them and back; casts to 8 and 4 bits around them."""

from itertools import pairwise

import torch
from launching import Body, case, library
from libraries import liger, lmdeploy, torchao_prototype, triton_kernels, unsloth, vllm
from made import ROUTED, adapters, bf16, bounds, fp8, fp32, given, permuted, routes, seeded, words


@case("lmdeploy.fused_moe_fp8", "grouped matmul")
def lmdeploy_moe_fp8(device: str) -> Body:
    op = lmdeploy("moe.blocked_fp8").fused_moe_blocked_fp8_kernel_launcher
    order, starts, ends = routes(device, 512, 8, 32, 141)
    a, b, c = fp8(device, 512, 7168), fp8(device, 32, 4096, 7168), bf16(device, 512, 8, 4096)
    sa, sb = fp32(device, 512, 56), fp32(device, 32, 32, 56)
    return lambda: op(a, sa, b, sb, c, order, starts, ends, top_k=8, num_tokens=512, reindex_c=False)


@case("lmdeploy.fused_moe_w4a16", "grouped matmul")
def lmdeploy_moe_w4a16(device: str) -> Body:
    op = lmdeploy("compressed_tensors_w4a16").fused_moe_w4a16_kernel_launcher
    order, starts, ends = routes(device, 256, 8, 64, 142)
    a, b, c = bf16(device, 256, 2048), words(device, 64, 1536, 256), bf16(device, 256, 8, 1536)
    s = bf16(device, 64, 1536, 64)
    return lambda: op(a, b, s, c, order, starts, ends, 8, 256, True, False)


@case("lmdeploy.ep_gather", "gather")
def lmdeploy_gather(device: str) -> Body:
    op = lmdeploy("moe.ep").ep_gather
    x, out, w = bf16(device, 65536, 2048), bf16(device, 8192, 2048), fp32(device, 8192, 8)
    ids = given(device, seeded(64, 8192, 8, seed=145))
    rows = given(device, permuted(65536, 8192, 8, seed=146))
    return lambda: op(x, ids, w, rows, out)


@case("vllm.lora_shrink", "adapters")
def vllm_shrink(device: str) -> Body:
    op = vllm("lora.ops.triton_ops.lora_shrink_op")._lora_shrink
    x, a, out = bf16(device, 8192, 4096), bf16(device, 8, 32, 4096), fp32(device, 1, 8192, 32)
    about = adapters(device, 8192, 8)
    return lambda: op(x, [a], out, *about, 0.5)


@case("vllm.lora_expand", "adapters")
def vllm_expand(device: str) -> Body:
    op = vllm("lora.ops.triton_ops.lora_expand_op")._lora_expand
    x, b, out = fp32(device, 1, 8192, 32), bf16(device, 8, 14336, 32), bf16(device, 8192, 14336)
    about = adapters(device, 8192, 8)
    return lambda: op(x, [b], out, *about, 0, True)


@case("moe_ops.permute", "gather")
def moe_permute(device: str) -> Body:
    op = library("moe_ops.permute_ops", "moe_ops")._permute_countsort_kernel
    chosen = seeded(64, 8192 * 8, seed=148, dtype=torch.int32)
    starts = bounds(torch.bincount(chosen, minlength=64).tolist())[:-1].clone()
    x, out = bf16(device, 8192, 2048), bf16(device, 65536, 2048)
    rows, chosen, starts = (
        given(device, torch.zeros(65536, dtype=torch.int32)),
        given(device, chosen),
        given(device, starts),
    )
    return lambda: op[(65536,)](chosen, x, out, rows, starts, 8192, 2048, 65536, 8, 1, 2048, 1, 2048, 1, BLOCK_C=1024)


@case("liger.fused_moe", "grouped matmul")
def liger_moe(device: str) -> Body:
    op = liger("fused_moe")
    kernels = liger("fused_moe_kernels")
    tile = op.BLOCK_M_TOKEN
    x, w = bf16(device, 4096, 2048), bf16(device, 16, 2 * 768, 2048)
    starts = bounds(ROUTED)
    tiles = [(at, e) for e, (a, b) in enumerate(pairwise(starts.tolist())) for at in range(a, b, tile)]
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


@case("triton_kernels.topk", "routing")
def triton_kernels_topk(device: str) -> Body:
    op = triton_kernels("topk").topk_forward
    x = bf16(device, 65536, 128)
    return lambda: op(x, 4)


@case("torchao.rowwise_transpose_fp8", "quantise")
def torchao_rowwise(device: str) -> Body:
    op = torchao_prototype("moe_training.kernels.float8_rowwise")
    w = bf16(device, 16, 5120, 2048)
    return lambda: op.triton_fp8_rowwise_3d_transpose_rhs(w)


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
