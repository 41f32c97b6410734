"""Remarks on a kernel for its author: rare sides, prints and assertions that are left out, accesses of few bytes."""

from collections import Counter, defaultdict
from collections.abc import Sequence

import numpy as np

from ...emulator.storage import STORAGE_SHIFT
from ...emulator.thread_values import Array
from ...limits import SECTOR_BYTES, WARP_THREADS
from ...refusal import CannotFollow, Refused
from ...sass.memory_instructions import PLAIN_GLOBAL, addresses_of
from ...sass.operands import launch_offset
from ...sass.registers import guard_of
from ..control_slice import slice_of
from ..cta.block_counts import count_blocks
from ..cta.cta_run import CtaRun
from ..cta.rare_sides import RareSides, calls_outside
from ..cta.traced_kernel import TracedKernel
from ..cta.unknown_values import UnknownValues
from ..nests import OUTSIDE
from ..touch.cta_class import PathClass

MOST_STEPS = 20_000
"""Blocks of one CTA that are gone through to see what rare sides would add: a second or two."""
TENFOLD, WIDEST_BYTES = 10, 16
PRINT, ASSERT = "device_print", "device_assert"


def notes_on_launch(
    subject: TracedKernel, classes: Sequence[PathClass], doubts: UnknownValues, lower_bound: bool
) -> list[str]:
    """All of these remarks, one line each. Args: lower_bound: whether the time is one."""
    run = classes[0].representative
    return [
        *notes_on_counters(subject, doubts, lower_bound),
        *notes_on_outside_calls(subject),
        *notes_on_lost_pieces(subject, classes),
        *notes_on_rare_sides(subject, doubts, run.cta),
        *notes_on_run(subject, run),
    ]


def notes_on_run(subject: TracedKernel, run: CtaRun) -> list[str]:
    """Remarks on how a CTA was followed: loops as straight code, words narrower than they could be; one line each."""
    why = "a loop of some of its warps is unrolled, not that of others: all is followed as straight code, whose copies"
    remark = f"kernel {subject.kernel.name}: {why} do not run ahead; its time is an upper bound"
    return [*([remark] if run.paths.unrolled else []), *_narrow_notes(subject, run)]


def notes_on_rare_sides(subject: TracedKernel, doubts: UnknownValues, cta: int) -> list[str]:
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


def _added(subject: TracedKernel, doubts: UnknownValues, cta: int) -> str:
    taking = UnknownValues(subject)
    taking.counters = doubts.counters
    sides = RareSides(subject.flow)
    taking.taking = frozenset().union(*(sides.guards(block) for block in doubts.rare_blocks))
    sizes = np.array([block.stop - block.first for block in subject.flow.blocks], dtype=np.int64)
    try:
        never, always = (
            int((count_blocks(subject, policy, [cta], MOST_STEPS).executions @ sizes)[0])
            for policy in (UnknownValues(subject), taking)
        )
    except (CannotFollow, Refused):
        return "what it would add is not known"
    times = always / never
    return f"a warp that always takes it issues {times:.{0 if times >= TENFOLD else 1}f} times as many instructions"


def notes_on_counters(subject: TracedKernel, doubts: UnknownValues, lower_bound: bool) -> list[str]:
    """A remark on counters that CTAs add to. Args: lower_bound: whether the time is one."""
    notes = []
    for place, name in sorted(doubts.counters.used.items()):
        queue = doubts.counter_places[place]
        bound = "; the time is a lower bound" if lower_bound else ""
        if queue and not lower_bound:
            bound = ", though tiles are unequal, and who is done first takes the next: the time is an upper bound"
        begin = f"{subject.place_text(place)}: CTAs {'take tiles from' if queue else 'count up'} {name}"
        notes.append(f"{begin}: taken to come in the order of their numbers{bound}")
    return notes


def runs_unlike(classes: Sequence[PathClass]) -> bool:
    """Whether a loop in a loop runs unlike often in its rounds."""
    return any(
        path_class.representative.paths.regions[region].parent != OUTSIDE
        and bool(np.ptp(trips.per_round) or trips.shorter.any())
        for path_class in classes
        for region, trips in path_class.trips.items()
    )


def notes_on_lost_pieces(subject: TracedKernel, classes: Sequence[PathClass]) -> list[str]:
    """A remark on each storage of which listed pieces lie outside: unlike rounds of a loop in a loop, or a fault."""
    lost: Counter[int] = Counter()
    why = "a fault of tilesight, please report it"
    if runs_unlike(classes):
        why = (
            "not modelled: that a loop in a loop runs unlike often in each round of a CTA (its mean is taken); on an"
            " H200 tiles of 1 to 128 steps took 281 us, 265 predicted, HBM bytes 30 % too few"
        )
    for use in (use for path_class in classes for kind in path_class.masked for use in kind.uses):
        storage = subject.memory.storages[use.storage]
        for listing in use.listings:
            piece, starts = listing.piece, listing.starts - storage.address
            ends = starts + (piece.rows - 1) * max(0, piece.pitch) + piece.width
            lost[use.storage] += int(np.sum((starts < -SECTOR_BYTES) | (ends > storage.size_bytes + SECTOR_BYTES)))
    return [
        f"kernel {subject.kernel.name}: pieces of {subject.memory.storages[number].name} were placed outside of it"
        f" and are left out ({count:,}): {why}"
        for number, count in lost.items()
        if count
    ]


def notes_on_outside_calls(subject: TracedKernel) -> list[str]:
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


def _narrow_notes(subject: TracedKernel, run: CtaRun) -> list[str]:
    """A remark on lines whose first accesses by a CTA fill wider words, where arguments hide that."""
    code, untold, name = subject.flow.instructions, subject.kernel.untold, subject.kernel.name
    notes: defaultdict[str, dict[str, None]] = defaultdict(dict)
    lines: defaultdict[tuple[str, int, int], dict[int, Array]] = defaultdict(dict)
    for access in run.accesses if untold else ():
        if code[access.place].family in PLAIN_GLOBAL and access.lanes:
            key = (subject.line_text(access.place), access.size_bytes, int(access.taken[0] >> STORAGE_SHIFT))
            lines[key].setdefault(access.place, access.taken)
    for (line, size, _), taken in lines.items():
        at = np.unique(np.concatenate(list(taken.values())))
        ends = np.diff(at, prepend=at[0], append=at[-1]) != size
        width = int(np.gcd.reduce([WIDEST_BYTES, *at[ends[:-1]], *at[ends[1:]] + size]))
        if width <= size or at.size * size < width * WARP_THREADS * subject.kernel.warps:
            continue
        roots = {place: (*addresses_of(code[place]), *guard_of(code[place])) for place in taken}
        deciding = (place for block in slice_of(subject.flow, roots) for place in block)
        read = {launch_offset(operand) for place in deciding for operand in code[place].operands}
        values = {argument: value for argument, (offset, value) in untold.items() if offset in read}
        if values and not any(value % (width // size) for value in values.values()):
            text = f"accesses of {size} B, not {width}: the compiler does not know these multiples of {width // size}: "
            notes[text + ", ".join(f"{argument} = {value}" for argument, value in values.items())][line] = None
    cure = "make these tl.constexpr; tl.multiple_of works on offsets that are computed from them, not on arguments"
    return [f"kernel {name}: {', '.join(places)}: {text}; {cure}" for text, places in notes.items()]
