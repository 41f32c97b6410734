"""How many CTAs of a launch an SM holds at once, and which of its limits says so."""

import re
from dataclasses import dataclass
from functools import lru_cache

from ..device.device import Device
from ..launch.program import Resources
from ..limits import SUB_CORES, WARP_THREADS
from ..refusal import Refusal
from ..sass.flow import FLOWS_KEPT

REGISTER_ALLOCATION = 256
"""Registers are handed to a warp in units of 256 (CUDA occupancy rules, compute capability 7.0 to 12.0)."""
SMEM_ALLOCATION = 128
"""Shared memory is handed to a CTA in units of 128 B (the same source)."""
ALLOTS_BARRIERS = 9
"""Major compute capability from which on the calculator counts named barriers (`cuda_occupancy.h` of CUDA 13.0)."""
BARRIERS_OF_A_PLACE = {9: 2, 10: 2}
"""Major compute capability -> named barriers of an SM for each CTA that it can hold; 1 of others (the same source)."""
BARRIERS = 16
"""Named barriers of a CTA (PTX ISA, bar)."""
USE = re.compile(r"\bBAR\.(?!SYNCALL)[A-Z_.]+ +([^\s,;]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Occupancy:
    """Residency of a launch.

    Args:
        ctas_per_sm: CTAs that an SM holds at once.
        occupancy_fraction: active warps / max warps.
        limit: what keeps one more CTA out: registers, smem, warps, barriers or ctas.
    """

    ctas_per_sm: int
    occupancy_fraction: float
    limit: str


def occupancy(resources: Resources, num_warps: int, device: Device) -> Occupancy | Refusal:
    """Residency from registers, shared memory, warps, named barriers and the CTA limit.

    Returns:
        It; or, where not even one CTA fits, a refusal that names resource, need and limit.

    Where its code is not at hand, a CTA has no more than the barrier that all its threads meet at.

    Source: CUDA C++ Programming Guide, compute capabilities table; units as in the CUDA occupancy calculator.
    """
    smem_bytes, threads = resources.smem_bytes_per_cta, WARP_THREADS * num_warps
    if smem_bytes > device.smem_per_cta_bytes:
        return _misfit(f"shared memory: a CTA needs {smem_bytes} B, {device.name} allows {device.smem_per_cta_bytes} B")
    if resources.registers_per_thread > device.max_registers_per_thread:
        return _misfit(
            f"registers: a thread needs {resources.registers_per_thread}, "
            f"{device.name} allows {device.max_registers_per_thread}"
        )
    if threads > device.max_threads_per_cta:
        return _misfit(f"num_warps: a CTA has {threads} threads, {device.name} allows {device.max_threads_per_cta}")
    smem_per_cta = -(-smem_bytes // SMEM_ALLOCATION) * SMEM_ALLOCATION + device.smem_reserved_per_cta_bytes
    limits = {
        "ctas": device.max_ctas_per_sm,
        "warps": device.max_warps_per_sm // num_warps,
        "smem": device.smem_per_sm_bytes // smem_per_cta if smem_per_cta else device.max_ctas_per_sm,
        "registers": SUB_CORES * warps_per_sub_core(resources.registers_per_thread, device) // num_warps,
        "barriers": barriers_of(device) // _taken(resources, device),
    }
    limit = min(limits, key=lambda name: limits[name])
    if limits[limit] == 0:
        return _misfit(
            f"{limit}: an SM of {device.name} cannot hold one CTA of {num_warps} warps, "
            f"{resources.registers_per_thread} registers a thread and {smem_bytes} B of shared memory"
        )
    return Occupancy(
        ctas_per_sm=limits[limit],
        occupancy_fraction=limits[limit] * num_warps / device.max_warps_per_sm,
        limit=limit,
    )


def barriers_of(device: Device) -> int:
    """Named barriers of an SM."""
    return BARRIERS_OF_A_PLACE.get(device.capability // 10, 1) * device.max_ctas_per_sm


def _taken(resources: Resources, device: Device) -> int:
    """Named barriers that count for a CTA."""
    counts = resources.code is not None and device.capability // 10 >= ALLOTS_BARRIERS
    return max(1, barriers_taken(resources.code.sass)) if counts and resources.code else 1


def warps_per_sub_core(registers_per_thread: int, device: Device) -> int:
    """Warps for which a sub-core has registers: it holds a quarter of the SM's, and a warp's lie in one sub-core."""
    registers_per_warp = -(-registers_per_thread * WARP_THREADS // REGISTER_ALLOCATION) * REGISTER_ALLOCATION
    return device.registers_per_sm // SUB_CORES // registers_per_warp


def _misfit(reason: str) -> Refusal:
    return Refusal("does not fit", reason)


@lru_cache(maxsize=FLOWS_KEPT)
def barriers_taken(sass: str) -> int:
    """Named barriers that a CTA takes of its SM; 0: it has none. Args: sass: a kernel's listing.

    The compiler writes the number into the flags of the code's section (bits 20 to 26), from where the driver takes it.
    It is that of the highest barrier that the code names, and all there are where a register holds the number: so of
    all kernels in tests/recorded/cubins.json.xz.
    """
    names = USE.findall(sass)
    if any(not name.startswith("0x") for name in names):
        return BARRIERS
    return max((int(name, 16) + 1 for name in names), default=0)
