"""Bytes, operations and cycles add up, and what is derived from them is safe where nothing moved."""

from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tilesight.simulator.traffic import Traffic

amounts = st.builds(
    Traffic,
    time_s=st.floats(0, 1e3),
    cycles=st.floats(0, 1e12),
    **{item.name: st.integers(0, 1 << 50) for item in fields(Traffic) if item.type is int},
)


@given(amounts, amounts)
def test_every_field_adds_up(first: Traffic, second: Traffic) -> None:
    """Times, cycles, bytes and operations alike."""
    total = first + second
    for item in fields(Traffic):
        assert getattr(total, item.name) == getattr(first, item.name) + getattr(second, item.name)


@given(amounts)
def test_nothing_adds_nothing(first: Traffic) -> None:
    """So a sum over no launches is a traffic of zeros."""
    assert first + Traffic() == first == Traffic() + first


def test_hits_are_a_share_of_what_the_sms_read() -> None:
    """300 of 400 bytes are three quarters."""
    assert Traffic(l2_read_bytes=400, l2_hit_bytes=300).l2_hit_fraction == pytest.approx(0.75)


def test_a_launch_that_reads_nothing_misses_nothing() -> None:
    """No division by zero, and a number that JSON can hold."""
    assert Traffic().l2_hit_fraction == 1.0


def test_bandwidth_counts_both_directions() -> None:
    """Reads and writes share the bus."""
    traffic = Traffic(time_s=2.0, hbm_read_bytes=30, hbm_write_bytes=10)
    assert (traffic.hbm_bytes, traffic.hbm_bytes_per_s) == (40, 20.0)


def test_bandwidth_of_no_time_is_none() -> None:
    """No division by zero."""
    assert Traffic(hbm_read_bytes=30).hbm_bytes_per_s == 0.0
