"""How a launch shares the SMs of a device: computed once per launch and device, and handed on."""

from dataclasses import dataclass

from ..device.device import Device
from ..integers import cdiv
from ..launch.program import Launch, Resources
from ..refusal import granted
from .occupancy import occupancy

CARVE_OUTS_KIB = (0, 8, 16, 32, 64, 132, 164, 196, 228)
"""What shared memory may take of L1 (CUDA C++ Programming Guide, compute capabilities 8.0 to 12.0); the driver passes
100 by: six kernels of 65 to 99 KiB get 132 (`carve_outs` in validate/data/l1-hits-h200-2026-11-23.json.xz)."""
PREFERS_SHARED_ABOVE_BYTES = 48 << 10
"""Shared memory of a CTA above which Triton asks for the largest part that shared memory may take
(`CU_FUNC_CACHE_PREFER_SHARED` in the driver of triton 3.6); else the driver takes what as many CTAs need as fit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Residency:
    """What a launch takes of the SMs of a device.

    Args:
        ctas_per_sm: CTAs that an SM holds at once.
        limit: what keeps one more CTA out: registers, smem, warps, barriers or ctas.
        occupancy_fraction: active warps / max warps.
        ctas_per_busy_sm: CTAs that share an SM where the grid is spread evenly: fewer than fit for a small grid.
        concurrent_ctas: CTAs of the launch that run at a time, on all SMs.
        l1_bytes: what shared memory leaves L1 of an SM that is full of these CTAs [B].
    """

    ctas_per_sm: int
    limit: str
    occupancy_fraction: float
    ctas_per_busy_sm: int
    concurrent_ctas: int
    l1_bytes: int


def residency_of(launch: Launch, device: Device) -> Residency:
    """Residency of a launch.

    Raises:
        DoesNotFit: not even one CTA fits an SM; the text names resource, need and limit.
    """
    return residency_of_ctas(launch.resources, launch.warps_per_cta, launch.cta_count, device)


def residency_of_ctas(resources: Resources, warps_per_cta: int, ctas: int, device: Device) -> Residency:
    """The same for a grid of CTAs whose program is not known. Raises: DoesNotFit: as above."""
    fit = granted(occupancy(resources, warps_per_cta, device))
    return Residency(
        ctas_per_sm=fit.ctas_per_sm,
        limit=fit.limit,
        occupancy_fraction=fit.occupancy_fraction,
        ctas_per_busy_sm=min(fit.ctas_per_sm, cdiv(ctas, device.sms)),
        concurrent_ctas=min(fit.ctas_per_sm * device.sms, ctas),
        l1_bytes=_l1_bytes(resources.smem_bytes_per_cta, fit.ctas_per_sm, device),
    )


def _l1_bytes(smem_bytes_per_cta: int, ctas_per_sm: int, device: Device) -> int:
    """What an SM has left for L1 beside the shared memory of its CTAs [B]."""
    used = ctas_per_sm * (smem_bytes_per_cta + device.smem_reserved_per_cta_bytes)
    taken = device.smem_per_sm_bytes
    if smem_bytes_per_cta <= PREFERS_SHARED_ABOVE_BYTES:
        taken = next((kib << 10 for kib in CARVE_OUTS_KIB if used <= kib << 10 <= taken), taken)
    return max(0, device.l1_bytes - taken)
