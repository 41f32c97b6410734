"""Ranking a configuration space: order, Pareto marks, what does not fit, and independence of the worker count."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.made_up import A_PROBLEM, SOME_TRAFFIC, a_launch, a_prediction
from support.strategies import TOY
from tilesight.simulator.display.render import to_json
from tilesight.simulator.explore.baseline import FINALISTS
from tilesight.simulator.explore.candidate import (
    ERROR_FRACTIONS,
    Candidate,
    broken_notes,
    mark_like_best,
    mark_pareto,
)
from tilesight.simulator.explore.explore import explore
from tilesight.simulator.explore.fastest import RETRIED_BYTES
from tilesight.simulator.explore.lengths import compare
from tilesight.simulator.explore.trial import rank_of, refused
from tilesight.simulator.launch.program import Code, Launch, Resources
from tilesight.simulator.problems.attention import AttentionProblem
from tilesight.simulator.refusal import Refusal
from tilesight.simulator.report.explore import explore_text
from tilesight.simulator.schedules.registry import all_schedules, find_schedule
from tilesight.simulator.simulate import simulate

SMALL = AttentionProblem(batch=1, heads=2, seqlen_q=200, seqlen_k=200, head_dim=32)
SPACE = {"block_m": (32, 64), "block_n": (32, 64), "num_warps": 4, "num_stages": 2}


def _candidate(time_s: float, fill: int, hbm: int) -> Candidate:
    traffic = replace(SOME_TRAFFIC, time_s=time_s, smem_fill_bytes=fill, hbm_read_bytes=hbm, hbm_write_bytes=0)
    prediction = a_prediction(a_launch(traffic=traffic))
    return Candidate(schedule="flash2", config=prediction.config, options=("block_m",), prediction=prediction)


costs = st.tuples(st.integers(1, 5).map(float), st.integers(1, 5), st.integers(1, 5))


@given(st.lists(costs, max_size=12))
def test_a_mark_means_that_no_other_is_as_good_in_all_and_better_in_one(points: list[tuple[float, int, int]]) -> None:
    """Against the definition, spelt out."""
    marked = mark_pareto([_candidate(*point) for point in points])
    for item, figures in zip(marked, points, strict=True):
        beaten = any(
            all(a <= b for a, b in zip(other, figures, strict=True))
            and any(a < b for a, b in zip(other, figures, strict=True))
            for other in points
        )
        assert item.pareto is not beaten


def test_what_does_not_fit_neither_has_nor_takes_a_mark() -> None:
    """Nobody can run it."""
    good, better = _candidate(2.0, 2, 2), replace(_candidate(1.0, 1, 1), reason="shared memory: too much")
    assert [item.pareto for item in mark_pareto([good, better])] == [True, False]


def test_the_fastest_comes_first() -> None:
    """Among those that fit."""
    exploration = explore(SMALL, device=TOY, **SPACE)
    times = [item.costs[0] for item in exploration.ranked]
    assert len(times) == 4
    assert all(a <= b for a, b in pairwise(times))


def test_pinned_options_keep_their_values_and_the_rest_takes_all_of_its_own() -> None:
    """One value or several."""
    exploration = explore(SMALL, device=TOY, block_m=64, block_n=(32, 64))
    space = find_schedule("flash2").space
    assert {item.config.block_m for item in exploration.candidates} == {64}
    assert {item.config.block_n for item in exploration.candidates} == {32, 64}
    assert {item.config.num_stages for item in exploration.candidates} == set(space["num_stages"])
    assert len(exploration.candidates) == 2 * len(space["num_warps"]) * len(space["num_stages"])


def test_no_configuration_comes_twice() -> None:
    """Over all schedules."""
    exploration = explore(SMALL, device=TOY, schedule="all", **SPACE)
    seen = [(item.schedule, tuple(item.config_dict().items())) for item in exploration.candidates]
    assert len(set(seen)) == len(seen)


def test_too_much_shared_memory_is_an_answer() -> None:
    """With a reason, and null for every figure."""
    exploration = explore(SMALL, device=TOY, smem_bytes=TOY.smem_per_cta_bytes + 1, **SPACE)
    assert exploration.ranked == ()
    assert {item.reason.split(":")[0] for item in exploration.candidates} == {"shared memory"}
    assert all(item.to_dict()["time_s"] is None for item in exploration.candidates)


def test_a_problem_larger_than_the_device_is_an_answer_with_a_time() -> None:
    """What it would take, if only it fitted."""
    small_memory = replace(TOY, hbm_bytes=1 << 28)
    big = replace(SMALL, batch=64, heads=32, seqlen_q=2048, seqlen_k=512)
    exploration = explore(
        big, device=small_memory, block_m=128, block_n=64, num_warps=4, num_stages=2, with_baseline=False
    )
    (only,) = exploration.candidates
    assert not only.fits
    assert only.reason.startswith("device memory: needs")
    assert only.prediction is not None and only.prediction.time_s > 0


def test_an_option_is_for_those_schedules_that_take_it() -> None:
    """The others are explored as they are."""
    exploration = explore(SMALL, device=TOY, schedule=("naive", "flash2"), kv_order="sawtooth", **SPACE)
    assert {item.config.kv_order for item in exploration.candidates if item.schedule == "flash2"} == {"sawtooth"}
    assert any(item.schedule == "naive" for item in exploration.candidates)


@pytest.mark.parametrize("schedules", ["naive", ("naive", "unfused")])
def test_an_option_that_no_schedule_takes_is_an_error(schedules: str | tuple[str, ...]) -> None:
    """It would have no effect, and the user would not know."""
    with pytest.raises(ValueError, match=r"kv_order: .*takes? it; .*block_m"):
        explore(SMALL, device=TOY, schedule=schedules, kv_order="sawtooth")


def test_an_unknown_schedule_is_an_error() -> None:
    """The text lists those that exist."""
    with pytest.raises(ValueError, match=r"'flash9' is unknown: did you mean flash2"):
        explore(SMALL, device=TOY, schedule="flash9")


def test_all_means_every_schedule_that_can_do_the_problem() -> None:
    """The others are named with the reason; what does not compute attention is not meant."""
    exploration = explore(SMALL, device=TOY, schedule="all", **SPACE)
    attention = {name for name, item in all_schedules().items() if item.problem is AttentionProblem}
    assert {item.schedule for item in exploration.candidates} | set(exploration.left_out) == attention


def test_only_like_is_ranked() -> None:
    """A softmax alone would beat every attention; by itself it has no attention for a baseline."""
    with pytest.raises(ValueError, match=r"flash2 computes attention; online_softmax computes softmax; only like"):
        explore(SMALL, device=TOY, schedule=("flash2", "online_softmax"), **SPACE)
    alone = explore(SMALL, device=TOY, schedule="online_softmax", block_n=256, num_warps=4)
    assert alone.baseline is None
    assert {item.config.softmax_variant for item in alone.ranked} == {"safe", "online"}


def test_naive_is_the_baseline() -> None:
    """So that every report can say what tiling gains."""
    exploration = explore(SMALL, device=TOY, **SPACE)
    assert exploration.baseline is not None and exploration.baseline.schedule == "naive"


def test_the_baseline_is_tuned_as_what_it_is_held_against() -> None:
    """The fastest of all its configurations where they are tried at the problem itself; and what `compare` finds."""
    problem = AttentionProblem(batch=8, heads=16, seqlen_q=256, seqlen_k=256, head_dim=64)
    baseline = explore(problem, **SPACE).baseline
    every = explore(problem, schedule="naive").ranked
    default = simulate(problem, schedule="naive")
    assert baseline is not None and baseline.time_s == every[0].costs[0] < default.time_s
    (point,) = compare(problem, [256], schedule="naive").points
    assert point.time_s == baseline.time_s


def test_a_large_baseline_is_no_slower_than_its_default() -> None:
    """Where all are tried on a short problem alone, whose best are slow at this length."""
    problem = AttentionProblem(batch=1, heads=64, seqlen_q=2048, seqlen_k=2048, head_dim=64)
    baseline = explore(problem, block_m=64, block_n=128, num_warps=4, num_stages=2).baseline
    default = simulate(problem, schedule="naive")
    assert default.peak_memory_bytes > RETRIED_BYTES
    assert baseline is not None and baseline.time_s <= default.time_s


def test_progress_counts_up_to_the_number_of_configurations() -> None:
    """In order; those of naive attention, which is only held against them, do not count."""
    seen: list[tuple[int, int]] = []
    explore(SMALL, device=TOY, progress=lambda done, total: seen.append((done, total)), **SPACE)
    assert [count for count in seen if count[0]] == [(done, 4) for done in range(1, 5)]


def test_the_result_does_not_depend_on_the_worker_count() -> None:
    """Bit for bit, as JSON."""
    alone = explore(SMALL, device=TOY, workers=1, **SPACE)
    together = explore(SMALL, device=TOY, workers=2, **SPACE)
    assert to_json(together.to_dict()) == to_json(alone.to_dict())


def test_every_object_has_the_same_keys() -> None:
    """Whether it fits or not, so that tables can be built from them."""
    exploration = explore(SMALL, device=TOY, **SPACE)
    other = explore(SMALL, device=TOY, smem_bytes=TOY.smem_per_cta_bytes + 1, **SPACE)
    assert set(exploration.candidates[0].to_dict()) == set(other.candidates[0].to_dict())


def test_top_shortens_the_list_and_nothing_else() -> None:
    """The best come first, so the cut is at the end."""
    exploration = explore(SMALL, device=TOY, **SPACE)
    whole, short = exploration.to_dict(), exploration.to_dict(top=2)
    assert short["configs"] == whole["configs"][:2]  # type: ignore[index]
    assert {key: value for key, value in short.items() if key != "configs"} == {
        key: value for key, value in whole.items() if key != "configs"
    }


def test_the_problem_is_told_back() -> None:
    """A result says what it is a result of."""
    assert explore(A_PROBLEM, device=TOY, **SPACE).to_dict()["problem"]["seqlen_k"] == 1024  # type: ignore[index]


def _compiled(pipelines: Sequence[tuple[Launch, ...]]) -> list[tuple[Resources, ...] | Refusal]:
    """A compiler that refuses the narrow tiles of flash2, and gives every other kernel 77 registers."""
    given = Resources(registers_per_thread=77, smem_bytes_per_cta=2048, spilled_bytes_per_thread=8, origin="compiled")
    refusal = Refusal("does not fit", "compiler: refuses")
    return [refusal if chain[0].constants.get("block_n") == 32 else tuple(given for _ in chain) for chain in pipelines]


def test_resources_of_replaces_the_estimates() -> None:
    """Of all configurations and of the baseline; what has none is a row with its reason, and the search goes on."""
    exploration = explore(SMALL, device=TOY, resources_of=_compiled, **SPACE)
    assert {item.config.block_n for item in exploration.ranked} == {64}
    assert len(exploration.ranked) == 2
    for item in exploration.ranked:
        assert (item.to_dict()["registers_per_thread"], item.to_dict()["resources"]) == (77, "compiled")
        assert item.to_dict()["spilled_bytes_per_thread"] == 8
    refused = [item for item in exploration.candidates if not item.fits]
    assert {(item.config.block_n, item.reason) for item in refused} == {(32, "compiler: refuses")}
    assert exploration.baseline is not None
    assert {launch.resources for launch in exploration.baseline.launches} == {"compiled"}


def test_resources_of_is_asked_once() -> None:
    """With every configuration and those of the baseline that are likely, in this process, however many simulate."""
    asked: list[int] = []

    def resources_of(pipelines: Sequence[tuple[Launch, ...]]) -> list[tuple[Resources, ...] | Refusal]:
        asked.append(len(pipelines))
        return _compiled(pipelines)

    together = explore(SMALL, device=TOY, resources_of=resources_of, workers=2, **SPACE)
    assert asked == [4 + FINALISTS]
    alone = explore(SMALL, device=TOY, resources_of=_compiled, workers=1, **SPACE)
    assert to_json(together.to_dict()) == to_json(alone.to_dict())


def test_what_the_device_cannot_do_is_not_compiled() -> None:
    """It is an answer already: the compiler is asked for nothing, and every row has its reason."""
    asked: list[int] = []

    def resources_of(pipelines: Sequence[tuple[Launch, ...]]) -> list[tuple[Resources, ...] | Refusal]:
        asked.append(len(pipelines))
        return _compiled(pipelines)

    exploration = explore(replace(SMALL, dtype="fp8"), device=TOY, resources_of=resources_of, **SPACE)
    assert asked == [0]
    assert {item.reason for item in exploration.candidates} == {f"dtype = 'fp8': {TOY.name} has no mma for it"}


def _timed(time_s: float, cost: str) -> Candidate:
    """A candidate with that time and that kind of cost."""
    prediction = a_prediction(replace(a_launch(time_s=time_s), cost=cost))
    return Candidate(schedule="flash2", config=prediction.config, options=("block_m",), prediction=prediction)


def test_a_band_is_as_wide_as_the_error_of_the_cost() -> None:
    """An estimate would look as sure as a simulation."""
    for kind, cost in (("compiled", "compiled"), ("tiles", "tiles: odd code")):
        low, high = _timed(2.0, cost).band_s or (0.0, 0.0)
        assert (low, high) == pytest.approx((2 * (1 - ERROR_FRACTIONS[kind]), 2 * (1 + ERROR_FRACTIONS[kind])))


def test_an_estimate_from_tiles_has_the_wider_band() -> None:
    """It would look as sure as machine code, or surer without any."""
    tiles, compiled = (_timed(2.0, cost).band_s for cost in ("tiles", "compiled"))
    assert tiles and compiled
    assert tiles[0] < compiled[0] < 2.0 < compiled[1] < tiles[1]


def test_launches_widen_a_band_by_their_share_of_the_time() -> None:
    """A short launch that is badly known would spoil, or a long one not touch, what is known of the whole."""
    launches = (replace(a_launch(time_s=3.0), cost="compiled"), replace(a_launch(time_s=1.0), cost="tiles: odd code"))
    candidate = replace(_timed(1.0, "compiled"), prediction=a_prediction(*launches))
    low, _ = candidate.band_s or (0.0, 0.0)
    assert 4.0 - low == pytest.approx(3 * ERROR_FRACTIONS["compiled"] + ERROR_FRACTIONS["tiles"])


def test_those_are_like_the_best_whose_bands_meet_its_own() -> None:
    """The user would measure too few, or too many."""
    error = ERROR_FRACTIONS["compiled"]
    meets, misses = (1 + error) / (1 - error) * 0.999, (1 + error) / (1 - error) * 1.001
    marked = mark_like_best([_timed(time_s, "compiled") for time_s in (1.0, meets, misses)])
    assert [item.like_best for item in marked] == [True, True, False]


def test_an_estimate_from_tiles_stands_behind_machine_code_however_fast_it_is() -> None:
    """It would be called the fastest for being too fast; among themselves, estimates go by time, as code does."""
    times = [(1.0, "tiles: odd code"), (3.0, "compiled"), (0.5, "tiles"), (2.0, "compiled")]
    ranked = sorted((_timed(time_s, cost) for time_s, cost in times), key=rank_of)
    assert [item.prediction.time_s for item in ranked if item.prediction] == [2.0, 3.0, 0.5, 1.0]
    assert [item.like_best for item in mark_like_best(ranked)] == [True, False, True, True]


def test_what_does_not_fit_is_not_like_the_best() -> None:
    """Nobody can measure it."""
    misfit = replace(_timed(0.5, "compiled"), reason="shared memory: too much")
    assert [item.like_best for item in mark_like_best([_timed(1.0, "compiled"), misfit])] == [True, False]


def test_code_of_no_use_is_counted_in_one_note() -> None:
    """A fallback to the estimate would be silent, or fill the page."""

    def resources_of(pipelines: Sequence[tuple[Launch, ...]]) -> list[tuple[Resources, ...]]:
        code = Code(sass="no listing", constants={})
        return [tuple(replace(launch.resources, code=code) for launch in launches) for launches in pipelines]

    exploration = explore(SMALL, device=TOY, resources_of=resources_of, **SPACE)
    assert exploration.notes == (
        "4 of 4 configurations: cycles estimated from tile sizes, not from machine code:"
        " SASS text holds 0 functions: must be 1",
    )


def test_notes_speak_of_rows_that_are_shown() -> None:
    """A note on the third row is left out above it; one on all stays."""
    exploration = replace(explore(SMALL, device=TOY, **SPACE), notes=("all", "third"), noted_rows={"third": 3})
    assert exploration.notes_on(2) == ["all"]
    assert exploration.notes_on(3) == ["all", "third"]
    assert "Note: third" not in explore_text(exploration, top=2)
    assert "Note: third" in explore_text(exploration, top=3)
    assert exploration.to_dict()["notes"] == ["all", "third"]


def test_what_became_of_a_candidate_is_told_by_kind_not_by_wording() -> None:
    """A broken law is noted and lack of time is no misfit, whatever the reasons say."""
    item = replace(_candidate(1.0, 1, 1), prediction=None)
    late = refused(item, Refusal("takes too long", "tomorrow"))
    broken = refused(item, Refusal("impossible", "more than there is"))
    misfit = refused(item, Refusal("does not fit", "no answer within internal: shared memory"))
    assert [candidate.is_unanswered for candidate in (late, broken, misfit)] == [True, False, False]
    assert late.summary == "tomorrow"
    assert misfit.summary == "does not fit: no answer within internal: shared memory"
    assert broken_notes([misfit, late, broken]) == ("1 of 3 configurations left out: more than there is",)
    assert broken_notes([misfit, late]) == ()
