"""What power leaves of the clock, between the two loads that were measured."""

import pytest
from tilesight.simulator.device.device import Device, catalogue, load_device
from tilesight.simulator.engine.clock import Activity, sustained_clock_hz

H200 = load_device("h200")
BURST_HZ = H200.tensor_boost_clock_hz


def sustained(tensor: float, fill: float = 0.0, hbm: float = 0.0, clock_hz: float = BURST_HZ) -> float:
    """Clock at an activity [Hz]."""
    return sustained_clock_hz(clock_hz, Activity(tensor, fill, hbm), H200)


@pytest.mark.parametrize("activity", [(0.5, 0.0, 0.0), (0.3, 0.2, 0.1), (0.0, 1.0, 1.0)])
def test_up_to_the_limit_the_clock_is_that_of_a_burst(activity: tuple[float, ...]) -> None:
    """Light kernels ran at 1.80 GHz where slopes from zero said 1.65."""
    assert sustained(*activity) == BURST_HZ


def test_the_loads_that_were_measured_have_their_clocks() -> None:
    """Products and nothing else, and products beside all that HBM gives, which passes L2 and the SMs' ports."""
    assert sustained(1.0) == pytest.approx(H200.tensor_clock_hz)
    fill = 0.93 * H200.hbm_peak_bytes_per_s / (H200.mixed_clock_hz * H200.sms * H200.sm_fill_bytes_per_cycle)
    # At the clock of a burst there would be more of it a second than there is at the clock that is left.
    hbm = 0.93 * BURST_HZ / H200.mixed_clock_hz
    assert sustained(0.93, fill, hbm) == pytest.approx(H200.mixed_clock_hz, rel=0.005)


def test_beyond_it_all_that_draws_power_counts() -> None:
    """64 rows and two CTAs an SM fetch twice what 128 rows do: 1.47 to 1.52 GHz, where 128 rows ran at 1.65."""
    clocks = [sustained(*activity) for activity in ((0.5, 0.1, 0.1), (0.5, 0.3, 0.1), (0.6, 0.3, 0.1), (0.6, 0.3, 0.4))]
    assert clocks == sorted(clocks, reverse=True)
    assert len(set(clocks)) == len(clocks)


def test_the_clock_that_is_counted_falls_as_much() -> None:
    """Few CTAs leave clusters of SMs at the boost clock, whose cycles are counted."""
    assert sustained(0.02, clock_hz=H200.boost_clock_hz) == H200.boost_clock_hz
    both = [sustained(1.0, clock_hz=clock) / clock for clock in (BURST_HZ, H200.boost_clock_hz)]
    assert both[0] == pytest.approx(both[1])


ONE_LOAD = [device for device in map(load_device, catalogue()) if device.mixed_clock_hz == device.tensor_clock_hz]


@pytest.mark.parametrize("device", ONE_LOAD, ids=lambda device: device.name)
def test_a_device_of_which_one_load_is_known_has_no_term_for_hbm(device: Device) -> None:
    """Its file says the same clock for both; HBM would lower it, or traffic lower it beyond what is known."""
    boost = device.tensor_boost_clock_hz
    assert len({sustained_clock_hz(boost, Activity(0.8, 0.2, hbm), device) for hbm in (0.0, 1.0)}) == 1
    for activity in (Activity(1.0, 1.0, 1.0), Activity(0.9, 0.2, 0.3)):
        assert device.tensor_clock_hz <= sustained_clock_hz(boost, activity, device) <= boost


def test_most_of_the_catalogue_knows_one_load() -> None:
    """The tests above would hold for nothing."""
    assert len(ONE_LOAD) > len(catalogue()) / 2
