"""Accesses beyond the tensors that a kernel was given: found before anything is simulated."""

from collections.abc import Mapping, Sequence

import numpy as np

from ... import units
from ..cta.given import Refused, Subject
from ..cta.one_cta import OneCta
from ..values import Array
from .listing import Listing
from .sorted_accesses import kind_of
from .uses import Use


def farthest(uses: Sequence[Use], trips: Mapping[int, Array], subject: Subject) -> set[int]:
    """Ranks, among the CTAs of a class, of those that would reach farthest beyond a tensor if all did as one of them.

    Args:
        trips: region -> iterations of a stay, int64 (CTAs,).
    """
    found: set[int] = set()
    for use in uses:
        storage = subject.memory.storages.get(use.storage)
        if storage is None:
            continue
        low, high = _listed_reach(use, trips) if use.listings else _reach(use, trips)
        found |= {int(np.argmin(low))} if low.min() < storage.address else set()
        found |= {int(np.argmax(high))} if high.max() > storage.address + storage.size_bytes else set()
    return found


def _reach(use: Use, trips: Mapping[int, Array]) -> tuple[Array, Array]:
    """First byte that each CTA touches and the one behind the last, int64 (CTAs,) each, where strides tell it."""
    more = use.strides[-1] * (trips[use.part[0]] - 1) if use.strides else 0
    return use.base + np.minimum(more, 0), use.base + np.maximum(more, 0) + use.runs[-1][0] + use.runs[-1][1]


def _listed_reach(use: Use, trips: Mapping[int, Array]) -> tuple[Array, Array]:
    """The same of lists, in whole pieces; a CTA that touches nothing reaches from the last piece to the first."""
    stride = use.uneven.stride if use.uneven is not None else None
    more = stride * (trips[use.part[0]] - 1) if stride else 0
    reaches = [_reach_of(listing) for listing in use.listings]
    low = np.min([low for low, _ in reaches], axis=0)
    high = np.max([high for _, high in reaches], axis=0)
    return low + np.minimum(more, 0), high + np.maximum(more, 0)


def _reach_of(listing: Listing) -> tuple[Array, Array]:
    """First byte of the pieces of each CTA, and the one behind the last, int64 (CTAs,) each."""
    ctas = len(listing.at)
    owners = np.repeat(np.repeat(np.arange(ctas), len(listing.spans) // ctas), listing.spans[:, 1])
    low = np.full(ctas, listing.starts.max(initial=0), dtype=np.int64)
    high = np.full(ctas, listing.starts.min(initial=np.iinfo(np.int64).max), dtype=np.int64)
    np.minimum.at(low, owners, listing.starts)
    piece = listing.piece
    np.maximum.at(high, owners, listing.starts + piece.pitch * (piece.rows - 1) + piece.width)
    return low, high


def check_bounds(subject: Subject, one: OneCta) -> None:
    """See that a CTA that was followed stays within its tensors, masks as they really are.

    Raises:
        Refused: it does not; the line names the source line, the tensor, and how far beyond it reaches at most.
    """
    storages = sorted(subject.memory.storages.values(), key=lambda each: each.address)
    worst, text = 0, ""
    for access in one.accesses if storages else ():
        instruction = subject.flow.instructions[access.place]
        taking = access.addresses[access.active]
        if not taking.size:
            continue
        low, high = int(taking.min()), int(taking.max()) + access.size_bytes
        if any(each.address <= low and high <= each.address + each.size_bytes for each in storages):
            continue
        nearest = min(
            storages, key=lambda each: min(abs(low - each.address), abs(low - each.address - each.size_bytes))
        )
        end = nearest.address + nearest.size_bytes
        beyond = max(high - end, nearest.address - low)
        if beyond > worst:
            where = "beyond" if high > end else "in front of"
            reaches = f"{kind_of(instruction)} reaches {units.capacity(beyond)} {where} tensor {nearest.name}"
            worst, text = beyond, f"{subject.place_text(access.place)}: {reaches}"
    if worst:
        raise Refused(text)
