"""Translations of addresses: the last TLB, which all SMs share, and what a miss in it takes.

An entry covers a stretch of memory, and has one place among all entries, as if the TLB were a table: of addresses
without order it lacks as large a share as of memory lies beyond its reach. Misses come one after the other.
"""

import numpy as np

from ..jit import inlined
from .links import TRANSLATIONS, Rates, serve


@inlined
def translate(entries: np.ndarray, free: np.ndarray, rates: Rates, address: int, time: float) -> float:
    """Look up the entry of an address.

    Args:
        entries: int64 (entries,), the stretch that each one covers, plus one; none: all memory lies within reach.
        address: in a memory in which tensors follow each other [B].

    Returns:
        When the translation is there.
    """
    if len(entries) == 0:
        return time
    stretch = address // rates.tlb_entry_bytes
    at = stretch % len(entries)
    if entries[at] == stretch + 1:
        return time
    entries[at] = stretch + 1
    return serve(free, TRANSLATIONS, time, rates.tlb_miss_cycles)
