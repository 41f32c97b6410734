"""What a prediction leaves out of a kernel, in words for its author: rare sides of branches, prints and assertions."""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from ...limits import SECTOR_BYTES
from ...refusal import CannotFollow, Refused
from ..cta.block_counts import count_blocks
from ..cta.doubts import Doubts
from ..cta.rare_sides import RareSides, calls_outside
from ..cta.subject import Subject
from ..touch.classes import PathClass

MOST_STEPS = 20_000
"""Blocks of one CTA that are gone through to see what rare sides would add: a second or two."""
TENFOLD = 10
PRINT, ASSERT = "device_print", "device_assert"


def notes_on_rare_sides(subject: Subject, doubts: Doubts, cta: int) -> list[str]:
    """One remark on all rare sides that no thread takes: where they are, and what they would add.

    Args:
        doubts: after CTAs were followed; cta: number of one of them, in which they are counted.
    """
    if not doubts.rare_blocks:
        return []
    texts = dict.fromkeys(subject.line_text(subject.flow.blocks[block].stop - 1) for block in doubts.rare_blocks)
    return [
        f"kernel {subject.kernel.name}: {', '.join(texts)}: rare case (a branch on computed values around a loop, such"
        " as the reduction of large arguments of sin and cos): taken never;"
        f" {_added(subject, doubts, cta)}"
    ]


def _added(subject: Subject, doubts: Doubts, cta: int) -> str:
    taking = Doubts(subject)
    taking.counters = doubts.counters
    sides = RareSides(subject.flow)
    taking.taking = frozenset().union(*(sides.guards(block) for block in doubts.rare_blocks))
    sizes = np.array([block.stop - block.first for block in subject.flow.blocks], dtype=np.int64)
    try:
        never, always = (
            int((count_blocks(subject, policy, [cta], MOST_STEPS) @ sizes)[0]) for policy in (Doubts(subject), taking)
        )
    except (CannotFollow, Refused):
        return "what it would add is not known"
    times = always / never
    return f"a warp that always takes it issues {times:.{0 if times >= TENFOLD else 1}f} times as many instructions"


def notes_on_counters(subject: Subject, doubts: Doubts, lower_bound: bool) -> list[str]:
    """A remark on counters that CTAs add to. Args: lower_bound: whether the time is one."""
    bound = "; the time is a lower bound" if lower_bound else ""
    return [
        f"{subject.place_text(place)}: CTAs count up {name}: taken to come in the order of their numbers{bound}"
        for place, name in sorted(doubts.counters.used.items())
    ]


def notes_on_lost_pieces(subject: Subject, classes: Sequence[PathClass]) -> list[str]:
    """A remark on each storage of which listed pieces lie outside, where no access was: a fault of the tracer."""
    lost: Counter[int] = Counter()
    for use in (use for path_class in classes for kind in path_class.masked for use in kind.uses):
        storage = subject.memory.storages[use.storage]
        for listing in use.listings:
            piece, starts = listing.piece, listing.starts - storage.address
            ends = starts + (piece.rows - 1) * max(0, piece.pitch) + piece.width
            lost[use.storage] += int(np.sum((starts < -SECTOR_BYTES) | (ends > storage.size_bytes + SECTOR_BYTES)))
    return [
        f"kernel {subject.kernel.name}: pieces of {subject.memory.storages[number].name} were placed outside of it"
        f" and are left out ({count:,}): a fault of tilesight, please report it"
        for number, count in lost.items()
        if count
    ]


def notes_on_outside_calls(subject: Subject) -> list[str]:
    """A remark on each line that calls the CUDA runtime, which is left out: prints, and assertions that fail."""
    notes: dict[str, None] = {}
    for number, block in enumerate(subject.flow.blocks):
        if subject.flow.dominators[number] < 0 or not calls_outside(subject.flow, number):
            continue
        place = block.stop - 1
        text = subject.source_text(place)
        if PRINT in text or "printf" in text:
            what = f"{PRINT} is left out"
        elif "assert" in text:
            what = f"{ASSERT} is left out: taken to hold"
        else:
            what = "a call of the CUDA runtime (a check of debug=True, or a print) is left out"
        notes[f"{subject.place_text(place)}: {what}"] = None
    return list(notes)
