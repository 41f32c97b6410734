"""A matrix product in given tiles, roughly: which tiles are worth a prediction; a rank, never a price."""

from dataclasses import dataclass
from math import ceil, inf

from ..device.device import Device

WARP_THREADS = 32
WGMMA_ROWS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Tiled:
    """A batch of products, [m, k] times [k, n], a CTA a tile.

    Args:
        block_m, block_n, block_k: of a tile, and of a step along K; num_warps, num_stages: of a CTA.
        item_bytes: size of an element of the operands [B].
    """

    batch: int
    m: int
    n: int
    k: int
    block_m: int
    block_n: int
    block_k: int
    num_warps: int
    num_stages: int
    item_bytes: int


def tiled_s(tiled: Tiled, device: Device) -> float:
    """Waves of CTAs, each as long as its busiest: tensor cores, operands from L2, or loads in flight [s]."""
    steps = ceil(tiled.k / tiled.block_k)
    ctas = tiled.batch * ceil(tiled.m / tiled.block_m) * ceil(tiled.n / tiled.block_n)
    step_bytes = (tiled.block_m + tiled.block_n) * tiled.block_k * tiled.item_bytes
    resident = min(
        device.smem_per_sm_bytes // (max(tiled.num_stages, 1) * step_bytes),
        device.max_warps_per_sm // tiled.num_warps,
        device.registers_per_sm // (tiled.block_m * tiled.block_n + tiled.num_warps * WARP_THREADS * 40),
    )
    if resident < 1:
        return inf
    held = min(resident, ceil(ctas / device.sms))
    waves = ceil(ctas / (device.sms * held))
    warpgroups = tiled.block_m >= WGMMA_ROWS and tiled.num_warps % 4 == 0
    peak = max(device.wgmma_fp16_flop_per_cycle if warpgroups else 0, device.mma_fp16_flop_per_cycle)
    rate = peak * device.tensor_clock_hz * 2 / tiled.item_bytes
    flop_s = held * 2.0 * tiled.block_m * tiled.block_n * tiled.block_k / rate
    fill_s = held * step_bytes * device.sms / device.l2_bytes_per_s
    latency_s = device.l2_latency_cycles / device.boost_clock_hz
    flight_s = (latency_s + (flop_s + fill_s) / held) / max(tiled.num_stages - 1, 1)
    step_s = (
        max(flop_s, fill_s, flight_s) + device.torch_kernels["screening.tile_step_cycles"].value / device.boost_clock_hz
    )
    return waves * (steps * step_s + latency_s)
