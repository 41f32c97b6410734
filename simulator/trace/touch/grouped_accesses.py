"""The accesses of a representative, grouped by use and iteration, and what L1 serves of its loads."""

from collections import defaultdict
from collections.abc import Mapping
from hashlib import blake2b

import numpy as np

from ...emulator.thread_values import Array
from ...limits import SECTOR_BYTES
from ...sass.memory_instructions import COMPARE
from ..cta.bases import Bases, Execution
from ..cta.cta_run import CtaAccess
from ..positions import Iteration
from .access_keys import BY_WARP, PAST_L1, Accesses, AccessKey, IterationAccess, key_of, kind_of, path_of
from .cta_class import CtaClass
from .footprints import Stored, Touched
from .in_l1 import Passing, missed

Grouped = tuple[Mapping[AccessKey, Accesses], Mapping[int, float]]


def group_accesses(cta_class: CtaClass) -> Grouped:
    """All accesses of the representative of a class.

    Returns:
        Key of a use -> its accesses; place of a load -> share of its sectors that L1 serves, where it serves any.
    """
    run, code = cta_class.representative, cta_class.subject.flow.instructions
    accesses = [access for access in run.accesses if access.lanes]
    fetched = iter(missed(_through_l1(cta_class, accesses), cta_class.kept_bytes))
    grouped: dict[AccessKey, Accesses] = defaultdict(lambda: defaultdict(list))
    counts: dict[int, list[int]] = defaultdict(lambda: [0, 0])  # sectors fetched, and sectors touched
    for access in accesses:
        instruction, position = code[access.place], run.positions[access.visit]
        path, kind = path_of(instruction), kind_of(instruction)
        touched = _touched(access)
        sectors = None
        if path not in PAST_L1:
            sectors = next(fetched)
            if kind == "load":
                counts[access.place][0] += len(sectors)
                counts[access.place][1] += len(np.unique(touched.addresses // SECTOR_BYTES))
        storage = cta_class.subject.memory.number_of(int(access.taken[0]))
        key = key_of(instruction, (position.region, position.piece), cta_class.phases, access.place, storage)
        parts = by_warp(access, path == "atomic", COMPARE in instruction.modifiers) if path in BY_WARP else (touched,)
        lowest = int(access.taken.min())
        stored = stored_by(access) if (kind, path) == ("store", "plain") else None
        grouped[key][position.iteration].append(
            IterationAccess(access.place, position, parts, sectors, access.anchor, lowest, access.box, stored)
        )
    shares = {place: max(0.0, 1.0 - fetches / touches) for place, (fetches, touches) in counts.items() if touches}
    return grouped, {place: share for place, share in shares.items() if share > 0}


def _through_l1(cta_class: CtaClass, accesses: list[CtaAccess]) -> list[Passing]:
    """Those accesses that go through L1, in order."""
    run, code = cta_class.representative, cta_class.subject.flow.instructions
    patterns, passing = _BasePatterns(cta_class.bases, cta_class.group.rank), []
    for access in accesses:
        if path_of(code[access.place]) in PAST_L1:
            continue
        position, kind = run.positions[access.visit], kind_of(code[access.place])
        part = position.region, position.piece
        iteration = part, cta_class.phases.of(part, access.place, kind != "load"), kind, position.iteration
        pattern = patterns.of((access.place, position.turn), position.iteration)
        passing.append(Passing(_touched(access), iteration, kind == "load", pattern))
    return passing


class _BasePatterns:
    """Numbers that are equal for accesses whose bases are at the same distances between all CTAs.

    Args:
        bases: of accesses in the iterations that were followed, the first or all; rank: of the representative.
    """

    def __init__(self, bases: Mapping[Execution, Bases], rank: int) -> None:
        self._bases, self._rank = bases, rank
        self._numbers: dict[bytes, int] = {}
        self._known: dict[tuple[Execution, Iteration], int] = {}

    def of(self, access: Execution, at: Iteration) -> int:
        """Of an access in an iteration; of one that was not followed, as of the last before it that was."""
        addresses = self._bases[access].addresses if access in self._bases else {}
        if not addresses:
            return 0
        at = at if at in addresses else max((other for other in addresses if other <= at), default=min(addresses))
        if (access, at) not in self._known:
            distances: Array = addresses[at] - addresses[at][self._rank]
            digest = blake2b(distances.tobytes(), digest_size=16).digest()
            self._known[access, at] = self._numbers.setdefault(digest, len(self._numbers))
        return self._known[access, at]


def _touched(access: CtaAccess) -> Touched:
    return Touched(access.taken, access.size_bytes)


def by_warp(access: CtaAccess, in_passes: bool, compared: bool) -> tuple[Touched, ...]:
    """Bytes that each warp touches, without warps that are masked.

    Args:
        in_passes: as L2 adds to them; compared: what comes with a second operand, half of the words in a pass.
    """
    warps = zip(access.addresses, access.active, strict=True)
    parts = (
        list(access.addresses)
        if access.lanes == access.active.size
        else [addresses[active] for addresses, active in warps if active.any()]
    )
    if in_passes:
        parts = [of_pass for part in parts for of_pass in passes_of(part)]
    if compared:
        parts = [half for part in parts for half in (part[::2], part[1::2]) if len(half)]
    return tuple(Touched(part, access.size_bytes) for part in parts)


def stored_by(access: CtaAccess) -> Stored:
    """What warps store, each its own."""
    warps = np.broadcast_to(np.arange(len(access.active))[:, None], access.active.shape)[access.active]
    return Stored(warps, access.taken, access.size_bytes)


def passes_of(addresses: Array) -> list[Array]:
    """Addresses of each atomic pass at L2: all different ones, those of at least two lanes, of three, and so on."""
    different, lanes = np.unique(addresses, return_counts=True)
    return [different[lanes > others] for others in range(int(lanes.max()))]
