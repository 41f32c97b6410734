"""Traces for Perfetto: what each slice and counter says, and that the file is one that Perfetto takes."""

import json
from collections import defaultdict
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from tilesight.simulator.device.device import load_device
from tilesight.simulator.prediction.prediction import Prediction
from tilesight.simulator.prediction.timeline import LaunchTimeline, Timeline, work_of_ctas
from tilesight.simulator.problems.attention import AttentionProblem
from tilesight.simulator.report import perfetto
from tilesight.simulator.report.perfetto import rates, trace_of
from tilesight.simulator.schedules.config import Config
from tilesight.simulator.simulate import launches_of, simulate, simulate_with_timeline

MOST_BYTES = 20_000_000
PROBLEM = AttentionProblem(batch=2, heads=8, seqlen_q=1000, seqlen_k=1000, head_dim=64)
MADE_UP = LaunchTimeline(
    name="kernel",
    begin_s=0.0,
    end_s=3e-6,
    work=("one", "two", "three"),
    cta=np.array([0, 1, 2]),
    sm=np.array([0, 1, 0]),
    slot=np.array([0, 0, 1]),
    cta_start_s=np.array([0.0, 0.0, 1e-6]),
    cta_end_s=np.array([1e-6, 2e-6, 3e-6]),
    sample_s=np.array([0.0, 1e-6, 3e-6]),
    hbm_bytes=np.array([0.0, 3000.0, 4000.0]),
    l2_bytes=np.array([0.0, 0.0, 8000.0]),
)


def events_of(timeline: Timeline, sms: int | None = None) -> list[dict[str, Any]]:
    """The events of a trace."""
    events: list[dict[str, Any]] = json.loads(trace_of(timeline, sms).text)["traceEvents"]
    return events


@pytest.fixture(scope="module", params=["flash2", "naive"])
def simulated(request: pytest.FixtureRequest) -> tuple[Prediction, Timeline]:
    """One launch of more than one wave, and a pipeline of three."""
    problem = replace(PROBLEM, batch=8) if request.param == "flash2" else PROBLEM
    return simulate_with_timeline(problem, schedule=request.param)


def counted(events: list[dict[str, Any]], name: str) -> tuple[np.ndarray, np.ndarray]:
    """Times [us] and values of a counter."""
    counters = [event for event in events if event["ph"] == "C" and event["name"] == name]
    return np.array([event["ts"] for event in counters]), np.array([event["args"]["value"] for event in counters])


def test_processes_are_sms_and_threads_are_slots() -> None:
    """By name; the GPU comes first; nothing has the number 0, which Perfetto keeps for itself."""
    events = events_of(Timeline(sms=2, launches=(MADE_UP,)))
    names = {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}
    order = {event["pid"]: event["args"]["sort_index"] for event in events if event["name"] == "process_sort_index"}
    assert [names[pid] for pid in sorted(names, key=order.__getitem__)] == ["GPU (2 SMs)", "SM 0", "SM 1"]
    threads = {
        (names[event["pid"]], event["tid"]): event["args"]["name"] for event in events if event["name"] == "thread_name"
    }
    assert sorted(threads.values()) == ["launches", "slot 0", "slot 0", "slot 1"]
    bars = [event for event in events if event["ph"] == "X"]
    assert [(names[bar["pid"]], threads[names[bar["pid"]], bar["tid"]], bar["name"]) for bar in bars] == [
        ("GPU (2 SMs)", "launches", "kernel"),
        ("SM 0", "slot 0", "one"),
        ("SM 0", "slot 1", "three"),
        ("SM 1", "slot 0", "two"),
    ]
    assert min(min(event["pid"], event.get("tid", 1)) for event in events) == 1


def test_a_slice_lasts_as_long_as_its_cta() -> None:
    """In microseconds, less the one nanosecond that keeps it apart from the next."""
    bars = [event for event in events_of(Timeline(sms=2, launches=(MADE_UP,))) if "CTA" in event.get("args", {})]
    assert {bar["args"]["CTA"]: (bar["ts"], bar["dur"]) for bar in bars} == {
        0: (0.0, 0.999),
        1: (0.0, 1.999),
        2: (1.0, 1.999),
    }


def test_counters_are_rates_and_residents() -> None:
    """Mean rates over the intervals between samples; resident CTAs from each change to the next."""
    events = events_of(Timeline(sms=2, launches=(MADE_UP,)))
    for name, times_us, values in (
        ("HBM bytes/s", [0, 1, 3], [3e9, 0.5e9, 0]),
        ("L2 bytes/s", [0, 1, 3], [0, 4e9, 0]),
        ("resident CTAs", [0, 1, 2, 3], [2, 2, 1, 0]),
    ):
        at, value = counted(events, name)
        assert at.tolist() == times_us
        assert value.tolist() == values


def test_every_event_is_one_of_the_format(simulated: tuple[Prediction, Timeline]) -> None:
    """With the fields that its kind needs, and times that are not negative."""
    needs = {"X": {"ts", "dur", "tid", "name", "args"}, "C": {"ts", "name", "args"}, "M": {"name", "args"}}
    for event in events_of(simulated[1]):
        assert needs[event["ph"]] | {"pid", "ph"} <= set(event)
        assert event.get("ts", 0) >= 0 and event.get("dur", 0) >= 0


def test_no_slices_of_a_track_overlap(simulated: tuple[Prediction, Timeline]) -> None:
    """Also where a reader cuts times to whole nanoseconds, up or down."""
    tracks = defaultdict(list)
    for event in events_of(simulated[1]):
        if event["ph"] == "X":
            tracks[event["pid"], event["tid"]].append((event["ts"] * 1000, event["dur"] * 1000))
    assert len(tracks) > 132
    for slices in tracks.values():
        slices.sort()
        for (start_ns, dur_ns), (next_ns, _) in pairwise(slices):
            assert int(start_ns) + int(dur_ns) <= int(next_ns)
            assert round(start_ns) + round(dur_ns) <= round(next_ns)


def test_rates_add_up_to_the_traffic(simulated: tuple[Prediction, Timeline]) -> None:
    """Times their time, as far as a nanosecond and a byte per second go; also with many samples left out."""
    prediction, timeline = simulated
    events = events_of(timeline)
    total = prediction.total
    for name, moved in (
        ("HBM bytes/s", total.hbm_bytes),
        ("L2 bytes/s", total.l2_read_bytes + total.l2_write_bytes),
    ):
        at_us, rate = counted(events, name)
        rounding = 1e-9 * np.abs(np.diff(rate)).sum() + at_us[-1] * 1e-6
        assert np.sum(rate[:-1] * np.diff(at_us)) * 1e-6 == pytest.approx(moved, abs=rounding + 10)
        assert rate[-1] == 0
    assert len(simulated[1].launches[0].sample_s) > 10


def test_short_intervals_are_taken_together() -> None:
    """None is shorter than a part of the launch, and no byte is lost."""
    times_s = np.array([0.0, 0.5, 0.5 + 1e-9, 0.5 + 2e-9, 1.0 - 1e-9, 1.0])
    kept, per_s = rates(times_s, np.array([0.0, 10.0, 40.0, 50.0, 90.0, 100.0]))
    assert kept.tolist() == [0.0, 0.5, 1.0]
    assert per_s == [20, 180, 0]


def test_residents_never_exceed_the_slots(simulated: tuple[Prediction, Timeline]) -> None:
    """And all are gone at the end."""
    prediction, timeline = simulated
    _, values = counted(events_of(timeline), "resident CTAs")
    assert 0 < max(values) <= 132 * max(launch.ctas_per_sm for launch in prediction.launches)
    assert values[-1] == 0


def test_a_recorded_run_predicts_what_an_unrecorded_one_does(simulated: tuple[Prediction, Timeline]) -> None:
    """Stopping for samples changes nothing."""
    recorded = simulated[0]
    alone = simulate(recorded.problem, schedule=recorded.schedule, steady_state=False)
    assert alone.total == recorded.total


def test_a_cta_is_told_by_its_head_and_queries() -> None:
    """The last tile ends where the tensor ends; a batch is named where there are several."""
    single, several = replace(PROBLEM, batch=1), PROBLEM
    gpu = load_device("h200")
    config = Config(block_m=128)
    (launch,) = launches_of(single, "flash2", config, gpu)
    work = work_of_ctas(launch, single.part_text)
    assert (work[1], work[31]) == ("head 0, queries 128-255", "head 3, queries 896-999")
    (launch,) = launches_of(several, "flash2", config, gpu)
    assert work_of_ctas(launch, several.part_text)[8 * 8 + 9] == "batch 1, head 1, queries 128-255"
    assert len(set(work_of_ctas(launch, several.part_text))) == launch.cta_count


def test_a_cta_that_sweeps_all_queries_says_so() -> None:
    """FlashAttention-1 goes over the queries in its inner loop."""
    (launch,) = launches_of(PROBLEM, "flash1", None, load_device("h200"))
    assert work_of_ctas(launch, PROBLEM.part_text)[9] == "batch 1, head 1, queries 0-999"


def test_tiles_of_scores_are_told_by_their_keys_too() -> None:
    """Where several CTAs share the queries of a head."""
    scores = launches_of(PROBLEM, "naive", Config(block_m=128, block_n=64), load_device("h200"))[0]
    work = work_of_ctas(scores, PROBLEM.part_text)
    assert len(set(work)) == scores.cta_count
    assert work[0] == "batch 0, head 0, queries 0-127, keys from 0"


def test_a_persistent_cta_says_how_many_tiles_it_takes() -> None:
    """Beside the first."""
    problem = replace(PROBLEM, batch=35)
    launch = launches_of(problem, "flash2", Config(block_m=128, persistent=1), load_device("h200"))[0]
    work = work_of_ctas(launch, problem.part_text)
    ctas, tiles = launch.cta_count, 35 * 8 * 8
    assert ctas < tiles and tiles % ctas
    assert work[0].endswith(f" and {-(-tiles // ctas) - 1} more")
    assert work[-1].endswith(f" and {tiles // ctas - 1} more")


def test_a_trace_is_the_same_every_time() -> None:
    """Byte for byte, from the simulation on."""
    texts = [trace_of(simulate_with_timeline(PROBLEM)[1]).text for _ in range(2)]
    assert texts[0] == texts[1]


def test_a_trace_stays_below_its_size_by_showing_fewer_sms(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those shown are whole, counters are those of all, and the file says how many there are."""
    assert perfetto.MOST_BYTES == MOST_BYTES
    problem = replace(PROBLEM, batch=8)
    _, timeline = simulate_with_timeline(problem)
    whole = trace_of(timeline)
    assert whole.shown == whole.sms == 132
    limit = len(whole.text) // 2
    monkeypatch.setattr(perfetto, "MOST_BYTES", limit)
    part = trace_of(timeline)
    assert len(part.text) < limit
    assert 1 < part.shown < 132
    document = json.loads(part.text)
    assert document["otherData"] == {"SMs shown": f"{part.shown} of 132"}
    ctas = [event for event in document["traceEvents"] if "CTA" in event["args"]]
    assert len(ctas) == int(np.sum(timeline.launches[0].sm < part.shown))
    counters = [event for event in events_of(timeline, 132) if event["ph"] == "C"]
    assert [event for event in document["traceEvents"] if event["ph"] == "C"] == counters
    assert trace_of(timeline, 132).text == whole.text
