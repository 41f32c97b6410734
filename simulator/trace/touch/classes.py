"""Classes of CTAs: those that run the same blocks, by as many warps, take one path; of these, those that mask alike.

One CTA of each class is followed for all of it. Trip counts and base addresses are each CTA's own.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from ...emulator.thread_values import Array
from ...sass.memory_instructions import GLOBAL_LOADS
from ..cta.address_slice import AddressSlice, Tracer
from ..cta.bases import find_bases
from ..cta.block_counts import BlockCounts
from ..cta.cta_run import MOST_ACCESSES, CtaRun, follow_cta, follow_ctas
from ..cta.group import CtaGroup, regions_in_full
from ..cta.traced_kernel import TracedKernel
from ..cta.unknown_values import UnknownValues
from ..nests import OUTSIDE
from ..numbering import number_rows
from ..positions import blocks_of
from .access_keys import find_prologues
from .access_patterns import AccessPattern
from .bounds import check_bounds, farthest
from .cta_class import CtaClass, MaskClass, PathClass
from .find_patterns import uses_of
from .grouped_accesses import Grouped
from .mask_classes import MaskClasses, changing_masks, find_mask_kinds
from .own_copies import OwnCopies, follow_copies
from .phases import find_phases
from .rounds import more_visits, rounds_of, shape_of, shared_out, trips_of
from .scattered.lists import Scattered
from .scattered.sectors import Astray
from .scattered.unlike_ctas import go_astray, may_be_unlike, unlike_classes

MOST_PATHS = 128
"""Control paths that become classes of their own; the rest counts as the commonest. Kernels over lists of tensors have
a path for each: torch's compiler puts 48 and more in one."""
_Kind = tuple[Array, CtaRun]
"""Ranks of CTAs in a group, and the one of them that was followed."""
MOST_COUNTS = 8
"""Executions of straight code, by CTA, that are told apart; more count as alike."""


def classes_of(
    subject: TracedKernel,
    code_slice: AddressSlice,
    counts: BlockCounts,
    kept_bytes: float,
    doubts: UnknownValues,
    notes: list[str],
) -> list[PathClass]:
    """Follow one CTA of each class.

    Args:
        counts: of the blocks that each CTA runs; kept_bytes: as in `CtaClass`;
        notes: gets remarks, one line each.

    Raises:
        Refused: an access lies out of bounds, or depends on what is not known; one line.
    """
    path_of = number_rows(counts.warps.T, len(counts.warps))
    sizes = np.bincount(path_of)
    order = np.argsort(-sizes, kind="stable")
    tracer, remarks = Tracer(subject, code_slice, doubts), list[str]()
    classifier = _Classifier(tracer, counts.executions, kept_bytes, remarks)
    classes, before = list[PathClass](), doubts.so_far()
    try:
        if len(order) > MOST_PATHS:
            classifier.approximate(
                f"{len(order)} control paths among its CTAs; the {len(order) - MOST_PATHS} rarest are approximated by"
                " the most common one"
            )
            path_of = np.where(np.isin(path_of, order[:MOST_PATHS]), path_of, order[0])
        for number in order[:MOST_PATHS]:
            classes += classifier.classes(np.flatnonzero(path_of == number))
        if go_astray(tracer, (path_class.representative for path_class in classes), kept_bytes):
            raise _TooManyKinds
    except (_TooManyKinds, Astray):
        if not may_be_unlike(tracer):
            raise
        doubts.take_back(before)
        return unlike_classes(tracer, counts.executions, kept_bytes, notes)
    notes += remarks
    return classes


class _TooManyKinds(Exception):
    """More kinds of CTAs than are told apart."""


@dataclass(slots=True)
class _Classifier:
    """Makes the classes of a launch.

    Args:
        counts: executions of each block, int64 (CTAs, blocks); kept_bytes, notes: as in `classes_of`;
        checked: numbers of CTAs known to stay within their tensors;
        copies: what all CTAs copy, where that was asked for; orders: of the same blocks that were told apart;
        kinds: of CTAs that were.
    """

    tracer: Tracer
    counts: Array
    kept_bytes: float
    notes: list[str]
    checked: set[int] = field(default_factory=set)
    copies: OwnCopies | None = None
    orders: int = 0
    kinds: int = 0

    def classes(
        self, members: Array, representative: CtaRun | None = None, known: Mapping[int, int] | None = None
    ) -> list[PathClass]:
        """Classes of CTAs that run the same blocks; some of few iterations may have fewer loops.

        Args:
            members: CTA numbers, int64 (CTAs,);
            representative: the CTA of most instructions among them, where it has been followed already;
            known: places whose masks change within a loop, as of `changing_masks`, as other CTAs of these show.
        """
        issued = self.counts[members] @ _block_sizes(self.tracer.subject)
        run = representative or follow_cta(self.tracer, int(members[int(np.argmax(issued))]))
        alike = self._stands_for(members, run)
        if not alike.all():
            return [*self.classes(members[alike], run), *self.classes(members[~alike])]
        self._check(run)
        trips = trips_of(self.tracer.subject.flow, run, self.counts)
        of_members = {region: of_all.per_round[members] for region, of_all in trips.items()}
        group = CtaGroup(run, members, of_members, shared_out(self.tracer.subject.flow, run, self.counts[members]))
        tail = max(1, self.tracer.subject.kernel.num_stages)
        changing = changing_masks(group, tail) | dict(known or {})
        cta_class = self._class_of(group, frozenset(changing.values()))
        # Of copies by TMA at addresses that are not affine each CTA's are listed as they are.
        listed = uses_of(cta_class).listed if self.tracer.code_slice.copying else frozenset()
        if listed and run.paths.specialised:
            self.copies = self.copies or follow_copies(self.tracer)
            cta_class = replace(cta_class, copies=self.copies, trips=trips)
        kinds = find_mask_kinds(self.tracer, cta_class, self.notes, listed, frozenset(changing))
        self.kinds += len(kinds.kinds)
        if self.kinds > MOST_PATHS and may_be_unlike(self.tracer):
            raise _TooManyKinds
        scattered = Scattered(self.tracer, cta_class, kinds.scattered, self.notes)
        masked: list[MaskClass] = []
        others: list[PathClass] = []
        in_l1: dict[int, float] = {}
        same, unlike = self._by_order(run, self._leaders(group, kinds, issued))
        for _, leader in same:
            also = changing_masks(replace(group, representative=leader), tail)
            if not also.keys() <= changing.keys() | kinds.scattered | listed:
                return self.classes(members, run, changing | also)
        if unlike and not self._may_tell_apart(len(unlike)):
            rest = [ranks for ranks, leader in same if leader is run] + [ranks for ranks, _ in unlike]
            same = [(np.sort(np.concatenate(rest)), run), *(kind for kind in same if kind[1] is not run)]
            unlike = []
        for ranks, leader in unlike:
            others += self.classes(members[ranks], leader)
        for ranks, leader in same:
            uses, hits = self._uses(cta_class.subset(leader, ranks), run, scattered)
            masked.append(MaskClass(members=members[ranks], leader=leader.cta, uses=tuple(uses)))
            in_l1 = in_l1 or dict(hits)
        path_class = PathClass(
            representative=run,
            phases=cta_class.phases,
            masked=tuple(masked),
            trips=trips,
            short=group.short_loops(tail),
            in_l1=in_l1,
            issued=self._issued(run, np.concatenate([mask_class.members for mask_class in masked])),
        )
        return [path_class, *others]

    def _by_order(self, run: CtaRun, leaders: Iterator[_Kind]) -> tuple[list[_Kind], list[_Kind]]:
        """Kinds of CTAs that go through the loops of a followed one in its order, and those that do not."""
        same, unlike, shape = list[_Kind](), list[_Kind](), shape_of(run)
        for ranks, leader in leaders:
            if leader is not run:
                self._check(leader)
            (same if shape_of(leader) == shape else unlike).append((ranks, leader))
        return same, unlike

    def _may_tell_apart(self, orders: int) -> bool:
        """Count orders of the same blocks. Returns: whether they may be classes; else a note says that they are not."""
        self.orders += orders
        if self.orders > MOST_PATHS:
            self.approximate(f"its CTAs run the same blocks in more than {MOST_PATHS} orders; some stand for others")
        return self.orders <= MOST_PATHS

    def approximate(self, text: str) -> None:
        """Let some CTAs stand for others, and remark that, once; where they can, all threads go their own ways."""
        if may_be_unlike(self.tracer):
            raise _TooManyKinds
        remark = f"kernel {self.tracer.subject.kernel.name}: {text}"
        self.notes += [remark] if remark not in self.notes else []

    def _stands_for(self, members: Array, run: CtaRun) -> Array:
        """Which CTAs a followed one stands for, whatever their trip counts, bool (CTAs,).

        They run its straight code as often, as a loop whose iterations all differ is straight code; and loops that it
        visits several times there, or mixes as visits differ. All count as alike where classes would be too many.
        """
        regions = run.paths.regions
        even = {
            block
            for warp in range(len(run.paths.warps))
            for block, region in run.paths.executed(warp)
            if region != OUTSIDE and regions[region].even
        }
        compared = [block for block in np.flatnonzero(self.counts[run.cta]).tolist() if block not in even]
        flow = self.tracer.subject.flow
        counts = np.hstack((self.counts[np.ix_(members, compared)], more_visits(flow, run, self.counts[members])))
        of_run = np.hstack((self.counts[run.cta, compared], more_visits(flow, run, self.counts[[run.cta]])[0]))
        alike: Array = (counts == of_run).all(axis=1)
        others = counts[~alike]  # of millions mostly none
        if len(others) and len(np.unique(others, axis=0)) + bool(alike.any()) > MOST_COUNTS:
            self.approximate(
                f"its CTAs run straight code unequally often, in over {MOST_COUNTS} ways; some stand for others"
            )
            return np.ones(len(members), dtype=bool)
        return alike

    def _check(self, run: CtaRun) -> None:
        check_bounds(self.tracer.subject, run)
        self.checked.add(run.cta)

    def _class_of(self, group: CtaGroup, in_full: frozenset[int]) -> CtaClass:
        """What is known of a group before its uses. Args: in_full: regions of which all iterations are followed."""
        subject, run = self.tracer.subject, group.representative
        bases = find_bases(self.tracer, group, in_full)
        phases = find_phases(run.paths, tuple(blocks_of(run.paths, 0)))
        return CtaClass(
            subject=subject,
            group=group,
            bases=bases,
            rounds=rounds_of(run),
            phases=phases,
            prologues=find_prologues(subject, run, phases),
            kept_bytes=self.kept_bytes,
            in_full=in_full | regions_in_full(self.tracer, group),
        )

    def _leaders(self, group: CtaGroup, kinds: MaskClasses, issued: Array) -> Iterator[tuple[Array, CtaRun]]:
        """Ranks of each kind of CTAs, and the one of them that issues most, followed; first that of the group.

        Args:
            issued: instructions of each CTA of the group, int64 (CTAs,).
        """
        ranks_of = {kind: np.flatnonzero(kinds.of_cta == kind) for kind in kinds.kinds}
        leaders = [
            group.rank if kinds.of_cta[group.rank] == kind else int(ranks[np.argmax(issued[ranks])])
            for kind, ranks in ranks_of.items()
        ]
        followed = self._followed(group.representative, [int(group.ctas[rank]) for rank in leaders])
        return zip(ranks_of.values(), followed, strict=True)

    def _followed(self, run: CtaRun, ctas: list[int]) -> Iterator[CtaRun]:
        """CTAs that are followed, several at a time where each makes few accesses. Args: run: of one that has been."""
        left = [cta for cta in ctas if cta != run.cta]
        at_once = max(1, MOST_ACCESSES // 4 // (self.tracer.subject.kernel.warps * max(1, len(run.accesses))))
        parts = (follow_ctas(self.tracer, left[at : at + at_once]) for at in range(0, len(left), at_once))
        others = (other for part in parts for other in part)
        return (run if cta == run.cta else next(others) for cta in ctas)

    def _uses(
        self, cta_class: CtaClass, run: CtaRun, scattered: Scattered
    ) -> tuple[list[AccessPattern], Mapping[int, float]]:
        """Uses of CTAs that mask alike; place of a load -> share that L1 serves.

        Args:
            run: representative of all CTAs of the control path; scattered: accesses that are listed.

        Raises:
            Refused: an access lies out of bounds.
        """
        group, subject = cta_class.group, self.tracer.subject
        lists, listed = scattered.uses_of(cta_class), scattered.places
        tables: frozenset[int] = frozenset()
        if lists is None:
            self.notes.append(
                f"kernel {subject.kernel.name}: its CTAs gather or scatter at too many places to list;"
                " the places of one CTA stand for those of all"
            )
            tables = self._tables(cta_class, listed)
            cta_class, listed = cta_class.standing_still(tables), frozenset()
        class_uses = uses_of(cta_class, scattered=listed)
        if class_uses.uneven:
            grouped: Grouped | None = class_uses.grouped
            if not (class_uses.uneven <= cta_class.in_full and group.representative.paths.alike(run.paths)):
                bases = find_bases(self.tracer, group, class_uses.uneven)
                # What the representative finds in L1 others may not, where iterations lie unlike from CTA to CTA.
                cta_class, grouped = replace(cta_class, bases=bases).standing_still(tables), None
            class_uses = uses_of(cta_class, class_uses.uneven, listed, grouped)
        uses = [*(self._with_listings(use, cta_class) for use in class_uses.uses), *(lists or ())]
        farthest_ctas = group.ctas[sorted(farthest(uses, group.trips, subject))].tolist()
        for other in self._followed(run, [cta for cta in farthest_ctas if cta not in self.checked]):
            self._check(other)
        self.notes += [line for line in class_uses.notes if line not in self.notes]
        return uses, class_uses.in_l1

    def _tables(self, cta_class: CtaClass, places: frozenset[int]) -> frozenset[int]:
        """Those of some accesses that load from a storage which L1 keeps whole: it matters little where in it."""
        memory, code = self.tracer.subject.memory, self.tracer.subject.flow.instructions
        numbers = {
            access.place: memory.number_of(int(access.taken[0]))
            for access in cta_class.representative.accesses
            if access.place in places and code[access.place].family in GLOBAL_LOADS and access.lanes
        }
        return frozenset(
            place
            for place, number in numbers.items()
            if number in memory.storages and memory.storages[number].size_bytes <= self.kept_bytes
        )

    def _with_listings(self, use: AccessPattern, cta_class: CtaClass) -> AccessPattern:
        """A use that is not affine, with its lists; taken as affine where there would be too many."""
        if use.uneven is None:
            return use
        kernel, group = self.tracer.subject.kernel, cta_class.group
        rounds = group.trips[cta_class.nest_of(use.part[0])[0]]
        listings = use.uneven.listings(rounds, max(1, kernel.num_stages), group.rank)
        if not listings:
            name = self.tracer.subject.memory.storages[use.storage].name
            self.notes.append(
                f"kernel {kernel.name}: {use.kind}s of {name} are too many to list; taken as evenly spaced"
            )
        return replace(use, uneven=use.uneven if listings else None, listings=listings)

    def _issued(self, run: CtaRun, members: Array) -> Array:
        """How often CTAs together issue each instruction, float64 (instructions,).

        Blocks are counted in each CTA; how often warps issue a block for each such count is taken from one CTA.

        Args:
            run: of that CTA; members: CTA numbers, int64 (CTAs,).
        """
        counted, blocks = self.counts[run.cta], self.tracer.subject.flow.blocks
        with np.errstate(divide="ignore", invalid="ignore"):
            issued = np.where(counted > 0, run.issued / counted, 0.0)
            again = np.where(counted > 0, run.reconverged / counted, 0.0)
        times = self.counts[members].sum(axis=0)
        by_place: Array = np.repeat(times * issued, _block_sizes(self.tracer.subject))
        by_place[[block.first for block in blocks]] += times * again
        return by_place


def _block_sizes(subject: TracedKernel) -> Array:
    """Instructions of each block, int64 (blocks,)."""
    return np.array([block.stop - block.first for block in subject.flow.blocks], dtype=np.int64)
