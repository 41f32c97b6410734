"""Cells of a grouped product of experts, as SGLang and vLLM launch it: rows of tokens gathered, weights K-major."""

import itertools

import torch
import triton
import triton.language as tl
from cells import SMEM_BYTES, Cell, Config, Launch, Tensors, cdiv, drawn, enter, normal, options


@triton.jit
def experts(A, B, C, ids, blocks, padded, N, K, EM, tokens, stride_be, stride_bn, TOP: tl.constexpr, BM: tl.constexpr,
            BN: tl.constexpr, BK: tl.constexpr, GROUP_M: tl.constexpr):  # fmt: skip
    """C[id] = A[id // TOP] B[expert]^T for the sorted `ids`, BM of them at a time of one expert."""
    pid = tl.program_id(0)
    across_m, across_n = tl.cdiv(EM, BM), tl.cdiv(N, BN)
    in_group = GROUP_M * across_n
    first = pid // in_group * GROUP_M
    high = min(across_m - first, GROUP_M)
    m, n = first + pid % in_group % high, pid % in_group // high
    if m * BM >= tl.load(padded):
        return
    rows = tl.load(ids + m * BM + tl.arange(0, BM).to(tl.int64))
    real = rows < tokens
    expert = tl.load(blocks + m).to(tl.int64)
    rn = (n * BN + tl.arange(0, BN).to(tl.int64)) % N
    rk = tl.arange(0, BK)
    a = A + (rows // TOP)[:, None] * K + rk[None, :]
    b = B + expert * stride_be + rk[:, None] + rn[None, :] * stride_bn
    total = tl.zeros((BM, BN), tl.float32)
    for k in range(0, tl.cdiv(K, BK)):
        x = tl.load(a, mask=real[:, None] & (rk[None, :] < K - k * BK), other=0.0)
        y = tl.load(b, mask=rk[:, None] < K - k * BK, other=0.0)
        total += tl.dot(x, y)
        a += BK
        b += BK
    rn = n * BN + tl.arange(0, BN)
    c = C + rows[:, None] * N + rn[None, :]
    tl.store(c, total.to(tl.bfloat16), mask=real[:, None] & (rn[None, :] < N))


MODELS = {
    "dbrx-tp4": (16, 5376, 6144, 4), "qwen3-235b-tp4": (128, 768, 4096, 8), "deepseek-v2-lite-tp1": (64, 2816, 2048, 6),
}  # fmt: skip
"""Experts, N and K of the first product, experts a token."""
KNOWN = {
    "mixtral-tp2": (8, 14336, 4096, 2),
    "deepseek-v3-tp8": (256, 512, 7168, 8),
    "qwen3-30b-tp1": (128, 1536, 2048, 8),
}
"""Models whose errors are known from others' measurements: to find causes by, not to be judged by."""
BATCHES, KNOWN_BATCHES = (1, 8, 32, 128, 512, 2048), (1, 16, 64)
SPACE = [
    {"BM": bm, "BN": bn, "BK": bk, "GROUP_M": group, "num_warps": warps, "num_stages": stages}
    for bm, bn, bk, group, warps, stages in itertools.product(
        (16, 32, 64, 128), (32, 64, 128, 256), (64, 128, 256), (1, 16, 32, 64), (4, 8), (2, 3, 4, 5)
    )
    if bm * bn <= 32768 and stages * (bm + bn) * bk * 2 <= SMEM_BYTES
]


def sorted_ids(tokens: int, count: int, top: int, block: int, seed: int) -> tuple[torch.Tensor, torch.Tensor, int]:
    """Routes by expert, each expert's padded to whole blocks; each block's expert; ids that are padded.

    Args: tokens: each with `top` of `count` experts, drawn alike; block: of ids.
    """
    generator = torch.Generator().manual_seed(seed)
    chosen = torch.rand(tokens, count, generator=generator).argsort(1)[:, :top].reshape(-1)
    sizes = torch.bincount(chosen, minlength=count)
    padded = (sizes + block - 1) // block * block
    most = tokens * top + count * (block - 1)
    ids = torch.full((most,), tokens * top, dtype=torch.int32)
    starts = padded.cumsum(0) - padded
    order = chosen.argsort(stable=True)
    within = torch.arange(len(order)) - (sizes.cumsum(0) - sizes)[chosen[order]]
    ids[starts[chosen[order]] + within] = order.to(torch.int32)
    of_block = torch.zeros(cdiv(most, block), dtype=torch.int32)
    total = int(padded.sum())
    of_block[: total // block] = torch.arange(count).repeat_interleave(padded // block).to(torch.int32)
    return ids, of_block, total


def _cell(family: str, model: str, sizes: tuple[int, int, int, int], batch: int, configs: list[Config]) -> Cell:
    count, n, k, top = sizes

    def make(device: str) -> Tensors:
        tensors: Tensors = {
            "a": normal(device, batch, k), "b": normal(device, count, n, k, scale=k**-0.5),
            "out": normal(device, batch * top, n),
        }  # fmt: skip
        where = "cpu" if device == "meta" else device
        for block in sorted({config["BM"] for config in configs}):
            ids, of_block, total = sorted_ids(batch, count, top, block, seed=batch)
            tensors[block] = ids.to(where), of_block.to(where), torch.tensor([total], dtype=torch.int32, device=where)
        return tensors

    def launch(t: Tensors, config: Config) -> Launch:
        ids, of_block, padded = t[config["BM"]]
        em = len(ids) if batch >= config["BM"] else min(len(ids), batch * top * config["BM"])
        grid = (cdiv(em, config["BM"]) * cdiv(n, config["BN"]),)
        args = [t["a"], t["b"], t["out"], ids, of_block, padded, n, k, em, batch * top, n * k, k]
        named = {"TOP": top} | {name: config[name] for name in ("BM", "BN", "BK", "GROUP_M")}
        return experts, grid, args, named | options(config)

    def reference(t: Tensors) -> torch.Tensor:
        ids, of_block, padded = (table.cpu() for table in t[min(key for key in t if isinstance(key, int))])
        block = min(key for key in t if isinstance(key, int))
        out = torch.empty_like(t["out"])
        expert = of_block.repeat_interleave(block)[: int(padded)]
        for number in expert.unique().tolist():
            mine = ids[: int(padded)][expert == number]
            mine = mine[mine < batch * top].to(out.device).long()
            out[mine] = t["a"][mine // top] @ t["b"][number].T
        return out

    return Cell(
        family=family, name=f"{model}-{batch}", shape={"model": model, "batch": batch}, configs=configs, make=make,
        launch=launch, reference=reference,
    )  # fmt: skip


def _space(batch: int, model: str) -> list[Config]:
    count, _, _, top = (MODELS | KNOWN)[model]
    few = batch * top / count < 16
    return [config for config in SPACE if config["BM"] <= 64 or not few]


for _at, _batch in enumerate(BATCHES):
    for _model, _sizes in MODELS.items():
        _seed = 70 + 10 * _at + list(MODELS).index(_model)
        enter(_cell("experts", _model, _sizes, _batch, drawn(_space(_batch, _model), 30, _seed)))
for _batch in KNOWN_BATCHES:
    for _model, _sizes in KNOWN.items():
        enter(_cell("known", _model, _sizes, _batch, drawn(_space(_batch, _model), 16, 200 + _batch)))
