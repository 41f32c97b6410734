"""A launch's time from sums alone: busiest unit of an SM, L2, device memory; nothing waits for anything but a wave.

A rank of configurations, never a prediction: which of them are worth one.
"""

from dataclasses import dataclass

from ..device.device import Device


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticWork:
    """What a launch moves and computes.

    Args:
        ctas: of the grid.
        resident: CTAs that an SM holds at once.
        sm_cycles: that a CTA takes the busiest unit of an SM [cycles].
        fill_bytes: that a CTA asks L2 for [B].
        hbm_bytes: of device memory that the launch touches [B].
        flight_bytes: that a CTA has in flight at most [B].
    """

    ctas: int
    resident: int
    sm_cycles: float
    fill_bytes: float
    hbm_bytes: float
    flight_bytes: float


def static_times_s(work: StaticWork, device: Device) -> tuple[float, float, float]:
    """Times of the SMs, of L2, and of device memory, whose rate is what is in flight over its latency at most [s]."""
    places = device.sms * work.resident
    waves = -(-work.ctas // places)
    busy = work.ctas / (places * waves)
    flight_bytes = min(work.ctas, places) * work.flight_bytes
    latency_s = device.hbm_latency_s + device.l2_latency_cycles / device.boost_clock_hz
    return (
        work.sm_cycles * work.ctas / (device.sms * busy * device.tensor_clock_hz),
        work.fill_bytes * work.ctas / (device.l2_bytes_per_s * busy),
        work.hbm_bytes / min(device.hbm_read_bytes_per_s, max(flight_bytes, 1.0) / latency_s),
    )


def rank_of(launches: list[tuple[float, float, float]]) -> tuple[float, float]:
    """A rank of launches that run one after the other, the lower the better. Args: launches: as `static_times_s`.

    Where one unit bounds all configurations alike, what is hidden behind it tells them apart.
    """
    return float(f"{sum(map(max, launches)):.2g}"), sum(map(sum, launches))
