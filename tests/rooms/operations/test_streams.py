"""Kernels on several streams: closed forms of two beside each other, laws of all schedules, and two H200s."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tilesight.simulator.device.device import load_device
from tilesight.simulator.operations.gaps import BESIDE, StreamTimeline, queued
from tilesight.simulator.operations.streams import Enqueued

MS = 1e-3
LOST = load_device("h200").torch_kernels[BESIDE].value


def step(*operations: Enqueued, lost: float = 0.0, host_s: float = 0.0) -> StreamTimeline:
    """Without gaps."""
    return queued(operations, host_s=host_s, gap_s=0.0, lost=lost)


def collective(time_s: float, *waits: int, stream: str = "nccl", links: str = "io") -> Enqueued:
    """On a stream of its own."""
    return Enqueued(times_s=[time_s], stream=stream, waits=waits, links=links)


def test_a_collective_hides_behind_a_kernel_that_it_slows() -> None:
    """1 ms of communication at which a kernel of 3 ms loses a half: 3.5 ms, none of it exposed."""
    both = step(collective(MS), Enqueued(times_s=[3 * MS]), lost=0.5)
    assert both.end_s == pytest.approx(3.5 * MS)
    assert both.communication_s == pytest.approx(MS) and both.exposed_s == pytest.approx(0.0)


def test_what_waits_is_exposed() -> None:
    """A kernel that needs what is gathered begins after it; another one does not wait."""
    waited = step(collective(MS), Enqueued(times_s=[2 * MS], waits=(0,)))
    assert waited.end_s == pytest.approx(3 * MS) and waited.exposed_s == pytest.approx(MS)
    ahead = step(Enqueued(times_s=[2 * MS]), collective(MS), Enqueued(times_s=[MS], waits=(1,)))
    assert ahead.end_s == pytest.approx(3 * MS) and ahead.exposed_s == pytest.approx(0.0)


def test_an_operation_without_kernels_hands_on_what_it_waits_for() -> None:
    """`wait_tensor` launches nothing, and what follows on its stream comes later all the same."""
    made = step(collective(MS), Enqueued(times_s=[], waits=(0,)), Enqueued(times_s=[MS]))
    assert made.starts_s[2] == (pytest.approx(MS),)


def test_kernels_that_compute_share_the_gpu_and_collectives_their_links() -> None:
    """Two of 1 ms end after 2; what is sent and what is received do not meet."""
    for pair, end_s in [(("", ""), 2 * MS), (("io", "io"), 2 * MS), (("o", "i"), MS), (("o", "io"), 2 * MS)]:
        works = [Enqueued(times_s=[MS], stream=str(place), links=links) for place, links in enumerate(pair)]
        assert step(*works).end_s == pytest.approx(end_s)


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
        Enqueued(times_s=times_s, stream=stream, links=links, waits=[other for other in waits if other < number])
        for number, (times_s, stream, links, waits) in enumerate(works)
    ]
    made = step(*operations, lost=lost, host_s=host_s)
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


@pytest.mark.parametrize(("product_us", "reduction_us", "both_us"), [(1450.9, 84.2, 1655.8), (1604.8, 918.4, 2135.1)])
def test_a_product_beside_an_all_reduce_on_two_h200s(product_us: float, reduction_us: float, both_us: float) -> None:
    """By 10 %: of 16 MiB, of which nothing was read off, and of 256 MiB, which the number is from."""
    works = [collective(reduction_us * 1e-6), Enqueued(times_s=[product_us * 1e-6])]
    assert step(*works, lost=LOST).end_s * 1e6 == pytest.approx(both_us, rel=0.1)
