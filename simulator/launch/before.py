"""What ran on an L2 before a launch begins: kernels that touched storages, by their bytes."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageUse:
    """A kernel goes through a storage once. Args: number: of it; bytes: of it, the first ones [B]; written: or read."""

    number: int
    bytes: float
    written: bool


Before = tuple[tuple[StorageUse, ...], ...]
"""What each kernel before a launch touched, all of its storages at the same pace; the kernel just before comes last."""
ENOUGH = 2.0
"""Capacities of L2 that kernels before a launch touch, beyond which older ones do not count: all of theirs has left."""


def recent(kernels: list[tuple[StorageUse, ...]], l2_bytes: float) -> Before:
    """Those of the kernels that may have left anything in L2. Args: kernels: in order; l2_bytes: its capacity [B]."""
    touched, first = 0.0, len(kernels)
    while first and touched < ENOUGH * l2_bytes:
        first -= 1
        touched += sum(use.bytes for use in kernels[first])
    return tuple(kernels[first:])
