"""What no GPU can have: limits that a measured number must keep, from physics and from the base device's datasheet."""

from math import isfinite

from ...simulator.device.device import Device
from .finding import Finding

ENDINGS = (
    ("_flop_per_cycle", 32.0, 65536.0),
    ("_bytes_per_cycle", 1.0, 1024.0),
    ("_per_cycle", 0.5, 512.0),
    ("_bytes_per_s", 1e10, 1e14),
    ("_bytes", 1e5, 1e12),
    ("_cycles", -20.0, 1e5),
    ("_hz", 2e8, 4e9),
    ("_s", 1e-9, 1e-3),
    ("_partitions", 1, 2),
    ("_fraction", 0.0, 1.0),
)
"""Ending of a key -> range; the first that matches."""

KEYS = {
    "issue_per_cycle": (0.9, 4.1),
    "smem_bytes_per_cycle": (16.0, 132.0),
    "sm_fill_bytes_per_cycle": (8.0, 132.0),
    "l1_latency_cycles": (10.0, 100.0),
    "l2_latency_cycles": (80.0, 1000.0),
    "fabric_latency_cycles": (0.0, 1000.0),
    "hbm_latency_s": (2e-8, 2e-6),
    "cta_dispatch_cycles": (0.05, 100.0),
}
"""Keys with a range of their own."""


def refusal(finding: Finding, base: Device) -> str:
    """Why a finding cannot be true; empty where it can.

    Args:
        base: the device that it would be put into; its datasheet numbers are limits.
    """
    low, high = KEYS.get(finding.key) or next(
        ((low, high) for ending, low, high in ENDINGS if finding.key.endswith(ending)), (-1e30, 1e30)
    )
    if finding.key.startswith("hbm_") and finding.key.endswith("_bytes_per_s"):
        high = min(high, base.hbm_peak_bytes_per_s)
    if finding.key == "tensor_clock_hz":
        high = min(high, base.boost_clock_hz)
    if not isfinite(finding.value) or not low <= finding.value <= high:
        return f"{finding.key} = {finding.value:g}: must be from {low:g} to {high:g}"
    return ""
