"""Row softmax Y = softmax(X), alone: naive, safe or online, a strip of rows a CTA.

    for each (head, strip of block_m rows):      one CTA each; m, d: one a place of the block until they are combined
        naive:  for j in blocks of columns:      load X[j];  d += exp(X)                               combine d
        safe:   for j in blocks of columns:      load X[j];  m = max(m, X)                             combine m
                for j in blocks of columns:      load X[j];  d += exp(X - m)                           combine d
        online: for j in blocks of columns:      load X[j];  d = d * exp(m - m') + exp(X - m'), m' = max(m, X)
                                                                                                       combine m, d
        for j in blocks of columns:              load X[j];  store Y[j] = exp(X - m) / d               (naive: m = 0)

| tensor | times read | times written |
|---|---|---|
| X | passes | 0 |
| Y | 0 | 1 |

(passes = 2 for naive and online, 3 for safe: with the one write, the paper's 3, 3 and 4 accesses an element.
X is a stack of B * H score matrices of M x N, its rows packed; what a mask hides is -inf in it and read like the rest.
The head dimension plays no part.)

Source: Milakov and Gimelshein, Online normalizer calculation for softmax (2018), Algorithms 1 (naive), 2 (safe) and
3 (online); section 3.1 (partial normalisers combined).
"""

from dataclasses import replace

from ..device.device import Device
from ..integers import cdiv
from ..launch.program import Launch, Loop, Step, Tile, Work
from ..limits import WARP_THREADS
from ..problems.softmax import SoftmaxProblem
from ..residency.registers_and_smem import ROW_STATE_REGISTERS, CtaTiles
from .config import Config
from .contract import Schedule
from .coverage import ROWS, Coverage
from .options import BLOCK_M, BLOCK_N, NUM_WARPS, POWERS, declared, tiled, word
from .tiles import STATISTIC_BYTES, RowTiling, row_tile, score_tensor, tile_launch, tile_program

SOFTMAX_VARIANT = word(
    "softmax_variant",
    "Algorithm of a stand-alone row softmax.",
    ("naive", "safe", "online"),
    title="softmax",
    default="online",
    usual="online",
    # naive, which overflows, is nothing to recommend: it is looked at by name
    space=("safe", "online"),
)
"""How a row's sum is found: `naive` (no maximum), `safe` (maximum first) or `online` (both in one pass)."""
PASSES = {"naive": ("sum",), "safe": ("maximum", "sum"), "online": ("normaliser",)}
"""Variant -> its passes over a strip before the one that writes."""


def launches(problem: SoftmaxProblem, config: Config, device: Device) -> tuple[Launch, ...]:
    """The one launch; each variant is a kernel of its own."""
    tiling = RowTiling(
        rows=config.block_m,
        cols=config.block_n,
        blocks=cdiv(problem.seqlen_k, config.block_n),
        num_warps=config.num_warps,
    )
    # The user's own tensors: unlike scratch, their rows are not padded to lines.
    x, y = (
        replace(score_tensor(problem, name, role), pitch_bytes=problem.seqlen_k * problem.element_bytes)
        for name, role in (("X", "input"), ("Y", "output"))
    )
    read, write = row_tile("X", tiling, "j"), row_tile("Y", tiling, "j")
    works = _work(problem, tiling, config.softmax_variant)

    def sweep(name: str, stores: tuple[Tile, ...] = ()) -> Loop:
        step = Step(name=name, loads=(read,), work=works[name], stores=stores)
        return Loop(counter="j", trips=tiling.blocks, body=(step,))

    body: list[Step | Loop] = []
    for name in PASSES[config.softmax_variant]:
        body += [sweep(name), Step(name=f"combine {name}", work=works[f"combine {name}"])]
    return (
        tile_launch(
            f"{config.softmax_variant}_softmax",
            problem,
            tile_program(problem, (tiling.rows, problem.seqlen_k), (x, y), (*body, sweep("write", (write,)))),
            num_warps=tiling.num_warps,
            resources=CtaTiles(
                block_m=1,  # no tile product
                num_warps=tiling.num_warps,
                num_stages=1,
                scratch_bytes=_exchange_bytes(problem, tiling),
                # a block, and what it adds up to: a maximum or a sum, or both
                accumulators=tiling.elements * (3 if config.softmax_variant == "online" else 2),
                state_registers=ROW_STATE_REGISTERS,
            ).estimated(device),
            block_m=tiling.rows,
            block_n=tiling.cols,
            whole=problem.seqlen_q % tiling.rows == 0 and problem.seqlen_k % tiling.cols == 0,
        ),
    )


def supports(problem: SoftmaxProblem) -> str | None:
    """What keeps Y in the working dtype needs 16 bits or more."""
    if problem.dtype == "fp8":
        return "fp8 cannot hold most elements of a softmax over a long row: they are below 2^-9"
    return None


def _exchange_bytes(problem: SoftmaxProblem, tiling: RowTiling) -> int:
    """What warps that share rows pass to each other, for one number a row [B].

    Lanes take 16 bytes each of neighbouring columns, less where the tile has less for them,
    and a single element where rows do not start at multiples of 16 elements.
    """
    lane_elements = min(16 // problem.element_bytes, max(1, tiling.elements // (WARP_THREADS * tiling.num_warps)))
    if problem.seqlen_k % 16:
        lane_elements = 1
    warps = min(tiling.num_warps, cdiv(tiling.cols, WARP_THREADS * lane_elements))
    return tiling.rows * warps * STATISTIC_BYTES if warps > 1 else 0


def _work(problem: SoftmaxProblem, tiling: RowTiling, variant: str) -> dict[str, Work]:
    """Step name -> what a CTA computes in it. An exponential is a product with log2(e) and an EX2."""
    elements, rows = tiling.elements, tiling.rows
    converted = elements // 2 if problem.element_bytes < 4 else 0
    shifted = 0 if variant == "naive" else elements
    exchange = _exchange_bytes(problem, tiling)

    def combine(numbers: int, work: Work) -> Work:
        return replace(
            work,
            row_reductions=numbers,
            smem_write_bytes=numbers * exchange,
            smem_read_bytes=numbers * exchange,
            barriers=2 * numbers if exchange else 0,
        )

    exponentiate = Work(exp_count=elements, fma_count=shifted + 2 * elements, fma_flop=shifted + 2 * elements)
    return {
        "maximum": Work(alu_count=converted + elements),
        "combine maximum": combine(1, Work(alu_count=elements)),
        # scale, exponentiate, add
        "sum": replace(exponentiate, alu_count=converted),
        # add; the reciprocal of a row's sum
        "combine sum": combine(1, Work(exp_count=rows, fma_count=elements, fma_flop=elements)),
        # subtract, scale, exponentiate; d e + 1 (FMA) and d + e, compare, select; maximum
        "normaliser": Work(
            exp_count=elements, fma_count=4 * elements, fma_flop=5 * elements, alu_count=converted + 3 * elements
        ),
        # maxima; subtract, scale, exponentiate, multiply, add
        "combine normaliser": combine(
            2,
            Work(exp_count=elements + rows, fma_count=4 * elements, fma_flop=4 * elements, alu_count=elements),
        ),
        # scale, exponentiate, multiply
        "write": replace(exponentiate, alu_count=2 * converted),
    }


SCHEDULE = Schedule(
    name="online_softmax",
    summary="row softmax alone, as naive, safe or online: 3, 4 or 3 accesses an element",
    source="Milakov and Gimelshein 2018, Online normalizer calculation for softmax",
    problem=SoftmaxProblem,
    options=declared(
        tiled(replace(BLOCK_M, values=POWERS, allowed="a power of two from 1 to 1024"), 1, 1, 2, 4, 8, 16),
        tiled(BLOCK_N, 1024, 256, 512, 1024),
        tiled(NUM_WARPS, 4, 4, 8),
        SOFTMAX_VARIANT,
    ),
    coverage=Coverage(points=ROWS),
    launches=launches,
    supports=supports,
)
