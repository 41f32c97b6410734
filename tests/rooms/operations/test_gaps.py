"""Kernels in a queue: closed forms of steps that the host or the GPU holds up, and laws of all of them."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tilesight.simulator.operations.gaps import StreamTimeline
from tilesight.simulator.operations.gaps import queued as queued_on_streams
from tilesight.simulator.operations.streams import Enqueued

TIMES = st.lists(st.lists(st.floats(0, 1e-3), max_size=3), min_size=1, max_size=20)


def queued(operations_s: list[list[float]], *, host_s: float, gap_s: float) -> StreamTimeline:
    """Operations of one stream."""
    return queued_on_streams([Enqueued(times_s=times_s) for times_s in operations_s], host_s=host_s, gap_s=gap_s)


def test_a_slow_host_spaces_short_kernels() -> None:
    """Each begins when it is enqueued: after n kernels n times the host's, and the last one's."""
    step = queued([[1e-6]] * 100, host_s=4e-6, gap_s=0.7e-6)
    assert step.end_s == pytest.approx(100 * 4e-6 + 1e-6)
    assert step.idle_s == pytest.approx(step.end_s - 100e-6) and step.launch_bound


def test_a_fast_host_is_seen_once() -> None:
    """Before the first kernel; then gaps alone are left."""
    step = queued([[1e-3]] * 10, host_s=4e-6, gap_s=0.7e-6)
    assert step.end_s == pytest.approx(4e-6 + 10e-3 + 9 * 0.7e-6)
    assert step.host_wait_s == pytest.approx(4e-6) and not step.launch_bound


def test_an_operation_without_kernels_costs_nothing() -> None:
    """Views are made while the host is at something else."""
    assert queued([[1e-6], [], [1e-6]], host_s=4e-6, gap_s=0).end_s == queued([[1e-6]] * 2, host_s=4e-6, gap_s=0).end_s


@given(times_s=TIMES, host_s=st.floats(0, 1e-4), gap_s=st.floats(0, 1e-5))
def test_kernels_never_overlap_and_time_is_conserved(times_s: list[list[float]], host_s: float, gap_s: float) -> None:
    """A kernel begins after the one before and its enqueuing; busy, waiting and gaps make up the step."""
    step = queued(times_s, host_s=host_s, gap_s=gap_s)
    flat = [
        (start, time)
        for starts, times in zip(step.starts_s, times_s, strict=True)
        for start, time in zip(starts, times, strict=True)
    ]
    for (start, time), (following, _) in pairwise(flat):
        assert following >= start + time - 1e-15
    launching = sum(bool(times) for times in times_s)
    gaps_s = gap_s * max(0, len(flat) - 1)
    assert step.busy_s == pytest.approx(sum(time for _, time in flat))
    assert step.end_s == pytest.approx(step.busy_s + step.host_wait_s + gaps_s)
    assert step.end_s >= launching * host_s - 1e-12 or not launching
    assert step.end_s >= queued(times_s, host_s=0, gap_s=gap_s).end_s - 1e-12
