"""Points: keys that tell them apart, sets that cover what they must, patterns and pins."""

import json
from collections import Counter
from dataclasses import replace
from math import inf
from typing import Any

import pytest
from support.made_up_measurements import H200, PROBLEM, a_point, some_points
from tilesight.simulator.problems.attention import AttentionProblem
from tilesight.simulator.schedules.registry import all_schedules, find_schedule
from tilesight.validate.points.point import Point, able, matching, pinned, runnable_config, runnable_schedules
from tilesight.validate.points.sets import (
    MEMORY_SHARE,
    PASS_S,
    default_points,
    full_points,
    held_bytes,
    measurable_pass_s,
)

from tilesight.cli.output import BadInput
from tilesight.cli.points import PointsOptions

ATTENTION = [name for name in runnable_schedules() if find_schedule(name).problem is AttentionProblem]


@pytest.fixture(scope="module")
def full() -> list[Point]:
    return full_points(ATTENTION, H200)


def test_a_key_names_everything() -> None:
    """Points that differ in any field have different keys."""
    changed = [replace(PROBLEM, **change) for change in CHANGES]
    points = [a_point(), a_point(l2="warm"), a_point("naive"), a_point(block_m=64)]
    points += [a_point(problem=problem) for problem in changed]
    assert len({point.key for point in points}) == len(points)
    assert a_point("naive").key == (
        "naive/B1-H2-G2-M256-N256-D64-fp16/block_m=128,block_n=64,num_warps=4,num_stages=3/cold"
    )


CHANGES: list[dict[str, int | str | bool | float]] = [
    {"batch": 2},
    {"heads": 4},
    {"kv_heads": 1},
    {"seqlen_q": 128},
    {"seqlen_k": 512},
    {"head_dim": 128},
    {"dtype": "bf16"},
    {"causal": True},
    {"dropout": 0.1},
]


def test_a_point_survives_json(full: list[Point]) -> None:
    """All of the long set."""
    for point in full:
        assert Point.from_dict(json.loads(json.dumps(point.to_dict()))) == point


def test_configurations_of_a_problem_fall_into_one_half() -> None:
    """So that none is judged on a shape that constants were fitted on."""
    halves = {a_point(schedule, block_n=block_n).half for schedule in ATTENTION for block_n in (64, 128)}
    assert len(halves) == 1


def test_the_short_set_covers_every_schedule() -> None:
    """Once each point, all of them short enough to measure; 60 at most."""
    points = default_points(ATTENTION)
    assert {point.schedule for point in points} == set(ATTENTION)
    assert len(points) == len(set(points)) <= 60
    assert None not in [measurable_pass_s(point, H200) for point in points]


def test_the_long_set_covers_what_it_must(full: list[Point]) -> None:
    """300 points and more, over all schedules, lengths, heads, masks, orders, both halves, good and bad blocks."""
    assert len(full) == len(set(full)) >= 300
    assert {point.schedule for point in full} == set(ATTENTION)
    full = [point for point in full if find_schedule(point.schedule).coverage.shapes == "prefill"]
    problems = [point.problem for point in full]
    heads = {problem.batch * problem.heads for problem in problems}
    assert (min(heads), max(heads)) == (1, 512)
    lengths = {problem.seqlen_k for problem in problems}
    assert (min(lengths), max(lengths)) == (512, 131072)
    assert {problem.head_dim for problem in problems} == {64, 128}
    assert {problem.causal for problem in problems} == {True, False}
    assert any(problem.head_group > 1 for problem in problems)
    assert any(problem.seqlen_q < problem.seqlen_k for problem in problems)
    assert any(problem.seqlen_q > problem.seqlen_k for problem in problems)
    key_bytes = [2 * problem.seqlen_k * problem.head_dim * problem.element_bytes for problem in problems]
    assert min(key_bytes) < H200.l2_bytes / 100
    assert max(key_bytes) > H200.l2_bytes
    orders = Counter(point.config.cta_order for point in full if "cta_order" in point.config_dict)
    assert min(orders[name] for name in ("m-fast", "m-reversed", "head-fast", "longest-first")) >= 10
    assert {point.config.block_m for point in full} >= {32, 64, 128, 256}
    halves = Counter(point.half for point in full)
    assert min(halves["fitting"], halves["test"]) >= 100


def test_the_long_set_of_decoding_covers_caches_of_all_kinds() -> None:
    """Whole, ragged, in pages, narrow; groups and windows; 1 to 16 splits, one sequence to 100."""
    points = full_points(["flash_decode"], H200)
    problems = [point.problem for point in points]
    assert all(problem.head_group * problem.seqlen_q <= 128 for problem in problems)
    assert {problem.kv_dtype for problem in problems} == {"", "fp8", "i8"}
    assert {problem.page for problem in problems} >= {0, 16, 64}
    assert {bool(problem.lengths) for problem in problems} == {bool(problem.window) for problem in problems}
    assert {point.config.splits for point in points} >= {1, 2, 4, 8, 16}
    assert (min(problem.batch for problem in problems), max(problem.batch for problem in problems)) == (1, 128)


def test_the_long_set_of_chunks_covers_caches_of_all_kinds() -> None:
    """More rows than a tile of decoding has, over whole, ragged, paged and narrow caches; windows, caps and sinks."""
    points = full_points(["chunked_flash"], H200)
    problems = [point.problem for point in points]
    assert all(problem.head_group * problem.seqlen_q > 128 for problem in problems)
    assert {problem.kv_dtype for problem in problems} == {"", "fp8", "i8"}
    assert {problem.page for problem in problems} == {0, 64, 256}
    for name in ("lengths", "window", "softcap", "sinks"):
        assert {bool(getattr(problem, name)) for problem in problems} == {True, False}
    assert {point.config.splits for point in points} == {1, 2, 4}


def test_the_long_set_of_masks_covers_every_kind() -> None:
    """Prefixes, documents, blocks, bands, first keys; values narrower than keys; caps and sinks."""
    problems = [point.problem for point in full_points(["masked_flash"], H200)]
    kinds = {problem.mask.partition(":")[0] for problem in problems}
    assert kinds == {"", "prefix", "documents", "blocks", "band", "first"}
    for name in ("head_dim_v", "window", "softcap", "sinks"):
        assert {bool(getattr(problem, name)) for problem in problems} == {True, False}


def test_the_long_set_of_latents_covers_parts_of_heads_and_caches_of_all_kinds() -> None:
    """16 to 128 heads, one query or a few, whole, ragged or in pages."""
    problems = [point.problem for point in full_points(["mla_decode"], H200)]
    assert {problem.KIND for problem in problems} == {"latent attention"}
    assert {problem.heads for problem in problems} == {16, 32, 64, 128}
    assert {problem.page for problem in problems} == {0, 64, 256}
    assert {bool(problem.lengths) for problem in problems} == {True, False}
    assert len({problem.seqlen_q for problem in problems}) == 3


def test_points_of_every_schedule_come_back_from_their_json() -> None:
    """What a measuring process reads is what was asked for: fields that follow from others too."""
    for schedule in runnable_schedules():
        for point in full_points([schedule], H200, drawn_points=2):
            assert Point.from_dict(json.loads(json.dumps(point.to_dict()))) == point


def test_every_schedule_with_kernels_is_able_on_a_gpu_that_has_what_it_needs() -> None:
    """Each is asked about a shape of its own list, not about one that it is not made for."""
    assert able(runnable_schedules(), H200) == (runnable_schedules(), {})


def test_the_long_set_of_gradients_covers_both_forms() -> None:
    """A kernel for every product, two fused ones, one pass in any order and in a fixed one."""
    points = full_points(["flash_backward", "naive_backward"], H200)
    assert all(point.problem.KIND == "attention backward" for point in points)
    forms = {(point.config.form, point.config.deterministic) for point in points if point.schedule == "flash_backward"}
    assert forms == {("two_kernels", 0), ("one_pass", 0), ("one_pass", 1)}
    assert {point.config.recomputed for point in points if point.schedule == "naive_backward"} == {0, 1}


def test_the_long_set_holds_the_short_one(full: list[Point]) -> None:
    """So that a short run's results can be continued."""
    assert set(default_points(ATTENTION)) <= set(full)


def test_the_long_set_has_groups_that_can_be_ranked(full: list[Point]) -> None:
    """Shapes with ten configurations or more, of every schedule."""
    groups = Counter((point.schedule, point.shape) for point in full)
    assert {schedule for (schedule, _), count in groups.items() if count >= 10} == set(ATTENTION)


def test_every_point_of_the_long_set_can_be_measured(full: list[Point]) -> None:
    """Tensors fit device memory together, and a run is short."""
    assert max(held_bytes(point.launches(H200)) for point in full) <= MEMORY_SHARE * H200.hbm_bytes
    assert max(measurable_pass_s(point, H200) or inf for point in full) <= PASS_S


def test_a_seed_names_a_set(full: list[Point]) -> None:
    """The same seed gives the same points in the same order, another others."""
    assert full_points(ATTENTION, H200, 0) == full
    assert full_points(ATTENTION, H200, 1) != full


def test_schedules_with_kernels_are_found_without_importing_them() -> None:
    """Each is a schedule of the registry."""
    assert set(runnable_schedules()) <= set(all_schedules())
    assert {"flash1", "flash2", "naive", "unfused"} <= set(runnable_schedules())


def test_warps_split_rows_where_a_kernel_runs() -> None:
    """The default of flash1 splits keys, which no Triton kernel does."""
    assert find_schedule("flash1").default.warp_split == "k"
    assert runnable_config("flash1").warp_split == "q"


def test_pinning_sets_an_option_and_drops_repeats() -> None:
    """Schedules that do not take it stay as they are."""
    points = [a_point(), a_point(cta_order="head-fast"), a_point("naive")]
    assert pinned(points, {"cta_order": "longest-first"}) == [a_point(cta_order="longest-first"), a_point("naive")]


def test_pinning_what_nobody_takes_is_refused() -> None:
    """The text names the option and what can be pinned."""
    with pytest.raises(ValueError, match=r"cta_order: none of these schedules takes it; they take block_m, "):
        pinned([a_point("naive")], {"cta_order": "head-fast"})


def test_patterns_choose_by_key() -> None:
    """All of any pattern; everything where there is none."""
    points = [*some_points(3), a_point("naive")]
    assert matching(points, []) == points
    assert matching(points, ["naive/*", "*/B2-*"]) == [points[1], points[3]]


def test_a_pattern_that_matches_nothing_is_refused() -> None:
    """The text shows what keys look like."""
    with pytest.raises(ValueError, match=r"'flash9\*': matches none of 2 points; keys are like 'flash2/B1-H2"):
        matching(some_points(2), ["flash9*"])


def asked(*schedules: str, **chosen: Any) -> list[Point]:
    """The points of a command line. Args: chosen: other options."""
    return PointsOptions(schedule=list(schedules) or None, **chosen).points(H200)[0]


def test_a_pass_chooses_its_schedules() -> None:
    """Of the forward pass where nobody names one; each once, with problems of its own kind."""
    backward = asked(pass_="backward")
    assert {point.schedule for point in backward} == {"flash_backward", "naive_backward"}
    assert {point.problem.KIND for point in asked()} == {"attention"}
    assert {point.problem.KIND for point in asked(pass_="both")} == {"attention", "attention backward"}
    (step,) = asked("flash_decode", problem=["seqlen_q=1", "seqlen_k=4096", "page=64", "page_order=shared:1024"])
    assert (step.problem.page, step.problem.page_order) == (64, "shared:1024")
    assert {point.problem.KIND for point in asked("flash_backward", problem=["seqlen=512"])} == {"attention backward"}


def test_so_many_points_are_drawn_as_are_asked_for() -> None:
    """Beside the short list; none is refused."""
    short = asked("flash_decode")
    assert len(asked("flash_decode", full=True, draw=25)) == len(short) + 25
    with pytest.raises(BadInput, match="--draw = 0: must be an integer of 1 or more"):
        PointsOptions(draw=0)


def test_a_problem_has_the_fields_of_what_is_computed() -> None:
    """Latents have a width of their own, and no KV heads: nothing that is asked for is dropped."""
    (step,) = asked("mla_decode", problem=["seqlen_q=1", "seqlen_k=4096", "heads=16", "latent_dim=256"])
    assert (step.problem.KIND, step.problem.head_dim) == ("latent attention", 320)
    with pytest.raises(BadInput, match="--problem kv_heads=8: key 'kv_heads' is unknown"):
        asked("mla_decode", problem=["seqlen_q=1", "kv_heads=8"])


def test_a_schedule_without_kernels_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """And those that are measured are listed."""
    monkeypatch.setattr("tilesight.validate.points.point.runnable_schedules", lambda: ["flash1", "flash2"])
    with pytest.raises(BadInput, match="schedule 'naive': is not measured yet; those that are: flash1, flash2"):
        asked("naive")
