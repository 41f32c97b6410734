"""Naive attention: the score matrix goes through device memory, three kernels one after the other.

    scores:  for each (head, q_tile, strip of key tiles):   load Q
                 for j in the strip's key tiles:            pipelined num_stages deep
                     load K[j];  S = Q K^T / sqrt(D);  store S[j]
    softmax: for each (head, strip of rows):    load S;  mask;  P = softmax(S);  store P
    output:  for each (head, q_tile):           one CTA each
                 for j in key tiles:            pipelined num_stages deep
                     load P[j], V[j];  O += P V
                 store O

scores:

| tensor | times read | times written |
|---|---|---|
| Q | strips | 0 |
| K | q_tiles * group | 0 |
| S | 0 | 1 |

softmax:

| tensor | times read | times written |
|---|---|---|
| S | sweeps | 0 |
| P | 0 | 1 |

output:

| tensor | times read | times written |
|---|---|---|
| P | 1 | 0 |
| V | q_tiles * group | 0 |
| O | 0 | 1 |

(q_tiles = ceil(M / block_m), strips = ceil(N / keys of a strip), group = H / G; a strip has 2048 keys, fewer where that
would leave less than 512 CTAs; sweeps = 1 where a CTA holds a whole row in registers, 2 where N is above 16384.
K and S travel by TMA where the device has it.
A causal mask saves nothing: S is computed whole and masked by the softmax.)

Source: Dao et al., FlashAttention (2022), Algorithm 0 (standard attention);
Milakov and Gimelshein, Online normalizer calculation for softmax (2018), Algorithm 3 (rows of two sweeps).
"""

from typing import Literal

from ..device.device import Device
from ..integers import cdiv
from ..launch.program import Launch, Loop, Matmul, Path, Resources, Step, Tile, Work, affine
from ..limits import WARP_THREADS
from ..problems.attention import AttentionProblem
from ..residency.registers_and_smem import (
    ROW_STATE_REGISTERS,
    CtaTiles,
    exchanged_bytes,
    tensor_instruction,
)
from .config import Config
from .contract import Schedule
from .coverage import PIPELINE, Coverage, listed
from .options import BLOCK_M, BLOCK_N, NUM_STAGES, NUM_WARPS, declared, tiled
from .tiles import (
    STATISTIC_BYTES,
    RowTiling,
    copied_by_tma,
    key_tensor,
    padded_head_dim,
    product_constants,
    query_tensor,
    row_tile,
    row_tiling,
    score_tensor,
    strip_tiles,
    tile_launch,
    tile_program,
)

WARP_ROW_BYTES = WARP_THREADS * 16


def launches(problem: AttentionProblem, config: Config, device: Device) -> tuple[Launch, ...]:
    """The three launches: scores, softmax, output."""
    return (
        scores_launch(problem, config, device, scaled=True),
        softmax_launch(problem, device, source="S", causal=problem.causal),
        output_launch(problem, config, device, source="P"),
    )


def supports(problem: AttentionProblem) -> str | None:
    """What keeps S and P in the working dtype needs 16 bits or more."""
    if problem.dtype == "fp8":
        return "fp8 cannot hold the scores that this schedule stores in the working dtype"
    return None


def scores_launch(problem: AttentionProblem, config: Config, device: Device, *, scaled: bool) -> Launch:
    """S = Q K^T, one CTA a strip of score tiles. Args: scaled: whether the kernel also divides by sqrt(D)."""
    block_m, block_n = config.block_m, config.block_n
    dim, element = padded_head_dim(problem), problem.element_bytes
    scores, strip = block_m * block_n, strip_tiles(problem, block_m, block_n)
    key, score = key_tensor(problem, "K"), score_tensor(problem, "S")
    tma = copied_by_tma(device, key, block_n, dim) and copied_by_tma(device, score, block_m, block_n)
    pipelined = config.num_stages > 1
    path: Path = "tma" if tma else "async" if pipelined else "plain"
    key_bytes, score_bytes = block_n * dim * element, scores * element
    plain_bytes = key_bytes if path == "plain" else 0
    passed_bytes = score_bytes if tma else exchanged_bytes(score_bytes, config.num_warps)
    prologue = Step(
        name="prologue",
        loads=(Tile(tensor="Q", slab="slab", row=affine(q_tile=block_m), rows=block_m, cols=dim),),
        work=Work(smem_write_bytes=block_m * dim * element, barriers=1),
    )
    tile = Step(
        name="tile",
        loads=(
            Tile(
                tensor="K",
                slab="kv_slab",
                row=affine(k_tile=block_n * strip, j=block_n),
                rows=block_n,
                cols=dim,
                path=path,
            ),
        ),
        work=Work(
            matmuls=(Matmul(m=block_m, n=block_n, k=dim, a_source=_a_source(config, device)),),
            fma_count=scores if scaled else 0,
            fma_flop=scores if scaled else 0,
            alu_count=scores // 2,
            # Through shared memory to whole lines; TMA stores them from there.
            smem_write_bytes=plain_bytes + score_bytes,
            smem_read_bytes=score_bytes,
            barriers=3,
        ),
        stores=(
            Tile(
                tensor="S",
                slab="slab",
                row=affine(q_tile=block_m),
                col=affine(k_tile=block_n * strip, j=block_n),
                rows=block_m,
                cols=block_n,
            ),
        ),
    )
    resources = CtaTiles(
        block_m=block_m,
        num_warps=config.num_warps,
        num_stages=config.num_stages,
        staged_bytes=key_bytes if pipelined else 0,
        # Without stages, K and S take turns in one buffer.
        resident_bytes=block_m * dim * element + (passed_bytes if pipelined else max(key_bytes, passed_bytes)),
        accumulators=scores,
        operand_bytes=plain_bytes,
    ).estimated(device)
    return tile_launch(
        "scores",
        problem,
        tile_program(
            problem,
            (block_m, block_n * strip),
            (query_tensor(problem), key, score),
            (prologue, Loop(counter="j", trips="inner_tiles", stages=config.num_stages, body=(tile,))),
            inner=block_n,
        ),
        num_warps=config.num_warps,
        num_stages=config.num_stages,
        resources=resources,
        arguments={"pitch": score.pitch_elements, "scale": problem.head_dim**-0.5},
        strip_tiles=strip,
        scaled=scaled,
        tma=tma,
        **product_constants(problem, block_m, block_n),
    )


def softmax_launch(problem: AttentionProblem, device: Device, *, source: str, causal: bool) -> Launch:
    """P = softmax of the rows of a score tensor. Args: source: its name; causal: whether the kernel masks."""
    tiling, scores = row_tiling(problem), score_tensor(problem, source)
    whole, sweep, normalise = (_softmax_work(problem, tiling, part, causal) for part in ("whole", "sweep", "normalise"))
    counter = "k_tile" if tiling.blocks == 1 else "block"
    read, write = row_tile(source, tiling, counter), row_tile("P", tiling, counter)
    body: tuple[Step | Loop, ...] = (Step(name="rows", loads=(read,), work=whole, stores=(write,)),)
    if tiling.blocks > 1:
        steps = (
            Step(name="sweep", loads=(read,), work=sweep),
            Step(name="normalise", loads=(read,), work=normalise, stores=(write,)),
        )
        body = tuple(Loop(counter=counter, trips=tiling.blocks, body=(step,)) for step in steps)
    return tile_launch(
        "softmax",
        problem,
        tile_program(problem, (tiling.rows, problem.seqlen_k), (scores, score_tensor(problem, "P")), body),
        num_warps=tiling.num_warps,
        # The maximum first, then the sum.
        resources=row_resources(device, tiling, scratch_bytes=whole.smem_write_bytes // 2),
        arguments={"pitch": scores.pitch_elements},
        block_rows=tiling.rows,
        block_cols=tiling.cols,
        sweeps=1 if tiling.blocks == 1 else 2,
        whole=problem.seqlen_q % tiling.rows == 0 and problem.seqlen_k == tiling.cols,
        causal=causal,
        guarded=problem.causal and problem.seqlen_q > problem.seqlen_k,
    )


def output_launch(problem: AttentionProblem, config: Config, device: Device, *, source: str) -> Launch:
    """O = P V, one CTA a query tile. Args: source: name of the tensor of probabilities."""
    block_m, block_n = config.block_m, config.block_n
    dim, element = padded_head_dim(problem), problem.element_bytes
    operand_bytes = (block_m + dim) * block_n * element
    probabilities = score_tensor(problem, source)
    out_bytes = block_m * dim * element
    pipelined = config.num_stages > 1
    path: Path = "async" if pipelined else "plain"
    inner = Step(
        name="inner",
        loads=(
            Tile(
                tensor=source,
                slab="slab",
                row=affine(q_tile=block_m),
                col=affine(j=block_n),
                rows=block_m,
                cols=block_n,
                path=path,
            ),
            Tile(tensor="V", slab="kv_slab", row=affine(j=block_n), rows=block_n, cols=dim, path=path),
        ),
        work=Work(
            matmuls=(Matmul(m=block_m, n=dim, k=block_n, a_source=_a_source(config, device)),),
            smem_write_bytes=0 if pipelined else operand_bytes,
            barriers=1,
        ),
    )
    epilogue = Step(
        name="epilogue",
        work=Work(alu_count=block_m * dim // 2, smem_write_bytes=out_bytes, smem_read_bytes=out_bytes, barriers=2),
        stores=(Tile(tensor="O", slab="slab", row=affine(q_tile=block_m), rows=block_m, cols=dim),),
    )
    loop = Loop(counter="j", trips=cdiv(problem.seqlen_k, block_n), stages=config.num_stages, body=(inner,))
    resources = CtaTiles(
        block_m=block_m,
        num_warps=config.num_warps,
        num_stages=config.num_stages,
        staged_bytes=operand_bytes,
        scratch_bytes=exchanged_bytes(out_bytes, config.num_warps),
        accumulators=block_m * dim,
        # Without stages the next tiles wait in registers while the product runs.
        operand_bytes=0 if pipelined else operand_bytes,
    ).estimated(device)
    return tile_launch(
        "output",
        problem,
        tile_program(
            problem,
            (block_m, problem.seqlen_k),
            (probabilities, key_tensor(problem, "V"), query_tensor(problem, "O", "output")),
            (loop, epilogue),
        ),
        num_warps=config.num_warps,
        num_stages=config.num_stages,
        resources=resources,
        arguments={"pitch": probabilities.pitch_elements},
        **product_constants(problem, block_m, block_n),
    )


def row_resources(device: Device, tiling: RowTiling, scratch_bytes: int = 0, numbers: int = 1) -> Resources:
    """Resources of a row-wise kernel: its tile in registers. Args: numbers: of 32 bits that an element needs."""
    return CtaTiles(
        block_m=1,  # no tile product, so none of the larger tensor-core instructions
        num_warps=tiling.num_warps,
        num_stages=1,
        scratch_bytes=scratch_bytes,
        accumulators=numbers * tiling.elements,
        state_registers=ROW_STATE_REGISTERS,
    ).estimated(device)


def _a_source(config: Config, device: Device) -> Literal["smem", "registers"]:
    return "registers" if tensor_instruction(device, config.block_m, config.num_warps) == "mma" else "smem"


def _softmax_work(problem: AttentionProblem, tiling: RowTiling, part: str, causal: bool) -> Work:
    """One tile of the softmax: whole rows at once, or a block of the first or the second sweep."""
    elements, rows = tiling.elements, tiling.rows
    reduces, writes = part != "normalise", part != "sweep"
    # A row wider than one 16-byte vector a lane spreads over several warps, which then exchange maximum and sum.
    shared = reduces and tiling.cols * problem.element_bytes > WARP_ROW_BYTES
    exchange = 2 * rows * tiling.num_warps * STATISTIC_BYTES if shared else 0
    return Work(
        # once a row: the reciprocal of its sum, or the factor that rescales the running sum
        exp_count=elements + rows,
        # subtract the maximum, add to the row sum, times the reciprocal of the sum; rescale the running sum (FMA)
        fma_count=elements * (reduces + writes + 1) + (rows if part == "sweep" else 0),
        fma_flop=elements * (reduces + writes + 1) + (2 * rows if part == "sweep" else 0),
        # conversion to fp32 (two a lane operation), compare and select of the mask, maximum, conversion back
        alu_count=elements // 2 + elements * (2 * causal + reduces) + elements // 2 * writes,
        row_reductions=2 if reduces else 0,
        smem_write_bytes=exchange,
        smem_read_bytes=exchange,
        barriers=4 if exchange else 0,
    )


SCHEDULE = Schedule(
    name="naive",
    summary="three kernels: scores, softmax, output; S and P go through device memory",
    source="Dao et al. 2022, FlashAttention, Algorithm 0",
    options=declared(
        tiled(BLOCK_M, 128, 32, 64, 128, 256),
        tiled(BLOCK_N, 64, 32, 64, 128, 256),
        tiled(NUM_WARPS, 4, 4, 8),
        tiled(NUM_STAGES, 3, 1, 2, 3, 4),
    ),
    launches=launches,
    supports=supports,
    reads=("causal",),
    baseline=True,
    color="#D55E00",
    coverage=Coverage(points=(*PIPELINE, listed("wide")), weight=3),
)
