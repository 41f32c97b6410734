"""From the accesses of a representative to the uses of its class: strides where addresses are affine, lists elsewhere.

Iterations of a loop that touch other sets of bytes (the last of a row, a diagonal) become uses of their own, for a
stretch of iterations; where there would be many stretches, each iteration is listed.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property

import numpy as np

from ...emulator.thread_values import Array
from ...limits import SECTOR_BYTES
from ..cta.bases import Bases, Execution, probe_masks
from ..positions import Iteration
from .access_keys import Accesses, AccessKey, IterationAccess, Iterations, join_prologues, joined_ahead
from .access_patterns import AccessPattern, IrregularAddresses
from .cta_class import CtaClass
from .footprints import Runs, layers_of, moved, part_fraction_of, runs_of, stored_sectors, whole_sectors
from .grouped_accesses import Grouped, group_accesses
from .listed_boxes import boxes_of
from .rounds import MOST_STRETCHES, deal_out, program_places, rounds_are_alike, stretches_of
from .stride_patterns import StridePattern, distances_of, first_iterations, has_bases, split_by_bases, stride_pattern_of


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassUses:
    """The uses of a class of CTAs.

    Args:
        uses: all; in_l1: place of a load -> share of its sectors that L1 serves; notes: remarks, one line each;
        uneven: regions with addresses that are no affine function of the iteration, all of whose iterations have to be
            followed in all CTAs; listed: places of copies by TMA in such regions; grouped: as of `group_accesses`.
    """

    uses: list[AccessPattern]
    in_l1: Mapping[int, float]
    notes: list[str]
    uneven: frozenset[int]
    listed: frozenset[int]
    grouped: Grouped


def uses_of(
    cta_class: CtaClass,
    in_full: frozenset[int] = frozenset(),
    scattered: frozenset[int] = frozenset(),
    grouped: Grouped | None = None,
) -> ClassUses:
    """All uses of a class of CTAs.

    Args:
        in_full: regions (loops) whose iterations were all followed in every CTA;
        scattered: places of accesses to leave out, as `scattered` makes their uses; grouped: where it is known.
    """
    grouped = grouped or group_accesses(cta_class)
    in_l1, accesses = grouped[1], _without(grouped[0], scattered) if scattered else dict(grouped[0])
    prologues = cta_class.prologues
    join_prologues(accesses, prologues)
    notes, uses = list[str](), list[AccessPattern]()
    uneven, listed = set[int](), set[int]()
    for key, of_key in accesses.items():
        joined = joined_ahead(prologues, key)
        for iterations in split_by_bases(of_key, cta_class.bases, cta_class.group, joined > 0):
            pattern = stride_pattern_of(iterations, cta_class.bases, joined)
            boxed = frozenset(copy.place for of_at in iterations.values() for copy in of_at if copy.box is not None)
            exact = cta_class.own_use(boxed, key.part[0])
            if not pattern.affine and not pattern.restarts and exact is None:
                uneven.add(key.part[0])
                listed |= boxed
            full = exact is not None or key.part[0] in in_full
            maker = _UseMaker(
                cta_class=cta_class, key=key, iterations=iterations, pattern=pattern, exact=exact, in_full=full
            )
            notes += maker.notes()
            made = maker.uses()
            uses += [replace(use, ahead=prologues[key].depth) for use in made] if key in prologues else made
    return ClassUses(
        uses=uses, in_l1=in_l1, notes=notes, uneven=frozenset(uneven), listed=frozenset(listed), grouped=grouped
    )


def _without(accesses: Mapping[AccessKey, Accesses], places: frozenset[int]) -> dict[AccessKey, Accesses]:
    """Accesses except those at some places."""
    left: dict[AccessKey, Accesses] = {}
    for key, iterations in accesses.items():
        kept = {at: [access for access in of_at if access.place not in places] for at, of_at in iterations.items()}
        if any(kept.values()):
            left[key] = {at: of_at for at, of_at in kept.items() if of_at}
    return left


@dataclass(frozen=True, kw_only=True)
class _UseMaker:
    """Makes the uses of accesses of one key.

    Args:
        iterations: accesses of the representative; pattern: how addresses depend on the iteration;
        exact: boxes of each CTA, where they are known; in_full: whether all iterations were followed in all CTAs.
    """

    cta_class: CtaClass
    key: AccessKey
    iterations: Iterations
    pattern: StridePattern
    exact: IrregularAddresses | None
    in_full: bool

    @property
    def begin(self) -> Iteration:
        """The first iteration."""
        return min(self.iterations)

    @property
    def irregular(self) -> bool:
        """Whether addresses are listed: no stride gives them, or all CTAs' are known."""
        return self.exact is not None or (not self.pattern.affine and not self.pattern.restarts)

    @property
    def trips(self) -> int:
        """Trip count of the innermost loop in the representative."""
        return self.cta_class.group.representative_trips[self.key.part[0]]

    def notes(self) -> list[str]:
        """A remark where addresses are taken to be affine that are not, one line."""
        if not self.irregular or self.in_full:
            return []
        subject, key = self.cta_class.subject, self.key
        name = subject.memory.storages[key.storage].name if key.storage in subject.memory.storages else "?"
        line = subject.place_text(self.iterations[self.begin][0].place)
        return [f"{line}: {key.kind}s of {name} are at irregular distances; taken as evenly spaced"]

    def uses(self) -> list[AccessPattern]:
        """The uses: of each layer, and of each stretch of iterations."""
        uses = list(self._uses())
        if not self.pattern.strides:
            return uses
        return [replace(use, last=-1 if use.last >= self.trips else use.last) for use in uses]

    def _uses(self) -> Iterator[AccessPattern]:
        strides, layers = self.pattern.strides, self._layers()
        starts = self._starts(self.iterations[self.begin])
        boxed = bool(strides) and self.irregular and self.in_full and self.iterations[self.begin][0].box is not None
        for runs_at in layers[:1] if boxed else layers:
            stretches = stretches_of(runs_at, len(strides))
            uneven = None
            if strides and self._is_listed(runs_at, stretches):
                uneven = self._uneven(runs_at, boxed)
                stretches = [(0, -1, max(runs_at.values(), key=list(runs_at.values()).count))]
            for first, last, runs in stretches:
                of_stretch = min(at for at, others in runs_at.items() if others == runs)
                use = self._use(runs, starts, _zero_bytes(self.iterations[of_stretch]))
                yield replace(use, first=first, last=last, uneven=uneven or use.uneven)

    def _layers(self) -> list[dict[Iteration, Runs]]:
        """Iteration -> runs relative to where the strides lead, of each layer that copies past L1 make."""
        layers: dict[int, dict[Iteration, Runs]] = defaultdict(dict)
        known: dict[bytes, list[Runs]] = {}
        for at in sorted(self.iterations):
            move = self.pattern.moves[at]
            signature = _signature(self.iterations[at], move)
            if signature not in known:
                known[signature] = [
                    moved(runs, -move) for runs in _layers_of(self.iterations[at], self.key.path == "atomic")
                ]
            for layer, runs in enumerate(known[signature]):
                if runs:
                    layers[layer][at] = runs
        return list(layers.values())

    def _is_listed(self, runs_at: Mapping[Iteration, Runs], stretches: Sequence[tuple[int, int, Runs]]) -> bool:
        """Whether each iteration is listed, as strides do not give its sectors."""
        shorter = any(stride % SECTOR_BYTES for stride in self.pattern.strides) and (
            max(length for _, _, runs in stretches for _, length in runs) < SECTOR_BYTES
        )
        made = {at[-1] for at in first_iterations(self.iterations) if at}
        absent = not made.issuperset(self._program_rounds())
        unlike = (self.irregular and self.in_full) or absent or len(stretches) > MOST_STRETCHES
        return unlike or shorter or not rounds_are_alike(runs_at) or not self._every <= self._places

    def _use(self, runs: Runs, starts: Array, zero_bytes: int) -> AccessPattern:
        """A use by strides. Args: runs: of an iteration; starts: of the first one, int64 (CTAs,) [B]."""
        pattern, key = self.pattern, self.key
        requested = stored_sectors([access.stored for access in self.iterations[self.begin] if access.stored])
        part_fraction = part_fraction_of(runs, requested) if requested or key.path == "atomic" else 0.0
        runs = _in_sectors(runs, starts, pattern.strides)
        origin = runs[0][0]
        zero = origin - sum(stride * number for stride, number in zip(pattern.strides, self.begin, strict=True))
        runs = moved(runs, -origin)
        return AccessPattern(
            **asdict(key),
            runs=runs,
            base=starts + zero,
            strides=pattern.strides,
            part_fraction=part_fraction,
            ahead=pattern.ahead,
            zero_bytes=zero_bytes,
            uneven=self._rounds(runs, origin) if pattern.restarts else None,
        )

    def _starts(self, accesses: Sequence[IterationAccess]) -> Array:
        """Distances of an iteration from that in the representative, int64 (CTAs,) [B]."""
        return distances_of(accesses, self.cta_class.bases, self.cta_class.group)

    def _rounds(self, runs: Runs, origin: int) -> IrregularAddresses:
        """Bases of each iteration of the outer loops. Args: runs: of an iteration; origin: of the first one [B]."""
        firsts, pattern = first_iterations(self.iterations), self.pattern
        sizes = self._sizes()[:-1]
        stride = pattern.strides[-1]
        origins, shapes = [], []
        for outer in np.ndindex(*sizes):
            at = firsts.get(outer, self.begin)
            origins.append(self._starts(self.iterations[at]) + origin + pattern.moves[at] - stride * at[-1])
            shapes.append(runs if outer in firsts else ())
        return IrregularAddresses(origins=np.stack(origins, axis=1), shapes=tuple(shapes), sizes=sizes, stride=stride)

    def _sizes(self) -> tuple[int, ...]:
        """Iterations of each loop around, in the CTA of the class that runs most, outermost first."""
        trips = self.cta_class.group.trips
        sizes = [int(trips[region].max()) for region in self.cta_class.nest_of(self.key.part[0])]
        outer = (max(numbers) + 1 for numbers in zip(*(at[:-1] for at in self.iterations), strict=True))
        return (*(max(pair) for pair in zip(outer, sizes[:-1], strict=True)), sizes[-1])

    def _program_rounds(self) -> tuple[int, ...]:
        """Iterations of the loop around in which a program runs the innermost one; none where there is no such loop."""
        group, region = self.cta_class.group, self.key.part[0]
        if region not in self.cta_class.rounds:
            return ()
        parent = group.representative.paths.regions[region].parent
        return self.cta_class.rounds[region].of(group.representative_trips[parent])

    def _uneven(self, runs_at: Mapping[Iteration, Runs], boxed: bool) -> IrregularAddresses:
        """What each iteration touches, nothing in some. Args: boxed: whether boxes are listed, too."""
        cta_class, moves = self.cta_class, self.pattern.moves
        if self.exact:
            return self.exact
        sizes = self._sizes()
        made = self._in_rounds_alike(sizes)
        origins, shapes = [], []
        for slot in np.ndindex(*sizes):
            at = made.get(slot)
            origins.append(self._beyond(slot) if at is None else self._starts(self.iterations[at]) + moves[at])
            shapes.append(() if at is None else runs_at.get(at, ()))
        copies = {slot: self.iterations[at] for slot, at in made.items()}
        boxes = boxes_of(copies, sizes, cta_class.bases, cta_class.group.rank) if boxed else None
        return IrregularAddresses(
            origins=np.stack(origins, axis=1),
            shapes=tuple(shapes),
            sizes=sizes,
            boxes=boxes,
            masks=self._masks([made.get(slot, slot) for slot in np.ndindex(*sizes)]) if self.in_full else None,
        )

    def _beyond(self, at: Iteration) -> Array:
        """Distances of an iteration that the representative does not make from its first one, int64 (CTAs,) [B]."""
        latest = max(self.iterations)
        access = self.iterations[latest][0]
        known = self.cta_class.bases[access.execution].addresses if has_bases([access], self.cta_class.bases) else {}
        iteration = (*at[:-1], at[-1] - self.pattern.ahead)
        if iteration not in known or access.position.iteration not in known:
            return self._starts(self.iterations[self.begin])
        distances: Array = known[iteration] - known[access.position.iteration][self.cta_class.group.rank]
        return distances + self.pattern.moves[latest]

    def _masks(self, places: Sequence[Iteration]) -> Array | None:
        """As of `IrregularAddresses`. Args: places: iteration that is made at each place of the nest."""
        bases, depth = self.cta_class.bases, self.pattern.ahead
        made_at: dict[int, set[Execution]] = defaultdict(set)  # stage ahead of the loop; depth: in it
        for at, accesses in self.iterations.items():
            made_at[min(at[-1], depth)] |= {access.execution for access in accesses}

        def accesses_of(at: Iteration) -> list[tuple[Bases, Iteration]]:
            iteration = (*at[:-1], at[-1] - depth) if at[-1] >= depth else at[:-1]
            return [(bases[access], iteration) for access in sorted(made_at[min(at[-1], depth)])]

        masked = [accesses_of(at) for at in places]
        if not all(iteration in of_all.active for accesses in masked for of_all, iteration in accesses):
            return None
        return np.stack([probe_masks(accesses, len(self.cta_class.group)) for accesses in masked], axis=1)

    def _in_rounds_alike(self, sizes: tuple[int, ...]) -> dict[Iteration, Iteration]:
        """Place in the nest of a program -> iteration that is made there. Args: sizes: iterations of each loop."""
        every = self._every | self.iterations.keys()
        if every <= self._places:
            return {at: at for at in self.iterations}
        made = deal_out(sorted(every), self._places, sizes, self._program_rounds())
        return {place: at for place, at in made.items() if at in self.iterations}

    @cached_property
    def _every(self) -> frozenset[Iteration]:
        """Iterations of its loop that the representative makes."""
        positions, region = self.cta_class.representative.positions, self.key.part[0]
        return frozenset(position.iteration for position in positions if position.region == region)

    @cached_property
    def _places(self) -> frozenset[Iteration]:
        """Iterations that a program makes in the representative."""
        nest, trips = self.cta_class.nest_of(self.key.part[0]), self.cta_class.group.representative_trips
        return frozenset(program_places(nest, trips, self.cta_class.rounds, len(self._every)))


def _in_sectors(runs: Runs, starts: Array, strides: tuple[int, ...]) -> Runs:
    """Runs as whole sectors, which is what moves, where they are aligned alike in every CTA and iteration."""
    if (starts % SECTOR_BYTES).any() or any(stride % SECTOR_BYTES for stride in strides):
        return runs
    return tuple(
        (start - start % SECTOR_BYTES, start % SECTOR_BYTES + length + -(start + length) % SECTOR_BYTES)
        for start, length in runs
    )


def _zero_bytes(copies: Sequence[IterationAccess]) -> int:
    """Bytes of the rows of boxes that lie outside of their tensor."""
    boxes = [(copy.box.descriptor.box_rows, copy.touched[0]) for copy in copies if copy.box is not None]
    return sum((rows - inside.addresses.size) * whole_sectors(inside.size) for rows, inside in boxes)


def _signature(accesses: Sequence[IterationAccess], move: int) -> bytes:
    """Equal for iterations that touch and fetch the same bytes, relative to where the strides lead. Args: move: [B]."""
    touched = [part for access in accesses for part in access.touched]
    sizes = [number for part in touched for number in (part.size, len(part.addresses))]
    sectors = [access.sectors * SECTOR_BYTES for access in accesses if access.sectors is not None]
    parts: Array = np.concatenate([np.array(sizes) + move, *(part.addresses for part in touched), *sectors]) - move
    return parts.tobytes()


def _layers_of(accesses: Sequence[IterationAccess], in_part: bool) -> list[Runs]:
    """Runs of an iteration: of all that it fetches, or in layers that share nothing. Args: in_part: as `layers_of`."""
    parts = [part for access in accesses for part in access.touched]
    if accesses[0].sectors is None:
        return layers_of(parts, in_part)
    sectors = np.unique(np.concatenate([access.sectors for access in accesses if access.sectors is not None]))
    return [runs_of(parts, sectors)]
