"""Which configurations of a launch are worth a prediction: the best by a static rank of their compiled code.

A rank, never a threshold: what a third of timed configurations keeps of the fastest is in docs/choose.md, by
validate/lab/choice/screened.py.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, TypeVar

from ..simulator.device.device import Device
from ..simulator.screening.static_time import rank_of, static_times_s
from .answers import Screen

if TYPE_CHECKING:
    from ..kernels.compile.call import KernelLaunch

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepFraction:
    """How many of the configurations of a launch are predicted. Args: share: of them; least: at least so many."""

    share: float
    least: int = 1

    def of(self, count: int) -> int:
        """Of so many."""
        return min(count, max(self.least, ceil(self.share * count)))


USUAL = KeepFraction(share=1 / 3, least=16)
ALL = KeepFraction(share=1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Screening:
    """How configurations are screened. Args: screen: `screen_all` for a device; portion: that is predicted."""

    screen: Screen
    device: Device
    portion: KeepFraction = USUAL

    def kept(self, launches: "Sequence[Sequence[KernelLaunch]]") -> "list[list[KernelLaunch]]":
        """Of the configurations of each launch those to predict, the best first; all where they are few."""
        many = [calls for calls in launches if self.portion.of(len(calls)) < len(calls)]
        works = iter(self.screen([call for calls in many for call in calls]) if many else ())
        kept = []
        for calls in launches:
            if self.portion.of(len(calls)) == len(calls):
                kept.append(list(calls))
                continue
            ranks = {}
            for call in calls:
                work = next(works)
                # What cannot be followed is predicted: only that can say why it is refused.
                ranks[id(call)] = rank_of([static_times_s(work, self.device)]) if work else (0.0, 0.0)
            kept.append(sorted(calls, key=lambda call: ranks[id(call)])[: self.portion.of(len(calls))])
        return kept
