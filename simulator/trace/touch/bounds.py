"""Accesses beyond the tensors that a kernel was given: found before anything is simulated."""

from collections.abc import Mapping, Sequence

import numpy as np

from ... import units
from ..cta.given import Refused, Subject
from ..cta.one_cta import OneCta
from ..values import Array
from .sorted_accesses import kind_of, width_of
from .uses import Use


def farthest(uses: Sequence[Use], trips: Mapping[int, Array], subject: Subject) -> set[int]:
    """Ranks, among the CTAs of a class, of those that would reach farthest beyond a tensor if all did as one of them.

    Args:
        trips: region -> iterations of a stay, int64 (CTAs,).
    """
    found: set[int] = set()
    for use in uses:
        storage = subject.memory.storages.get(use.storage)
        if storage is None or use.uneven is not None:
            continue
        more = use.strides[-1] * (trips[use.part[0]] - 1) if use.strides else 0
        low = use.base + np.minimum(more, 0) - storage.address
        high = use.base + np.maximum(more, 0) + use.runs[-1][0] + use.runs[-1][1] - storage.address
        found |= {int(np.argmin(low))} if low.min() < 0 else set()
        found |= {int(np.argmax(high))} if high.max() > storage.size_bytes else set()
    return found


def check_bounds(subject: Subject, one: OneCta) -> None:
    """See that a CTA that was followed stays within its tensors, masks as they really are.

    Raises:
        Refused: it does not; the line names the source line, the tensor, and how far beyond it reaches.
    """
    storages = sorted(subject.memory.storages.values(), key=lambda each: each.address)
    for access in one.accesses:
        instruction = subject.flow.instructions[access.place]
        taking = access.addresses[access.active]
        low, high = int(taking.min()), int(taking.max()) + width_of(instruction)
        inside = [each for each in storages if each.address <= low and high <= each.address + each.size_bytes]
        if inside or not storages:
            continue
        nearest = min(
            storages, key=lambda each: min(abs(low - each.address), abs(low - each.address - each.size_bytes))
        )
        end = nearest.address + nearest.size_bytes
        beyond = max(high - end, nearest.address - low)
        where = "beyond" if high > end else "in front of"
        raise Refused(
            f"{subject.place_text(access.place)}: {kind_of(instruction)} reaches {units.capacity(beyond)} {where} "
            f"tensor {nearest.name}"
        )
