"""FlashAttention-2 under any mask: each query tile goes through a list of the key tiles that it needs.

    for each item (head, q_tile), one CTA each:         grid
        where the tile's list ends;  the first and last key that each row sees
        load Q                                          (not of a tile whose list is empty)
        for j in the list, tiles that all rows see whole:      pipelined num_stages deep
            load K[j], V[j];  S = Q K^T;  online softmax;  O = O * alpha + P V
        for j in the list, the others:
            the same, with the mask
        O = O / l;  store O, LSE

| tensor | times read | times written |
|---|---|---|
| Q | 1 | 0 |
| K | listed key tiles * group | 0 |
| V | listed key tiles * group | 0 |
| SEEN | heads | 0 |
| TILES | heads | 0 |
| O | 0 | 1 |
| LSE | 0 | 1 |

(Lists are made on the host, one set for all heads and sequences: `launch.key_lists`. Of K and V those tiles are read
that a list names, of TILES the lists of the tiles that are gone through. With sinks SINKS is read once a query tile.)

Source: Dao, FlashAttention-2 (2023), Algorithm 1; lists of full and of partial blocks: Dong et al., FlexAttention
(2024), section 4.2.
"""

from ..device.device import Device
from ..integers import cdiv, next_power_of_two
from ..launch.key_lists import mask_tensors
from ..launch.outline import outlined_launch
from ..launch.program import Launch
from ..problems.attention import AttentionProblem
from .config import Config
from .contract import Schedule
from .coverage import MASKED, Coverage
from .options import BLOCK_M, BLOCK_N, NUM_STAGES, NUM_WARPS, declared, tiled
from .tiles import (
    FP8_P_LOG2,
    LOG2_E,
    key_tensor,
    product_constants,
    query_tensor,
    score_arguments,
    sink_tensors,
    statistic_tensor,
    suited_to_wide_heads,
)


def launches(problem: AttentionProblem, config: Config, device: Device) -> tuple[Launch, ...]:
    """The one launch. Raises: ValueError: tiles that do not divide the mask's blocks, or too many."""
    block_m, block_n = config.block_m, config.block_n
    ctas = problem.batch * problem.heads * cdiv(problem.seqlen_q, block_m)
    tensors = (
        query_tensor(problem),
        key_tensor(problem, "K"),
        key_tensor(problem, "V"),
        *mask_tensors(problem, block_m, block_n),
        query_tensor(problem, "O", "output"),
        statistic_tensor(problem, "LSE"),
        *sink_tensors(problem),
    )
    launch = outlined_launch(
        "masked_flash",
        (ctas, 1, 1),
        tensors,
        num_warps=config.num_warps,
        num_stages=config.num_stages,
        dtype=problem.dtype,
        constants=dict(
            **product_constants(problem, block_m, block_n),
            value_dim=problem.value_dim,
            padded_value_dim=next_power_of_two(problem.value_dim),
            always=problem.whole_mask.always,
            p_log2=FP8_P_LOG2 if problem.dtype == "fp8" else 0,
        ),
        arguments=dict(
            heads=problem.heads,
            seqlen_q=problem.seqlen_q,
            seqlen_k=problem.seqlen_k,
            scale_log2=LOG2_E / problem.head_dim**0.5,
            **score_arguments(problem),
        ),
    )
    return (launch,)


SCHEDULE = Schedule(
    name="masked_flash",
    summary="FlashAttention-2 under any mask: query tiles go through lists of the key tiles that they need",
    source="Dong et al. 2024, FlexAttention, section 4.2",
    options=declared(
        tiled(BLOCK_M, 128, 64, 128),
        tiled(BLOCK_N, 64, 32, 64, 128),
        tiled(NUM_WARPS, 4, 4, 8),
        tiled(NUM_STAGES, 3, 2, 3, 4),
    ),
    launches=launches,
    suited=suited_to_wide_heads,
    reads=("head_dim_v", "causal", "window", "mask", "softcap", "sinks"),
    color="#56B4E9",
    outlined=True,
    coverage=Coverage(points=MASKED, shapes="masked"),
)
