"""Which configurations are worth a prediction: ranked by what tiles move and compute, before anything is compiled.

A rank, never a threshold: of 30 timed configurations of each of 18 fused-MoE launches of an H100 (`experts` of
docs/validation/choice-h100.md) the best 15 % by this rank hold one within 0.3 % of the fastest in the mean, 2.5 % at
worst (10 %: 1.3 and 7.9 %), and the one of these that is predicted fastest is in the mean no slower than that of all.
"""

from collections.abc import Sequence
from itertools import product

import numpy as np

from ...simulator.device.device import Device
from ...simulator.screening.static_time import StaticWork, rank_of, static_times_s
from ..screening import KeepFraction
from .engine import FIELDS, GROUP, Configuration, Engine
from .layer import Layer, Product
from .routing import Routing

PORTION = KeepFraction(share=0.15, least=24)
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
    items: Sequence[Configuration],
    layer: Layer,
    batch: int,
    routing: Routing,
    device: Device,
    portion: KeepFraction = PORTION,
) -> list[Configuration]:
    """Those that are worth a prediction, in the order of the rank."""
    counts = np.bincount(routing.experts(layer, batch).ravel(), minlength=layer.experts) if layer.experts else [batch]
    counts = np.asarray(counts)

    def rank(item: Configuration) -> tuple[float, float]:
        tiles = int(np.sum(-(-counts // item["BLOCK_SIZE_M"])))
        works = [static_work(item, launch, layer, device, tiles, counts) for launch in layer.products(batch)]
        return rank_of([static_times_s(work, device) for work in works])

    return sorted(items, key=rank)[: portion.of(len(items))]


def static_work(
    item: Configuration, launch: Product, layer: Layer, device: Device, tiles: int, counts: np.ndarray
) -> StaticWork:
    """Work of a launch from its tiles alone.

    Args:
        tiles: of rows.
        counts: rows of each expert.
    """
    rows, columns, depth = (item[f"BLOCK_SIZE_{axis}"] for axis in "MNK")
    stage = (rows + columns) * depth * layer.element_bytes
    resident = max(1, min(
        device.smem_per_sm_bytes // (item["num_stages"] * stage),
        device.max_warps_per_sm // item["num_warps"],
        device.registers_per_sm // (rows * columns + 64 * WARP * item["num_warps"]),
    ))  # fmt: skip
    slower = SPILLED if rows * columns / (WARP * item["num_warps"]) > SPILLING else 1.0
    return StaticWork(
        ctas=tiles * -(-launch.n // columns),
        resident=resident,
        sm_cycles=slower * 2 * rows * columns * launch.k / _flop_per_cycle(rows, layer, device),
        fill_bytes=slower * launch.k * (rows + columns) * layer.element_bytes,
        hbm_bytes=slower * int(np.count_nonzero(counts)) * launch.n * launch.k * layer.element_bytes,
        flight_bytes=stage * max(1, item["num_stages"] - 1),
    )


def grouped(items: Sequence[Configuration], groups: Sequence[int]) -> list[Configuration]:
    """Each configuration with every group of rows of tiles."""
    return [{**item, GROUP: group} for item in items for group in groups]


def _flop_per_cycle(rows: int, layer: Layer, device: Device) -> float:
    """What the tensor cores of an SM reach: a warp group's instruction takes 64 rows."""
    kind = "fp8" if layer.dtype else "fp16"
    small = float(getattr(device, f"mma_{kind}_flop_per_cycle") or device.mma_fp16_flop_per_cycle)
    large = max(getattr(device, f"{unit}_{kind}_flop_per_cycle") for unit in ("wgmma", "tcgen05"))
    return max(small, large) if rows >= 64 else small
