"""Schedules over sequence lengths: quadratic against linear, and where memory runs out."""

from dataclasses import replace

import pytest
from strategies import TOY
from tilesight.simulator.problem import MAX_SEQLEN, AttentionProblem
from tilesight.simulator.registry import find_schedule
from tilesight.simulator.report import to_json
from tilesight.simulator.scaling import compare, memory_limit
from tilesight.simulator.simulate import peak_memory_bytes

SMALL = AttentionProblem(batch=1, heads=2, seqlen_q=64, seqlen_k=64, head_dim=32)


def test_there_is_a_point_for_every_schedule_and_length() -> None:
    """Sorted by length, repeats left out."""
    found = compare(SMALL, (256, 128, 256), schedule=("flash2", "naive"), device=TOY)
    assert [(point.schedule, point.seqlen) for point in found.points] == [
        ("flash2", 128),
        ("flash2", 256),
        ("naive", 128),
        ("naive", 256),
    ]


def test_speedup_is_over_naive_at_the_same_length() -> None:
    """Naive itself is 1."""
    found = compare(SMALL, (128, 256), schedule=("flash2", "naive"), device=TOY)
    by_place = {(point.schedule, point.seqlen): point for point in found.points}
    fast, slow = by_place["flash2", 256].prediction, by_place["naive", 256].prediction
    assert fast is not None and slow is not None
    assert found.speedup(by_place["flash2", 256]) == pytest.approx(slow.time_s / fast.time_s)
    assert found.speedup(by_place["naive", 128]) == 1.0


def test_without_naive_there_is_no_speedup() -> None:
    """Rather than one over something else."""
    found = compare(SMALL, (128,), schedule="flash2", device=TOY)
    assert found.speedup(found.points[0]) is None


def test_unlike_work_stands_side_by_side_only_where_asked_and_says_so() -> None:
    """A softmax is no faster way to compute attention."""
    assert "online_softmax" not in compare(SMALL, (64,), device=TOY).configs
    found = compare(SMALL, (64,), schedule=("naive", "online_softmax"), device=TOY)
    assert found.notes == ("Not the same work: naive computes attention; online_softmax computes softmax",)
    assert [found.speedup(point) for point in found.points] == [1.0, None]


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
    found = compare(SMALL, (2048, 4096), schedule=("flash2", "naive"), device=TOY)
    peaks = {(point.schedule, point.seqlen): point.peak_memory_bytes for point in found.points}
    assert peaks["flash2", 4096] == 2 * peaks["flash2", 2048]
    assert 3.5 < peaks["naive", 4096] / peaks["naive", 2048] < 4


def test_out_of_memory_is_an_answer_and_is_not_simulated() -> None:
    """There is no time for what cannot run."""
    found = compare(SMALL, (1 << 20,), schedule="naive", device=TOY)
    (point,) = found.points
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
