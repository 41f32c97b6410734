"""Closed forms: they give the papers' numbers, and the tile programs ask for exactly those bytes."""

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from closed_forms import papers, sm_bytes
from closed_forms.io_complexity import (
    flash_block_rows,
    flash_io_elements,
    least_io_elements,
    standard_io_elements,
)
from hypothesis import given
from hypothesis import strategies as st
from support.sectors import rounds_up_to
from support.strategies import read_by
from tilesight.simulator.device.device import Device, load_device
from tilesight.simulator.launch.program import Launch
from tilesight.simulator.launch.walk import steps, tally
from tilesight.simulator.problems.attention import MAX_SEQLEN, AttentionProblem
from tilesight.simulator.schedules.registry import find_schedule
from tilesight.simulator.simulate import peak_memory_bytes

H200 = load_device("h200")
A100 = load_device("a100-sxm-80gb")
"""Without TMA, so that no tile is filled up."""
# GPT-2 medium, the problem of FlashAttention (2022), Figure 2.
GPT2 = AttentionProblem(batch=64, heads=16, seqlen_q=1024, seqlen_k=1024, head_dim=64)
FILLS = {
    "naive": partial(sm_bytes.naive_fill_bytes, by_tma=True),
    "unfused": partial(sm_bytes.unfused_fill_bytes, by_tma=True),
    "flash1": sm_bytes.flash1_fill_bytes,
    "flash2": sm_bytes.flash2_fill_bytes,
    "flash2_tma": partial(sm_bytes.flash2_fill_bytes, by_tma=True),
    "online_softmax": sm_bytes.online_softmax_fill_bytes,
}
BLOCKS = (16, 32, 64, 128, 256)
PAGE = Path(__file__).parents[2] / "docs" / "closed-forms.md"


@st.composite
def problems(draw: st.DrawFn, dtypes: tuple[str, ...] = ("fp16", "bf16", "fp32")) -> AttentionProblem:
    """Small problems, mostly ragged, with heads in groups and any legal head dim."""
    kv_heads = draw(st.integers(1, 3))
    return AttentionProblem(
        batch=draw(st.integers(1, 3)),
        heads=kv_heads * draw(st.integers(1, 3)),
        kv_heads=kv_heads,
        seqlen_q=draw(st.integers(1, 600)),
        seqlen_k=draw(st.integers(1, 600)),
        head_dim=8 * draw(st.integers(2, 32)),
        dtype=draw(st.sampled_from(dtypes)),
        causal=draw(st.booleans()),
    )


def launches_of(
    problem: AttentionProblem, schedule: str, block_m: int, block_n: int, device: Device = H200
) -> tuple[Launch, ...]:
    chosen = find_schedule(schedule)
    return chosen.launches(problem, chosen.config(block_m=block_m, block_n=block_n), device)


def loaded_bytes(launches: tuple[Launch, ...]) -> dict[str, int]:
    total: dict[str, int] = {}
    for launch in launches:
        for name, size in tally(launch.program).load_bytes.items():
            total[name] = total.get(name, 0) + size
    return total


def assert_agree(counted: dict[str, int], formula: dict[str, int], launches: tuple[Launch, ...]) -> None:
    assert counted.keys() == formula.keys()
    assert all(rounds_up_to(counted[name], formula[name], launches) for name in formula), (counted, formula)


@pytest.mark.parametrize(("block_n", "gigabytes"), [(64, 6.98), (128, 3.62), (256, 1.95), (384, 1.53), (512, 1.11)])
def test_flash1_moves_less_the_larger_its_key_block(block_n: int, gigabytes: float) -> None:
    """Algorithm 1 of FlashAttention (2022), counted line by line for the problem of its Figure 2."""
    assert papers.flash1_hbm_bytes(GPT2, block_n).total_bytes / 1e9 == pytest.approx(gigabytes, abs=0.005)


def test_standard_attention_moves_nine_gigabytes_where_flash1_moves_one_or_two() -> None:
    """Algorithm 0 of FlashAttention (2022), counted line by line for the problem of its Figure 2."""
    assert papers.standard_hbm_bytes(GPT2).total_bytes / 1e9 == pytest.approx(9.13, abs=0.005)


def test_standard_attention_reads_and_writes_two_score_matrices_beside_the_compulsory() -> None:
    """Algorithm 0: S and P are each written once and read once."""
    standard, compulsory = papers.standard_hbm_bytes(GPT2), papers.compulsory_hbm_bytes(GPT2)
    scores = papers.score_matrix_bytes(GPT2)
    assert standard.read_bytes - compulsory.read_bytes == standard.write_bytes - compulsory.write_bytes == 2 * scores


def test_scores_of_16_sequences_of_4096_tokens_take_16_gib() -> None:
    """2 B x 16 x 32 heads x 4096^2."""
    problem = AttentionProblem(batch=16, heads=32, seqlen_q=4096, seqlen_k=4096, head_dim=64)
    assert papers.score_matrix_bytes(problem) == 16 * 2**30


def test_compulsory_bytes_count_shared_key_heads_once() -> None:
    """Q and O have H heads, K and V have G; the log-sum-exp is 4 B a row."""
    problem = AttentionProblem(batch=2, heads=8, kv_heads=2, seqlen_q=100, seqlen_k=300, head_dim=64)
    moved = papers.compulsory_hbm_bytes(problem, lse=True)
    assert moved.read_bytes == 2 * 2 * 64 * (8 * 100 + 2 * 2 * 300)
    assert moved.write_bytes == 2 * 8 * 100 * (2 * 64 + 4)


@given(problems(), st.sampled_from(BLOCKS), st.sampled_from(BLOCKS))
def test_no_model_moves_less_than_the_compulsory(problem: AttentionProblem, block_m: int, block_n: int) -> None:
    """Each input once, each output once, is a floor; a causal mask may spare flash2 keys, so it is set aside."""
    problem = replace(problem, causal=False)
    floor = papers.compulsory_hbm_bytes(problem)
    for moved in (
        papers.standard_hbm_bytes(problem),
        papers.unfused_hbm_bytes(problem),
        papers.flash1_hbm_bytes(problem, block_n),
        papers.flash2_hbm_bytes(problem, block_m, block_n),
    ):
        assert moved.read_bytes >= floor.read_bytes
        assert moved.write_bytes >= floor.write_bytes


@pytest.mark.parametrize("schedule", FILLS)
@given(problem=problems(), block_m=st.sampled_from(BLOCKS), block_n=st.sampled_from(BLOCKS))
def test_programs_load_the_bytes_of_the_closed_form(
    schedule: str, problem: AttentionProblem, block_m: int, block_n: int
) -> None:
    """Tensor by tensor, to the byte: divisible and ragged, full and causal, M below and above N."""
    asked = read_by(find_schedule(schedule), problem)
    launches = launches_of(asked, schedule, block_m, block_n)
    assert_agree(loaded_bytes(launches), FILLS[schedule](asked, block_m, block_n), launches)


@given(problem=problems(dtypes=("fp8",)), block_m=st.sampled_from(BLOCKS), block_n=st.sampled_from(BLOCKS))
def test_flash2_loads_the_bytes_of_the_closed_form_in_fp8(
    problem: AttentionProblem, block_m: int, block_n: int
) -> None:
    """One byte an element: rows of 24 B, as at D = 24, still round up tile by tile."""
    launches = launches_of(problem, "flash2", block_m, block_n)
    assert_agree(loaded_bytes(launches), sm_bytes.flash2_fill_bytes(problem, block_m, block_n), launches)


@pytest.mark.parametrize("schedule", ["naive", "unfused"])
@pytest.mark.parametrize("seqlen_k", [16384, 16385, 20000])
def test_rows_beyond_the_registers_are_read_twice_by_the_softmax(schedule: str, seqlen_k: int) -> None:
    """One sweep up to 16384 columns, two from there on."""
    problem = AttentionProblem(batch=1, heads=1, seqlen_q=70, seqlen_k=seqlen_k, head_dim=64)
    launches = launches_of(problem, schedule, 64, 128)
    assert loaded_bytes(launches) == FILLS[schedule](problem, 64, 128)


@given(st.sampled_from(BLOCKS), st.sampled_from(BLOCKS), st.integers(1, 3), st.integers(1, 3), st.booleans())
def test_two_level_model_is_what_programs_load_and_store_where_tiles_divide(
    block_m: int, block_n: int, q_tiles: int, k_tiles: int, causal: bool
) -> None:
    """With no cache between SRAM and HBM every load is HBM traffic; flash1 stores its zeros once more."""
    problem = AttentionProblem(
        batch=2, heads=4, kv_heads=2, seqlen_q=q_tiles * block_m, seqlen_k=k_tiles * block_n, head_dim=64, causal=causal
    )
    first, second = (tally(launches_of(problem, name, block_m, block_n)[0].program) for name in ("flash1", "flash2"))
    flash1 = papers.flash1_hbm_bytes(problem, block_n)
    flash2 = papers.flash2_hbm_bytes(problem, block_m, block_n)
    assert sum(first.load_bytes.values()) == flash1.read_bytes
    assert sum(first.store_bytes.values()) == flash1.write_bytes // k_tiles * (k_tiles + 1)
    assert sum(second.load_bytes.values()) == flash2.read_bytes
    assert sum(second.store_bytes.values()) == flash2.write_bytes


@given(st.sampled_from((32, 64, 128, 256)), st.sampled_from((32, 64, 128, 256)), st.sampled_from((16, 64, 128)))
def test_operation_by_operation_model_is_what_pipelines_move_where_one_tile_covers_a_head(
    seqlen_q: int, seqlen_k: int, head_dim: int
) -> None:
    """Then each launch reads its inputs once and writes its outputs once."""
    problem = AttentionProblem(batch=2, heads=3, seqlen_q=seqlen_q, seqlen_k=seqlen_k, head_dim=head_dim)
    models = {"naive": papers.standard_hbm_bytes, "unfused": papers.unfused_hbm_bytes}
    for schedule, model in models.items():
        totals = [tally(launch.program) for launch in launches_of(problem, schedule, 256, 256, A100)]
        assert model(problem) == papers.ReadWrite(
            read_bytes=sum(sum(total.load_bytes.values()) for total in totals),
            write_bytes=sum(sum(total.store_bytes.values()) for total in totals),
        )


def test_causal_mask_saves_flash2_almost_half_of_its_key_reads() -> None:
    """N / block query tiles see 1, 2, ... tiles: (T + 1) / 2T of all, FlashAttention-2 (2023), section 3.1.1."""
    problem = AttentionProblem(batch=1, heads=1, seqlen_q=4096, seqlen_k=4096, head_dim=64)
    full = sm_bytes.flash2_fill_bytes(problem, 128, 128)["K"]
    assert sm_bytes.flash2_fill_bytes(replace(problem, causal=True), 128, 128)["K"] * 64 == full * 33


def test_an_a100_gives_flash1_key_blocks_of_384_rows() -> None:
    """192 KiB of SRAM are 98304 fp16 elements; FlashAttention (2022), Algorithm 1, line 1."""
    assert flash_block_rows(GPT2, 192 * 1024 // 2) == (64, 384)
    with pytest.raises(ValueError, match=r"sram_elements = 63: must be at least head_dim = 64"):
        flash_block_rows(GPT2, 63)


@given(st.sampled_from((16, 32, 64, 128, 256)), st.integers(4, 9), st.integers(2, 5))
def test_flash1_traffic_grows_as_theorem_2_says(head_dim: int, log_rows: int, blocks: int) -> None:
    """Blocks of M / 4D rows make Q and O traffic 12 N^2 D^2 / M: Q and O read, O written, 4 N D / M times."""
    rows = 1 << log_rows
    sram = 4 * head_dim * rows
    problem = AttentionProblem(batch=2, heads=3, seqlen_q=rows * blocks, seqlen_k=rows * blocks, head_dim=head_dim)
    _, key_rows = flash_block_rows(problem, sram)
    moved = papers.flash1_hbm_bytes(problem, key_rows)
    heads, elements = 6, problem.seqlen_q * head_dim
    beside = heads * (2 * elements * 2 + blocks * 4 * problem.seqlen_q * 4)
    assert moved.total_bytes - beside == 2 * 12 * flash_io_elements(problem, sram)


def test_standard_traffic_grows_as_theorem_2_says() -> None:
    """N D + N^2 a head."""
    assert standard_io_elements(GPT2) == 64 * 16 * (1024 * 64 + 1024**2)


@given(st.integers(64, 4096), st.sampled_from((16, 64, 128)), st.integers(1, 8))
def test_flash1_grows_slower_than_standard_where_sram_exceeds_the_head_dim_squared(
    seqlen: int, head_dim: int, factor: int
) -> None:
    """FlashAttention (2022), below Theorem 2: d^2 is many times smaller than M."""
    problem = AttentionProblem(batch=1, heads=1, seqlen_q=seqlen, seqlen_k=seqlen, head_dim=head_dim)
    sram = head_dim**2 * factor
    assert flash_io_elements(problem, sram) < standard_io_elements(problem)


@given(problems())
def test_no_exact_attention_moves_less_than_inputs_and_output(problem: AttentionProblem) -> None:
    """Proposition 3: with SRAM for all of K, Theorem 2 offers a quarter of that, Theta(N D) too."""
    least = replace(problem, dtype="fp16")
    assert papers.compulsory_hbm_bytes(least).total_bytes == 2 * least_io_elements(least)
    square = replace(least, seqlen_q=problem.seqlen_k, kv_heads=problem.heads)
    assert 4 * flash_io_elements(square, square.seqlen_k * square.head_dim) == least_io_elements(square)


@pytest.mark.parametrize("schedule", FILLS)
@given(problem=problems())
def test_peak_memory_is_what_the_tensors_of_the_launches_take(schedule: str, problem: AttentionProblem) -> None:
    """Scratch from its first write to its last use, score rows padded to 128 B, allocations to 512 B."""
    asked = read_by(find_schedule(schedule), problem)
    assert papers.peak_memory_bytes(asked, schedule) == peak_memory_bytes(asked, schedule, None, H200)


@pytest.mark.parametrize("schedule", FILLS)
@given(problem=problems(), capacity_bytes=st.integers(1, 10**11))
def test_longest_sequence_fits_and_one_token_more_does_not(
    schedule: str, problem: AttentionProblem, capacity_bytes: int
) -> None:
    """Bisection ends on the edge, or on one of the ends of what a problem can be."""

    def peak(seqlen: int) -> int:
        return papers.peak_memory_bytes(replace(problem, seqlen_q=seqlen, seqlen_k=seqlen), schedule)

    longest = papers.longest_seqlen(problem, schedule, capacity_bytes)
    assert longest == 0 or peak(longest) <= capacity_bytes
    assert longest == MAX_SEQLEN or peak(longest + 1) > capacity_bytes


def test_flash2_fits_sequences_hundreds_of_times_longer_than_naive() -> None:
    """O(N) memory against O(N^2): FlashAttention (2022), Theorem 1; one head of D = 64 on 40 GiB."""
    problem = AttentionProblem(batch=1, heads=16, seqlen_q=1, seqlen_k=1, head_dim=64)
    naive, flash2 = (papers.longest_seqlen(problem, name, 40 * 2**30) for name in ("naive", "flash2"))
    assert naive == pytest.approx((40 * 2**30 / (16 * 2 * 2)) ** 0.5, rel=0.01)
    assert flash2 > 100 * naive


def test_schedules_without_a_formula_are_named() -> None:
    """The message lists what there is."""
    with pytest.raises(ValueError, match=r"schedule = 'flash9': must be one of naive, unfused, flash1, flash2"):
        papers.peak_memory_bytes(GPT2, "flash9")


def test_benchmarks_count_half_of_the_operations_under_a_causal_mask() -> None:
    """FlashAttention-2 (2023), section 4.1; the exact triangle holds half a row more."""
    causal = replace(GPT2, causal=True)
    assert papers.benchmark_flop(GPT2) == GPT2.matmul_flop == 2 * papers.benchmark_flop(causal)
    assert papers.benchmark_flop(causal) * 1025 == causal.matmul_flop * 1024


@pytest.mark.parametrize("schedule", ["flash1", "flash2"])
@given(st.sampled_from(BLOCKS), st.sampled_from(BLOCKS), st.integers(1, 3), st.integers(1, 3))
def test_programs_compute_the_operations_of_the_closed_form_where_tiles_divide(
    schedule: str, block_m: int, block_n: int, q_tiles: int, k_tiles: int
) -> None:
    """Products, other FLOP and exponentials, counted from the algorithms' lines and from the tile programs."""
    problem = AttentionProblem(batch=1, heads=2, seqlen_q=q_tiles * block_m, seqlen_k=k_tiles * block_n, head_dim=128)
    program = launches_of(problem, schedule, block_m, block_n)[0].program
    executions = tally(program).executions
    work = [(step.work, executions[step.name]) for step, _ in steps(program.body)]
    assert getattr(papers, f"{schedule}_operations")(problem, block_n) == papers.Operations(
        executed_flop=sum(times * matmul.flop for step_work, times in work for matmul in step_work.matmuls),
        other_flop=sum(times * step_work.fma_flop for step_work, times in work),
        exp_count=sum(times * step_work.exp_count for step_work, times in work),
    )


def test_standard_attention_scales_subtracts_sums_and_divides_every_score() -> None:
    """Four other FLOP and one exponential a score, beside the 4 D of the products."""
    scores = 64 * 16 * 1024**2
    assert papers.standard_operations(GPT2) == papers.Operations(
        executed_flop=256 * scores, other_flop=4 * scores, exp_count=scores
    )


@given(problems(), st.sampled_from(BLOCKS))
def test_flash2_needs_no_more_other_flop_than_flash1(problem: AttentionProblem, block_n: int) -> None:
    """FlashAttention-2 (2023), section 3.1: fewer non-matmul FLOP, the same products."""
    first, second = (getattr(papers, f"flash{version}_operations")(problem, block_n) for version in (1, 2))
    assert second.other_flop <= first.other_flop
    assert second.exp_count <= first.exp_count
    assert second.executed_flop == first.executed_flop == papers.standard_operations(problem).executed_flop


def test_the_page_prints_what_the_formulas_give() -> None:
    """docs/closed-forms.md: its two tables, cell by cell."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in PAGE.read_text("utf-8").splitlines()]
    traffic = {row[0]: row[1:] for row in rows if len(row) == 4}
    for name, moved in (
        ("compulsory", papers.compulsory_hbm_bytes(GPT2)),
        ("standard", papers.standard_hbm_bytes(GPT2)),
        ("unfused", papers.unfused_hbm_bytes(GPT2)),
        *((f"flash1, B_c = {rows}", papers.flash1_hbm_bytes(GPT2, rows)) for rows in (64, 128, 256, 384, 512)),
        *((f"flash2, B_r = {rows}", papers.flash2_hbm_bytes(GPT2, rows, 64)) for rows in (64, 128, 256)),
    ):
        sizes = (moved.read_bytes, moved.write_bytes, moved.total_bytes)
        assert traffic.pop(name) == [f"{size / 1e9:.2f}" for size in sizes]
    memory = {row[0]: row[1:] for row in rows if len(row) == 3}
    for name in FILLS:
        peak = papers.peak_memory_bytes(GPT2, name)
        longest = papers.longest_seqlen(replace(GPT2, batch=1), name, 80 * 2**30)
        assert memory.pop(name) == [f"{peak / 2**20:.0f}", str(longest)]
    # Only headings, rules and formulas are left.
    assert not any(cells[-1].replace(".", "").isdigit() for cells in (*traffic.values(), *memory.values()))
