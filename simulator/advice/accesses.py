"""What the accesses of a launch to device memory use of what they fetch, and how many of its threads take part.

In: the CTA of each class that was followed, with the addresses of its lanes. Out: bytes by place of the code.
Of an access that is made often the first visits stand for all.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from ..emulator.storage import STORAGE_SHIFT
from ..limits import SECTOR_BYTES, WARP_THREADS
from ..sass.memory_instructions import ATOMICS
from ..trace.cta.cta_run import CtaAccess
from ..trace.program.launch import Traced

LOOKED_AT = 8
"""Visits of an access by a CTA that are looked at."""
SMALL = 0.1
"""Share of the bytes of the largest access below which another says nothing about how many threads have work."""


@dataclass(slots=True)
class Access:
    """What all CTAs do at a place of the code.

    Args:
        place: in the code; storage: number; family: of the instruction;
        useful_bytes: different bytes that warps ask for; touched_bytes: sectors that these lie in [B];
        asked_bytes: by all lanes that take part [B]; lanes: that do, each address of a CTA once; threads: that could.
    """

    place: int
    storage: int
    family: str
    useful_bytes: float = 0.0
    touched_bytes: float = 0.0
    asked_bytes: float = 0.0
    lanes: float = 0.0
    threads: float = 0.0

    @property
    def wasted_bytes(self) -> float:
        """Touched for nothing [B]."""
        return max(0.0, self.touched_bytes - self.useful_bytes)


@dataclass(slots=True)
class _Visits:
    """Visits of a place by a CTA. Args: count: all of them; seen: those that are looked at."""

    count: int = 0
    seen: list[CtaAccess] = field(default_factory=list)


def accesses_of(traced: Traced) -> list[Access]:
    """Accesses of a launch whose addresses are known, by place of the code; those of boxes aside."""
    kernel = traced.kernel
    grown = kernel.ctas / (traced.continued.ctas if traced.continued else kernel.ctas)
    by_place: dict[int, Access] = {}
    for path_class in traced.classes:
        run = path_class.representative
        ctas = grown * sum(len(kind.members) for kind in path_class.masked)
        visits: defaultdict[int, _Visits] = defaultdict(_Visits)
        for access in run.accesses:
            of_place = visits[access.place]
            of_place.count += 1
            known = access.box is None and access.place not in traced.estimated
            if len(of_place.seen) < LOOKED_AT and known and access.active.any():
                of_place.seen.append(access)
        for place, of_place in visits.items():
            if not of_place.seen:
                continue
            instruction = run.paths.flow.instructions[place]
            first = of_place.seen[0]
            storage = int(first.addresses[first.active][0] >> STORAGE_SHIFT) - 1
            total = by_place.setdefault(place, Access(place=place, storage=storage, family=instruction.family))
            for access in of_place.seen:
                times = ctas * of_place.count / len(of_place.seen)
                total.useful_bytes += times * access.size_bytes * _distinct(access, 1)
                total.touched_bytes += times * SECTOR_BYTES * _distinct(access, SECTOR_BYTES)
                total.asked_bytes += times * access.size_bytes * int(access.active.sum())
                total.lanes += times * len(np.unique(access.addresses[access.active]))
                total.threads += times * access.active.size
    return list(by_place.values())


def _distinct(access: CtaAccess, unit: int) -> int:
    """Different units that the lanes of each warp touch, over all warps."""
    places = np.sort(np.where(access.active, access.addresses // unit, -1), axis=1)
    new = np.ones(places.shape, dtype=np.bool_)
    new[:, 1:] = places[:, 1:] != places[:, :-1]
    return int((new & (places >= 0)).sum())


def useful_share(accesses: Iterable[Access]) -> float:
    """Of the bytes of the sectors that loads and stores touch, the share that anybody asks for."""
    plain = [access for access in accesses if access.family not in ATOMICS]
    touched = sum(access.touched_bytes for access in plain)
    return sum(access.useful_bytes for access in plain) / touched if touched else 1.0


def thread_share(accesses: Iterable[Access]) -> float:
    """Share of the threads that move something of their own, of the access that most do; small ones aside."""
    several = list(accesses)
    least = SMALL * max((access.useful_bytes for access in several), default=0.0)
    shares = [access.lanes / access.threads for access in several if access.threads and access.useful_bytes >= least]
    return max(shares, default=1.0)


def worst(accesses: Iterable[Access], used: float = 1.0) -> Access | None:
    """The access that wastes most; None where none does.

    Args:
        used: share of its sectors that it uses less of. A warp that asks for no more than a sector wastes nothing.
    """
    wasting = [
        access
        for access in accesses
        if access.family not in ATOMICS
        and access.wasted_bytes > 0
        and max(access.useful_bytes, access.threads * SECTOR_BYTES / WARP_THREADS) < used * access.touched_bytes
    ]
    return max(wasting, key=lambda access: access.wasted_bytes, default=None)
