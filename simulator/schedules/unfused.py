"""Unfused attention: one kernel for each operation, as an eager framework runs it; always all six.

    scores:  for each (head, q_tile, k_tile):   load Q, K;  S = Q K^T;  store S
    scale:   for each (head, rows, block):      load S;  divide by sqrt(D);  store S_scaled
    mask:    for each (head, rows, block):      load S_scaled, MASK;  select;  store S_masked
    softmax: for each (head, strip of rows):    load S_masked;  P = softmax(S);  store P
    dropout: for each (head, rows, block):      load P;  draw;  store P_dropped, DROP_MASK
    output:  for each (head, q_tile):           for j: load P_dropped[j], V[j];  O += P V;  then store O

scores:

| tensor | times read | times written |
|---|---|---|
| Q | strips | 0 |
| K | q_tiles * group | 0 |
| S | 0 | 1 |

scale:

| tensor | times read | times written |
|---|---|---|
| S | 1 | 0 |
| S_scaled | 0 | 1 |

mask:

| tensor | times read | times written |
|---|---|---|
| S_scaled | 1 | 0 |
| MASK | slabs | 0 |
| S_masked | 0 | 1 |

softmax:

| tensor | times read | times written |
|---|---|---|
| S_masked | sweeps | 0 |
| P | 0 | 1 |

dropout:

| tensor | times read | times written |
|---|---|---|
| P | 1 | 0 |
| P_dropped | 0 | 1 |
| DROP_MASK | 0 | 1 |

output:

| tensor | times read | times written |
|---|---|---|
| P_dropped | 1 | 0 |
| V | q_tiles * group | 0 |
| O | 0 | 1 |

(q_tiles = ceil(M / block_m), strips as in `naive`, group = H / G, slabs = B * H; sweeps as in `naive`.
MASK is one M x N matrix of bytes for all heads, and read whether it hides anything or not;
DROP_MASK, kept for a backward pass, is one such matrix a head.)

Source: Dao et al., FlashAttention (2022), section 2.2 (standard attention, with masking applied to S and dropout to P).
"""

from collections.abc import Mapping

from ..device.device import Device
from ..dtypes import DTYPES
from ..launch.program import Launch, Step, Tensor, Tile, Work
from ..problems.attention import AttentionProblem
from ..residency.registers_and_smem import exchanged_bytes
from .config import Config
from .contract import Schedule
from .coverage import PIPELINE, Coverage
from .naive import SCHEDULE as NAIVE
from .naive import output_launch, row_resources, scores_launch, softmax_launch, supports
from .tiles import row_tile, row_tiling, score_tensor, tile_launch, tile_program

MASK = DTYPES["u8"]


def launches(problem: AttentionProblem, config: Config, device: Device) -> tuple[Launch, ...]:
    """The six launches, in order; masking and dropout run even where they change nothing."""
    tiling = row_tiling(problem)
    elements = tiling.elements
    mask = score_tensor(problem, "MASK", "input", slabs=1, dtype=MASK)
    drop_mask = score_tensor(problem, "DROP_MASK", dtype=MASK)
    scores, scaled, masked, p, dropped = (
        score_tensor(problem, name) for name in ("S", "S_scaled", "S_masked", "P", "P_dropped")
    )
    return (
        scores_launch(problem, config, device, scaled=False),
        _elementwise(
            "scale",
            problem,
            device,
            reads=(scores,),
            writes=(scaled,),
            arguments={"pitch": scores.pitch_elements, "scale": problem.head_dim**-0.5},
            # conversion to fp32 and back, two a lane operation
            work=Work(fma_count=elements, fma_flop=elements, alu_count=elements),
        ),
        _elementwise(
            "mask",
            problem,
            device,
            reads=(scaled, mask),
            writes=(masked,),
            arguments={"pitch": scaled.pitch_elements, "mask_pitch": mask.pitch_elements},
            # compare and select
            work=Work(alu_count=2 * elements),
        ),
        softmax_launch(problem, device, source="S_masked", causal=False),
        _elementwise(
            "dropout",
            problem,
            device,
            reads=(p,),
            writes=(dropped, drop_mask),
            arguments={
                "pitch": p.pitch_elements,
                "keep_pitch": drop_mask.pitch_elements,
                "probability": problem.dropout,
                "seed": 0,
            },
            work=_dropout_work(elements),
            numbers=3,  # P, its random number, and what that is drawn from
        ),
        output_launch(problem, config, device, source="P_dropped"),
    )


def _elementwise(
    name: str,
    problem: AttentionProblem,
    device: Device,
    *,
    reads: tuple[Tensor, ...],
    writes: tuple[Tensor, ...],
    work: Work,
    arguments: Mapping[str, int | float],
    numbers: int = 1,
) -> Launch:
    """A launch that maps score-shaped tensors element by element. Args: numbers: as in `row_resources`."""
    tiling = row_tiling(problem)
    # Bytes and scores lie differently in registers, so one of the two changes its layout.
    mixed = len({tensor.element_bytes for tensor in reads + writes}) > 1
    scratch_bytes = exchanged_bytes(tiling.elements * problem.element_bytes, tiling.num_warps) if mixed else 0

    def tile(tensor: Tensor) -> Tile:
        return row_tile(tensor.name, tiling, slab="slab" if tensor.slabs > 1 else "shared_slab")

    step = Step(name="tile", loads=tuple(map(tile, reads)), work=work, stores=tuple(map(tile, writes)))
    return tile_launch(
        name,
        problem,
        tile_program(problem, (tiling.rows, tiling.cols), reads + writes, (step,)),
        num_warps=tiling.num_warps,
        resources=row_resources(device, tiling, scratch_bytes, numbers),
        arguments=arguments,
        block_rows=tiling.rows,
        block_cols=tiling.cols,
        whole=problem.seqlen_q % tiling.rows == 0 and problem.seqlen_k % tiling.cols == 0,
    )


def _dropout_work(elements: int) -> Work:
    """Philox 4x32-10 gives four numbers for ten rounds of four multiplications and two three-way XORs."""
    rounds = 10 * elements // 4
    return Work(
        # the integer multiplications run on the FMA pipe; dropped or scaled by 1 / (1 - dropout): one MUL
        fma_count=4 * rounds + elements,
        fma_flop=elements,
        # conversion to fp32 and back, compare and select
        alu_count=2 * rounds + 3 * elements,
    )


SCHEDULE = Schedule(
    name="unfused",
    summary="six kernels, as an eager framework runs them: every intermediate goes through device memory",
    source="Dao et al. 2022, FlashAttention, section 2.2",
    options=NAIVE.options,
    launches=launches,
    supports=supports,
    reads=("causal", "window", "dropout"),
    color="#E69F00",
    coverage=Coverage(points=PIPELINE, weight=3),
)
