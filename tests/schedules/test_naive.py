"""Naive attention: what each of its three kernels does."""

from dataclasses import replace

import pytest
from schedules.contract import tensors_of
from support.strategies import TOY, TOY_WGMMA
from tilesight.simulator.launch.program import Launch
from tilesight.simulator.launch.walk import accesses, steps, tally
from tilesight.simulator.problems.attention import AttentionProblem
from tilesight.simulator.schedules.registry import find_schedule

NAIVE = find_schedule("naive")
PROBLEM = AttentionProblem(batch=1, heads=2, seqlen_q=256, seqlen_k=512, head_dim=64)


def _launches(problem: AttentionProblem = PROBLEM, **chosen: int) -> tuple[Launch, ...]:
    return NAIVE.launches(problem, NAIVE.config(**{"block_m": 64, "block_n": 64} | chosen), TOY_WGMMA)


def test_three_kernels_run_one_after_the_other() -> None:
    """Scores, softmax, output, each on a one-dimensional grid of one CTA an item."""
    launches = _launches()
    assert [launch.name for launch in launches] == ["scores", "softmax", "output"]
    assert [launch.grid for launch in launches] == [(2 * 4 * 8, 1, 1), (2 * 256 // 8, 1, 1), (2 * 4, 1, 1)]


def test_neighbouring_score_ctas_share_a_query_tile() -> None:
    """The key tile runs fastest."""
    scores = _launches()[0]
    first, second = ([access for access in accesses(scores.program, item)] for item in (0, 1))
    assert first[0] == second[0]
    assert (first[1].tensor, first[1].row, second[1].row) == ("K", 0, 64)


def test_a_causal_mask_saves_no_byte_and_no_product() -> None:
    """S is computed whole; only the softmax knows of the mask."""
    full, causal = _launches(), _launches(replace(PROBLEM, causal=True))
    assert [tally(launch.program) for launch in full] == [tally(launch.program) for launch in causal]
    masked = [launch.name for launch, plain in zip(causal, full, strict=True) if launch.constants != plain.constants]
    assert masked == ["softmax"]


def test_scores_and_probabilities_have_rows_of_whole_lines() -> None:
    """100 fp16 keys take 200 bytes of a 256-byte pitch."""
    tensors = tensors_of(_launches(replace(PROBLEM, seqlen_k=100)))
    for name in "SP":
        assert (tensors[name].role, tensors[name].row_bytes, tensors[name].pitch_bytes) == ("scratch", 200, 256)


@pytest.mark.parametrize(("seqlen_k", "sweeps"), [(16384, 1), (16385, 2)])
def test_rows_too_long_for_registers_are_read_twice(seqlen_k: int, sweeps: int) -> None:
    """Once for maximum and sum, once to normalise."""
    problem = AttentionProblem(batch=1, heads=1, seqlen_q=4, seqlen_k=seqlen_k, head_dim=16)
    softmax = _launches(problem)[1]
    totals = tally(softmax.program)
    assert softmax.constants["sweeps"] == sweeps
    assert totals.load_bytes["S"] == sweeps * totals.store_bytes["P"]


def test_the_softmax_has_warps_by_row_length() -> None:
    """8 for 4096 elements, 16 for rows of more; block sizes of the products do not matter."""
    warps = {
        n: _launches(replace(PROBLEM, seqlen_k=n), num_warps=8)[1].num_warps for n in (512, 4096, 5000, 9000, 20000)
    }
    assert warps == {512: 8, 4096: 8, 5000: 16, 9000: 16, 20000: 8}


@pytest.mark.parametrize(("num_stages", "path"), [(1, "plain"), (3, "async")])
def test_only_the_pipelined_loops_copy_asynchronously(num_stages: int, path: str) -> None:
    """The loops over key tiles of the two products; everything else loads through registers."""
    scores, softmax, output = _launches(num_stages=num_stages)
    assert (scores.num_stages, softmax.num_stages, output.num_stages) == (num_stages, 1, num_stages)

    def paths(launches: tuple[Launch, ...]) -> list[set[str]]:
        return [{tile.path for step, _ in steps(launch.program.body) for tile in step.loads} for launch in launches]

    assert paths((scores, softmax, output)) == [{"plain", "tma"}, {"plain"}, {path}]
    without_tma = NAIVE.launches(PROBLEM, NAIVE.config(num_stages=num_stages), TOY)
    assert paths(without_tma) == [{"plain", path}, {"plain"}, {path}]


def test_strips_get_shorter_where_ctas_would_be_few() -> None:
    """2048 keys of a long row and many heads; one key tile where there is little to share out."""
    long = AttentionProblem(batch=4, heads=32, seqlen_q=4096, seqlen_k=4096, head_dim=64)
    few = ((replace(long, batch=1, heads=heads, kv_heads=0), tiles) for heads, tiles in ((8, 32), (1, 4)))
    for problem, tiles in ((long, 32), *few):
        scores = NAIVE.launches(problem, NAIVE.config(block_m=128, block_n=64), TOY)[0]
        assert scores.constants["strip_tiles"] == tiles
        assert scores.cta_count >= 512


def test_other_operations_are_four_a_score() -> None:
    """Scale, subtract the maximum, sum, divide; and one exponential."""
    flop, exponentials = 0, 0
    for launch in _launches():
        executions = tally(launch.program).executions
        for step, _ in steps(launch.program.body):
            flop += executions[step.name] * step.work.fma_flop
            exponentials += executions[step.name] * step.work.exp_count
    rows = 2 * 256
    assert (flop, exponentials) == (4 * rows * 512, rows * 512 + rows)


def test_where_tiles_divide_every_item_is_alike() -> None:
    """A period of one item; a ragged edge makes it longer."""
    assert [launch.program.period_items for launch in _launches()] == [1, 1, 1]
    ragged = _launches(replace(PROBLEM, seqlen_q=250, seqlen_k=500))
    assert [launch.program.period_items for launch in ragged] == [4 * 8, 32, 4]


def test_the_products_take_a_from_where_the_instruction_reads_it() -> None:
    """wgmma reads shared memory, mma.sync registers."""
    for device, source in ((TOY_WGMMA, "smem"), (TOY, "registers")):
        launches = NAIVE.launches(PROBLEM, NAIVE.default, device)
        products = [
            product for launch in launches for step, _ in steps(launch.program.body) for product in step.work.matmuls
        ]
        assert [product.a_source for product in products] == [source, source]
