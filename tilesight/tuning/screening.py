"""Which configurations of a launch are worth a prediction: the best by a static rank of their tiles.

A rank, never a threshold: what a third of timed configurations keeps of the fastest is in docs/choose.md, by
validate/lab/choice/screened.py. Of these the first are predicted, then those that can still be as fast.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, inf
from statistics import fmean
from typing import TYPE_CHECKING

from ..simulator.device.device import Device
from ..simulator.prediction.kernel_row import KernelRow
from ..simulator.screening.static_time import rank_of, static_times_s
from .tile_work import static_work
from .tuning import ALIKE

if TYPE_CHECKING:
    from ..kernels.compile.call import KernelLaunch
    from .answers import Predict

    Calls = Sequence[tuple[KernelLaunch, float]]
Rows = Mapping[int, KernelRow]

SURE = 0.8
"""Share of what it takes by those before it that a configuration takes at least. Kind: assumed, held against the timed
configurations of validate/lab/choice: with 0.75 and 0.85, too, none of 74 cells on an H100 and of 75 on an H200 has
another choice (screened.py)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepFraction:
    """How many of the configurations of a launch are predicted.

    Args:
        share: of them; least: their smallest number.
        tied: up to this many times as many where the rank does not tell them from the last of these.
        first: how many go first, and of the others those that can be as fast as the best of these; 0: all at once.
    """

    share: float
    least: int = 1
    tied: float = 1.0
    first: int = 0

    def of(self, count: int) -> int:
        """Of so many."""
        return min(count, max(self.least, ceil(self.share * count)))

    def of_ranks(self, ranks: Sequence[tuple[float, float]]) -> int:
        """Of those of so many ranks, the best first."""
        count = self.of(len(ranks))
        tied = sum(rank[0] <= ranks[count - 1][0] for rank in ranks)
        return max(count, min(tied, int(self.tied * count)))


USUAL = KeepFraction(share=1 / 3, least=16, tied=2.0, first=8)
ALL = KeepFraction(share=1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Screening:
    """How configurations are screened. Args: device: that they are for; portion: that is predicted."""

    device: Device
    portion: KeepFraction = USUAL

    def kept(self, launches: "Sequence[Sequence[KernelLaunch]]") -> "list[list[KernelLaunch]]":
        """Of the configurations of each launch those worth a prediction, the best first; all where they are few."""
        return [[call for call, _ in self._best(calls)] for calls in launches]

    def predicted(
        self, launches: "Sequence[Sequence[KernelLaunch]]", others: "Sequence[KernelLaunch]", predict: "Predict"
    ) -> dict[int, KernelRow]:
        """What is predicted of the configurations of each launch, and of others: `id` of the call -> its row."""
        best, rows = [self._best(calls) for calls in launches], dict[int, KernelRow]()
        for wanted in (self._first, self._second):
            asked = {id(call): call for calls in best for call in wanted(calls, rows) if id(call) not in rows}
            asked |= {id(call): call for call in others if id(call) not in rows}
            rows |= dict(zip(asked, predict(list(asked.values())), strict=True)) if asked else {}
        return rows

    def _best(self, calls: "Sequence[KernelLaunch]") -> "list[tuple[KernelLaunch, float]]":
        """Those worth a prediction, with what all units take by their tiles [s]: 0 where unknown."""
        if self.portion.of(len(calls)) == len(calls):
            return [(call, 0.0) for call in calls]
        works = [static_work(call, self.device) for call in calls]
        times_s = [static_times_s(work, self.device) if work else (0.0, 0.0, 0.0) for work in works]
        # Of what the IR does not tell only a prediction can say anything: all of it is predicted.
        ranks = [rank_of([times]) for times in times_s]
        count = max(self.portion.of_ranks(sorted(ranks)), works.count(None))
        order = sorted(range(len(calls)), key=ranks.__getitem__)
        return [(calls[place], sum(times_s[place])) for place in order[:count]]

    def _first(self, best: "Calls", rows: Rows) -> "list[KernelLaunch]":
        first = self.portion.first or len(best)
        return [call for place, (call, time_s) in enumerate(best) if place < first or not time_s]

    def _second(self, best: "Calls", rows: Rows) -> "list[KernelLaunch]":
        """Those that can be as fast as the fastest that is predicted, as far as predictions can tell."""
        seen = [(time_s, rows[id(call)]) for call, time_s in best if id(call) in rows]
        known = [(time_s, row.traffic.time_s) for time_s, row in seen if row.prediction]
        return [call for call, time_s in best if can_win(time_s, known)]


def can_win(static_s: float, known: Sequence[tuple[float, float]]) -> bool:
    """Whether a configuration can be as fast as the fastest of others, as far as predictions can tell.

    Args:
        static_s: what all units take by its tiles [s]; known: the same of others, and what is predicted of them [s].
    """
    most_s = (1 + ALIKE) * min((time_s for _, time_s in known), default=inf)
    others = [pair for pair in known if 0.0 < pair[0] < inf]
    # What does not fit by an estimate is refused by the compiler alone.
    return not others or static_s == inf or least_s(static_s, others) <= most_s


def least_s(static_s: float, known: Sequence[tuple[float, float]]) -> float:
    """What a configuration takes at least, by others: in proportion, and along a line through what these take [s].

    Args:
        static_s: what all units take by its tiles; known: the same of others, and what is predicted of them [s].
    """
    static, predicted = (fmean(column) for column in zip(*known, strict=True))
    spread = sum((time_s - static) ** 2 for time_s, _ in known)
    together = sum((time_s - static) * (taken_s - predicted) for time_s, taken_s in known)
    slope = max(0.0, together / spread) if spread else 0.0
    along_s = min(taken_s - slope * time_s for time_s, taken_s in known) + slope * static_s
    return SURE * min(along_s, static_s * min(taken_s / time_s for time_s, taken_s in known))
