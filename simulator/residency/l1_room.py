"""How much of what a CTA has moved L1 still holds: what needs no compiled loops.

Most of a second goes to load these, and an answer that is kept does without.
"""

from math import prod

import numpy as np

from ..device.device import Device
from ..launch.program import Resources
from .residency import residency_of_ctas


def reach_fractions(device: Device, room_bytes: float) -> np.ndarray:
    """What has been moved where the share of loads that hit bends, over the room: float64 (points,).

    Args:
        room_bytes: of L1; sets of a whole one fill more evenly than those that shared memory leaves.
    """
    numbers = device.sm
    whole = np.interp(room_bytes / device.l1_bytes, numbers.l1_room_fractions, (0.0, 1.0)) if device.l1_bytes else 0.0
    part, all_of_it = np.array(numbers.l1_reach_fractions), np.array(numbers.l1_whole_reach_fractions)
    return np.asarray(part + whole * (all_of_it - part), dtype=np.float64)


def hit_curve(device: Device, room_bytes: float) -> np.ndarray:
    """Share of loads that hit, by what was moved since, as `core.engine.l1` takes it: float64 (2, points)."""
    return np.array((reach_fractions(device, room_bytes), device.sm.l1_hit_fractions), dtype=np.float64)


def kept_of(resources: Resources, grid: tuple[int, int, int], device: Device) -> float:
    """How much each CTA of an SM may move until L1 loses what it moved first [B]. Raises: DoesNotFit: no CTA does."""
    residency = residency_of_ctas(resources, resources.warps_per_cta, prod(grid), device)
    room = residency.l1_bytes
    return float(reach_fractions(device, room)[0]) * room / residency.ctas_per_busy_sm
