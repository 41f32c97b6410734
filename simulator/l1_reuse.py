"""What L1 serves: the room that shared memory leaves it, and the share of a step's loads that it finds there.

Plain loads and spilled registers pass L1, asynchronous copies and TMA do not; stores are written through,
and what L1 has of them stays valid.
What a CTA loads again, all CTAs of its SM load in between as well.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from math import inf

from .core.l1 import NONE_BEYOND, hit_share
from .device import Device
from .occupancy import occupancy
from .program import Launch
from .walk import Access, clipped, executions, moved_bytes

CARVE_OUTS_KIB = (0, 8, 16, 32, 64, 100, 132, 164, 196, 228)
"""What shared memory may take of L1 (CUDA C++ Programming Guide, compute capabilities 8.0 to 12.0)."""
PREFERS_SHARED_ABOVE_BYTES = 48 << 10
"""Shared memory of a CTA above which Triton asks for the largest part that shared memory may take
(`CU_FUNC_CACHE_PREFER_SHARED` in the driver of triton 3.6); else the driver takes what as many CTAs need as fit."""
MOST_LOADS = 1000
"""Loads of a CTA that are followed."""
SPILLED = "spilled registers"


@dataclass(frozen=True, slots=True)
class Served:
    """Shares of what a step loads that L1 serves. Args: plain: of plain loads; spilled: of spilled registers."""

    plain: float = 0.0
    spilled: float = 0.0


def l1_room_bytes(launch: Launch, device: Device) -> int:
    """What an SM has left for L1 [B]."""
    used = launch.resources.smem_bytes_per_cta + device.smem_reserved_per_cta_bytes
    used *= occupancy(launch.resources, launch.warps_per_cta, device).ctas_per_sm
    taken = device.smem_per_sm_bytes
    if launch.resources.smem_bytes_per_cta <= PREFERS_SHARED_ABOVE_BYTES:
        taken = next((kib << 10 for kib in CARVE_OUTS_KIB if used <= kib << 10 <= taken), taken)
    return max(0, device.l1_bytes - taken)


def served_by_l1(
    launch: Launch, device: Device, resident: int, item: int, spilled_bytes: Mapping[str, int]
) -> dict[str, Served]:
    """Share of each step's loads that hit.

    Args:
        resident: CTAs of an SM; item: whose steps are followed;
        spilled_bytes: step name -> different bytes of spilled registers that it touches, of all its threads [B].
    """
    room = l1_room_bytes(launch, device)
    held: list[tuple[Access | str, int]] = []
    loaded: dict[tuple[str, bool], int] = {}
    hits: dict[tuple[str, bool], float] = {}
    for name, what, size in islice(_loads(launch, item, spilled_bytes), MOST_LOADS):
        kind = name, what is SPILLED
        distance, place = _look_up(held, what, size)
        # The first registers that are fetched have been spilled in the same step.
        if place < 0 and what is SPILLED and not any(spilled for _, spilled in loaded):
            distance = size
        if place >= 0:
            del held[place]
        held.insert(0, (what, size))
        if place < 0:
            _forget(held, NONE_BEYOND * room / resident)
        loaded[kind] = loaded.get(kind, 0) + size
        hits[kind] = hits.get(kind, 0.0) + size * hit_share(float(distance * resident), float(room))
    shares = {kind: hits[kind] / size for kind, size in loaded.items()}
    names = {name for name, _ in loaded}
    return {name: Served(shares.get((name, False), 0.0), shares.get((name, True), 0.0)) for name in names}


def _look_up(held: list[tuple[Access | str, int]], what: Access | str, size: int) -> tuple[float, int]:
    """What was loaded since `what` was, and itself [B], and its place; infinity and -1 where it is not held."""
    distance = size
    for place, (other, other_bytes) in enumerate(held):
        if other == what:
            return distance, place
        distance += other_bytes
    return inf, -1


def _forget(held: list[tuple[Access | str, int]], reach_bytes: float) -> None:
    """Drop what lies so far back that nothing of it would hit."""
    while len(held) > 1 and sum(size for _, size in held[:-1]) > reach_bytes:
        held.pop()


def _loads(launch: Launch, item: int, spilled_bytes: Mapping[str, int]) -> Iterator[tuple[str, Access | str, int]]:
    """Loads of an item in order: step, what is loaded, its size [B]."""
    for step, variables in executions(launch.program, item):
        for tile in step.loads:
            tensor = launch.program.tensor(tile.tensor)
            access = clipped(tensor, tile, "load", variables)
            if tile.path == "plain" and access.rows > 0 and access.cols > 0:
                yield step.name, access, moved_bytes(tensor, access.rows, access.cols)
        if spilled_bytes.get(step.name):
            yield step.name, SPILLED, spilled_bytes[step.name]
