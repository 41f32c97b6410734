"""From classes of CTAs to the loop nest of a program: steps for phases, loops for regions, a guard for each class.

A region whose iterations do not all touch the same becomes several loops, one for each stretch of like ones. The
longest stretch has whatever iterations a CTA has more or less than the one that was followed.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np

from ...emulator.thread_values import Array
from ...launch.program import Loop, Step, Tile, Work
from ...launch.traced import Phase
from ...launch.walk import steps
from ..nests import OUTSIDE
from ..positions import children_of
from ..touch.access_patterns import AccessPattern
from ..touch.cta_class import MaskClass, PathClass
from ..touch.phases import Part
from ..touch.rounds import rounds_of
from .tiles import Variables
from .work import work_of

Tiles = Callable[[AccessPattern, tuple[str, ...], Array, Array], list[Tile]]
"""Tiles of a use, from the counters around it, the members of its class, and the iteration with which each begins."""


@dataclass(slots=True)
class Nest:
    """The body of a program as it grows. Args: body: steps and loops; phases: what each step stands for, by class."""

    body: list[Step | Loop] = field(default_factory=list)
    phases: list[list[Phase]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Stretch:
    """Iterations of a region, in the CTA that was followed. Args: first: of them; last: one past the last."""

    first: int
    last: int


def nest_of(classes: list[PathClass], variables: Variables, tiles: Tiles) -> Nest:
    """Steps and loops of all classes, one after the other."""
    nest = Nest()
    several = sum(len(path_class.masked) for path_class in classes) > 1 or any(
        len(kind.members) < variables.items for path_class in classes for kind in path_class.masked
    )
    number = 0
    for path_class in classes:
        nest.phases.append([])
        works = work_of(path_class.representative.paths)
        for kind in path_class.masked:
            prefix = f"class {number}: " if several else ""
            body = _Body(path_class, kind, prefix, variables, tiles, works, nest.phases[-1]).inside(OUTSIDE, (), None)
            if several:
                member = np.zeros(variables.items, dtype=np.int64)
                member[kind.members] = 1
                guard = variables.name(member)
                nest.body.append(Loop(counter=f"{prefix}guard", trips=guard, body=tuple(body)))
            else:
                nest.body += body
            number += 1
    return nest


class _Body:
    """The steps and loops of one class."""

    def __init__(
        self,
        path_class: PathClass,
        kind: MaskClass,
        prefix: str,
        variables: Variables,
        tiles: Tiles,
        works: dict[Part, Work],
        phases: list[Phase],
    ) -> None:
        self._class, self._kind, self._prefix, self._works = path_class, kind, prefix, works
        self._variables, self._tiles, self._phases = variables, tiles, phases
        self._children = children_of(path_class.representative.paths)
        self._uses: dict[Part, list[AccessPattern]] = defaultdict(list)
        for use in kind.uses:
            self._uses[use.part].append(use)
        self._rounds = rounds_of(path_class.representative)
        self._whole: dict[int, int] = defaultdict(int)
        for (region, _), sizes in path_class.phases.sizes.items():
            self._whole[region] += sum(sizes)

    def inside(
        self, region: int, counters: tuple[str, ...], stretch: _Stretch | None, shorter: int | None = None
    ) -> list[Step | Loop]:
        """What one iteration of a region does.

        Args:
            counters: of the loops around; stretch: of its iterations; shorter: region with one iteration less.
        """
        body: list[Step | Loop] = []
        for piece in range(len(self._children[region]) + 1):
            part = region, piece
            if part in self._class.phases.sizes:
                body += self._steps(part, counters, stretch)
            if piece < len(self._children[region]) and self._is_entered(self._children[region][piece], stretch):
                inner = self._children[region][piece]
                body += self._loops(inner, counters, int(inner == shorter))
        return body

    def _is_entered(self, inner: int, stretch: _Stretch | None) -> bool:
        """Whether a region inside another is run in a stretch of that one's iterations."""
        if stretch is None:
            return True
        parent = self._class.representative.paths.regions[inner].parent
        rounds = self._rounds[inner].of(self._length(parent))
        return any(stretch.first <= number < stretch.last for number in rounds)

    def _steps(self, part: Part, counters: tuple[str, ...], stretch: _Stretch | None) -> Iterator[Step]:
        uses = [use for use in self._uses[part] if _in(use, stretch)]
        sizes = self._class.phases.sizes[part]
        # Loads that run ahead of a loop do so as a whole.
        groups = [range(len(sizes))] if any(use.ahead for use in uses) else [range(n, n + 1) for n in range(len(sizes))]
        begins = self._begin(part[0], stretch)[self._kind.members] if stretch else np.zeros(1, dtype=np.int64)
        label = "straight" if part[0] == OUTSIDE else f"loop {part[0]}"
        for number, group in enumerate(groups):
            group_uses = [use for use in uses if use.phase in group]
            name = f"{self._prefix}{label}.{part[1]}.{number}" + (
                f" from {stretch.first}" if stretch and stretch.first else ""
            )
            made = {
                use_number: self._tiles(use, counters, self._kind.members, begins)
                for use_number, use in enumerate(group_uses)
            }
            yield Step(
                name=name,
                loads=tuple(
                    tile for n, use in enumerate(group_uses) if use.kind in ("load", "atomic") for tile in made[n]
                ),
                work=self._works.get(part, Work()) if number == 0 else Work(),
                stores=tuple(tile for n, use in enumerate(group_uses) if use.kind != "load" for tile in made[n]),
            )
            share = sum(sizes[phase] for phase in group) / max(1, self._whole[part[0]])
            spills = tuple(place for phase in group for place in self._class.phases.spills.get((part, phase), ()))
            # A loop inside another stands in each stretch of that one's iterations, and takes its time once in each.
            if all(phase.step != name for phase in self._phases):
                self._phases.append(Phase(step=name, region=part[0], share=share, spills=spills))

    def _loops(self, region: int, counters: tuple[str, ...], less: int = 0) -> Iterator[Loop]:
        """Loops of a region: one for each stretch, two where rounds inside have two lengths. Args: less: iterations."""
        stretches = self._stretches(region)
        ahead = max((use.ahead for use in self._uses[region, 0]), default=0)
        for number, stretch in enumerate(stretches):
            trips, begin = self._trips(region, stretches, number), self._begin(region, stretch)
            inner, shorter = self._shorter(region, stretches, number)
            for half, (count, first) in enumerate(((trips - shorter, begin), (shorter, begin + trips - shorter))):
                if half and not count[self._kind.members].any():
                    continue
                if stretch == _longest(stretches):
                    count = np.maximum(count - less, 0)
                counter = f"{self._prefix}i{region}.{number}{'.shorter' * half}"
                yield Loop(
                    counter=counter,
                    trips=self._number(count),
                    first=self._number(first),
                    stages=ahead + 1,
                    body=tuple(self.inside(region, (*counters, counter), stretch, inner if half else None)),
                )

    def _shorter(self, region: int, stretches: list[_Stretch], number: int) -> tuple[int | None, Array]:
        """The region inside whose rounds are of two lengths, and how many of a stretch are the shorter ones.

        They are the last of all rounds: a stretch has those that the stretches behind it have no place for.
        """
        inside = [inner for inner in self._children[region] if self._is_entered(inner, stretches[number])]
        trips = self._trips(region, stretches, number)
        if not inside or self._class.representative.paths.regions[region].parent != OUTSIDE:
            return None, np.zeros_like(trips)
        longest = max(inside, key=lambda inner: int(self._class.trips[inner].per_round[self._kind.members].max()))
        left = self._class.trips[longest].shorter
        for behind in range(number + 1, len(stretches)):
            if self._is_entered(longest, stretches[behind]):
                left = left - self._trips(region, stretches, behind)
        return longest, left.clip(0, trips)

    def _stretches(self, region: int) -> list[_Stretch]:
        """Stretches of iterations in which all uses of a region touch the same, and the same regions inside are run."""
        total = self._length(region)
        pieces = range(len(self._children[region]) + 1)
        uses = [use for piece in pieces for use in self._uses[region, piece]]
        edges = {0, total, *(use.first for use in uses), *(use.last for use in uses if use.last >= 0)}
        for inner in self._children[region]:
            rounds = self._rounds[inner].of(total)
            edges |= {number + after for number in rounds for after in (0, 1) if number + 2 * after - 1 not in rounds}
        order = sorted(edge for edge in edges if 0 <= edge <= total)
        return [_Stretch(first, last) for first, last in pairwise(order)] or [_Stretch(0, total)]

    def _length(self, region: int) -> int:
        return int(self._class.trips[region].per_round[self._kind.leader])

    def _trips(self, region: int, stretches: list[_Stretch], number: int) -> Array:
        """Iterations of a stretch, in each CTA of the launch."""
        left: Array = self._class.trips[region].per_round.copy()
        if region in self._class.short:
            until = stretches[number].last if number < len(stretches) - 1 else left
            of_stretch: Array = np.maximum(np.minimum(left, until) - stretches[number].first, 0)
            return of_stretch
        longest = stretches.index(_longest(stretches))
        lengths = [stretch.last - stretch.first for stretch in stretches]
        # What stands at the end is there in all CTAs; then what stands at the begin; the rest is the longest's.
        order = [*range(len(stretches) - 1, longest, -1), *range(longest)]
        for place in order:
            taken: Array = np.minimum(left, lengths[place])
            if place == number:
                return taken
            left = left - taken
        return left

    def _begin(self, region: int, stretch: _Stretch) -> Array:
        """The iteration that a stretch begins with, in each CTA of the launch."""
        trips = self._class.trips[region].per_round
        if region in self._class.short or stretch.first <= _longest(self._stretches(region)).first:
            return np.full_like(trips, stretch.first)
        begin: Array = np.maximum(trips - (self._length(region) - stretch.first), 0)
        return begin

    def _number(self, values: Array) -> int | str:
        """A number of each CTA: a constant where all CTAs of the class have the same, else a variable."""
        members = self._kind.members
        of_members = values[members]
        return int(of_members[0]) if not np.ptp(of_members) else self._variables.among(of_members, members)


def _longest(stretches: Sequence[_Stretch]) -> _Stretch:
    return max(stretches, key=lambda stretch: stretch.last - stretch.first)


def _in(use: AccessPattern, stretch: _Stretch | None) -> bool:
    """Whether a use is made in a stretch of iterations."""
    if stretch is None or not use.strides:
        return True
    return use.first <= stretch.first and (use.last < 0 or use.last >= stretch.last)


def running_ahead(body: tuple[Step | Loop, ...], slots: int) -> tuple[Step | Loop, ...]:
    """A body whose loops that copy all they load by TMA do so ahead. Args: slots: free at the begin, of a ring."""

    def of(node: Step | Loop) -> Step | Loop:
        if isinstance(node, Step):
            return node
        loads = [tile for step, _ in steps(node.body) for tile in step.loads]
        copies = bool(loads) and all(tile.path == "tma" for tile in loads)
        return replace(node, body=running_ahead(node.body, slots), stages=max(node.stages, slots * copies))

    return tuple(map(of, body)) if slots else body
