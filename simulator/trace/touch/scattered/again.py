"""Sectors that CTAs touch again in one of the next iterations of a loop, which L1 still has then.

A line takes 128 B of L1, however few of its sectors are there, as in `in_l1`. Known of loops all of whose accesses are
listed: then it is known how many lines go through L1 in an iteration, too.
"""

import numpy as np

from ....emulator.thread_values import Array
from ....limits import LINE_BYTES, LINE_SECTORS
from ...positions import Iteration
from ..cta_class import CtaClass
from .sectors import BySectors, UseSectors


def without_hits(by_key: BySectors, cta_class: CtaClass, places: frozenset[int]) -> BySectors:
    """What uses touch beyond L1. Args: by_key: what they touch; places: of the accesses that are listed."""
    kept = dict(by_key)
    for region, per_cta in cta_class.group.trips.items():
        if len(cta_class.nest_of(region)) > 1 or not _are_listed(cta_class, region, places):
            continue
        uses = {key: use for key, use in by_key.items() if key.part[0] == region}
        lines = sum(_lines(parts) for use in uses.values() for parts in use.by_iteration.values())
        followed = max((int(use.which.max()) + 1 for use in uses.values()), default=0)
        iterations = int(per_cta[:followed].sum())
        most = int(cta_class.kept_bytes * iterations / (LINE_BYTES * lines)) if lines else 0
        for key, use in uses.items():
            if most and (key.kind, key.path) == ("load", "plain"):
                kept[key] = UseSectors(use.which, _first_in(use.by_iteration, most), use.passes)
    return kept


def _are_listed(cta_class: CtaClass, region: int, places: frozenset[int]) -> bool:
    """Whether all accesses that the representative makes in a region are."""
    run = cta_class.representative
    return all(access.place in places for access in run.accesses if run.positions[access.visit].region == region)


def _lines(parts: list[Array]) -> int:
    """Lines that CTAs touch. Args: parts: as of `Sectors`, each rising within a CTA."""
    return sum(len(np.unique(part // LINE_SECTORS)) for part in parts)


def _first_in(by_iteration: dict[Iteration, list[Array]], most: int) -> dict[Iteration, list[Array]]:
    """Sectors that none of so many iterations before has touched. Args: by_iteration: as of `Sectors`."""
    order = sorted(by_iteration)
    touched = [np.unique(np.concatenate(by_iteration[at])) for at in order]
    numbers, when = np.concatenate(touched), np.repeat([at[-1] for at in order], [len(part) for part in touched])
    by_number = np.argsort(numbers, kind="stable")
    numbers, when = numbers[by_number], when[by_number]
    again = np.r_[False, (numbers[1:] == numbers[:-1]) & (when[1:] - when[:-1] <= most)]
    numbers, when = numbers[~again], when[~again]
    by_time = np.argsort(when, kind="stable")
    ends = np.searchsorted(when[by_time], [at[-1] for at in order], side="right")
    parts = np.split(numbers[by_time], ends[:-1])
    return {at: [part] for at, part in zip(order, parts, strict=True) if len(part)}
