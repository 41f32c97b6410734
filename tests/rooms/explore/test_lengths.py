"""Schedules over sequence lengths: quadratic against linear, and where memory runs out."""

from dataclasses import replace

import pytest
from support.made_up import a_launch, a_prediction
from support.strategies import TOY
from tilesight.simulator.display.render import to_json
from tilesight.simulator.explore.explore import explore
from tilesight.simulator.explore.fastest import survey_problem
from tilesight.simulator.explore.lengths import compare, memory_limit
from tilesight.simulator.problems.attention import MAX_SEQLEN, AttentionProblem
from tilesight.simulator.report.lengths import compare_dict, compare_rows, compare_text
from tilesight.simulator.schedules.registry import find_schedule
from tilesight.simulator.simulate import peak_memory_bytes

SMALL = AttentionProblem(batch=1, heads=2, seqlen_q=64, seqlen_k=64, head_dim=32)


def test_there_is_a_point_for_every_schedule_and_length() -> None:
    """Sorted by length, repeats left out."""
    scaling = compare(SMALL, (256, 128, 256), schedule=("flash2", "naive"), device=TOY)
    assert [(point.schedule, point.seqlen) for point in scaling.points] == [
        ("flash2", 128),
        ("flash2", 256),
        ("naive", 128),
        ("naive", 256),
    ]


def test_speedup_is_over_naive_at_the_same_length() -> None:
    """Naive itself is 1."""
    scaling = compare(SMALL, (128, 256), schedule=("flash2", "naive"), device=TOY)
    by_place = {(point.schedule, point.seqlen): point for point in scaling.points}
    fast, slow = by_place["flash2", 256].prediction, by_place["naive", 256].prediction
    assert fast is not None and slow is not None
    assert scaling.speedup(by_place["flash2", 256]) == pytest.approx(slow.time_s / fast.time_s)
    assert scaling.speedup(by_place["naive", 128]) == 1.0


def test_without_naive_there_is_no_speedup() -> None:
    """Rather than one over something else."""
    scaling = compare(SMALL, (128,), schedule="flash2", device=TOY)
    assert scaling.speedup(scaling.points[0]) is None


def test_unlike_work_stands_side_by_side_only_where_asked_and_says_so() -> None:
    """A softmax is no faster way to compute attention."""
    assert "online_softmax" not in compare(SMALL, (64,), device=TOY).chosen
    scaling = compare(SMALL, (64,), schedule=("naive", "online_softmax"), device=TOY)
    assert scaling.notes[0] == "Not the same work: naive computes attention; online_softmax computes softmax"
    assert [scaling.speedup(point) for point in scaling.points] == [1.0, None]


def test_the_configuration_is_near_the_best_of_all_at_each_length() -> None:
    """Within 3 %, though most are tried at one short length alone."""
    lengths = (256, 1024)
    problem = replace(SMALL, head_dim=64)
    scaling = compare(problem, lengths, schedule="flash2", device="h200", num_warps=4, kv_order="forward")
    assert scaling.tried == {"flash2": 4 * 4 * 4}  # block sizes of queries, of keys, stages
    for point in scaling.points:
        longer = replace(problem, seqlen_q=point.seqlen, seqlen_k=point.seqlen)
        best = explore(longer, schedule="flash2", device="h200", num_warps=4, kv_order="forward").ranked[0]
        assert best.prediction is not None
        assert point.time_s <= 1.03 * best.prediction.time_s


@pytest.mark.parametrize(("batch", "heads"), [(4, 32), (1, 8), (64, 32), (1, 1), (3, 100)])
def test_what_all_are_tried_on_fills_a_gpu_and_is_quick(batch: int, heads: int) -> None:
    """No longer than what was asked for, and as many heads share K and V."""
    asked = AttentionProblem(batch=batch, heads=heads, kv_heads=1, seqlen_q=8192, seqlen_k=8192, head_dim=64)
    tried = survey_problem(asked)
    assert tried.scores <= 1 << 23
    assert tried.batch * heads >= min(batch * heads, 128)
    assert replace(tried, batch=batch, seqlen_q=8192, seqlen_k=8192) == asked
    assert survey_problem(replace(asked, seqlen_q=48, seqlen_k=48)).seqlen_q == 48


def test_a_schedule_that_no_kernel_is_kept_of_is_said_to_be_from_tiles() -> None:
    """In one line, of those alone; and of none where tiles were asked for."""
    config = {"block_m": 32, "block_n": 32, "num_warps": 8, "num_stages": 4}
    problem = replace(SMALL, head_dim=64)
    scaling = compare(problem, (64,), schedule=("flash1", "flash2"), device="h200", **config)
    assert [note.partition(":")[0] for note in scaling.notes] == ["flash1"]
    assert "from tile sizes" in scaling.notes[0] and "not from machine code" in scaling.notes[0]
    assert compare(problem, (64,), schedule=("flash1",), device="h200", cost="tiles", **config).notes == ()


def test_no_estimate_from_tiles_is_the_fastest_where_there_is_machine_code() -> None:
    """Of the configurations of a schedule, and of schedules; one stage of 64 x 256 is estimated 20 % too fast."""
    problem = replace(SMALL, head_dim=64)
    sizes = {"block_m": 64, "block_n": (64, 256), "num_warps": 4, "num_stages": (1, 4)}
    ranked = explore(replace(problem, seqlen_q=256, seqlen_k=256), schedule="flash1", device="h200", **sizes).ranked
    estimated = {item.config for item in ranked if item.is_estimated}
    assert estimated and min(ranked, key=lambda item: item.costs).config in estimated
    scaling = compare(problem, (256,), schedule="flash1", device="h200", block_m=64, num_warps=4)
    assert scaling.chosen["flash1"][256] not in estimated and not scaling.points[0].is_estimated

    config = {"block_m": 32, "block_n": 32, "num_warps": 8, "num_stages": 4}
    both = compare(problem, (64,), schedule=("flash1", "flash2"), device="h200", **config)
    slower = replace(both.points[1], prediction=a_prediction(replace(a_launch(time_s=1.0), cost="compiled")))
    best = replace(both, points=(both.points[0], slower)).best(64)
    assert best is not None and (best.schedule, best.time_s) == ("flash2", 1.0)


def test_an_estimated_time_is_marked_and_has_the_wider_band() -> None:
    """In the table and in JSON; times from machine code have no mark."""
    config = {"block_m": 32, "block_n": 32, "num_warps": 8, "num_stages": 4}
    schedules = ("flash1", "flash2")
    scaling = compare(replace(SMALL, head_dim=64), (64,), schedule=schedules, device="h200", **config)
    rows = [line for line in str(scaling).splitlines() if line.lstrip().startswith("64 ")]
    assert rows[0].count("est.") == 1
    points = [point.to_dict(None) for point in scaling.points]
    assert [point["estimated"] for point in points] == [True, False]
    for point, error in zip(points, (0.19, 0.05), strict=True):
        assert point["time_high_s"] == pytest.approx((1.0 + error) * point["time_s"])  # type: ignore[operator]


def test_devices_are_held_against_each_other() -> None:
    """Each with its own configurations; a table says which is faster, and a row names its device."""
    problem = replace(SMALL, head_dim=64)
    config = {"block_m": 64, "block_n": 64, "num_warps": 4, "num_stages": 2}
    scalings = [compare(problem, (64, 128), schedule="flash2", device=name, **config) for name in ("h200", "a100")]
    text = compare_text(*scalings)
    assert "The fastest schedule on each device" in text and "a100-sxm-80gb (" in text
    rows = compare_rows(*scalings)
    assert [(row["device"], row["seqlen"]) for row in rows] == [
        ("h200", 64),
        ("h200", 128),
        ("a100-sxm-80gb", 64),
        ("a100-sxm-80gb", 128),
    ]
    document = compare_dict(*scalings)
    assert document["schema"] == "tilesight.compare-devices/1"
    assert [entry["device"] for entry in document["devices"]] == ["h200", "a100-sxm-80gb"]  # type: ignore[attr-defined]
    assert compare_dict(scalings[0])["schema"] == "tilesight.compare/1"


@pytest.mark.parametrize("name", ["naive", "flash2"])
def test_the_limit_is_the_last_length_that_fits(name: str) -> None:
    """One token more does not."""
    schedule = find_schedule(name)
    limit = memory_limit(SMALL, schedule, schedule.default, TOY)

    def peak(length: int) -> int:
        problem = replace(SMALL, seqlen_q=length, seqlen_k=length)
        return peak_memory_bytes(problem, name, schedule.default, TOY)

    assert limit.out_of_memory_seqlen == limit.longest_seqlen + 1
    assert peak(limit.longest_seqlen) <= TOY.hbm_bytes < peak(limit.longest_seqlen + 1)


def test_a_device_large_enough_never_runs_out() -> None:
    """Up to the longest sequence that can be asked for."""
    schedule = find_schedule("flash2")
    limit = memory_limit(SMALL, schedule, schedule.default, replace(TOY, hbm_bytes=1 << 44))
    assert (limit.longest_seqlen, limit.out_of_memory_seqlen) == (MAX_SEQLEN, None)


def test_doubling_the_length_quadruples_what_naive_holds_and_doubles_what_flash2_holds() -> None:
    """S and P against Q, K, V and O."""
    scaling = compare(SMALL, (2048, 4096), schedule=("flash2", "naive"), device=TOY)
    peaks = {(point.schedule, point.seqlen): point.peak_memory_bytes for point in scaling.points}
    assert peaks["flash2", 4096] == 2 * peaks["flash2", 2048]
    assert 3.5 < peaks["naive", 4096] / peaks["naive", 2048] < 4


def test_out_of_memory_is_an_answer_and_is_not_simulated() -> None:
    """There is no time for what cannot run."""
    scaling = compare(SMALL, (1 << 20,), schedule="naive", device=TOY)
    (point,) = scaling.points
    assert point.prediction is None
    assert point.reason.startswith("device memory: needs")
    assert point.to_dict(None)["time_s"] is None


def test_the_result_does_not_depend_on_the_worker_count() -> None:
    """Bit for bit, as JSON."""
    alone = compare(SMALL, (64, 128, 256), schedule="flash2", device=TOY, workers=1)
    together = compare(SMALL, (64, 128, 256), schedule="flash2", device=TOY, workers=2)
    assert to_json(together.to_dict()) == to_json(alone.to_dict())


def test_no_length_at_all_is_an_error() -> None:
    """There would be nothing to compare."""
    with pytest.raises(ValueError, match="seqlens: must hold at least one"):
        compare(SMALL, (), device=TOY)


def test_an_option_that_no_schedule_takes_is_an_error() -> None:
    """It would have no effect, and the user would not know."""
    with pytest.raises(ValueError, match="cta_order: schedule naive does not take it"):
        compare(SMALL, (64,), schedule="naive", device=TOY, cta_order="m-fast")
