"""Tables: small storages that loads look values up in, at addresses that nobody knows before the launch.

Such an address is a pointer that the launch was given, and an index computed from data. The pointer tells the storage;
of where in it lanes load nothing is known but that all places are alike. So lanes get drawn places, the same in every
CTA and in every iteration: L1 keeps such a storage whole, and what CTAs load of it again hits.
"""

from collections.abc import Mapping

import numpy as np

from ...limits import WORD_BYTES
from ...sass.flow import Flow
from ..accesses import GLOBAL
from ..deciding import SHARED_LOADS, addresses_of, slice_of
from ..memory import Memory, Storage
from ..operands import CONSTANT, Threads
from ..values import Array

FETCHES = GLOBAL | SHARED_LOADS
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
    offsets = [int(constant[2], 16) for constant in map(CONSTANT.match, operands) if constant]
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
    addresses: Array = table.address + width_bytes * drawn[threads.special["SR_TID.X"][0]]
    return addresses
