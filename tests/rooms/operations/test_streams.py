"""Kernels on several streams: closed forms of two beside each other, laws of all schedules, and two H200s."""

import json
import lzma
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tilesight.simulator.device.device import load_device
from tilesight.simulator.operations.gaps import StreamTimeline, paces, queued
from tilesight.simulator.operations.streams import Enqueued, Paces

MS = 1e-3
BESIDE = paces(load_device("h200"))
MEASURED = Path(__file__).parents[3] / "validate" / "data" / "two-gpus-h200-2026-11-29.ndjson.xz"
PAIRS = [row for row in map(json.loads, lzma.decompress(MEASURED.read_bytes()).splitlines()) if "kernel_us" in row]


def step(*operations: Enqueued, beside: Paces | None = None, host_s: float = 0.0) -> StreamTimeline:
    """Without gaps."""
    return queued(operations, host_s=host_s, gap_s=0.0, beside=beside)


def collective(time_s: float, *waits: int, stream: str = "nccl", links: str = "io") -> Enqueued:
    """On a stream of its own."""
    return Enqueued(times_s=[time_s], stream=stream, waits=waits, links=links)


def test_a_collective_hides_behind_a_kernel_that_it_slows() -> None:
    """1 ms of communication at which a kernel of 3 ms loses a half: 3.5 ms, next to none of it exposed."""
    both = step(collective(MS), Enqueued(times_s=[3 * MS]), beside=Paces(lost=0.5), host_s=1e-9)
    assert both.end_s == pytest.approx(3.5 * MS)
    assert both.communication_s == pytest.approx(MS) and both.exposed_s == pytest.approx(1e-9)


def test_a_kernel_that_memory_binds_slows_a_collective() -> None:
    """1 ms of communication at half its pace beside 1 ms of additions: a half is left, and takes half a millisecond."""
    added = Enqueued(times_s=[MS], is_memory=True)
    both = step(collective(MS), added, beside=Paces(lost=0.5, beside_memory=0.5), host_s=1e-9)
    assert both.end_s == pytest.approx(1.5 * MS, rel=1e-5)
    assert both.ends_s[1] == (pytest.approx(MS, rel=1e-5),)


def test_a_collective_finds_no_room_beside_a_kernel_that_began_before() -> None:
    """It starts when the kernel ends, and runs beside the next one."""
    works = [Enqueued(times_s=[2 * MS]), collective(MS), Enqueued(times_s=[2 * MS])]
    made = step(*works, beside=Paces(lost=0.5))
    assert made.starts_s[1] == (pytest.approx(2 * MS),) and made.end_s == pytest.approx(4.5 * MS)


def test_what_waits_is_exposed() -> None:
    """A kernel that needs what is gathered begins after it; another one does not wait."""
    waited = step(collective(MS), Enqueued(times_s=[2 * MS], waits=(0,)))
    assert waited.end_s == pytest.approx(3 * MS) and waited.exposed_s == pytest.approx(MS)
    ahead = step(Enqueued(times_s=[2 * MS]), collective(MS), Enqueued(times_s=[MS], waits=(1,)))
    assert ahead.end_s == pytest.approx(4 * MS) and ahead.exposed_s == pytest.approx(MS)


def test_an_operation_without_kernels_hands_on_what_it_waits_for() -> None:
    """`wait_tensor` launches nothing, and what follows on its stream comes later all the same."""
    made = step(collective(MS), Enqueued(times_s=[], waits=(0,)), Enqueued(times_s=[MS]))
    assert made.starts_s[2] == (pytest.approx(MS),)


def test_kernels_that_compute_share_the_gpu_and_collectives_their_links() -> None:
    """Two of 1 ms end after 2; what is sent and what is received do not meet."""
    for pair, end_s in [(("", ""), 2 * MS), (("io", "io"), 2 * MS), (("o", "i"), MS), (("o", "io"), 2 * MS)]:
        works = [Enqueued(times_s=[MS], stream=str(place), links=links) for place, links in enumerate(pair)]
        assert step(*works).end_s == pytest.approx(end_s)


def test_an_operation_without_kernels_ends_although_a_stream_before_it_waits_for_it() -> None:
    """Two that run nothing would be said to wait for each other."""
    none = Enqueued(times_s=[])
    made = step(Enqueued(times_s=[MS], stream="a"), none, Enqueued(times_s=[MS], stream="a", waits=(1,)), none)
    assert made.end_s == pytest.approx(2 * MS)
    made = step(none, Enqueued(times_s=[], stream="a"), Enqueued(times_s=[], waits=(1,)))
    assert made.end_s == 0.0


def test_operations_that_wait_for_each_other_are_refused() -> None:
    """In one line."""
    with pytest.raises(ValueError, match="wait for each other"):
        step(Enqueued(times_s=[MS], waits=(1,)), collective(MS, 0))


WORKS = st.lists(
    st.tuples(
        st.lists(st.floats(1e-6, 1e-3), max_size=2),
        st.sampled_from(["", "a", "b"]),
        st.sampled_from(["", "io", "i", "o"]),
        st.sets(st.integers(0, 20), max_size=3),
    ),
    min_size=1,
    max_size=20,
)


@given(works=WORKS, lost=st.floats(0.0, 0.9), host_s=st.floats(0, 1e-4))
def test_no_schedule_beats_its_longest_stream_or_breaks_an_order(works: list, lost: float, host_s: float) -> None:
    """No kernel is faster than alone, none begins before what it waits for; time without end is none."""
    operations = [
        Enqueued(
            times_s=times_s,
            stream=stream,
            links=links,
            waits=[other for other in waits if other < number],
            is_memory=number % 3 == 0,
        )
        for number, (times_s, stream, links, waits) in enumerate(works)
    ]
    made = step(*operations, beside=Paces(lost=lost, beside_memory=1.0 - lost), host_s=host_s)
    for number, operation in enumerate(operations):
        for time_s, start_s, end_s in zip(operation.times_s, made.starts_s[number], made.ends_s[number], strict=True):
            assert end_s - start_s >= time_s * (1 - 1e-9)
            assert all(start_s >= stop_s - 1e-12 for other in operation.waits for stop_s in made.ends_s[other])
    for stream in ("", "a", "b"):
        alone_s = sum(sum(work.times_s) for work in operations if work.stream == stream)
        assert made.end_s >= alone_s * (1 - 1e-9)
    assert 0.0 <= made.exposed_s <= made.communication_s * (1 + 1e-9) + 1e-15
    total_s = sum(sum(work.times_s) for work in operations)
    assert made.busy_s <= total_s / (1.0 - lost) * (1 + 1e-9)


@pytest.mark.parametrize(("reduction_us", "both_us"), [(84.2, 1655.8), (918.4, 2135.1)])
def test_a_product_beside_an_all_reduce_on_two_h200s(reduction_us: float, both_us: float) -> None:
    """By 10 %: a product of 1,605 us at the clock that lasts, behind an all-reduce of 16 MiB, and of 256 MiB."""
    works = [collective(reduction_us * 1e-6), Enqueued(times_s=[1604.8e-6])]
    assert step(*works, beside=BESIDE, host_s=1e-6).end_s * 1e6 == pytest.approx(both_us, rel=0.1)


@pytest.mark.parametrize("row", PAIRS, ids=lambda row: row["name"])
def test_kernels_beside_collectives_on_two_h200s(row: dict) -> None:
    """By 10 %: pairs of one run, from what each takes alone; the numbers are from them."""
    times = re.search(r"_(\d+)_(?:all|reduce)", row["name"])[1]
    is_memory = row["name"].startswith(("add", "norm"))
    kernels = [Enqueued(times_s=[row["kernel_us"] * 1e-6 / int(times)], is_memory=is_memory)] * int(times)
    works = [collective(row["collective_us"] * 1e-6), *kernels]
    assert step(*works, beside=BESIDE).end_s * 1e6 == pytest.approx(row["together_us"], rel=0.1)
