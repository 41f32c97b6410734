"""What is known of CTAs that run the same blocks: the input of `uses_of`, and with their uses what a launch is of."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ...emulator.thread_values import Array
from ..cta.bases import Bases, Execution
from ..cta.cta_run import CtaRun
from ..cta.group import CtaGroup
from ..cta.traced_kernel import TracedKernel
from ..nests import OUTSIDE
from .access_keys import AccessKey, Prologue
from .access_patterns import AccessPattern, IrregularAddresses
from .own_copies import OwnCopies
from .phases import Part, Phases
from .rounds import Rounds, Trips


@dataclass(frozen=True, slots=True, kw_only=True)
class CtaClass:
    """CTAs that run the same blocks.

    Args:
        subject: the launch; group: the CTAs, with a representative among them;
        bases: accesses -> where each begins in all CTAs of the group;
        rounds: region inside another -> iterations of that one in which a program runs it;
        phases: how the control path is cut; prologues: key of a loop's copies -> the copies ahead of it;
        kept_bytes: how much a CTA may move until L1 loses what it moved first [B];
        in_full: regions of which bases have all iterations;
        trips: region -> its iterations, of all CTAs of the launch; copies: what each copies by TMA, where known.
    """

    subject: TracedKernel
    group: CtaGroup
    bases: Mapping[Execution, Bases]
    rounds: Mapping[int, Rounds]
    phases: Phases
    prologues: Mapping[AccessKey, Prologue]
    kept_bytes: float
    in_full: frozenset[int] = frozenset()
    trips: Mapping[int, Trips] = field(default_factory=dict)
    copies: OwnCopies | None = None

    def own_use(self, places: frozenset[int], region: int) -> IrregularAddresses | None:
        """Boxes of a use, where they are known of each CTA. Args: places: of its copies; region: that they are in."""
        if self.copies is None or not places:
            return None
        around = tuple(self.trips[number] for number in self.nest_of(region))
        return self.copies.of(places, self.group.ctas, around)

    def nest_of(self, region: int) -> list[int]:
        """A region, and before it those around, the outermost first; none outside of all."""
        nest: list[int] = []
        while region != OUTSIDE:
            nest.insert(0, region)
            region = self.representative.paths.regions[region].parent
        return nest

    @property
    def representative(self) -> CtaRun:
        """The CTA that was followed with all of its threads."""
        return self.group.representative

    def subset(self, representative: CtaRun, ranks: Array) -> "CtaClass":
        """Some of the CTAs. Args: representative: one of these; ranks: their indices in the group, rising."""
        group = replace(self.group.subset(ranks), representative=representative)
        bases = {access: of_all.subset(ranks) for access, of_all in self.bases.items()}
        return replace(self, group=group, bases=bases)

    def standing_still(self, places: frozenset[int]) -> "CtaClass":
        """The same with accesses at some places where the representative makes them, in all CTAs."""
        rank = self.group.rank
        still = {access: of_all.like(rank) for access, of_all in self.bases.items() if access[0] in places}
        return replace(self, bases={**self.bases, **still})


@dataclass(frozen=True, slots=True, kw_only=True)
class MaskClass:
    """CTAs of one control path that mask alike.

    Args:
        members: CTA numbers, int64 (CTAs,); leader: of the one that was followed; uses: of all of them.
    """

    members: Array
    leader: int
    uses: tuple[AccessPattern, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PathClass:
    """CTAs that take one control path.

    Args:
        representative: the CTA that was followed; phases: how its control path is cut; masked: classes by masks;
        trips: region -> its iterations, by CTA number;
        short: innermost regions, all of whose iterations tell CTAs apart: what a class touches counts from the first;
        in_l1: place of a load -> share of its sectors that L1 serves;
        issued: float64 (instructions of the code,), how often all of its CTAs together issue each.
    """

    representative: CtaRun
    phases: Phases
    masked: tuple[MaskClass, ...]
    trips: Mapping[int, Trips]
    short: frozenset[int]
    in_l1: Mapping[int, float]
    issued: Array

    @property
    def instructions(self) -> int:
        """Instructions that all of its CTAs issue."""
        return round(float(self.issued.sum()))

    @property
    def parts(self) -> dict[Part, tuple[int, ...]]:
        """Parts of its control path -> instructions of each of their phases."""
        return dict(self.phases.sizes)
