"""Mixtures of experts and adapters: routes, what moves along them and back, products of groups."""

from types import SimpleNamespace

import torch
from launching import Body, absent, case
from libraries import deepspeed, plain, sglang_kernels, tokenspeed, transformer_engine
from made import ROUTED, backward, bf16, bounds, fp32, given, permuted, routes, some_of


def _chosen(tokens: int, experts: int, top: int, seed: int) -> torch.Tensor:
    """Which experts take each token."""
    table = torch.zeros(tokens, experts, dtype=torch.bool)
    return table.scatter_(1, some_of(experts, top, tokens, seed).long(), True)


def _loose(chosen: torch.Tensor) -> torch.Tensor:
    """Of each token and expert the row that it goes to, or -1; space for the experts, and for how many there are."""
    by_expert = chosen.t()
    rows = torch.where(by_expert, by_expert.flatten().cumsum(0).view_as(by_expert) - 1, -1).t()
    return torch.cat([rows, torch.zeros_like(rows), chosen.sum(1, keepdim=True)], 1).to(torch.int32)


def _rows_of(chosen: torch.Tensor) -> torch.Tensor:
    """Of each token the rows that it goes to, those of the last experts first, those experts, and how many."""
    count = chosen.shape[1]
    rows, experts = _loose(chosen)[:, :count].sort(dim=1, descending=True)
    return torch.cat([rows, experts, chosen.sum(1, keepdim=True)], 1).to(torch.int32)


@case("transformer_engine.permutation", "routing")
def te_permutation(device: str) -> Body:
    op = transformer_engine("permutation")
    chosen = _chosen(8192, 64, 4, 551)
    marks, rows, loose = (given(device, table) for table in (chosen, _rows_of(chosen), _loose(chosen)))
    found, counts = (torch.empty(shape, device=device, dtype=torch.int32) for shape in ((8192, 129), (64, 8)))
    x, y, probs = bf16(device, 8192, 4096), bf16(device, 32768, 4096), fp32(device, 8192, 64)
    return lambda: (
        op._row_id_map_pass_1_kernel[(64, 8)](marks, 8192, 64, 1, 129, 1, found, counts, 1024),
        op._row_id_map_pass_2_kernel[(64, 8)](found, counts, 8192, 129, 1, 512, 1024),
        op._row_id_map_pass_3_kernel[(8192,)](loose, 129, 1, 64, 64),
        op.permute_with_mask_map(x, rows, None, None, None, 8192, 64, 32768, 4096, 0),
        op.unpermute_with_mask_map(y, rows, probs, None, None, 8192, 64, 4096),
        op.unpermute_with_mask_map_bwd_with_merging_probs(x, rows, y, probs, None, 8192, 64, 32768, 4096),
    )


@case("megablocks.binned", "routing")
def megablocks_binned(device: str) -> Body:
    op = plain("megablocks.backend.kernels")
    order, _, ends = (table.int() for table in routes(device, 8192, 2, 16, 553))
    x, y, w = bf16(device, 8192, 4096), bf16(device, 16, 1024, 4096), bf16(device, 16384)
    return lambda: (
        op.binned_gather(x, order, None, ends, 1024, 2),
        op.binned_scatter(y, order, w, ends, 2),
        op.binned_scatter_wgrad(y, x, order, ends, 2),
    )


@case("megablocks.padded", "routing")
def megablocks_padded(device: str) -> Body:
    op = plain("megablocks.backend.kernels")
    order, starts, ends = (table.int() for table in routes("meta", 8192, 2, 16, 554))
    sizes = ends - starts
    padded, own = ((sizes + 127) // 128 * 128).cumsum(0).int(), torch.repeat_interleave(torch.arange(16), sizes).int()
    x, y = bf16(device, 8192, 4096), bf16(device, int(padded[-1]), 4096)
    order, own, ends, padded = (given(device, table) for table in (order, own, ends, padded))
    return lambda: (
        op.padded_gather(x, order, own, None, ends, padded, 2),
        op.padded_scatter_wgrad(y, x, order, own, ends, padded, 2),
    )


@case("deepspeed.weighted_restore", "routing")
def deepspeed_restore(device: str) -> Body:
    op = deepspeed("ops.triton_ops.autoep_fused_token_ops")
    order = given(device, permuted(65536, 65536, seed=555, dtype=torch.int64))
    inverse = given(device, permuted(65536, 65536, seed=555).argsort().int())
    rows, scores = bf16(device, 65536, 2048, grad=True), fp32(device, 8192, 8, grad=True)
    return lambda: (
        op._invert_index(order, 65536),
        backward(op._FusedWeightedRestore.apply(rows, scores, inverse, 8), rows, scores),
    )


@case("deepspeed.row_weighting", "elementwise")
def deepspeed_rows(device: str) -> Body:
    op = deepspeed("ops.triton_ops.autoep_fused_token_ops")
    rows, w = bf16(device, 32768, 4096, grad=True), fp32(device, 32768, 1, grad=True)
    return lambda: backward(op.fused_row_weighting(rows, w), rows, w)


@case("deepspeed.group_gemm", "grouped matmul")
def deepspeed_group_gemm(device: str) -> Body:
    op = deepspeed("ops.triton_ops.group_gemm_triton")
    a, b, out = bf16(device, sum(ROUTED), 2048), bf16(device, 16, 2048, 1024), bf16(device, sum(ROUTED), 1024)
    dw, starts = bf16(device, 16, 2048, 1024), given(device, bounds(ROUTED)[:-1].clone())
    sizes = given(device, torch.tensor(ROUTED, dtype=torch.int32))
    return lambda: (
        op._group_gemm_kernel[lambda meta: (sum(ROUTED) // meta["BLOCK_M"] + 17, 1024 // meta["BLOCK_N"])](
            a, b, out, starts, sizes, sum(ROUTED), 2048, 1024, *a.stride(), *b.stride(), *out.stride(), NUM_GROUPS=16
        ),
        op._group_gemm_dw_kernel[lambda meta: (16, 2048 // meta["BLOCK_K"], 1024 // meta["BLOCK_N"])](
            a, out, dw, starts, sizes, 2048, 1024, *a.stride(), *out.stride(), *dw.stride(), NUM_GROUPS=16
        ),
    )


@case("tokenspeed.softmax_topk", "routing")
def tokenspeed_topk(device: str) -> Body:
    op = tokenspeed("moe.triton.softmax_topk")
    x = fp32(device, 16384, 256)
    return lambda: op.triton_softmax_topk(
        router_logits=x, topk=8, topk_indices_dtype=torch.int32, renormalize=True, routed_scaling_factor=2.5
    )


@case("sglang.lora_segments", "adapters")
def sglang_lora(device: str) -> Body:
    absent("sglang.srt.lora", "sglang.srt.lora.utils")
    parts = "sgemm_lora_a", "sgemm_lora_b", "gate_up_lora_b"
    down, up, both = (sglang_kernels(f"lora.dense.{part}") for part in parts)
    lengths = [1024, 512, 2048, 300, 700, 128, 900, 1500]
    ints = [lengths, [3, 1, 0, 2, 3, 1, 2, 0], [16, 64, 32, 8]]
    sizes, own, ranks = (given(device, torch.tensor(values, dtype=torch.int32)) for values in ints)
    about = SimpleNamespace(
        max_len=2048, bs=8, seg_lens=sizes, seg_indptr=given(device, bounds(lengths)), weight_indices=own,
        lora_ranks=ranks, permutation=None, scalings=fp32(device, 4),
    )  # fmt: skip
    x, a, b = bf16(device, sum(lengths), 4096), bf16(device, 4, 2 * 64, 4096), bf16(device, 4, 4096, 64)
    small, two, gate_up = bf16(device, sum(lengths), 64), bf16(device, sum(lengths), 128), bf16(device, 4, 28672, 64)
    return lambda: (
        down.sgemm_lora_a_fwd(x, a, about, 2),
        up.sgemm_lora_b_fwd(small, b, about),
        both.gate_up_lora_b_fwd(two, gate_up, about, 14336),
    )
