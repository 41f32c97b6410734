"""Attention of a chunk of queries over a cache: tiles of the packed queries of a KV head, keys split among CTAs.

    for each KV head, for each split of its keys, for each tile of its queries, one CTA each:        grid
        load the queries of all heads of the group, block_m rows
        for j in the split's key tiles that a row sees (edge of a window; without a mask; with one):   num_stages deep
            load K[j], V[j];  S = Q K^T;  mask;  online softmax;  O = O * alpha + P V
        one split: O = O / l;  store O, LSE;  several: store O / l and LSE of the split
    several splits: merged as `flash_decode` merges them

flash_decode:

| tensor | times read | times written |
|---|---|---|
| Q | splits | 0 |
| K | row_tiles | 0 |
| V | row_tiles | 0 |
| O | 0 | 1 |
| LSE | 0 | 1 |

(row_tiles = ceil(group * M / block_m), of one split and without a mask; the kernels are those of `flash_decode`, which
has one such tile. Causal rows are aligned to the last key of their sequence: a chunk whose keys are in the cache
already sees all that were there before. Key tiles behind the last row of a tile are not read.)

Source: Agrawal et al., Sarathi (2023): chunked prefill; tiles of packed queries over pages: FlashInfer (Ye et al.
2025), section 3.2.
"""

from ...device.device import Device
from ...integers import cdiv
from ...launch.program import Launch
from ...problems.attention import AttentionProblem
from ..config import Config
from ..contract import Schedule
from ..coverage import Coverage, listed
from ..options import BLOCK_M, BLOCK_N, NUM_STAGES, NUM_WARPS, Value, declared, tiled
from ..tiles import suited_to_wide_heads
from .flash_decode import MOST_ROWS, split_launches
from .rules import SPLIT_RULE, SPLITS, by_rules, conflict


def launches(problem: AttentionProblem, config: Config, device: Device) -> tuple[Launch, ...]:
    """Tiles of splits, and their merge where there are several splits."""
    return split_launches(problem, config, device, config.block_m)


def supports(problem: AttentionProblem) -> str | None:
    """Only queries of several tiles, and keys that are in a cache."""
    rows = problem.head_group * problem.seqlen_q
    if rows <= MOST_ROWS:
        return (
            f"{rows} queries of a KV head (heads of a group x seqlen_q): must be more than {MOST_ROWS}; fewer are a"
            " step of decoding, whose schedules keep them in one tile"
        )
    if problem.seqlen_q >= problem.seqlen_k and not (problem.lengths or problem.page or problem.kv_dtype):
        return "no keys before those of the queries (seqlen_q < seqlen_k), and no pages: try a schedule of prefill"
    return None


def suited(problem: AttentionProblem, device: Device) -> dict[str, Value]:
    """Tiles that registers hold; splits where tiles alone leave SMs without a CTA, of 8 key tiles at least."""
    tile = {"block_m": MOST_ROWS} | suited_to_wide_heads(problem, device)
    ctas = problem.batch * problem.kv_heads * cdiv(problem.head_group * problem.seqlen_q, tile["block_m"])
    return {"splits": max(1, min(device.sms // ctas, cdiv(problem.seqlen_k, 64) // 8)), **tile}


SCHEDULE = Schedule(
    name="chunked_flash",
    summary="a chunk of queries over a cache: tiles of packed queries, keys in pages, split among CTAs",
    source="Agrawal et al. 2023, Sarathi; Ye et al. 2025, FlashInfer, section 3.2",
    options=declared(
        tiled(BLOCK_M, MOST_ROWS, 64, 128),
        tiled(BLOCK_N, 64, 32, 64, 128),
        tiled(SPLITS, 1, 1, 2, 4),
        SPLIT_RULE,
        tiled(NUM_WARPS, 4, 4, 8),
        tiled(NUM_STAGES, 3, 2, 3),
    ),
    launches=launches,
    reads=("causal", "window", "lengths", "page", "page_order", "kv_dtype", "softcap", "sinks"),
    supports=supports,
    conflict=conflict,
    suited=suited,
    rules=by_rules,
    color="#882255",
    outlined=True,
    coverage=Coverage(
        points=(listed("chunk"), listed("chunk", block_m=64, splits=2), listed("paged chunk", block_m=64)),
        shapes="chunk",
    ),
)
