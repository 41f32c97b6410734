"""From classes of CTAs to the loop nest of a program: steps for phases, loops for regions, a guard for each class.

A region whose iterations do not all touch the same becomes several loops, one for each stretch of like ones. The
longest stretch has whatever iterations a CTA has more or less than the one that was followed.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from ...launch.program import Loop, Step, Tile, Work
from ...launch.traced import Phase
from ..cta.cta_run import children_of
from ..paths import OUTSIDE
from ..touch.classes import MaskClass, PathClass
from ..touch.phases import Part
from ..touch.uses import Use
from ..values import Array
from .tiles import Variables
from .work import work_of

Tiles = Callable[[Use, tuple[str, ...], Array], list[Tile]]
"""Tiles of a use, from the counters around it, and the members of its class."""


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
        self._uses: dict[Part, list[Use]] = defaultdict(list)
        for use in kind.uses:
            self._uses[use.part].append(use)
        self._entered: dict[int, set[int]] = defaultdict(set)  # inner region -> iterations of the one around it
        for position in path_class.representative.positions:
            if len(position.iteration) > 1:
                self._entered[position.region].add(position.iteration[-2])
        self._whole: dict[int, int] = defaultdict(int)
        for (region, _), sizes in path_class.phases.sizes.items():
            self._whole[region] += sum(sizes)

    def inside(self, region: int, counters: tuple[str, ...], stretch: _Stretch | None) -> list[Step | Loop]:
        """What one iteration of a region does. Args: counters: of the loops around; stretch: of its iterations."""
        body: list[Step | Loop] = []
        for piece in range(len(self._children[region]) + 1):
            part = region, piece
            if part in self._class.phases.sizes:
                body += self._steps(part, counters, stretch)
            if piece < len(self._children[region]) and self._is_entered(self._children[region][piece], stretch):
                body += self._loops(self._children[region][piece], counters)
        return body

    def _is_entered(self, inner: int, stretch: _Stretch | None) -> bool:
        """Whether a region inside another is run in a stretch of that one's iterations."""
        return stretch is None or any(stretch.first <= number < stretch.last for number in self._entered[inner])

    def _steps(self, part: Part, counters: tuple[str, ...], stretch: _Stretch | None) -> Iterator[Step]:
        uses = [use for use in self._uses[part] if _in(use, stretch)]
        sizes = self._class.phases.sizes[part]
        # Loads that run ahead of a loop do so as a whole.
        groups = [range(len(sizes))] if any(use.ahead for use in uses) else [range(n, n + 1) for n in range(len(sizes))]
        label = "straight" if part[0] == OUTSIDE else f"loop {part[0]}"
        for number, group in enumerate(groups):
            group_uses = [use for use in uses if use.phase in group]
            name = f"{self._prefix}{label}.{part[1]}.{number}" + (
                f" from {stretch.first}" if stretch and stretch.first else ""
            )
            made = {
                use_number: self._tiles(use, counters, self._kind.members) for use_number, use in enumerate(group_uses)
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

    def _loops(self, region: int, counters: tuple[str, ...]) -> Iterator[Loop]:
        stretches = self._stretches(region)
        for number, stretch in enumerate(stretches):
            counter = f"{self._prefix}i{region}.{number}"
            ahead = max((use.ahead for use in self._uses[region, 0]), default=0)
            trips = self._trips(region, stretches, number)
            same = bool((trips[self._kind.members] == trips[self._kind.members[0]]).all())
            yield Loop(
                counter=counter,
                trips=int(trips[self._kind.members[0]]) if same else self._variables.name(trips),
                first=self._begin(region, stretch),
                stages=ahead + 1,
                body=tuple(self.inside(region, (*counters, counter), stretch)),
            )

    def _stretches(self, region: int) -> list[_Stretch]:
        """Stretches of iterations in which all uses of a region touch the same."""
        total = self._length(region)
        pieces = range(len(self._children[region]) + 1)
        uses = [use for piece in pieces for use in self._uses[region, piece]]
        edges = {0, total, *(use.first for use in uses), *(use.last for use in uses if use.last >= 0)}
        order = sorted(edge for edge in edges if 0 <= edge <= total)
        return [_Stretch(first, last) for first, last in pairwise(order)] or [_Stretch(0, total)]

    def _length(self, region: int) -> int:
        members, cta = self._kind.members, self._class.representative.cta
        lead = cta if cta in members else members[0]
        return int(self._class.trips[region][lead])

    def _trips(self, region: int, stretches: list[_Stretch], number: int) -> Array:
        """Iterations of a stretch, in each CTA of the launch."""
        every = self._class.trips[region]
        longest = max(range(len(stretches)), key=lambda place: stretches[place].last - stretches[place].first)
        lengths = [stretch.last - stretch.first for stretch in stretches]
        left: Array = every.copy()
        # What stands at the end is there in all CTAs; then what stands at the begin; the rest is the longest's.
        order = [*range(len(stretches) - 1, longest, -1), *range(longest)]
        for place in order:
            taken: Array = np.minimum(left, lengths[place])
            if place == number:
                return taken
            left = left - taken
        return left

    def _begin(self, region: int, stretch: _Stretch) -> int | str:
        """The iteration that a stretch begins with: a number, or a variable where CTAs of the class differ."""
        stretches = self._stretches(region)
        longest = max(stretches, key=lambda candidate: candidate.last - candidate.first)
        if stretch.first <= longest.first:
            return stretch.first
        members = self._kind.members
        begin = np.maximum(self._class.trips[region][members] - (self._length(region) - stretch.first), 0)
        return int(begin[0]) if not np.ptp(begin) else self._variables.among(begin, members)


def _in(use: Use, stretch: _Stretch | None) -> bool:
    """Whether a use is made in a stretch of iterations."""
    if stretch is None or not use.strides:
        return True
    return use.first <= stretch.first and (use.last < 0 or use.last >= stretch.last)
