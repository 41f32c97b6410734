"""Launches of two sides, matched: by kernel, order and shape; a kernel that was renamed, by its machine code."""

from collections.abc import Callable, Hashable, Sequence
from difflib import SequenceMatcher
from typing import TypeVar

from .side import LaunchSide

Item = TypeVar("Item")
Pairs = list[tuple[int | None, int | None]]


def matched(old: Sequence[LaunchSide], new: Sequence[LaunchSide]) -> Pairs:
    """Numbers of launches that answer each other, in the order of the new ones; None where there is no other.

    What agrees in kernel and shape comes first, in order; between those what agrees in the kernel alone; then, of what
    is left, launches of the same code.
    """
    pairs: Pairs = []
    for olds, news in aligned(old, new, lambda launch: (launch.row.name, launch.shape)):
        names = aligned([old[i] for i in olds], [new[i] for i in news], lambda launch: launch.row.name)
        for between_old, between_new in names:
            if len(between_old) == len(between_new) == 1 and (
                old[olds[between_old[0]]].row.name == new[news[between_new[0]]].row.name
            ):
                pairs.append((olds[between_old[0]], news[between_new[0]]))
            else:
                pairs += [(olds[place], None) for place in between_old]
                pairs += [(None, news[place]) for place in between_new]
    return _with_renamed(pairs, old, new)


def _with_renamed(pairs: Pairs, old: Sequence[LaunchSide], new: Sequence[LaunchSide]) -> Pairs:
    """Pairs, where a launch that is gone answers the first new one of the same code."""
    gone = [before for before, after in pairs if before is not None and after is None]
    joined: Pairs = []
    for before, after in pairs:
        if before is None and after is not None and new[after].code:
            before = next((place for place in gone if old[place].code == new[after].code), None)
            if before is not None:
                gone.remove(before)
        joined.append((before, after))
    kept = {before for before, after in joined if before is not None and after is not None}
    return [pair for pair in joined if pair[1] is not None or pair[0] not in kept]


def aligned(
    old: Sequence[Item], new: Sequence[Item], key: Callable[[Item], Hashable]
) -> list[tuple[list[int], list[int]]]:
    """Two sequences in steps: one place of each where keys agree, in order; else the places between two of those."""
    matcher = SequenceMatcher(None, [key(item) for item in old], [key(item) for item in new], autojunk=False)
    steps: list[tuple[list[int], list[int]]] = []
    for kind, first, stop, other, other_stop in matcher.get_opcodes():
        if kind == "equal":
            steps += [([place], [other + place - first]) for place in range(first, stop)]
        else:
            steps.append((list(range(first, stop)), list(range(other, other_stop))))
    return steps
