"""Spilled registers: whether they come back from L1, or from L2.

L1 writes local memory through, so that every spill goes to L2. What all resident CTAs have spilled comes round again
once an iteration; in the order of a loop, so that a cache that drops what it has used longest ago keeps all or nothing.
Source: ncu on an H200, flash2_tma, flash2 and output with spills: bytes into the SM beyond those of tiles are 0.0 to
0.06 of what is spilled and fetched where it fits (0.24 once), 0.43 to 0.56 where it does not: every fetch.
"""

from .device import Device
from .program import Launch


def spills_miss(launch: Launch, device: Device, resident: int) -> bool:
    """Whether L1 is too small for what the CTAs of a full SM have spilled, beside their shared memory."""
    shared = resident * (launch.resources.smem_bytes_per_cta + device.smem_reserved_per_cta_bytes)
    spilled = resident * launch.threads_per_cta * launch.resources.spilled_bytes_per_thread
    return spilled > device.l1_bytes - shared
