"""Constant bank 0 of a launch: its shape and the kernel's arguments, where the code looks for them.

Source: the cubin says where parameters lie (`EIATTR_PARAM_CBANK`, `EIATTR_KPARAM_INFO`). Where the driver writes the
shape is not documented; it is what nvcc 12 reads for `blockDim` and `gridDim`.
"""

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ..limits import WORD_BYTES

SHAPES = ((100, 0x360, 0x370), (0, 0x0, 0xC))
"""Lowest capability (e.g. 100), and where the threads of a CTA and the CTAs of the grid stand: x, y, z, a word each."""
BANK_ADDRESS, BANK_BYTES = 1 << 62, 1 << 12
"""Where bank 0 is said to begin in the memory that kernels see, which knows no other address so high; and how much of
it is theirs at most."""
PARAMETERS_AT = {9: (0x198, 0x210), 10: (0x348, 0x380), 12: (0x348, 0x380)}
"""Major capability -> where bank 0 holds the address of the parameters, and where these begin in the bank. Descriptors
that are parameters are found so: what ptxas 12.9 makes of `cvta.param`; `EIATTR_PARAM_CBANK` of cubins."""
CLUSTERS_AT = {9: (0x144, 0x150, 0x15C, 0x188)}
"""Major capability -> where the CTAs of a cluster stand along x, y, z, one over these as fp32, the clusters of the
grid, and the CTAs of a cluster in all: what ptxas 12.9 makes of `%cluster_nctaid`, `%clusterid`, `%nclusterid` and
`%cluster_nctarank`. A launch without clusters has clusters of one CTA (CUDA C++ Programming Guide)."""
BANK_SHIFT = 16
"""A bank has 64 KiB (CUDA C++ Programming Guide, compute capabilities) (log2 of bytes)."""


def place_of(bank: int, offset: int) -> int:
    """Where a word of a constant bank stands among those of all banks; of bank 0 it is its offset [B]."""
    return (bank << BANK_SHIFT) + offset


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A parameter of a kernel.

    Args:
        name: of the kernel's argument; type: as Triton writes it, e.g. `i32`, `fp32`, `*fp16`.
        address: in constant bank 0 [B]; size_bytes: of the parameter.
    """

    name: str
    type: str
    address: int
    size_bytes: int


def constant_bank(
    capability: int,
    parameters: Iterable[Parameter],
    arguments: Mapping[str, int | float | bool | str],
    *,
    grid: tuple[int, int, int],
    threads: tuple[int, int, int],
) -> dict[int, int]:
    """Bank 0 as far as it is known before the launch: address [B] -> word of 32 bits.

    Args:
        capability: e.g. 90; parameters: of the kernel; arguments: by name, of a pointer its address.
        grid, threads: CTAs of the grid, and threads of a CTA, along x, y, z.
    """
    threads_at, grid_at = next((threads, ctas) for lowest, threads, ctas in SHAPES if capability >= lowest)
    bank = {threads_at + 4 * axis: count for axis, count in enumerate(threads)}
    bank |= {grid_at + 4 * axis: count for axis, count in enumerate(grid)}
    if capability // 10 in CLUSTERS_AT:
        sizes, inverses, clusters, ranks = CLUSTERS_AT[capability // 10]
        inverse = int.from_bytes(struct.pack("<f", 1.0), "little")
        for axis, count in enumerate(grid):
            bank |= {place + 4 * axis: word for place, word in ((sizes, 1), (inverses, inverse), (clusters, count))}
        bank[ranks] = 1
    if capability // 10 in PARAMETERS_AT:
        pointer, begin = PARAMETERS_AT[capability // 10]
        bank |= {pointer: BANK_ADDRESS + begin & 0xFFFFFFFF, pointer + 4: BANK_ADDRESS + begin >> 32}
    for parameter in parameters:
        value = arguments.get(parameter.name)
        if value is None or isinstance(value, str):
            continue
        raw = _raw(parameter, value)
        # Several small parameters may share a word.
        for place, byte in enumerate(raw, parameter.address):
            word = place // WORD_BYTES * WORD_BYTES
            bank[word] = bank.get(word, 0) | byte << 8 * (place - word)
    return bank


def _raw(parameter: Parameter, value: float) -> bytes:
    if parameter.type.startswith("fp"):
        return struct.pack("<d" if parameter.size_bytes == 8 else "<f", value)
    return int(value).to_bytes(parameter.size_bytes, "little", signed=value < 0)


def bank_place(address: int) -> int | None:
    """Where in bank 0 an address lies that a kernel has computed from that of its parameters; None: in no parameter."""
    if not BANK_ADDRESS <= address < BANK_ADDRESS + BANK_BYTES:
        return None
    return address - BANK_ADDRESS
