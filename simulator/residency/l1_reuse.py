"""L1 hits: the share of a step's plain loads that L1 serves.

Plain loads go through L1, asynchronous copies of 16 B a thread and TMA do not; stores are written through,
and L1 keeps what is stored.
What a CTA loads again, all CTAs of its SM load in between as well. What the CTA before it on its SM has loaded, weights
say, lies as far back as all that a CTA moves.
"""

from collections.abc import Iterator, Set
from itertools import islice
from math import inf
from typing import NamedTuple

from ..core.engine.l1 import REACH, hit_share
from ..device.device import Device
from ..launch.program import THROUGH_L1, Launch
from ..launch.walk import Access, executions, moved_bytes, pieces_of
from .l1_room import hit_curve
from .residency import Residency

STORED = ""
MOST_TILES = 2000
"""Loads and stores of a CTA that are followed."""


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


def served_by_l1(launch: Launch, residency: Residency, device: Device, resident: int, item: int) -> dict[str, Served]:
    """What each step loads plainly, and how much of it hits, in its executions by one CTA: of its first `MOST_TILES`.

    Args:
        residency: of the launch on the device, which says how large L1 is.
        resident: CTAs that share an SM.
        item: whose steps are followed.
    """
    room, curve = residency.l1_bytes, hit_curve(device, residency.l1_bytes)
    held, numbers = _Held(curve[REACH, -1] * room / resident), dict[Access, int]()
    served: dict[str, Served] = {}
    before, between = _of_the_cta_before(launch, device, item)
    # Those of the first wave find nothing of others.
    later = max(0.0, 1.0 - resident * device.sms / launch.program.item_count)
    for name, what, size in islice(tiles_of(launch, item), MOST_TILES):
        distance = held.moved(numbers.setdefault(what, len(numbers)), size)
        if name == STORED:
            continue
        share = hit_share(float(distance * resident), float(room), curve)
        if what in before:
            share = max(share, later * hit_share(float(between), float(room), curve))
        served[name] = served.get(name, Served()).beside(Served(size, size * share))
    return served


def _of_the_cta_before(launch: Launch, device: Device, item: int) -> tuple[Set[Access], int]:
    """What an item moves that runs on the same SM before or beside another.

    Returns:
        Its accesses, none where there is no such item or it moves too much to be followed; all that it moves [B].
    """
    program = launch.program
    apart = min(launch.cta_count, device.sms)
    other = item - apart if item >= apart else item + apart
    if other >= program.item_count:
        return frozenset(), 0
    tiles = list(islice(tiles_of(launch, other), MOST_TILES + 1))
    if len(tiles) > MOST_TILES:
        return frozenset(), 0
    return {what for _, what, _ in tiles}, sum(size for _, _, size in tiles)


class _Held:
    """What was moved, the newest first, as far back as a load may hit. Args: reach_bytes: so far [B]."""

    def __init__(self, reach_bytes: float) -> None:
        self._reach_bytes = reach_bytes
        self._numbers: list[int] = []
        self._sizes: list[int] = []
        self._bytes = 0

    def moved(self, number: int, size: int) -> float:
        """An access is moved, by its number. Returns: bytes moved since it was, and its own; infinite: never [B]."""
        distance = inf
        if number in self._numbers:
            place = self._numbers.index(number)
            distance = size + sum(self._sizes[:place])
            self._bytes -= self._sizes.pop(place)
            del self._numbers[place]
        self._numbers.insert(0, number)
        self._sizes.insert(0, size)
        self._bytes += size
        while distance == inf and len(self._sizes) > 1 and self._bytes - self._sizes[-1] > self._reach_bytes:
            self._bytes -= self._sizes.pop()
            self._numbers.pop()
        return distance


def tiles_of(launch: Launch, item: int) -> Iterator[tuple[str, Access, int]]:
    """What an item moves through L1, in order: the step that loads it, or `STORED`; what it is; its size [B]."""
    for step, variables in executions(launch.program, item):
        for tiles, name in ((step.loads, step.name), (step.stores, STORED)):
            for tile in tiles:
                tensor = launch.program.tensor(tile.tensor)
                if tile.path in THROUGH_L1 and not tile.is_gathered:
                    for what in pieces_of(tensor, tile, "load", variables):
                        yield name, what, moved_bytes(tensor, what.rows, what.cols)
