"""The backward pass as its machine code tells it: what each launch reads, writes and multiplies, counted by hand."""

import sys
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from schedules import contract
from support.outlines import followed
from tilesight.kernels.launch.availability import missing_package
from tilesight.simulator.device.device import load_device
from tilesight.simulator.explore.candidate import Candidate, bound_notes, mark_like_best
from tilesight.simulator.launch.outline import storage_of
from tilesight.simulator.launch.walk import tally
from tilesight.simulator.prediction.prediction import Prediction
from tilesight.simulator.problems.attention_backward import AttentionBackwardProblem
from tilesight.simulator.schedules.config import Config
from tilesight.simulator.schedules.registry import find_schedule
from tilesight.simulator.simulate import simulate

import tilesight

pytestmark = pytest.mark.skipif(missing_package() is not None, reason=str(missing_package()))

H100 = load_device("h100")
SMALL = AttentionBackwardProblem(batch=1, heads=4, kv_heads=2, seqlen_q=256, seqlen_k=384, head_dim=64)
LONG = AttentionBackwardProblem(batch=4, heads=16, seqlen_q=4096, seqlen_k=4096, head_dim=64)
SPLIT, FUSED, FIXED = {"form": "two_kernels"}, {"form": "one_pass"}, {"form": "one_pass", "deterministic": 1}
PIPELINES = (
    ("flash_backward", SPLIT),
    ("flash_backward", FUSED),
    ("flash_backward", FIXED),
    ("naive_backward", {"recomputed": 1}),
)
every_pipeline = pytest.mark.parametrize(("schedule", "options"), PIPELINES, ids=str)


@cache
def predicted(form: str, deterministic: int = 0) -> Prediction:
    """The long problem, on an H100."""
    config = Config(form=form, deterministic=deterministic, block_m=64, block_n=64)
    compile_ = tilesight.compiler(LONG, "h100", workers=1)
    return simulate(LONG, schedule="flash_backward", config=config, device="h100", resources_of=compile_)


@every_pipeline
@pytest.mark.parametrize("problem", [SMALL, replace(SMALL, seqlen_q=200, causal=True)], ids=["exact", "ragged"])
def test_traced_launches_stay_inside_and_read_what_was_written(
    schedule: str, options: dict[str, Any], problem: AttentionBackwardProblem
) -> None:
    """Every access is inside its tensor, and of scratch only what an earlier launch, or the same CTA, wrote."""
    launches = followed(problem, schedule, "h100", **options)
    contract.accesses_stay_inside(launches)
    contract.nothing_is_read_before_it_is_written(launches)


@every_pipeline
def test_the_tables_of_the_docstring_are_true(schedule: str, options: dict[str, Any]) -> None:
    """Bytes that each launch asks for of each tensor are its size times the expression written down for it."""
    launches = followed(SMALL, schedule, "h100", **options)
    sizes = {
        tensor.name: tensor.size_bytes
        for launch in find_schedule(schedule).launches(SMALL, find_schedule(schedule).config(**options), H100)
        for tensor in launch.program.tensors
    }
    block_m, block_n = (int(launches[-2].constants[name]) for name in ("block_m", "block_n"))
    known = {"q_tiles": 256 // block_m, "k_tiles": 384 // block_n, "group": 2}
    tables = contract.tables(sys.modules[find_schedule(schedule).launches.__module__].__doc__ or "")
    for launch in launches:
        exact, table = tally(launch.program), tables[launch.name.replace("ordered_", "").replace("_ordered", "")]
        for tensor in launch.program.tensors:
            asked = tuple(
                moved.get(tensor.name, 0) / sizes[tensor.name] for moved in (exact.load_bytes, exact.store_bytes)
            )
            if tensor.name == "TURN":
                assert asked[1] == (1 if launch.name == "prepare_ordered" else 8 * known["k_tiles"])
                continue
            wanted = tuple(eval(text, {}, known) for text in table[tensor.name])
            assert asked == pytest.approx(wanted, rel=0.01), f"{launch.name} {tensor.name}"


@pytest.mark.parametrize("window", [0, 100])
def test_a_mask_skips_the_tiles_that_nobody_sees(window: int) -> None:
    """Pairs of tiles with a score that is seen, counted one by one: so often come Q, dO and additions to dQ."""
    problem = replace(SMALL, causal=True, window=window)
    launches = followed(problem, "flash_backward", "h100", **FUSED, block_m=64, block_n=64, num_stages=1)
    place, key = np.arange(256)[:, None] + 384 - 256, np.arange(384)[None, :]
    seen = (key <= place) & ((key > place - window) | (window == 0))
    pairs = int(seen.reshape(4, 64, 6, 64).any(axis=(1, 3)).sum())
    exact = tally(launches[1].program)
    tile_bytes = 64 * 64 * 2
    assert exact.load_bytes["Q"] == exact.load_bytes["dO"] == 4 * pairs * tile_bytes
    assert exact.store_bytes["dQ_sum"] == 2 * 4 * pairs * tile_bytes


@pytest.mark.parametrize(
    ("form", "problem", "options"),
    [
        ("one_pass", {"kv_heads": 4}, {"block_m": 64, "block_n": 128, "num_stages": 1}),
        ("one_pass", {"kv_heads": 2}, {"block_m": 128, "block_n": 64, "num_warps": 8, "num_stages": 2}),
        ("one_pass", {"kv_heads": 1, "seqlen_k": 1500}, {"block_m": 64, "block_n": 64, "num_stages": 1}),
        ("two_kernels", {"kv_heads": 4, "window": 500, "head_dim": 64}, {"block_m": 64, "block_n": 64}),
        ("two_kernels", {"kv_heads": 2, "window": 100}, {"block_m": 128, "block_n": 128, "num_warps": 8}),
    ],
    ids=["last tile", "of each head", "longer than the one followed", "window", "window of two tiles"],
)
def test_ragged_tiles_of_a_mask_are_followed_to_the_row(
    form: str, problem: dict[str, int], options: dict[str, int]
) -> None:
    """Of 777 queries each pair of tiles that sees a score, counted one by one, moves its rows and no others."""
    ragged = replace(SMALL, seqlen_q=777, seqlen_k=777, head_dim=128, causal=True)
    ragged = replace(ragged, **problem)  # type: ignore[arg-type]
    block_m, block_n, keys = options["block_m"], options["block_n"], ragged.seqlen_k
    place, key = np.arange(777)[:, None] + keys - 777, np.arange(keys)[None, :]
    seen = (key <= place) & ((key > place - ragged.window) | (ragged.window == 0))
    pairs = np.zeros((-(-777 // block_m) * block_m, -(-keys // block_n) * block_n), dtype=bool)
    pairs[:777, :keys] = seen
    tiles = pairs.reshape(-(-777 // block_m), block_m, -1, block_n).any(axis=(1, 3)).sum(axis=1)
    moved = 4 * int(tiles @ np.minimum(block_m, 777 - block_m * np.arange(len(tiles)))) * ragged.head_dim
    exact = tally(followed(ragged, "flash_backward", "h100", form=form, **options)[1].program)
    assert exact.load_bytes["Q"] == exact.load_bytes["dO"] == 2 * moved
    if form == "one_pass":
        assert exact.store_bytes["dQ_sum"] == 4 * moved


def test_causal_tiles_of_grouped_heads_are_followed_to_the_byte() -> None:
    """Of 4 heads that share keys: 16 tiles see 16, 15, ... query tiles each; no piece is left out."""
    problem = replace(SMALL, batch=4, heads=32, kv_heads=8, seqlen_q=1024, seqlen_k=1024, causal=True)
    exact = tally(followed(problem, "flash_backward", "h100", **SPLIT, block_m=64, block_n=64)[1].program)
    assert exact.load_bytes["Q"] == exact.load_bytes["dO"] == 4 * 32 * (16 * 17 // 2) * 64 * 64 * 2


@pytest.mark.parametrize(("form", "products"), [("two_kernels", 7), ("one_pass", 5)])
def test_a_form_executes_its_products_and_is_counted_as_five(form: str, products: int) -> None:
    """Of tiles that cover the problem exactly; useful are five, 2.5 times the forward pass, in total."""
    total = predicted(form).total
    assert total.executed_flop == products * 2 * 64 * 4096 * 4096 * 64
    assert total.matmul_flop == LONG.matmul_flop == 5 * 2 * 64 * 4096 * 4096 * 64


@pytest.mark.parametrize(("form", "least", "units"), [("two_kernels", 24, 26), ("one_pass", 30, 34)])
def test_device_memory_moves_the_bytes_of_the_closed_form(form: str, least: int, units: int) -> None:
    """In bytes for each element of Q, beside LSE and delta; less where what a launch wrote is still in L2."""
    moved_bytes, elements = predicted(form).total.hbm_bytes, 64 * 4096 * 64
    assert least * elements <= moved_bytes <= units * elements + 6 * 64 * 4096 * 4
    assert moved_bytes >= LONG.compulsory.total_bytes


def test_no_form_beats_the_device_and_a_fixed_order_is_no_faster() -> None:
    """Time is above the roofline of five products; waits come on top of a time that is no shorter, as a note says."""
    times = {form: predicted(form).time_s for form in ("two_kernels", "one_pass")}
    assert min(times.values()) > LONG.matmul_flop / 989.4e12
    fixed = predicted("one_pass", 1)
    assert fixed.time_s >= times["one_pass"]
    assert any("waits for other CTAs" in note and "lower bound" in note for note in fixed.notes)
    assert fixed.lower_bound and fixed.summary.startswith(">= ")
    assert not predicted("one_pass").lower_bound
    (ranked,) = mark_like_best([Candidate(schedule=fixed.schedule, config=fixed.config, options=(), prediction=fixed)])
    assert ranked.band_s is None and not ranked.like_best
    assert bound_notes([ranked]) == ("1 of 1 times are lower bounds: CTAs wait for each other, which is not predicted",)


def test_memory_holds_what_autograd_keeps() -> None:
    """Q, K, V, O, dO, LSE, three gradients and delta; dQ's sum in fp32 beside them in one pass."""
    matrix, rows = 64 * 4096 * 64 * 2, 64 * 4096 * 4
    assert predicted("two_kernels").peak_memory_bytes == 8 * matrix + 2 * rows
    assert predicted("one_pass").peak_memory_bytes == 10 * matrix + 2 * rows


def test_tensors_of_the_backward_pass_have_numbers_of_their_own() -> None:
    """Names decide them, so names that share one would share memory."""
    launches = [
        launch
        for schedule, options in PIPELINES
        for launch in find_schedule(schedule).launches(SMALL, find_schedule(schedule).config(**options), H100)
    ]
    names = {tensor.name for launch in launches for tensor in launch.program.tensors}
    numbers = {storage_of(tensor).number for launch in launches for tensor in launch.program.tensors}
    assert len(names) == len(numbers) == 15
