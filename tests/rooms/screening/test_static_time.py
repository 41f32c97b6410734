"""Static times are closed forms of sums, and a rank of them never depends on the order of configurations."""

from dataclasses import replace

import pytest
from tilesight.simulator.device.device import load_device
from tilesight.simulator.screening.static_time import StaticWork, rank_of, static_times_s

DEVICE = load_device("h100-sxm")
FULL = StaticWork(
    ctas=DEVICE.sms, resident=1, sm_cycles=1e5, fill_bytes=1e6, hbm_bytes=1e8, flight_bytes=float(1 << 17)
)


def test_a_full_wave_takes_what_its_sums_take() -> None:
    """A CTA an SM: cycles over the clock, bytes over rates."""
    sm_s, l2_s, hbm_s = static_times_s(FULL, DEVICE)
    assert sm_s == pytest.approx(1e5 / DEVICE.tensor_clock_hz)
    assert l2_s == pytest.approx(DEVICE.sms * 1e6 / DEVICE.l2_bytes_per_s)
    assert hbm_s == pytest.approx(1e8 / DEVICE.hbm_read_bytes_per_s)


def test_one_cta_more_takes_a_second_wave() -> None:
    """Twice the time of SMs and L2, whatever the second wave leaves idle."""
    more = static_times_s(replace(FULL, ctas=DEVICE.sms + 1), DEVICE)
    assert more[:2] == pytest.approx([2 * part for part in static_times_s(FULL, DEVICE)[:2]])


def test_bytes_in_flight_bound_device_memory() -> None:
    """By Little's law: a hundredth of the flight, far below what the rate needs, takes as much longer."""
    few, fewer = (static_times_s(replace(FULL, flight_bytes=size), DEVICE)[2] for size in (1000.0, 10.0))
    assert fewer == pytest.approx(100 * few) and few > static_times_s(FULL, DEVICE)[2]


def test_where_one_unit_bounds_two_alike_the_hidden_ones_tell_them_apart() -> None:
    """Equal to two digits in the longest part, then by the sum of all."""
    assert rank_of([(1.0, 0.5, 0.1)]) < rank_of([(1.004, 0.6, 0.1)]) < rank_of([(1.1, 0.1, 0.1)])
    assert rank_of([(1.004, 0.5, 0.1)]) < rank_of([(1.0, 0.6, 0.1)])
