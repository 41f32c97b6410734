"""FlashAttention-2 forward: query tiles outside, keys and values streamed past them.

    for each item (head, q_tile), one CTA each:         grid, in cta_order
        load Q
        for j in key tiles at the edge of a window:     (only under a window mask)
            load K[j], V[j];  S = Q K^T;  mask;  online softmax;  O = O * alpha + P V
        for j in key tiles that no mask touches:        pipelined num_stages deep
            the same, without the mask
        for j in key tiles that need a mask:            (causal diagonal, ragged end)
            the same, with the mask
        O = O / l;  store O, LSE

| tensor | times read | times written |
|---|---|---|
| Q | 1 | 0 |
| K | q_tiles * group | 0 |
| V | q_tiles * group | 0 |
| O | 0 | 1 |
| LSE | 0 | 1 |

(not causal; q_tiles = ceil(M / block_m), group = H / G. A causal mask skips
the key tiles above the diagonal, a window those before it.)

Source: Dao, FlashAttention-2 (2023), Algorithm 1 and section 3.2 (parallelism over query tiles),
section 3.3 (split-Q warps); loop structure of the Triton tutorial 06-fused-attention.
"""

from functools import partial

import numpy as np

from ..device.device import Device
from ..integers import cdiv
from ..launch.program import Launch, Loop, Matmul, Path, Resources, Step, Tile, TileProgram, Work, affine
from ..problems.attention import AttentionProblem
from ..residency.registers_and_smem import CtaTiles, exchanged_bytes, tensor_instruction
from .config import Config
from .contract import Schedule, frozen
from .coverage import LONG_ROWS, SLOW, TILED, Coverage
from .options import (
    BLOCK_M,
    BLOCK_N,
    CTA_ORDER,
    KV_ORDER,
    NUM_STAGES,
    NUM_WARPS,
    PERSISTENT,
    WARP_SPLIT,
    declared,
    tiled,
)
from .tiles import (
    FP8_P_LOG2,
    LOG2_E,
    key_tensor,
    padded_head_dim,
    product_constants,
    query_tensor,
    statistic_tensor,
    suited_to_wide_heads,
)

VARIABLES = ("slab", "kv_slab", "q_tile", "step", "first", "trips", "masked_first", "masked_trips")
WINDOW_VARIABLES = ("window_first", "window_trips")
"""Of an item under a window mask, beside the others."""


def launches(problem: AttentionProblem, config: Config, device: Device) -> tuple[Launch, ...]:
    """The one launch of FlashAttention-2."""
    # Triton copies asynchronously what a pipelined loop loads; without stages, and outside the loop, loads are plain.
    path: Path = "async" if config.num_stages > 1 else "plain"
    resources = resources_of(problem, config, device, num_warps=config.num_warps)
    return (launch_of("flash2", problem, config, device, path=path, resources=resources),)


def resources_of(problem: AttentionProblem, config: Config, device: Device, *, num_warps: int) -> Resources:
    """The estimate for a CTA. Args: num_warps: those that share the tile products."""
    block_m, block_n = config.block_m, config.block_n
    dim, element = padded_head_dim(problem), problem.element_bytes
    o_tile_bytes = exchanged_bytes(block_m * dim * problem.output_bytes, num_warps)
    masked = problem.causal or problem.seqlen_k % block_n > 0
    return CtaTiles(
        block_m=block_m,
        num_warps=num_warps,
        num_stages=config.num_stages,
        columns=dim,
        staged_bytes=2 * block_n * dim * element,
        turns=2,
        resident_bytes=block_m * dim * element,
        scratch_bytes=num_warps * block_m * dim * 4 if config.warp_split == "k" else o_tile_bytes,
        accumulators=block_m * (dim + block_n),
        operand_bytes=block_m * block_n * element,
        masked=block_m * block_n if masked else 0,
    ).estimated(device)


def launch_of(
    name: str,
    problem: AttentionProblem,
    config: Config,
    device: Device,
    *,
    path: Path,
    resources: Resources,
    consumer_warps: int = 0,
    **constants: int,
) -> Launch:
    """A launch whose items are query tiles, past which keys and values stream.

    Args:
        path: how K and V travel, and Q, which is copied by TMA or plainly; the rest as in `Launch`.
    """
    program = _program(problem, config, device, path, consumer_warps)
    item_count = program.item_count
    ctas = min(item_count, device.sms * config.persistent) if config.persistent else item_count
    return Launch(
        name=name,
        grid=(ctas, 1, 1),
        num_warps=config.num_warps,
        num_stages=config.num_stages,
        consumer_warps=consumer_warps,
        program=program,
        resources=resources,
        dtype=problem.dtype,
        warp_split=config.warp_split,
        constants=frozen(
            **product_constants(problem, config.block_m, config.block_n),
            cta_order=config.cta_order,
            kv_order=config.kv_order,
            causal=problem.causal,
            # Rows meet a tile of which they see nothing, before any other, where they see no key, walk backwards, or
            # where the windows of other rows begin earlier.
            guarded=problem.causal
            and (problem.seqlen_q > problem.seqlen_k or config.kv_order == "sawtooth" or problem.window > 0),
            p_log2=FP8_P_LOG2 if problem.dtype == "fp8" else 0,
            persistent=ctas < item_count,
            **({"window": problem.window} if problem.window else {}),
            **constants,
        ),
        arguments=frozen(
            seqlen_q=problem.seqlen_q,
            seqlen_k=problem.seqlen_k,
            slabs=problem.batch * problem.heads,
            items=item_count,
            scale_log2=LOG2_E / problem.head_dim**0.5,
        ),
    )


def _program(problem: AttentionProblem, config: Config, device: Device, path: Path, consumer_warps: int) -> TileProgram:
    """What its CTAs do. Args: as of `launch_of`."""
    block_m, block_n = config.block_m, config.block_n
    dim = padded_head_dim(problem)
    slabs, q_tiles = problem.batch * problem.heads, cdiv(problem.seqlen_q, block_m)
    item_count = slabs * q_tiles
    if config.cta_order == "m-fast":
        period = q_tiles * problem.head_group
    else:
        # A ragged last query tile loads less than the others; causal ones differ all along.
        period = item_count if problem.causal or problem.seqlen_q % block_m else slabs
    warps = consumer_warps or config.num_warps
    inner, masked = (_iteration(problem, config, device, path, warps, masked=masked) for masked in (False, True))
    keys_and_values = tuple(
        Tile(tensor=tensor, slab="kv_slab", row=affine(j=block_n), rows=block_n, cols=dim, path=path) for tensor in "KV"
    )
    query_path: Path = "tma" if path == "tma" else "plain"
    q_tile_bytes = block_m * dim * problem.element_bytes if query_path == "plain" else 0
    o_tile_bytes = block_m * dim * problem.output_bytes

    def query(tensor: str, cols: int, by: Path = "plain") -> Tile:
        return Tile(tensor=tensor, slab="slab", row=affine(q_tile=block_m), rows=block_m, cols=cols, path=by)

    def stream(name: str, first: str, trips: str, work: Work) -> Loop:
        step = Step(name=name, loads=keys_and_values, work=work)
        return Loop(counter="j", first=first, step="step", trips=trips, stages=config.num_stages, body=(step,))

    edge = (stream("window", *WINDOW_VARIABLES, masked),) if problem.window else ()
    loops = (
        *edge,
        stream("inner", "first", "trips", inner),
        stream("masked", "masked_first", "masked_trips", masked),
    )
    return TileProgram(
        tensors=(
            query_tensor(problem),
            key_tensor(problem, "K"),
            key_tensor(problem, "V"),
            query_tensor(problem, "O", "output"),
            statistic_tensor(problem, "LSE"),
        ),
        variables=(*VARIABLES, *WINDOW_VARIABLES) if problem.window else VARIABLES,
        items=partial(_items, problem, config, consumer_warps > 0),
        item_count=item_count,
        period_items=period,
        body=(
            Step(
                name="prologue",
                loads=(query("Q", dim, query_path),),
                work=Work(smem_write_bytes=q_tile_bytes, barriers=1),
            ),
            *loops,
            Step(
                name="epilogue",
                work=Work(
                    exp_count=2 * block_m,
                    fma_count=block_m * dim + block_m,
                    fma_flop=block_m * dim + block_m,
                    alu_count=block_m * dim // 2,
                    smem_write_bytes=o_tile_bytes,
                    smem_read_bytes=o_tile_bytes,
                    barriers=2,
                ),
                stores=(query("O", dim), query("LSE", 1)),
            ),
        ),
    )


def _items(problem: AttentionProblem, config: Config, one_loop: bool, indices: np.ndarray) -> np.ndarray:
    slabs, q_tiles = problem.batch * problem.heads, cdiv(problem.seqlen_q, config.block_m)
    if config.cta_order in ("m-fast", "m-reversed"):
        slab, q_tile = indices // q_tiles, indices % q_tiles
    else:
        slab, q_tile = indices % slabs, indices // slabs
    if config.cta_order in ("m-reversed", "longest-first"):
        q_tile = q_tiles - 1 - q_tile
    tiles = problem.whole_mask.key_tiles(q_tile, config.block_m, config.block_n, problem.seqlen_q, problem.seqlen_k)
    first, full_first, full_end, end = tiles.first, tiles.full_first, tiles.full_end, tiles.end
    if one_loop and (problem.causal or problem.seqlen_k % config.block_n):
        # The one loop that warps can be specialised for walks all tiles with the mask that some of them need.
        full_first = full_end = first
    step, trips, masked_first, masked = np.ones_like(q_tile), full_end - full_first, full_end, end - full_end
    window_trips = full_first - first
    if config.kv_order == "sawtooth":
        step = 1 - 2 * (q_tile % 2)
        # One loop walks all tiles, so that backwards means backwards; a masked tile anywhere makes it the masked loop.
        whole = (full_first == first) & (full_end == end) & (end > first)
        walk_first = np.where(step < 0, end - 1, first)
        trips, masked = np.where(whole, end - first, 0), np.where(whole, 0, end - first)
        full_first, masked_first = np.where(whole, walk_first, 0), np.where(whole, end, walk_first)
        window_trips = np.zeros_like(window_trips)
    columns = (slab, slab // problem.head_group, q_tile, step, full_first, trips, masked_first, masked)
    return np.stack((*columns, first, window_trips) if problem.window else columns, axis=1)


def _iteration(
    problem: AttentionProblem, config: Config, device: Device, path: Path, num_warps: int, *, masked: bool
) -> Work:
    """One key tile: S = Q K^T, online softmax, O = O * alpha + P V."""
    block_m, block_n, dim = config.block_m, config.block_n, padded_head_dim(problem)
    scores, tile_bytes = block_m * block_n, block_n * dim * problem.element_bytes
    instruction = tensor_instruction(device, block_m, num_warps)
    exchange = num_warps * block_m * (dim + 2) * 4 if config.warp_split == "k" else 0
    plain = 2 * tile_bytes if path == "plain" else 0
    # wgmma reads columns of V along its rows only where elements have 16 bits; others the warps transpose.
    transposed = tile_bytes if instruction == "wgmma" and problem.element_bytes != 2 else 0
    return Work(
        matmuls=(
            Matmul(m=block_m, n=block_n, k=dim, a_source="registers" if instruction == "mma" else "smem"),
            Matmul(m=block_m, n=dim, k=block_n, a_source="registers"),
        ),
        exp_count=scores + block_m,
        # scale and subtract the maximum (FMA), add to the row sum (ADD), rescale O (MUL) and l (FMA)
        fma_count=2 * scores + block_m * dim + block_m,
        fma_flop=3 * scores + block_m * dim + 2 * block_m,
        # row maximum, conversion of P (two a lane operation); the mask compares and selects
        alu_count=scores + scores // 2 + (2 * scores if masked else 0),
        row_reductions=2,
        smem_write_bytes=exchange + plain + transposed,
        smem_read_bytes=exchange + transposed,
        # A plain tile is loaded, written to shared memory, and waited for, one after the other.
        barriers=(5 if plain else 1) + (2 if exchange else 0) + (1 if transposed else 0),
    )


SCHEDULE = Schedule(
    name="flash2",
    summary="FlashAttention-2: query tiles outside, one CTA a tile; O and statistics stay on chip",
    source="Dao 2023, FlashAttention-2, Algorithm 1",
    options=declared(
        tiled(BLOCK_M, 128, 32, 64, 128, 256),
        tiled(BLOCK_N, 64, 32, 64, 128, 256),
        tiled(NUM_WARPS, 4, 4, 8),
        tiled(NUM_STAGES, 3, 1, 2, 3, 4),
        CTA_ORDER,
        KV_ORDER,
        PERSISTENT,
        WARP_SPLIT,
    ),
    launches=launches,
    suited=suited_to_wide_heads,
    reads=("causal", "window"),
    color="#0072B2",
    coverage=Coverage(points=TILED + LONG_ROWS + SLOW, weight=6),
)
