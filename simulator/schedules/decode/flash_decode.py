"""Attention of few queries over a long cache: query heads packed into rows, keys split among CTAs.

    for each KV head, for each split of its keys, one CTA each:      grid
        load the queries of all heads of the group, as rows of one tile
        for j in the split's key tiles (at a window's edge; without a mask; with one):   pipelined num_stages deep
            load K[j], V[j];  S = Q K^T;  mask;  online softmax;  O = O * alpha + P V
        one split: O = O / l;  store O, LSE;  several: store O / l and LSE of the split
    for each query of each head, one CTA each:                       (several splits only)
        load the splits' LSE and O;  store their mean by exp(LSE - max LSE), and LSE

flash_decode:

| tensor | times read | times written |
|---|---|---|
| Q | splits | 0 |
| K | 1 | 0 |
| V | 1 | 0 |
| O_parts | 0 | 1 |
| LSE_parts | 0 | 1 |

flash_decode_merge:

| tensor | times read | times written |
|---|---|---|
| O_parts | 1 | 0 |
| LSE_parts | 1 | 0 |
| O | 0 | 1 |
| LSE | 0 | 1 |

(Of one split the first launch writes O and LSE, and there is no second. K and V are read once whatever the group: that
is what packing is for. Keys that a mask hides from all queries are not read. Where sequences differ in length, or lie
in pages, the first launch is `flash_decode_cache`, which reads TABLE as well: keys of a sequence, and its pages; before
them its splits, where a rule gives each sequence its own, of which the merge reads no more parts than there are. With
sinks it reads SINKS, which the first split begins its rows with, as if they were a key each.)

Source: Dao, Haziza, Massa, Sizov, Flash-Decoding for long-context inference (2023): split keys, merge by LSE;
packing of a group's heads: FlashInfer (Ye et al. 2025), section 3.
"""

from ...device.device import Device
from ...integers import cdiv, next_power_of_two
from ...launch.outline import outlined_launch
from ...launch.program import Launch, Tensor
from ...problems.attention import AttentionProblem
from ..config import Config
from ..contract import Schedule
from ..coverage import DECODE, Coverage
from ..options import BLOCK_N, NUM_STAGES, NUM_WARPS, Value, declared, tiled
from ..tiles import (
    FP8_P_LOG2,
    LOG2_E,
    STATISTIC,
    cache_tensors,
    padded_head_dim,
    query_tensor,
    score_arguments,
    sink_tensors,
    statistic_tensor,
)
from .rules import MOST_SPLITS, SPLIT_RULE, SPLITS, by_rules, conflict, splits_of

MOST_ROWS = 128
"""Queries of a KV head, all heads of its group together, that are one tile."""
LEAST_ROWS = 16
"""Rows of the smallest tile that tensor cores multiply in Triton."""
MERGED_ELEMENTS = 1024
"""Elements of the splits' outputs that a warp of the merging kernel holds."""
WIDEST_OF_64_KEYS = 256
"""Elements of a head up to which three stages of K and V of 64 keys fit into shared memory."""


def launches(problem: AttentionProblem, config: Config, device: Device) -> tuple[Launch, ...]:
    """Splits, and their merge where there are several."""
    rows = max(LEAST_ROWS, next_power_of_two(problem.head_group * problem.seqlen_q))
    return split_launches(problem, config, device, rows)


def split_launches(problem: AttentionProblem, config: Config, device: Device, tile_rows: int) -> tuple[Launch, ...]:
    """The same of any number of queries. Args: tile_rows: of a tile; each tile of each split of a KV head is a CTA."""
    group, counts = problem.head_group, splits_of(problem, config, device)
    splits, splits_listed = max(counts), counts if len(set(counts)) > 1 else ()
    kv_slabs, row_tiles = problem.batch * problem.kv_heads, cdiv(group * problem.seqlen_q, tile_rows)
    dim = padded_head_dim(problem)
    outputs = (query_tensor(problem, "O", "output"), statistic_tensor(problem, "LSE"))
    parts = parts_of(problem, splits, problem.head_dim)
    cached = problem.page > 0 or bool(problem.lengths)
    inputs = (query_tensor(problem), *cache_tensors(problem, splits=splits_listed))
    sinks = sink_tensors(problem)
    split = outlined_launch(
        "flash_decode_cache" if cached else "flash_decode",
        (row_tiles * splits, kv_slabs, 1),
        (*inputs, *(parts if splits > 1 else outputs), *sinks),
        num_warps=config.num_warps,
        num_stages=config.num_stages,
        dtype=problem.dtype,
        constants=dict(
            head_dim=problem.head_dim,
            padded_dim=dim,
            kv_heads=problem.kv_heads,
            head_group=group,
            tile_rows=tile_rows,
            tiled=row_tiles > 1,
            block_n=config.block_n,
            causal=problem.causal,
            window=problem.window,
            whole_n=all(length % config.block_n == 0 for length in problem.key_lengths),
            p_log2=FP8_P_LOG2 if problem.dtype == "fp8" else 0,
            quantised=bool(problem.kv_dtype),
            merged=splits > 1,
            **({"page": problem.page, "own_splits": bool(splits_listed)} if cached else {}),
        ),
        arguments=dict(
            seqlen_q=problem.seqlen_q,
            seqlen_k=problem.seqlen_k,
            scale_log2=LOG2_E / problem.head_dim**0.5,
            v_scale=1.0,
            **score_arguments(problem),
            **({"table_width": inputs[-1].cols} if cached else {}),
        ),
    )
    if splits == 1:
        return (split,)
    return split, merge_of(problem, splits, parts, outputs, inputs[-1] if splits_listed else None)


def parts_of(problem: AttentionProblem, splits: int, cols: int) -> tuple[Tensor, Tensor]:
    """O and LSE of each split. Args: cols: elements of a row of O."""
    slabs, rows = problem.batch * problem.kv_heads * splits, problem.head_group * problem.seqlen_q
    return (
        Tensor(name="O_parts", role="scratch", slabs=slabs, rows=rows, cols=cols, dtype=STATISTIC),
        Tensor(name="LSE_parts", role="scratch", slabs=slabs, rows=rows, cols=1, dtype=STATISTIC),
    )


def merge_of(
    problem: AttentionProblem,
    splits: int,
    parts: tuple[Tensor, ...],
    outputs: tuple[Tensor, Tensor],
    table: Tensor | None,
) -> Launch:
    """The launch that merges several splits.

    Args:
        parts: as of `parts_of`; outputs: O and LSE; table: of a cache that says how many splits each sequence has.
    """
    padded, dim = next_power_of_two(splits), next_power_of_two(outputs[0].cols)
    return outlined_launch(
        "flash_decode_merge",
        (problem.seqlen_q, problem.batch * problem.heads, 1),
        (*parts, *outputs, *([table] if table else [])),
        num_warps=min(8, max(1, padded * dim // MERGED_ELEMENTS)),
        num_stages=1,
        dtype=problem.dtype,
        constants=dict(head_dim=outputs[0].cols, padded_dim=dim, head_group=problem.head_group, padded_splits=padded),
        arguments=dict(
            seqlen_q=problem.seqlen_q,
            splits=splits,
            **({"heads": problem.heads, "table_width": table.cols} if table else {}),
        ),
    )


def supports(problem: AttentionProblem) -> str | None:
    """Only few queries: with more, tiles of them share K and V, which is what the other schedules are for."""
    rows = problem.head_group * problem.seqlen_q
    if rows > MOST_ROWS:
        return (
            f"{rows} queries of a KV head (heads of a group x seqlen_q): at most {MOST_ROWS} are rows of its one tile;"
            " a decode step has seqlen_q = 1"
        )
    return None


def suited(problem: AttentionProblem, device: Device) -> dict[str, Value]:
    """Splits that give each SM two CTAs, of four key tiles at least; of the widest heads tiles that fit."""
    tiles = cdiv(problem.seqlen_k, 64)
    wanted = cdiv(2 * device.sms, problem.batch * problem.kv_heads)
    narrow = {"block_n": 32} if padded_head_dim(problem) > WIDEST_OF_64_KEYS else {}
    return {"splits": max(1, min(wanted, tiles // 4, MOST_SPLITS)), **narrow}


SCHEDULE = Schedule(
    name="flash_decode",
    summary="Flash-Decoding: heads of a group are rows of a tile, keys split among CTAs, merged by LSE",
    source="Dao et al. 2023, Flash-Decoding",
    options=declared(
        tiled(BLOCK_N, 64, 32, 64, 128),
        tiled(SPLITS, 1, 1, 2, 3, 4, 6, 8, 12, 16, 32, 64),
        SPLIT_RULE,
        tiled(NUM_WARPS, 4),
        tiled(NUM_STAGES, 3, 2, 4),
    ),
    launches=launches,
    reads=("causal", "window", "lengths", "page", "page_order", "kv_dtype", "softcap", "sinks"),
    supports=supports,
    conflict=conflict,
    suited=suited,
    rules=by_rules,
    color="#CC79A7",
    outlined=True,
    coverage=Coverage(points=DECODE, shapes="decode"),
)
