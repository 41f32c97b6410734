"""Row softmax: passes over a strip, and where caches make them one."""

from dataclasses import replace

import pytest
from closed_forms import papers, sm_bytes
from support.strategies import TOY, TOY_WGMMA
from tilesight.simulator.closed_form.roofline import roofline
from tilesight.simulator.device.device import load_device
from tilesight.simulator.launch.program import Launch
from tilesight.simulator.launch.walk import accesses, steps, tally
from tilesight.simulator.prediction.prediction import Prediction
from tilesight.simulator.problems.attention import AttentionProblem
from tilesight.simulator.problems.softmax import SoftmaxProblem
from tilesight.simulator.schedules.registry import find_schedule
from tilesight.simulator.simulate import simulate

SOFTMAX = find_schedule("online_softmax")
H200 = load_device("h200")
ACCESSES = {"naive": 3, "safe": 4, "online": 3}
PROBLEM = AttentionProblem(batch=1, heads=2, seqlen_q=64, seqlen_k=512, head_dim=64)
variants = pytest.mark.parametrize("variant", ACCESSES)


def _launch(problem: AttentionProblem = PROBLEM, **chosen: int | str) -> Launch:
    (launch,) = SOFTMAX.launches(problem, SOFTMAX.config(**{"block_m": 4, "block_n": 128} | chosen), TOY_WGMMA)
    return launch


def _simulated(problem: AttentionProblem, variant: str, **device: int) -> Prediction:
    config = SOFTMAX.config(softmax_variant=variant, block_m=4, block_n=256)
    return simulate(problem, schedule="online_softmax", config=config, device=replace(TOY, **device))  # type: ignore[arg-type]


@variants
def test_an_element_is_accessed_as_often_as_the_paper_counts(variant: str) -> None:
    """Three times, or four where the maximum is found first; once of them to write it."""
    totals = tally(_launch(softmax_variant=variant).program)
    matrix = papers.score_matrix_bytes(PROBLEM)
    assert totals.store_bytes == {"Y": matrix}
    assert totals.load_bytes["X"] + totals.store_bytes["Y"] == ACCESSES[variant] * matrix
    assert sm_bytes.softmax_hbm_bytes(PROBLEM, variant).total_bytes == ACCESSES[variant] * matrix


@variants
def test_a_pass_goes_over_the_strip_from_its_first_column_on(variant: str) -> None:
    """Four blocks a pass, the last pass a store after each load."""
    seen = [(access.kind, access.col) for access in accesses(_launch(softmax_variant=variant).program, 0)]
    reading = [("load", col) for col in range(0, 512, 128)] * (ACCESSES[variant] - 2)
    writing = [(kind, col) for col in range(0, 512, 128) for kind in ("load", "store")]
    assert seen == reading + writing


@variants
def test_no_pass_bypasses_l1(variant: str) -> None:
    """Asynchronous copies would never find what the pass before left there."""
    paths = {tile.path for step, _ in steps(_launch(softmax_variant=variant).program.body) for tile in step.loads}
    assert paths == {"plain"}


def test_rows_are_packed_whatever_their_length() -> None:
    """They are the user's own: 100 fp16 elements take 200 bytes."""
    for tensor in _launch(replace(PROBLEM, seqlen_k=100)).program.tensors:
        assert tensor.pitch_bytes == tensor.row_bytes == 200


def test_a_problem_with_a_mask_has_no_row_softmax() -> None:
    """What a mask hides is -inf in X, so that the softmax has none of its own."""
    with pytest.raises(ValueError, match="causal = True: this schedule has none"):
        _launch(replace(PROBLEM, causal=True))


@variants
def test_an_element_takes_two_exponentials(variant: str) -> None:
    """One for the sum and one for the output; beside them a reciprocal a row, and online one a place to combine."""
    program = _launch(softmax_variant=variant).program
    executions = tally(program).executions
    total = sum(executions[step.name] * step.work.exp_count for step, _ in steps(program.body))
    rows = 2 * 64
    combined = rows * 128 if variant == "online" else 0
    assert total == 2 * rows * 512 + rows + combined


@pytest.mark.parametrize(
    ("block_m", "block_n", "num_warps", "seqlen_k", "exchanged"),
    [
        (1, 1024, 4, 8192, 16),
        (16, 1024, 8, 8192, 256),
        (2, 256, 4, 8192, 16),
        (2, 256, 4, 1000, 32),
        (16, 16, 4, 64, 0),
    ],
)
def test_warps_that_share_rows_exchange_a_number_a_row(
    block_m: int, block_n: int, num_warps: int, seqlen_k: int, exchanged: int
) -> None:
    """As many bytes as Triton 3.6 takes of shared memory for the same kernel."""
    config = SOFTMAX.config(block_m=block_m, block_n=block_n, num_warps=num_warps)
    (launch,) = SOFTMAX.launches(replace(PROBLEM, seqlen_k=seqlen_k), config, H200)
    assert launch.resources.smem_bytes_per_cta == exchanged


@variants
def test_what_stays_in_l1_is_read_once(variant: str) -> None:
    """A strip of 4 KiB survives its passes: they ask for it again, and nobody beyond the SM notices."""
    total = _simulated(PROBLEM, variant, l1_bytes=2 * TOY.l1_bytes).total
    matrix = papers.score_matrix_bytes(PROBLEM)
    assert total.hbm_read_bytes == total.l2_read_bytes == matrix
    assert total.l1_hit_bytes == (ACCESSES[variant] - 2) * matrix


@variants
def test_what_stays_in_l2_is_read_once_from_device_memory(variant: str) -> None:
    """Strips of 128 KiB are more than an L1 of a few tiles holds, and far less than L2 does."""
    problem = replace(PROBLEM, seqlen_q=32, seqlen_k=16384)
    total = _simulated(problem, variant, l2_bytes=64 << 20, l1_bytes=TOY.smem_per_sm_bytes).total
    matrix = papers.score_matrix_bytes(problem)
    assert total.hbm_read_bytes == matrix
    assert total.l2_read_bytes == (ACCESSES[variant] - 1) * matrix


@variants
def test_rows_far_longer_than_the_caches_are_read_in_every_pass(variant: str) -> None:
    """Device memory sees what the SMs ask for: here the variants differ, four to three."""
    problem = replace(PROBLEM, seqlen_q=4, seqlen_k=1 << 18)
    total = _simulated(problem, variant).total
    assert total.hbm_read_bytes == (ACCESSES[variant] - 1) * papers.score_matrix_bytes(problem)
    assert total.l1_hit_bytes == 0


def test_safe_takes_four_thirds_of_the_time_where_rows_are_long_and_none_more_where_they_are_short() -> None:
    """Bound by device memory in all cases: the paper's promise, and where it does not hold."""
    ratios = []
    for seqlen_k in (2048, 131072):
        problem = AttentionProblem(batch=1, heads=1, seqlen_q=(1 << 27) // seqlen_k, seqlen_k=seqlen_k, head_dim=64)
        safe, online = (
            simulate(problem, schedule="online_softmax", config=SOFTMAX.config(softmax_variant=variant), device=H200)
            for variant in ("safe", "online")
        )
        assert safe.bottleneck == online.bottleneck == "hbm"
        ratios.append(safe.time_s / online.time_s)
    assert ratios == pytest.approx([1.0, 4 / 3], abs=0.05)


def test_the_roofline_is_that_of_a_softmax() -> None:
    """X read, Y written, an exponential an element, and no matrix product."""
    problem = AttentionProblem(batch=4, heads=32, seqlen_q=4096, seqlen_k=4096, head_dim=64)
    bound = roofline(SoftmaxProblem.of(problem), H200)
    assert (bound.tensor_flop, bound.tensor_s, bound.bottleneck) == (0, 0.0, "hbm")
    assert bound.hbm_bytes == 2 * papers.score_matrix_bytes(problem)
    seen = simulate(problem, schedule="online_softmax", device=H200)
    assert bound.bound_s <= seen.time_s <= 2 * bound.bound_s
