"""Which configurations are worth a prediction: ranked by what tiles move and compute, before anything is compiled.

A rank, never a threshold: of 30 timed configurations of each of 18 fused-MoE launches of an H100 (`experts` of
docs/validation/choice-h100.md) the best 15 % by this rank hold one within 0.3 % of the fastest in the mean, 2.5 % at
worst (10 %: 1.3 and 7.9 %), and the one of these that is predicted fastest is in the mean no slower than that of all.
"""

from collections.abc import Sequence
from itertools import product
from math import ceil

import numpy as np

from ...simulator.device.device import Device
from .engine import FIELDS, GROUP, Configuration, Engine
from .layer import Layer, Product
from .routing import Routing

KEPT = 0.15
LEAST = 24
"""Configurations that are predicted at least."""
SPILLING = 192
"""Registers of sums from which on a thread has too few left [per thread]."""
SPILLED = 3.0
"""How much slower is taken to be what spills."""
WARP = 32


def tried(engine: Engine, layer: Layer, device: Device) -> tuple[list[Configuration], int]:
    """Configurations of the engine's space that fit, and how many do not."""
    space = [dict(zip(FIELDS, values, strict=True)) for values in product(*(engine.space[name] for name in FIELDS))]
    taken = [item for item in space if engine.takes(layer, item)]
    fitting = [item for item in taken if fits(item, layer, device)]
    return fitting, len(taken) - len(fitting)


def fits(item: Configuration, layer: Layer, device: Device) -> bool:
    """Whether stages fit into shared memory, and sums into half of the registers."""
    rows, columns = item["BLOCK_SIZE_M"], item["BLOCK_SIZE_N"]
    stage = (rows + columns) * item["BLOCK_SIZE_K"] * layer.element_bytes
    return item["num_stages"] * stage <= device.smem_per_cta_bytes and rows * columns <= device.registers_per_sm // 2


def screened(
    items: Sequence[Configuration], layer: Layer, batch: int, routing: Routing, device: Device
) -> list[Configuration]:
    """Those that are worth a prediction, in the order of the rank."""
    counts = np.bincount(routing.experts(layer, batch).ravel(), minlength=layer.experts) if layer.experts else [batch]
    counts = np.asarray(counts)

    def rank(item: Configuration) -> tuple[float, float]:
        tiles = int(np.sum(-(-counts // item["BLOCK_SIZE_M"])))
        parts = [static_s(item, launch, layer, device, tiles, counts) for launch in layer.products(batch)]
        # Where weights bound all alike, what is hidden behind them tells configurations apart.
        return float(f"{sum(map(max, parts)):.2g}"), sum(map(sum, parts))

    return sorted(items, key=rank)[: max(LEAST, ceil(KEPT * len(items)))]


def static_s(
    item: Configuration, launch: Product, layer: Layer, device: Device, tiles: int, counts: np.ndarray
) -> tuple[float, float, float]:
    """Times of a launch from its tiles alone: tensor cores, L2, device memory [s].

    Args:
        tiles: of rows; counts: rows of each expert.
    """
    rows, columns, depth = (item[f"BLOCK_SIZE_{axis}"] for axis in "MNK")
    ctas = tiles * -(-launch.n // columns)
    stage = (rows + columns) * depth * layer.element_bytes
    resident = max(1, min(
        device.smem_per_sm_bytes // (item["num_stages"] * stage),
        device.max_warps_per_sm // item["num_warps"],
        device.registers_per_sm // (rows * columns + 64 * WARP * item["num_warps"]),
    ))  # fmt: skip
    waves = -(-ctas // (device.sms * resident))
    busy = min(1.0, ctas / (device.sms * resident * waves))
    fill = ctas * launch.k * (rows + columns) * layer.element_bytes
    weights = int(np.count_nonzero(counts)) * launch.n * launch.k * layer.element_bytes
    flight = min(ctas, device.sms * resident) * stage * max(1, item["num_stages"] - 1)
    latency_s = device.hbm_latency_s + device.l2_latency_cycles / device.boost_clock_hz
    slower = SPILLED if rows * columns / (WARP * item["num_warps"]) > SPILLING else 1.0
    return (
        slower * 2 * ctas * rows * columns * launch.k / (_flop_per_s(rows, layer, device) * busy),
        slower * fill / (device.l2_bytes_per_s * busy),
        slower * weights / min(device.hbm_read_bytes_per_s, flight / latency_s),
    )


def grouped(items: Sequence[Configuration], groups: Sequence[int]) -> list[Configuration]:
    """Each configuration with every group of rows of tiles."""
    return [{**item, GROUP: group} for item in items for group in groups]


def _flop_per_s(rows: int, layer: Layer, device: Device) -> float:
    """What tensor cores reach: a warp group's instruction takes 64 rows."""
    kind = "fp8" if layer.dtype else "fp16"
    small = float(getattr(device, f"mma_{kind}_flop_per_cycle") or device.mma_fp16_flop_per_cycle)
    large = max(getattr(device, f"{unit}_{kind}_flop_per_cycle") for unit in ("wgmma", "tcgen05"))
    return device.sms * device.tensor_clock_hz * (max(small, large) if rows >= 64 else small)
