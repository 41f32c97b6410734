"""Which configurations of a launch are worth a prediction: the best by a static rank of their tiles.

A rank, never a threshold: what a third of timed configurations keeps of the fastest is in docs/choose.md, by
validate/lab/choice/screened.py.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, TypeVar

from ..simulator.device.device import Device
from ..simulator.screening.static_time import rank_of, static_times_s
from .tile_work import static_work

if TYPE_CHECKING:
    from ..kernels.compile.call import KernelLaunch

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepFraction:
    """How many of the configurations of a launch are predicted.

    Args:
        share: of them; least: at least so many.
        tied: up to so many times as many where the rank does not tell them from the last of these.
    """

    share: float
    least: int = 1
    tied: float = 1.0

    def of(self, count: int) -> int:
        """Of so many."""
        return min(count, max(self.least, ceil(self.share * count)))

    def of_ranks(self, ranks: Sequence[tuple[float, float]]) -> int:
        """Of those of so many ranks, the best first."""
        count = self.of(len(ranks))
        tied = sum(rank[0] <= ranks[count - 1][0] for rank in ranks)
        return max(count, min(tied, int(self.tied * count)))


USUAL = KeepFraction(share=1 / 3, least=16, tied=2.0)
ALL = KeepFraction(share=1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Screening:
    """How configurations are screened. Args: device: that they are for; portion: that is predicted."""

    device: Device
    portion: KeepFraction = USUAL

    def kept(self, launches: "Sequence[Sequence[KernelLaunch]]") -> "list[list[KernelLaunch]]":
        """Of the configurations of each launch those to predict, the best first; all where they are few."""
        return [self._best(calls) if self.portion.of(len(calls)) < len(calls) else list(calls) for calls in launches]

    def _best(self, calls: "Sequence[KernelLaunch]") -> "list[KernelLaunch]":
        works = {id(call): static_work(call, self.device) for call in calls}
        # Of what the IR does not tell only a prediction can say anything: all of it is predicted.
        ranks = {at: rank_of([static_times_s(work, self.device)]) if work else (0.0, 0.0) for at, work in works.items()}
        count = max(self.portion.of_ranks(sorted(ranks.values())), list(works.values()).count(None))
        return sorted(calls, key=lambda call: ranks[id(call)])[:count]
