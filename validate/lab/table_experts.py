"""SGLang's fused experts as rows of public tables have them, for `table_kernels.py`."""

import importlib.util
import sys
from types import ModuleType
from typing import Any

import torch
import triton.language as tl

Row = dict[str, Any]
SIZES = ("num_tokens", "topk", "num_experts", "hidden_size", "inter_size", "moe_tp_size")
ROUNDS = 2
"""Calls that follow each other: the second finds L2 as a call of the graph does."""
LEFT_OUT = 6
"""Kernels of a call that are no Triton kernels: the router, three copies of what it chose, two that sort tokens."""
NAMES = {
    "a100-sxm-80gb": "NVIDIA A100-SXM4-80GB",
    "h100-sxm": "NVIDIA H100 80GB HBM3",
    "h200": "NVIDIA H200",
    "b200": "NVIDIA B200",
    "l40s": "NVIDIA L40S",
    "rtx-pro-6000": "NVIDIA RTX PRO 6000 Blackwell Server Edition",
}
"""What SGLang's files of configurations call a GPU."""
ASKED: dict[str, Any] = {}
"""`sources`: the folder; `name`: of the GPU that rows are predicted for."""


def made(*shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    """A tensor without data."""
    return torch.empty(shape, device="cuda", dtype=dtype)


def experts(row: Row) -> None:
    """SGLang's fused experts in bf16, balanced: its products, and its Triton kernels of what lies between them.

    On a GPU, SGLang calls CUDA kernels for the activation and the sum over a token's experts, which move the same
    bytes; its router, copies and sorting are left out. Configurations are those that the collector takes.
    """
    folder = "moe_runner/triton_utils" if row["version"] == "0.5.14" else "fused_moe_triton"
    kernels, tables = (_part(row["version"], folder, name) for name in ("kernels", "config"))
    tokens, number, chosen, hidden = (row[name] for name in ("num_tokens", "num_experts", "topk", "hidden_size"))
    inner = row["inter_size"] // row["moe_tp_size"]
    tables.get_moe_configs.cache_clear()
    known = tables.get_moe_configs(number, inner, None, 0, 0)
    nearest = known and known[min(known, key=lambda size: abs(size - tokens))]
    config = nearest or tables.get_default_config(tokens, number, 2 * inner, hidden, chosen, None, False, None)
    token, slot = torch.arange(tokens)[:, None], torch.arange(chosen)[None, :]
    stride = -(-number // chosen)
    first = token if tokens >= stride else token * stride / tokens
    ids = ((first + slot * stride) % number).to(torch.int32)
    order, starts, of_block = _sorted(ids, number, config["BLOCK_SIZE_M"])
    weights = torch.full(ids.shape, 1 / chosen)
    gate, kept = made(tokens * chosen, 2 * inner), made(tokens * chosen, inner)
    down, out = made(tokens, chosen, hidden), made(tokens, hidden)

    def product(given: torch.Tensor, matrix: torch.Tensor, result: torch.Tensor, weighted: bool, top: int) -> None:
        kernels.invoke_fused_moe_kernel(
            given, matrix, None, result, None, None, None, weights, ids, order, of_block, starts, weighted, top, config,
            tl.bfloat16, False, False, False, False, False, filter_expert=True, router_topk=chosen,
        )  # fmt: skip

    given = made(tokens, hidden), made(number, 2 * inner, hidden), made(number, hidden, inner)
    for _ in range(ROUNDS):
        product(given[0], given[1], gate, False, chosen)
        kernels.act_and_mul_triton(gate, kept, config, ids)
        product(kept, given[2], down, True, 1)
        if chosen > 1:
            kernels.moe_sum_reduce_triton(down, out, 1.0)


def _part(version: str, folder: str, name: str) -> ModuleType:
    """A module of SGLang's experts, loaded from its file."""
    name = f"fused_moe_triton_{name}"
    path = ASKED["sources"] / f"sglang-{version}/sglang/srt/layers/moe/{folder}/{name}.py"
    if (known := f"{name} {version}") not in sys.modules:
        spec = importlib.util.spec_from_file_location(known, path)
        assert spec and spec.loader
        sys.modules[known] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[known])
    return sys.modules[known]


def _sorted(ids: torch.Tensor, experts: int, block: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Tokens by expert in whole blocks, how many with those that fill blocks up, the expert of each block."""
    flat = ids.flatten().long()
    room = len(flat) * block if len(flat) <= experts else len(flat) + (experts + 1) * (block - 1)
    counts = torch.bincount(flat, minlength=experts)
    blocks = -(-counts // block)
    begins = (blocks.cumsum(0) - blocks) * block
    by_expert = flat.argsort(stable=True)
    of = flat[by_expert]
    place = begins[of] + torch.arange(len(flat)) - (counts.cumsum(0) - counts)[of]
    order = torch.full((room,), len(flat), dtype=torch.int32)
    order[place] = by_expert.to(torch.int32)
    of_block = torch.zeros(-(-room // block), dtype=torch.int32)
    of_block[: blocks.sum()] = torch.arange(experts, dtype=torch.int32).repeat_interleave(blocks)
    return order, (blocks.sum() * block).to(torch.int32)[None], of_block
