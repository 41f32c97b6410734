"""Accesses at addresses that are unknown before the launch: in small tables that L1 keeps, or anywhere in a tensor.

Such an address is a pointer that the launch was given, and an index computed from data. The pointer tells the storage;
of where in it lanes load nothing is known but that all places are alike. In a table lanes get drawn places, the same in
every CTA and in every iteration: L1 keeps such a storage whole, and what CTAs load of it again hits.
Of a larger storage each thread has a slice of its own, and each CTA, access and iteration a drawn sector of the slice:
no two lanes share a sector, which bounds the bytes from above, and L2 serves again what was drawn before.
"""

from collections.abc import Mapping

import numpy as np

from ...emulator.global_memory import Memory
from ...emulator.storage import Storage
from ...emulator.thread_values import Array
from ...emulator.threads import THREAD, Threads
from ...limits import SECTOR_BYTES, WARP_THREADS, WORD_BYTES
from ...sass.flow import Flow
from ...sass.memory_instructions import PLAIN_GLOBAL, SHARED_LOADS, addresses_of
from ...sass.operands import launch_offset
from ..control_slice import slice_of

FETCHES = PLAIN_GLOBAL | SHARED_LOADS
"""Families whose results are data, and no part of the pointer."""
MOST_THREADS = 1024
"""Of a CTA, on every architecture (CUDA C++ Programming Guide, compute capabilities)."""


def find_table(flow: Flow, place: int, constants: Mapping[int, int], memory: Memory) -> Storage | None:
    """The storage whose pointer an access adds to; None where there is none, or several are possible.

    Args:
        place: of the access; constants: address in constant bank 0 [B] -> 32-bit word.
    """
    code = flow.instructions
    fetches = frozenset(at for at, instruction in enumerate(code) if instruction.family in FETCHES)
    places = slice_of(flow, {place: addresses_of(code[place])}, unknown=fetches - {place})
    operands = [operand for block in places for at in block if at not in fetches for operand in code[at].operands]
    offsets = [offset for operand in operands if (offset := launch_offset(operand)) is not None]
    pointers = {
        constants[offset + WORD_BYTES] << 32 | constants[offset]
        for offset in offsets
        if offset % (2 * WORD_BYTES) == 0 and offset in constants and offset + WORD_BYTES in constants
    }
    numbers = {memory.number_of(pointer) for pointer in pointers} - {-1}
    return memory.storages[numbers.pop()] if len(numbers) == 1 else None


def drawn_addresses(table: Storage, place: int, threads: Threads, width_bytes: int) -> Array:
    """An address within a table for each thread that is followed, int64 (1 or CTAs, warps, lanes) [B].

    Args:
        place: of the access, which draws other addresses than others; width_bytes: that a lane loads.
    """
    elements = max(1, table.size_bytes // width_bytes)
    drawn = np.random.default_rng(place).integers(elements, size=MOST_THREADS)
    addresses: Array = table.address + width_bytes * drawn[threads.special[THREAD][0]]
    return addresses


def spread_addresses(
    storage: Storage, place: int, threads: Threads, ctas: Array, warps: int, visit: int, width_bytes: int
) -> Array:
    """An address within a storage for each thread, in another sector than those of its CTA's others.

    Args:
        place: of the access; ctas: numbers of the CTAs, int64 (CTAs, 1, 1); warps: of a CTA;
        visit: how often the access has been made before; width_bytes: that a lane touches.

    Returns:
        int64 (CTAs, warps, lanes) [B].
    """
    sectors = max(1, (storage.size_bytes - max(0, width_bytes - SECTOR_BYTES)) // SECTOR_BYTES)
    slices = min(sectors, warps * WARP_THREADS)
    drawn = _hashed(ctas, place, visit) % np.uint64(sectors // slices)
    number = threads.special[THREAD][0] % slices
    addresses: Array = storage.address + SECTOR_BYTES * (number * (sectors // slices) + drawn.astype(np.int64))
    return addresses


def _hashed(ctas: Array, place: int, visit: int) -> Array:
    """Numbers that look drawn, uint64, of the shape of `ctas`; the finaliser of MurmurHash3 (Appleby 2011)."""
    mixed = ctas.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(place << 32 | visit)
    for multiplier in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        mixed = (mixed ^ mixed >> np.uint64(33)) * np.uint64(multiplier)
    hashed: Array = mixed ^ mixed >> np.uint64(33)
    return hashed
