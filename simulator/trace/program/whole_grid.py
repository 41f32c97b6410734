"""The door of the tracer: a launch of any number of CTAs; of many a part is followed (`continued`)."""

import gc
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ...refusal import Refused
from ..cta.traced_kernel import CompiledKernel
from ..touch.cta_class import PathClass
from .continued import Continued, continued_of, joined
from .launch import Traced, trace
from .requested import Requested

MOST_FOLLOWED = 1 << 23
"""CTAs of a grid that are followed one by one where it does not go on evenly; larger ones are refused."""


def trace_grid(kernel: CompiledKernel, kept_bytes: float) -> Traced:
    """Follow the CTAs of a launch through its code. Args and Raises: as of `launch.trace`.

    Python's collector of cycles rests meanwhile: it would go through all objects of torch again and again.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        return _trace_grid(kernel, kept_bytes)
    finally:
        if collects:
            gc.enable()


def _trace_grid(kernel: CompiledKernel, kept_bytes: float) -> Traced:
    plan = continued_of(kernel.grid)
    if plan is None:
        return trace(kernel, kept_bytes)
    traced = _continued(kernel, kept_bytes, *plan)
    if traced is not None:
        return traced
    if kernel.ctas > MOST_FOLLOWED:
        raise Refused(
            f"kernel {kernel.name}: {kernel.ctas:,} CTAs, which do not go on as the first {plan[0].ctas:,} do, are too"
            f" many to follow each: at most {MOST_FOLLOWED:,}; give each CTA more to do, or launch a part of the grid"
        )
    return trace(kernel, kept_bytes)


def _all_do_the_same(classes: Sequence[PathClass]) -> bool:
    """Whether all CTAs of a box run as long, and take part in the same accesses."""
    trips = (of_all for path_class in classes for trips in path_class.trips.values() for of_all in trips.arrays)
    return len(classes) == 1 == len(classes[0].masked) and not any(np.ptp(of_all) for of_all in trips)


def _continued(
    kernel: CompiledKernel, kept_bytes: float, continued: Continued, firsts: list[tuple[int, int, int]]
) -> Traced | None:
    """A launch of which boxes are followed; None where the rest does not go on as they do."""
    begin = trace(replace(kernel, grid=continued.box), kept_bytes)
    if begin.lower_bound or (not continued.is_whole and not _all_do_the_same(begin.classes)):
        return None  # CTAs that wait for each other, or count each other, are followed all
    boxes = [begin.classes]
    for first in firsts[1:]:
        boxes.append(trace(replace(kernel, grid=continued.box, first=first), kept_bytes).classes)
        placed = joined([boxes[0], boxes[-1]], continued.ctas)
        if placed is None:
            return None
    # The CTA at the end of the grid stays within its tensors, or the launch is refused.
    x, y, z = kernel.grid
    trace(replace(kernel, grid=(1, 1, 1), first=(x - 1, y - 1, z - 1)), kept_bytes)
    grown = kernel.ctas / continued.ctas
    classes = tuple(replace(path_class, issued=path_class.issued * grown) for path_class in begin.classes)
    remark = (
        f"kernel {kernel.name}: {continued.ctas * continued.boxes:,} of {kernel.ctas:,} CTAs were followed; the others"
        " go on as these do"
    )
    traced = replace(
        begin,
        kernel=kernel,
        classes=classes,
        instructions=round(begin.instructions * grown),
        requested=Requested(*(round(size_bytes * grown) for size_bytes in begin.requested)),
        notes=(*begin.notes, remark),
        continued=continued,
        placed=joined(boxes, continued.ctas),
        firsts=tuple(firsts),
    )
    return traced if traced.is_even else None
