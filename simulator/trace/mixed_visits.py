"""Visits of one loop that repeat different code, as where an `if` inside asks about the loop around it.

    for j in range(...):
        for k in range(...):
            if j == 0:        the first visit of the loop over k does more than all others
                ...

What an iteration takes is then measured on a *mixture*: iterations of all visits, in proportion and evenly spread.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from math import gcd

import numpy as np

LONGEST = 16
"""Iterations of a mixture at most; rarer ones are left out, by rounding."""


@dataclass(frozen=True, slots=True)
class LoopVisit:
    """A warp's stay in a loop.

    Args:
        loop: its number.
        iterations: of each the blocks, and visits of loops inside, in order.
    """

    loop: int
    iterations: tuple[tuple["int | LoopVisit", ...], ...]


ControlPath = tuple["int | LoopVisit", ...]
"""Blocks that a warp runs, and visits of loops, in order."""


def first_block(path: ControlPath) -> int:
    """The block that a path begins with."""
    return first_block(path[0].iterations[0]) if isinstance(path[0], LoopVisit) else path[0]


def way_on(path: ControlPath, at: int, successors: Sequence[int]) -> int | None:
    """Where all threads go on from a block of a path; None: some may go elsewhere, and come there later.

    Args:
        at: place of the block, outside of loops; successors: of it.
    """
    rest = path[at + 1 :]
    if len(successors) < 2 or not rest or first_block(rest) not in successors:
        return None
    for block in _blocks_of(rest):
        if block == path[at]:
            break
        if block in successors and block != first_block(rest):
            return None
    return first_block(rest)


def _blocks_of(path: ControlPath) -> Iterator[int]:
    for item in path:
        if isinstance(item, LoopVisit):
            yield from (block for body in item.iterations for block in _blocks_of(body))
        else:
            yield item


def with_all_blocks(bodies: Sequence[ControlPath], count: int) -> Sequence[ControlPath]:
    """Iterations that each hold the blocks of all, as one CTA may run in the first what another skips there.

    Threads pass by blocks to which they have not jumped. Where blocks do not come in order, iterations are as they are.
    Of loops that count as one the blocks of the last come first, as threads come to it at the end of an iteration.

    Args:
        count: iterations at least.
    """
    straight = {body: [block for block in body if isinstance(block, int)] for body in bodies}
    if any(before >= block for body in straight.values() for before, block in pairwise(body)):
        return bodies
    of_loops: dict[int, set[int]] = {}
    for body, of_body in straight.items():
        of_loops.setdefault(first_block(body), set()).update(of_body)
    blocks = [block for of_loop in reversed(of_loops.values()) for block in sorted(of_loop)]
    return [tuple(blocks)] * max(count, len(bodies))


def stretches_of(bodies: Sequence[ControlPath]) -> list[tuple[int, int]]:
    """First iteration and length of each of the loops that count as one, whose iterations begin at another block."""
    firsts = [first_block(body) for body in bodies]
    begins = [0, *(at for at in range(1, len(firsts)) if firsts[at] != firsts[at - 1])]
    return [(begin, stop - begin) for begin, stop in pairwise([*begins, len(firsts)])]


def in_any_iteration(path: ControlPath) -> tuple[object, ...]:
    """A path with the blocks of all iterations in the place of the visits of its innermost loops."""
    items: list[object] = []
    for item in path:
        if isinstance(item, LoopVisit) and (bodies := with_all_blocks(item.iterations, 0)) is not item.iterations:
            items.append((item.loop, bodies[0]))
        else:
            items.append(item)
    return tuple(items)


def alike_runs(bodies: Sequence[ControlPath], trips: np.ndarray | None) -> list[int]:
    """How many iterations from each on are alike, and made by the same CTAs. Args: trips: of each CTA; None: all."""
    ends = set() if trips is None else set(trips.tolist())
    runs = [1] * len(bodies)
    for number in reversed(range(len(bodies) - 1)):
        if bodies[number] == bodies[number + 1] and number + 1 not in ends:
            runs[number] += runs[number + 1]
    return runs


def rolled(path: ControlPath, times: Mapping[int, int]) -> ControlPath:
    """A path in which iterations of some innermost loops count as one, `times` each; what is left stands behind."""
    whole: list[int | LoopVisit] = []
    for item in path:
        if not isinstance(item, LoopVisit):
            whole.append(item)
            continue
        step, bodies = times.get(item.loop, 1), item.iterations
        if step == 1:
            whole.append(LoopVisit(item.loop, tuple(rolled(body, times) for body in bodies)))
            continue
        joined = [tuple(chain(*bodies[at : at + step])) for at in range(0, len(bodies) - step + 1, step)]
        whole += [LoopVisit(item.loop, tuple(joined))] if joined else []
        whole += chain(*bodies[len(joined) * step :])
    return tuple(whole)


def mixtures(path: ControlPath) -> dict[int, tuple[ControlPath, ...]]:
    """Innermost loop -> iterations that stand for those of all its visits; none of loops whose visits are alike.

    First and last iterations of a visit often differ from those between; visits differ where what most repeats does.
    """
    visits: dict[int, list[LoopVisit]] = defaultdict(list)
    _collect(path, visits)
    mixed = {}
    for loop, stays in visits.items():
        repeated = [Counter(visit.iterations).most_common(1)[0] for visit in stays]
        if len({iteration for iteration, times in repeated if times > 1}) > 1:
            mixed[loop] = _evenly(Counter(iteration for visit in stays for iteration in visit.iterations))
    return mixed


def _collect(path: ControlPath, visits: dict[int, list[LoopVisit]]) -> None:
    """Append the visits of innermost loops in a path, by loop."""
    for item in path:
        if not isinstance(item, LoopVisit):
            continue
        if any(isinstance(inner, LoopVisit) for iteration in item.iterations for inner in iteration):
            for iteration in item.iterations:
                _collect(iteration, visits)
        else:
            visits[item.loop].append(item)


def _evenly(times: Counter[ControlPath]) -> tuple[ControlPath, ...]:
    """Iterations in proportion to how often each kind runs, in an order in which none gathers."""
    common = gcd(*times.values())
    total = times.total()
    length = min(LONGEST, total // common)
    shares = {kind: count / total for kind, count in times.items()}
    order: list[ControlPath] = []
    given: Counter[ControlPath] = Counter()
    for place in range(length):
        lacks = {kind: share * (place + 1) - given[kind] for kind, share in shares.items()}
        kind = max(lacks, key=lambda kind: lacks[kind])
        given[kind] += 1
        order.append(kind)
    return tuple(order)
