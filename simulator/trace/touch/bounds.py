"""Out-of-bounds accesses: a launch that makes one is refused before it is simulated."""

from collections.abc import Mapping, Sequence

import numpy as np

from ... import units
from ...emulator.thread_values import Array
from ...refusal import Refused
from ..cta.cta_run import CtaRun
from ..cta.traced_kernel import TracedKernel
from .access_keys import kind_of
from .access_patterns import AccessPattern
from .address_list import AddressList


def farthest(uses: Sequence[AccessPattern], trips: Mapping[int, Array], subject: TracedKernel) -> set[int]:
    """Ranks, in a group, of the CTAs that reach farthest out of each tensor, if all are masked as the representative.

    Args:
        uses: of the group; trips: region -> trip count of each visit, int64 (CTAs,).
    """
    ranks: set[int] = set()
    for use in uses:
        storage = subject.memory.storages.get(use.storage)
        if storage is None:
            continue
        low, high = _listed_reach(use, trips) if use.listings else _reach(use, trips)
        ranks |= {int(np.argmin(low))} if low.min() < storage.address else set()
        ranks |= {int(np.argmax(high))} if high.max() > storage.address + storage.size_bytes else set()
    return ranks


def _reach(use: AccessPattern, trips: Mapping[int, Array]) -> tuple[Array, Array]:
    """First byte that each CTA touches, and one past its last, int64 (CTAs,) each [B]; of a use with strides."""
    extent = use.strides[-1] * (trips[use.part[0]] - 1) if use.strides else 0
    return use.base + np.minimum(extent, 0), use.base + np.maximum(extent, 0) + use.runs[-1][0] + use.runs[-1][1]


def _listed_reach(use: AccessPattern, trips: Mapping[int, Array]) -> tuple[Array, Array]:
    """The same of a use with lists, in whole pieces; of a CTA that touches nothing the range is empty or reversed."""
    stride = use.uneven.stride if use.uneven is not None else None
    extent = stride * (trips[use.part[0]] - 1) if stride else 0
    reaches = [_reach_of(listing) for listing in use.listings]
    low = np.min([low for low, _ in reaches], axis=0)
    high = np.max([high for _, high in reaches], axis=0)
    return low + np.minimum(extent, 0), high + np.maximum(extent, 0)


def _reach_of(listing: AddressList) -> tuple[Array, Array]:
    """First byte of the pieces of each CTA, and one past the last, int64 (CTAs,) each [B]."""
    firsts, of_cta = np.unique(listing.at, return_inverse=True)  # CTAs may share lists
    owners = np.repeat(np.repeat(np.arange(len(firsts)), len(listing.spans) // len(firsts)), listing.spans[:, 1])
    low = np.full(len(firsts), listing.starts.max(initial=0), dtype=np.int64)
    high = np.full(len(firsts), listing.starts.min(initial=np.iinfo(np.int64).max), dtype=np.int64)
    np.minimum.at(low, owners, listing.starts)
    piece = listing.piece
    np.maximum.at(high, owners, listing.starts + piece.pitch * (piece.rows - 1) + piece.width)
    return low[of_cta.reshape(-1)], high[of_cta.reshape(-1)]


def check_bounds(subject: TracedKernel, run: CtaRun) -> None:
    """Check that a CTA accesses its tensors alone.

    Raises:
        Refused: it does not; one line that names the source line, the tensor, and the largest distance.
    """
    storages = sorted(subject.memory.storages.values(), key=lambda storage: storage.address)
    worst, text = 0, ""
    for access in run.accesses if storages else ():
        instruction = subject.flow.instructions[access.place]
        if not access.lanes:
            continue
        low, high = int(access.taken.min()), int(access.taken.max()) + access.size_bytes
        if any(storage.address <= low and high <= storage.address + storage.size_bytes for storage in storages):
            continue
        nearest = min(
            storages,
            key=lambda storage: min(abs(low - storage.address), abs(low - storage.address - storage.size_bytes)),
        )
        end = nearest.address + nearest.size_bytes
        beyond = max(high - end, nearest.address - low)
        if beyond > worst:
            where = "beyond" if high > end else "in front of"
            reaches = f"{kind_of(instruction)} reaches {units.capacity(beyond)} {where} tensor {nearest.name}"
            worst, text = beyond, f"{subject.place_text(access.place)}: {reaches}"
    if worst:
        raise Refused(text)
