"""The engine against the papers' arithmetic, which it never imports."""

from dataclasses import replace
from functools import cache, partial

import pytest
from closed_forms import papers, sm_bytes
from closed_forms.flash import flash1_forward
from closed_forms.io_complexity import flash_block_rows, flash_io_elements
from closed_forms.passes import hbm_bytes
from hypothesis import given, settings
from laws.cases import Case, cases
from support.sectors import rounds_up_to
from tilesight.simulator.device.device import load_device
from tilesight.simulator.launch.walk import steps
from tilesight.simulator.problems.attention import AttentionProblem
from tilesight.simulator.schedules.config import Config
from tilesight.simulator.schedules.registry import find_schedule
from tilesight.simulator.simulate import simulate

FILLS = {
    "naive": sm_bytes.naive_fill_bytes,
    "unfused": sm_bytes.unfused_fill_bytes,
    "flash1": sm_bytes.flash1_fill_bytes,
    "flash2": sm_bytes.flash2_fill_bytes,
    "flash2_tma": sm_bytes.flash2_fill_bytes,
}
H200 = load_device("h200")
GQA = AttentionProblem(batch=2, heads=16, kv_heads=4, seqlen_q=2000, seqlen_k=3000, head_dim=64)
NO_L2 = replace(H200, l2_bytes=1 << 20, l2_partitions=1, l1_bytes=233472)
"""As the papers have it: next to nothing between SRAM and device memory."""
CAUSAL = AttentionProblem(batch=4, heads=16, seqlen_q=4096, seqlen_k=4096, head_dim=128, causal=True)


def formula(case: Case) -> int:
    """Bytes that reach SRAM [B]."""
    block_m, block_n = case.config.block_m, case.config.block_n
    if case.schedule == "online_softmax":
        variant = case.config.softmax_variant
        return sum(sm_bytes.online_softmax_fill_bytes(case.problem, block_m, block_n, variant).values())
    fill = FILLS[case.schedule]
    if any(
        tile.path == "tma" for launch in case.launches for step, _ in steps(launch.program.body) for tile in step.loads
    ):
        fill = partial(fill, by_tma=True)
    return sum(fill(case.problem, block_m, block_n).values())


@settings(max_examples=120)
@given(case=cases())
def test_bytes_asked_for_are_those_of_the_formula(case: Case) -> None:
    """Fill and L1 hits together, to the byte, for every schedule, shape and configuration."""
    total = case.simulate().total
    assert rounds_up_to(total.smem_fill_bytes + total.l1_hit_bytes, formula(case), case.launches)


@pytest.mark.parametrize("problem", [GQA, CAUSAL], ids=["gqa", "causal"])
@pytest.mark.parametrize(
    ("schedule", "stages"), [("flash2", 2), ("flash2", 3), ("naive", 3), ("unfused", 2), ("flash1", 2)]
)
def test_fill_is_the_formula_on_an_h200(problem: AttentionProblem, schedule: str, stages: int) -> None:
    """Asynchronous copies bypass L1, so the SMs get from L2 all that the formula says, steady state or not."""
    config = find_schedule(schedule).config(num_stages=stages, block_m=64)
    case = Case(problem=problem, schedule=schedule, config=config, device=H200)
    total = simulate(problem, schedule=schedule, config=case.config, device=H200).total
    if schedule == "flash2":
        assert total.l1_hit_bytes == 0
    assert total.smem_fill_bytes + total.l1_hit_bytes == formula(case)


@pytest.mark.parametrize("order", ["m-fast", "m-reversed", "head-fast", "longest-first"])
@pytest.mark.parametrize("stages", [1, 2, 4])
def test_device_memory_reads_are_compulsory_where_all_fits(order: str, stages: int) -> None:
    """Q, K and V once, whatever the order and depth; and what is written is at most O and the log-sum-exp."""
    problem = AttentionProblem(batch=1, heads=8, kv_heads=4, seqlen_q=3000, seqlen_k=5000, head_dim=64, causal=True)
    total = simulate(problem, config=Config(cta_order=order, num_stages=stages), device="h200").total
    least = papers.compulsory_hbm_bytes(problem, lse=True)
    assert total.hbm_read_bytes == least.read_bytes
    assert total.l2_write_bytes == least.write_bytes >= total.hbm_write_bytes


@pytest.mark.parametrize("block_n", [64, 128])
def test_flash1_without_an_l2_moves_what_the_paper_says(block_n: int) -> None:
    """With an L2 of next to nothing, device memory reads come to the two-level model, to a few percent."""
    problem = AttentionProblem(batch=4, heads=64, seqlen_q=1024, seqlen_k=1024, head_dim=64)
    config = Config(block_m=64, block_n=block_n, num_stages=2)
    seen = simulate(problem, schedule="flash1", config=config, device=NO_L2).total
    paper = papers.flash1_hbm_bytes(problem, block_n)
    assert seen.hbm_read_bytes == pytest.approx(paper.read_bytes, rel=0.05)


@cache
def moved_bytes(schedule: str, seqlen: int, head_dim: int, sram_elements: int) -> int:
    """Simulated traffic with device memory, both directions, in blocks that SRAM of this size allows [B]."""
    problem = AttentionProblem(batch=4, heads=64, seqlen_q=seqlen, seqlen_k=seqlen, head_dim=head_dim)
    block_m, block_n = flash_block_rows(problem, sram_elements)
    config = Config(block_m=block_m, block_n=block_n, num_stages=1)
    total = simulate(problem, schedule=schedule, config=config, device=NO_L2).total
    return total.hbm_read_bytes + total.hbm_write_bytes


@pytest.mark.parametrize("head_dim", [32, 64, 128])
@pytest.mark.parametrize("sram_elements", [1 << 14, 1 << 15])
def test_simulated_flash1_moves_theorem_2_with_its_constant(head_dim: int, sram_elements: int) -> None:
    """12 N^2 D^2 / M elements for Q and O; K, V, zeros and statistics, which grow otherwise, are set aside."""
    problem = AttentionProblem(batch=4, heads=64, seqlen_q=1024, seqlen_k=1024, head_dim=head_dim)
    _, block_n = flash_block_rows(problem, sram_elements)
    theorem = 2 * 12 * flash_io_elements(problem, sram_elements)
    beside = hbm_bytes(problem, flash1_forward(problem, block_n)).total_bytes - theorem
    assert moved_bytes("flash1", 1024, head_dim, sram_elements) - beside == pytest.approx(theorem, rel=0.05)


@pytest.mark.parametrize(("schedule", "by_sram", "by_head_dim"), [("flash1", 1 / 2, 4), ("naive", 1, 1)])
def test_simulated_traffic_grows_as_theorem_2_says(schedule: str, by_sram: float, by_head_dim: float) -> None:
    """Twice the SRAM halves flash1's, twice the head dim makes it fourfold; naive's N^2 stays."""
    base = moved_bytes(schedule, 2048, 32, 1 << 14)
    assert moved_bytes(schedule, 2048, 32, 1 << 15) / base == pytest.approx(by_sram, rel=0.15)
    assert moved_bytes(schedule, 2048, 64, 1 << 14) / base == pytest.approx(by_head_dim, rel=0.15)
    assert moved_bytes(schedule, 1024, 32, 1 << 14) / base == pytest.approx(1 / 4, rel=0.15)
