"""FlashAttention-1 forward: keys and values outside, query tiles inside; O and its statistics come and go.

    for each (batch, head), one CTA each:
        for i in query tiles:  store O[i] = 0, L[i] = 0, MAX[i] = -inf
        for j in key tiles:
            load K[j], V[j]                             kept in shared memory
            for i in query tiles:                       pipelined num_stages deep: Q[i] runs ahead
                load Q[i], O[i], L[i], MAX[i];  S = Q K^T;  online softmax
                O = (O * l * alpha + beta * P V) / l_new;  store O[i], L[i], MAX[i]

| tensor | times read | times written |
|---|---|---|
| Q | k_tiles | 0 |
| K | group | 0 |
| V | group | 0 |
| O | k_tiles | k_tiles + 1 |
| L | k_tiles | k_tiles + 1 |
| MAX | k_tiles | k_tiles + 1 |

(k_tiles = ceil(N / block_n), group = H / G. A causal mask saves nothing: Algorithm 2 applies it and skips no tile.
O is rounded to the working dtype each time it is stored.)

Source: Dao et al., FlashAttention (2022), Algorithm 1, with the mask of Algorithm 2 (appendix B.3);
Dao, FlashAttention-2 (2023), section 3.1 (O was divided by l in every iteration)
and section 3.3 (warps split K and V and add up partial O through shared memory).
"""

from dataclasses import replace
from functools import partial

import numpy as np

from ..device.device import Device
from ..integers import cdiv
from ..launch.program import Launch, Loop, Matmul, Path, Resources, Step, Tile, TileProgram, Work, affine
from ..limits import WARP_THREADS
from ..problems.attention import AttentionProblem
from ..residency.registers_and_smem import CtaTiles, exchanged_bytes, tensor_instruction
from .config import Config
from .contract import Schedule, frozen
from .coverage import KEYS_OUTSIDE, Coverage
from .options import BLOCK_M, BLOCK_N, NUM_STAGES, NUM_WARPS, WARP_SPLIT, declared, tiled
from .tiles import LOG2_E, key_tensor, padded_head_dim, product_constants, query_tensor, statistic_tensor

VARIABLES = ("slab", "kv_slab")
PAST_L1_BYTES, LEAST_COPIED_BYTES = 16, 4
"""What cp.async moves of a thread at once where it passes L1 by, and at least (PTX ISA, cp.async); with less, Triton
loads plainly."""


def launches(problem: AttentionProblem, config: Config, device: Device) -> tuple[Launch, ...]:
    """The one launch of FlashAttention-1."""
    block_m, block_n = config.block_m, config.block_n
    dim = padded_head_dim(problem)
    slabs = problem.batch * problem.heads
    q_tiles, k_tiles = cdiv(problem.seqlen_q, block_m), cdiv(problem.seqlen_k, block_n)

    def rows_of(name: str, cols: int, path: Path = "plain") -> Tile:
        return Tile(tensor=name, slab="slab", row=affine(i=block_m), rows=block_m, cols=cols, path=path)

    # Triton copies asynchronously only what feeds a product; O, L and MAX are added to.
    bytes_per_thread = block_m * dim * problem.element_bytes / (WARP_THREADS * config.num_warps)
    copied: Path = "async" if bytes_per_thread >= PAST_L1_BYTES else "cached"
    if bytes_per_thread < LEAST_COPIED_BYTES:
        copied = "plain"
    queries = rows_of("Q", dim, copied if config.num_stages > 1 else "plain")
    state = (rows_of("O", dim), rows_of("L", 1), rows_of("MAX", 1))
    keys_and_values = tuple(
        Tile(tensor=name, slab="kv_slab", row=affine(j=block_n), rows=block_n, cols=dim) for name in "KV"
    )
    program = TileProgram(
        tensors=(
            query_tensor(problem),
            key_tensor(problem, "K"),
            key_tensor(problem, "V"),
            query_tensor(problem, "O", "output"),
            statistic_tensor(problem, "L"),
            statistic_tensor(problem, "MAX"),
        ),
        variables=VARIABLES,
        items=partial(_items, problem),
        item_count=slabs,
        period_items=1,
        body=(
            Loop(counter="i", trips=q_tiles, body=(Step(name="prologue", stores=state),)),
            Loop(
                counter="j",
                trips=k_tiles,
                body=(
                    Step(
                        name="outer",
                        loads=keys_and_values,
                        work=Work(smem_write_bytes=2 * block_n * dim * problem.element_bytes, barriers=1),
                    ),
                    Loop(
                        counter="i",
                        trips=q_tiles,
                        stages=config.num_stages,
                        body=(
                            Step(
                                name="inner",
                                loads=(queries, *state),
                                work=_iteration(problem, config, device),
                                stores=state,
                            ),
                        ),
                    ),
                ),
            ),
        ),
    )
    return (
        Launch(
            name="flash1",
            grid=(slabs, 1, 1),
            num_warps=config.num_warps,
            num_stages=config.num_stages,
            program=program,
            resources=_resources(problem, config, device),
            dtype=problem.dtype,
            warp_split=config.warp_split,
            constants=frozen(**product_constants(problem, block_m, block_n), causal=problem.causal),
            arguments=frozen(
                seqlen_q=problem.seqlen_q, seqlen_k=problem.seqlen_k, scale_log2=LOG2_E / problem.head_dim**0.5
            ),
        ),
    )


def supports(problem: AttentionProblem) -> str | None:
    """O is stored and read again in every iteration, in the working dtype."""
    if problem.dtype == "fp8":
        return "fp8 cannot hold the partial output that this schedule stores and reads again"
    return None


def _items(problem: AttentionProblem, indices: np.ndarray) -> np.ndarray:
    return np.stack((indices, indices // problem.head_group), axis=1)


def _resources(problem: AttentionProblem, config: Config, device: Device) -> Resources:
    block_m, block_n, dim, element = config.block_m, config.block_n, padded_head_dim(problem), problem.element_bytes
    scores, q_tile_bytes = block_m * block_n, block_m * dim * element
    resources = CtaTiles(
        block_m=block_m,
        num_warps=config.num_warps,
        num_stages=config.num_stages,
        columns=dim,
        staged_bytes=q_tile_bytes,
        # O changes its layout in every iteration.
        exchange_bytes=exchanged_bytes(q_tile_bytes, config.num_warps),
        scratch_bytes=config.num_warps * block_m * dim * 4 if config.warp_split == "k" else 0,
        # S, the new P V, and the O that it is added to
        accumulators=scores + 2 * block_m * dim,
        operand_bytes=scores * element,
        masked=scores if problem.causal or problem.seqlen_k % block_n else 0,
    ).estimated(device)
    kept_bytes = 2 * block_n * dim * element  # K[j] and V[j], through the whole inner loop
    return replace(resources, smem_bytes_per_cta=resources.smem_bytes_per_cta + kept_bytes)


def _iteration(problem: AttentionProblem, config: Config, device: Device) -> Work:
    """One query tile against the key tile at hand: S = Q K^T, softmax, O = (O * l * alpha + beta * P V) / l_new."""
    block_m, block_n, dim = config.block_m, config.block_n, padded_head_dim(problem)
    scores, q_tile = block_m * block_n, block_m * dim
    masked = problem.causal or problem.seqlen_k % block_n > 0
    in_smem = tensor_instruction(device, block_m, config.num_warps) != "mma"
    exchange = config.num_warps * block_m * (dim + 2) * 4 if config.warp_split == "k" else 0
    plain = q_tile * problem.element_bytes if config.num_stages == 1 else 0
    # O arrives row by row and leaves so; shared memory turns it into the layout of the accumulators and back.
    layout = 2 * q_tile * problem.element_bytes
    return Work(
        matmuls=(
            Matmul(m=block_m, n=block_n, k=dim, a_source="smem" if in_smem else "registers"),
            Matmul(m=block_m, n=dim, k=block_n, a_source="registers"),
        ),
        # P, then once a row alpha = exp(m - m_new), beta = exp(m_tile - m_new) and 1 / l_new
        exp_count=scores + 3 * block_m,
        # scale and subtract the maximum (FMA), add to the row sum (ADD); O * factor (MUL), + factor * P V (FMA);
        # once a row l_new (MUL and FMA) and the two factors (MUL each)
        fma_count=2 * scores + 2 * q_tile + 4 * block_m,
        fma_flop=3 * scores + 3 * q_tile + 5 * block_m,
        # row maximum, conversion of P, of O to fp32 and back (two a lane operation); the mask compares and selects
        alu_count=scores + scores // 2 + q_tile + (2 * scores if masked else 0),
        row_reductions=2,
        smem_write_bytes=exchange + plain + layout,
        smem_read_bytes=exchange + layout,
        barriers=(3 if exchange else 1) + 4,
    )


SCHEDULE = Schedule(
    name="flash1",
    summary="FlashAttention-1: keys outside, one CTA a head; O and statistics are re-read and re-written",
    source="Dao et al. 2022, FlashAttention, Algorithm 1",
    options=declared(
        tiled(BLOCK_M, 64, 16, 32, 64, 128),
        tiled(BLOCK_N, 128, 32, 64, 128, 256),
        tiled(NUM_WARPS, 4, 4, 8),
        tiled(NUM_STAGES, 2, 1, 2, 3, 4),
        tiled(WARP_SPLIT, "k"),
    ),
    launches=launches,
    supports=supports,
    reads=("causal",),
    rewritten=frozenset({"O", "L", "MAX"}),
    color="#009E73",
    coverage=Coverage(points=KEYS_OUTSIDE, weight=2),
)
