"""What L1 serves: the room that shared memory leaves it, and the share of a step's plain loads that it finds there.

Plain loads go through L1, asynchronous copies of 16 B a thread and TMA do not; stores are written through,
and L1 keeps what is stored.
What a CTA loads again, all CTAs of its SM load in between as well.
"""

from collections.abc import Iterator
from itertools import islice
from math import inf
from typing import NamedTuple

import numpy as np

from ..core.engine.l1 import REACH, hit_share
from ..device.device import Device
from ..launch.program import THROUGH_L1, Launch, Resources
from ..launch.walk import Access, clipped, executions, moved_bytes
from .occupancy import occupancy

CARVE_OUTS_KIB = (0, 8, 16, 32, 64, 132, 164, 196, 228)
"""What shared memory may take of L1 (CUDA C++ Programming Guide, compute capabilities 8.0 to 12.0); the driver passes
100 by: six kernels of 65 to 99 KiB get 132 (`carve_outs` in docs/lab/data/l1-hits-h200-2026-11-23.json.xz)."""
PREFERS_SHARED_ABOVE_BYTES = 48 << 10
"""Shared memory of a CTA above which Triton asks for the largest part that shared memory may take
(`CU_FUNC_CACHE_PREFER_SHARED` in the driver of triton 3.6); else the driver takes what as many CTAs need as fit."""
STORED = ""
MOST_TILES = 2000
"""Loads and stores of a CTA that are followed."""


def l1_room_bytes(launch: Launch, device: Device) -> int:
    """What an SM has left for L1 [B]."""
    return room_beside(launch.resources, launch.warps_per_cta, device)


def room_beside(resources: Resources, warps_per_cta: int, device: Device) -> int:
    """What CTAs of these resources leave an SM for L1 [B]. Args: warps_per_cta: those that the compiler adds, too."""
    used = resources.smem_bytes_per_cta + device.smem_reserved_per_cta_bytes
    used *= occupancy(resources, warps_per_cta, device).ctas_per_sm
    taken = device.smem_per_sm_bytes
    if resources.smem_bytes_per_cta <= PREFERS_SHARED_ABOVE_BYTES:
        taken = next((kib << 10 for kib in CARVE_OUTS_KIB if used <= kib << 10 <= taken), taken)
    return max(0, device.l1_bytes - taken)


def hit_curve(device: Device) -> np.ndarray:
    """Share of loads that hit, by what was moved since, as `core.engine.l1` takes it: float64 (2, points)."""
    return np.array((device.sm.l1_reach_fractions, device.sm.l1_hit_fractions), dtype=np.float64)


class Served(NamedTuple):
    """Of plain loads: all of them, and those that hit [B]."""

    loaded_bytes: int = 0
    hit_bytes: float = 0.0

    @property
    def share(self) -> float:
        """Share of these loads that hits."""
        return self.hit_bytes / self.loaded_bytes if self.loaded_bytes else 0.0

    def beside(self, other: "Served") -> "Served":
        """Both together."""
        return Served(self.loaded_bytes + other.loaded_bytes, self.hit_bytes + other.hit_bytes)


def served_by_l1(launch: Launch, device: Device, resident: int, item: int) -> dict[str, Served]:
    """What each step loads plainly, and how much of it hits, in its executions by one CTA: of its first `MOST_TILES`.

    Args:
        resident: CTAs of an SM; item: whose steps are followed.
    """
    room, curve = l1_room_bytes(launch, device), hit_curve(device)
    held: list[tuple[Access, int]] = []
    served: dict[str, Served] = {}
    for name, what, size in islice(_tiles(launch, item), MOST_TILES):
        distance, place = _look_up(held, what, size)
        if place >= 0:
            del held[place]
        held.insert(0, (what, size))
        if place < 0:
            _forget(held, curve[REACH, -1] * room / resident)
        if name == STORED:
            continue
        hit = Served(size, size * hit_share(float(distance * resident), float(room), curve))
        served[name] = served.get(name, Served()).beside(hit)
    return served


def _look_up(held: list[tuple[Access, int]], what: Access, size: int) -> tuple[float, int]:
    """What was moved since `what` was, and itself [B], and its place; infinity and -1 where it is not held."""
    distance = size
    for place, (other, other_bytes) in enumerate(held):
        if other == what:
            return distance, place
        distance += other_bytes
    return inf, -1


def _forget(held: list[tuple[Access, int]], reach_bytes: float) -> None:
    """Drop what lies so far back that nothing of it would hit."""
    while len(held) > 1 and sum(size for _, size in held[:-1]) > reach_bytes:
        held.pop()


def _tiles(launch: Launch, item: int) -> Iterator[tuple[str, Access, int]]:
    """What an item moves through L1, in order: the step that loads it, or `STORED`; what it is; its size [B]."""
    for step, variables in executions(launch.program, item):
        for tiles, name in ((step.loads, step.name), (step.stores, STORED)):
            for tile in tiles:
                tensor = launch.program.tensor(tile.tensor)
                what = clipped(tensor, tile, "load", variables)
                if tile.path in THROUGH_L1 and tile.lists is None and what.rows > 0 and what.cols > 0:
                    yield name, what, moved_bytes(tensor, what.rows, what.cols)
