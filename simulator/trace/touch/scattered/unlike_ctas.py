"""Classes of CTAs that take more control paths than are told apart, as where each row of a matrix has its own length.

All threads of all these CTAs go their own ways, and what each CTA touches is listed. CTAs that execute about as much
are a class: one of them, of about the mean, is followed for the time that all take.
"""

from collections.abc import Iterable
from dataclasses import replace
from itertools import islice

import numpy as np

from ....emulator.thread_values import Array
from ....limits import WARP_THREADS
from ....refusal import CannotFollow
from ....sass.memory_instructions import COPY
from ...cta.address_slice import Tracer
from ...cta.cta_run import CtaRun, follow_cta
from ...cta.group import CtaGroup
from ...cta.unknown_values import UnknownValues
from ...positions import blocks_of
from ..bounds import check_bounds
from ..cta_class import CtaClass, MaskClass, PathClass
from ..phases import find_phases
from ..rounds import rounds_of, trips_of
from .free_paths import FreePaths
from .lists import Scattered

CLASSES = 8
"""Into which CTAs are divided by how much they execute."""


def may_be_unlike(tracer: Tracer) -> bool:
    """Whether CTAs may be listed whatever paths they take: copies that run ahead of a loop are those of like CTAs."""
    code, code_slice = tracer.subject.flow.instructions, tracer.code_slice
    return not code_slice.copying and not any(code[place].family == COPY for place in code_slice.touching)


def go_astray(tracer: Tracer, runs: Iterable[CtaRun], kept_bytes: float) -> bool:
    """Whether threads on the control path of a CTA did not know an address that this CTA, by itself, does know.

    Args:
        runs: CTAs whose paths others were led along; kept_bytes: as in `CtaClass`.
    """
    if not tracer.doubts.unknown_places or not may_be_unlike(tracer):
        return False
    for run in islice(runs, CLASSES):
        alone = UnknownValues(tracer.subject, kept_bytes)
        accesses = follow_cta(replace(tracer, doubts=alone), run.cta).accesses
        if any(access.place in tracer.doubts.unknown_places - alone.unknown_places for access in accesses):
            return True
    return False


def unlike_classes(tracer: Tracer, counts: Array, kept_bytes: float, notes: list[str]) -> list[PathClass]:
    """Classes of all CTAs of a launch, whatever control paths they take.

    Args:
        counts: executions of each block, int64 (CTAs, blocks);
        kept_bytes: as in `CtaClass`; notes: gets remarks, one line each.

    Raises:
        Refused: an access lies out of bounds, or depends on what is not known; one line.
    """
    sizes = np.array([block.stop - block.first for block in tracer.subject.flow.blocks], dtype=np.int64)
    issued = counts @ sizes
    order = np.argsort(issued, kind="stable")
    parts = np.array_split(order, min(CLASSES, len(order)))
    notes.append(
        f"kernel {tracer.subject.kernel.name}: its CTAs go too many ways through the code to tell apart: all threads"
        f" are followed for what they touch, and {len(parts)} CTAs for the time that all take"
    )
    classes = []
    for members in parts:
        middle = members[np.argmin(np.abs(issued[members] - issued[members].mean()))]
        run = follow_cta(tracer, int(middle))
        check_bounds(tracer.subject, run)
        classes.append(_class_of(tracer, np.sort(members), run, counts, kept_bytes, notes))
    return classes


def _class_of(
    tracer: Tracer, members: Array, run: CtaRun, counts: Array, kept_bytes: float, notes: list[str]
) -> PathClass:
    """The class of some CTAs. Args: run: one of them, which stands for all; the rest as of `unlike_classes`."""
    subject = tracer.subject
    trips = trips_of(subject.flow, run, counts)
    group = CtaGroup(run, members, {region: of_all.per_round[members] for region, of_all in trips.items()})
    phases = find_phases(run.paths, tuple(blocks_of(run.paths, 0)))
    cta_class = CtaClass(
        subject=subject,
        group=group,
        bases={},
        rounds=rounds_of(run),
        phases=phases,
        prologues={},
        kept_bytes=kept_bytes,
    )
    executed = counts[members].mean(axis=0) @ np.array([len(block) for block in tracer.code_slice.places])
    free = FreePaths(tracer, run, phases, float(executed) * subject.kernel.warps * WARP_THREADS)
    places = frozenset(tracer.code_slice.touching)
    uses = Scattered(tracer, cta_class, places, notes, free.sectors_of).uses_of(cta_class)
    if uses is None:
        raise CannotFollow("threads touch too many places to list, on too many control paths to tell apart")
    issued = np.repeat(free.executed, [block.stop - block.first for block in subject.flow.blocks]).astype(np.float64)
    issued[[block.first for block in subject.flow.blocks]] += free.reconverged
    return PathClass(
        representative=run,
        phases=phases,
        masked=(MaskClass(members=members, leader=run.cta, uses=tuple(uses)),),
        trips=trips,
        short=frozenset(),
        in_l1={},
        issued=issued * (len(members) / max(1, free.ctas)),
    )
