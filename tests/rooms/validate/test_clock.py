"""The clock from two reads of the SMs' counters."""

import pytest
from tilesight.validate.timing.sm_clock import SHORTEST_SPAN_NS, Read, window

MS = 1_000_000


def reads(cycles: int, time_ns: int, sms: range = range(4)) -> list[Read]:
    """Reads of SMs whose counters stand far apart."""
    return [Read(sm, 10**12 * sm + cycles, time_ns) for sm in sms]


def test_the_clock_is_cycles_over_time_on_the_same_sm() -> None:
    """Counters of different SMs have nothing to do with each other; only their differences do."""
    seen = window(reads(0, 5 * MS), reads(1_755_000, 6 * MS))
    assert seen.cycles / seen.span_s == pytest.approx(1.755e9)
    assert seen.span_s == pytest.approx(1e-3)


def test_an_sm_that_was_read_once_counts_for_nothing() -> None:
    """CTAs land where they like; only SMs with both reads make pairs."""
    seen = window(reads(0, 0, range(0, 3)), reads(1_900_000, MS, range(2, 6)))
    assert seen.cycles == pytest.approx(1.9e6)


def test_no_common_sm_leaves_the_clock_unknown() -> None:
    """Rather unknown than the difference between two SMs' counters."""
    assert window(reads(0, 0, range(0, 2)), reads(10**6, MS, range(2, 4))).span_s == 0.0


def test_one_sm_that_slept_does_not_count() -> None:
    """The median over SMs stands, whatever a single one says."""
    end = [Read(read.sm, read.cycles if read.sm else 500_000, read.time_ns) for read in reads(1_800_000, MS)]
    seen = window(reads(0, 0), end)
    assert seen.cycles / seen.span_s == pytest.approx(1.8e9)


def test_a_counter_that_went_backwards_makes_no_pair() -> None:
    """A GPU that was reset, or another GPU, has no clock to tell."""
    assert window(reads(10**6, 0), reads(0, MS)).cycles == 0.0


def test_a_window_too_short_for_the_timer_leaves_the_clock_unknown() -> None:
    """The GPU's timer ticks in steps of up to a microsecond."""
    assert window(reads(0, 0), reads(10_000, SHORTEST_SPAN_NS - 1)).span_s == 0.0
