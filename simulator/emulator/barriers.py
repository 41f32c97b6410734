"""Named barriers of CTAs, for many threads that are followed at a time."""

import numpy as np

from ..refusal import CannotFollow
from .thread_values import Array

Place = tuple[int, int]
"""A block, and how far in it: after so many barriers."""


class Barriers:
    """Who waits where. Args: warps: of a CTA."""

    def __init__(self, warps: int) -> None:
        self._warps = warps
        self._waiting: dict[int, dict[Place, Array]] = {}
        self._arrived: dict[int, Array] = {}

    def refuse_waiting(self) -> None:
        """Raises: CannotFollow: some warp still waits at a barrier; one line."""
        for number in sorted(number for number, places in self._waiting.items() if places):
            raise CannotFollow(f"warps wait at barrier {number}, where other warps of their CTA never come")

    def arrive(self, number: int, warps: int, waits: bool, place: Place, mask: Array) -> list[tuple[Place, Array]]:
        """Warps come to a barrier.

        Args:
            warps: how many it takes, 0: all of the CTA; waits: whether they stay until then, or only report.
            place: where they go on; mask: which threads.

        Returns:
            Who goes on, and where.
        """
        present = mask.any(axis=2, keepdims=True)
        shape = np.broadcast_shapes(present.shape, (1, self._warps, 1))
        arrived = np.broadcast_to(present, shape) | self._arrived.get(number, False)
        complete = arrived.sum(axis=1, keepdims=True) >= (warps or self._warps)
        self._arrived[number] = arrived & ~complete
        there = self._waiting.setdefault(number, {})
        if waits:
            there[place] = mask | there.get(place, False)
        released = [(where, them & complete) for where, them in there.items()]
        left = {where: them & ~complete for where, them in there.items()}
        self._waiting[number] = {where: them for where, them in left.items() if them.any()}
        going_on = [(where, them) for where, them in released if them.any()]
        return going_on if waits else [*going_on, (place, mask)]
