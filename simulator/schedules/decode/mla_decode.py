"""Latent attention (MLA) of few queries over a long cache: heads are rows of tiles, keys split among CTAs.

    for each sequence, for each split of its keys, for each tile of its query heads, one CTA each:    grid
        load a tile of queries, of all heads (and queries) of the sequence
        for j in the split's key tiles (without a mask; with one):                  pipelined num_stages deep
            load C[j], latents and what they have beside them;  S = Q C^T, in two products;  mask;  online softmax
            O = O * alpha + P L, of the latents of the same tile
        one split: O = O / l;  store O, LSE;  several: store O / l and LSE of the split
    for each query of each head, one CTA each:                                      (several splits only)
        load the splits' LSE and O;  store their mean by exp(LSE - max LSE), and LSE

mla_decode:

| tensor | times read | times written |
|---|---|---|
| Q | splits | 0 |
| C | head_tiles | 0 |
| O_parts | 0 | 1 |
| LSE_parts | 0 | 1 |

flash_decode_merge:

| tensor | times read | times written |
|---|---|---|
| O_parts | 1 | 0 |
| LSE_parts | 1 | 0 |
| O | 0 | 1 |
| LSE | 0 | 1 |

(Of one split the first launch writes O and LSE, and there is no second. The head tiles of a split follow each other in
the grid, so that C comes from HBM once, and from L2 for all but the first of them. Where sequences differ in length, or
lie in pages, the first launch is `mla_decode_cache`, which reads TABLE as well.)

Source: DeepSeek-AI, DeepSeek-V2 (2024), section 2.1, projections absorbed; FlashMLA, one latent tile for K and V; the
splits: Dao et al., Flash-Decoding (2023).
"""

from functools import partial

from ...device.device import Device
from ...dtypes import DTYPES
from ...integers import cdiv, next_power_of_two
from ...launch.outline import outlined_launch
from ...launch.program import Launch, Tensor
from ...problems.latent_attention import LatentAttentionProblem
from ..config import Config
from ..contract import Schedule
from ..coverage import Coverage, listed
from ..options import BLOCK_M, BLOCK_N, NUM_STAGES, NUM_WARPS, Value, declared, tiled
from ..tiles import LOG2_E, cache_tensors, query_tensor, statistic_tensor
from .flash_decode import LEAST_ROWS, merge_of, parts_of
from .rules import LATENT_RULES, MOST_SPLITS, SPLIT_RULE, SPLITS, by_rules, splits_of
from .rules import conflict as conflict_of_splits

MOST_ROWS, WARPS_OF_MOST_ROWS = 64, 8
"""Rows of the largest tile whose O, of the width of a latent, registers hold: half of those of eight warps."""

MOST_QUERIES = 16
"""Queries of a sequence: more of them are a prefill, which keeps keys and values uncompressed."""


def launches(problem: LatentAttentionProblem, config: Config, device: Device) -> tuple[Launch, ...]:
    """Splits, and their merge where there are several."""
    rows, counts = problem.heads * problem.seqlen_q, splits_of(problem, config, device, LATENT_RULES)
    splits, splits_listed = max(counts), counts if len(set(counts)) > 1 else ()
    if config.block_m > largest_tile(problem):
        raise ValueError(
            f"block_m = {config.block_m}: {rows} queries of a sequence (heads x seqlen_q): must be at most"
            f" {largest_tile(problem)}"
        )
    head_tiles = cdiv(rows, config.block_m)
    output = Tensor(
        name="O",
        role="output",
        slabs=problem.batch * problem.heads,
        rows=problem.seqlen_q,
        cols=problem.latent_dim,
        dtype=DTYPES[problem.output_dtype],
    )
    outputs, parts = (output, statistic_tensor(problem, "LSE")), parts_of(problem, splits, problem.latent_dim)
    cached = problem.page > 0 or bool(problem.lengths)
    inputs = (query_tensor(problem), *cache_tensors(problem, "C", splits_listed))
    split = outlined_launch(
        "mla_decode_cache" if cached else "mla_decode",
        (head_tiles, splits, problem.batch),
        (*inputs, *(parts if splits > 1 else outputs)),
        num_warps=config.num_warps,
        num_stages=config.num_stages,
        dtype=problem.dtype,
        constants=dict(
            heads=problem.heads,
            latent_dim=problem.latent_dim,
            rope_dim=problem.rope_dim,
            tile_rows=config.block_m,
            block_n=config.block_n,
            causal=problem.causal,
            whole_m=rows % config.block_m == 0,
            whole_n=all(length % config.block_n == 0 for length in problem.key_lengths),
            merged=splits > 1,
            **({"page": problem.page, "own_splits": bool(splits_listed)} if cached else {}),
        ),
        arguments=dict(
            seqlen_q=problem.seqlen_q,
            seqlen_k=problem.seqlen_k,
            scale_log2=LOG2_E / problem.head_dim**0.5,
            **({"table_width": inputs[-1].cols} if cached else {}),
        ),
    )
    if splits == 1:
        return (split,)
    return split, merge_of(problem, splits, parts, outputs, inputs[-1] if splits_listed else None)


def largest_tile(problem: LatentAttentionProblem) -> int:
    """Rows of the largest tile that a sequence's queries fill, the next power of two at most."""
    return min(MOST_ROWS, max(LEAST_ROWS, next_power_of_two(problem.heads * problem.seqlen_q)))


def supports(problem: LatentAttentionProblem) -> str | None:
    """Only few queries, as all tiles go over all keys; only 16 bits.

    Latents of 32 bits fill shared memory, and of 8 they are no operand of P L on tensor cores.
    """
    if problem.seqlen_q > MOST_QUERIES:
        return f"seqlen_q = {problem.seqlen_q}: at most {MOST_QUERIES}; a decode step has 1, or a few that are guessed"
    if problem.element_bytes != 2:
        return f"dtype = {problem.dtype}: must be fp16 or bf16"
    return None


def conflict(config: Config) -> str | None:
    """Few warps have no registers for O of a large tile; a rule says the splits."""
    if config.block_m >= MOST_ROWS and config.num_warps < WARPS_OF_MOST_ROWS:
        return (
            f"num_warps = {config.num_warps}: O of {config.block_m} rows fills the registers of {WARPS_OF_MOST_ROWS}"
            " warps: give as many, or a smaller block_m"
        )
    return conflict_of_splits(config)


def suited(problem: LatentAttentionProblem, device: Device) -> dict[str, Value]:
    """The largest tile of heads; splits that give each SM a CTA, of two key tiles at least."""
    block_m, tiles = largest_tile(problem), cdiv(problem.seqlen_k, 64)
    wanted = device.sms // (problem.batch * cdiv(problem.heads * problem.seqlen_q, block_m))
    return {
        "block_m": block_m,
        "num_warps": WARPS_OF_MOST_ROWS if block_m == MOST_ROWS else 4,
        "splits": max(1, min(wanted, tiles // 2, MOST_SPLITS)),
    }


SCHEDULE = Schedule(
    name="mla_decode",
    summary="Decoding over latents (MLA): heads are rows of tiles, a latent is K and V, keys split among CTAs",
    source="DeepSeek-AI 2024, DeepSeek-V2; FlashMLA",
    problem=LatentAttentionProblem,
    options=declared(
        tiled(BLOCK_M, 16, 16, 32, 64),
        tiled(BLOCK_N, 64, 64, 128),
        tiled(SPLITS, 1, 1, 2, 4, 8, 16, 32, 64, 128),
        SPLIT_RULE,
        tiled(NUM_WARPS, 4, 4, 8),
        tiled(NUM_STAGES, 2),
    ),
    launches=launches,
    reads=("causal", "lengths", "page", "page_order"),
    supports=supports,
    conflict=conflict,
    suited=suited,
    rules=partial(by_rules, rules=LATENT_RULES),
    outlined=True,
    coverage=Coverage(
        points=(
            listed("latents", splits=1, block_m=64, num_warps=8),
            listed("latents", splits=4, block_m=32),
            listed("latents of a part", splits=16),
        ),
        shapes="latent",
    ),
)
