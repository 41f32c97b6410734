"""Which configurations are worth a prediction: ranked by what tiles move and compute, before anything is compiled.

A rank, never a threshold: of 30 timed configurations of each of 18 fused-MoE launches of an H100 (`experts` of
docs/validation/choice-h100.md) the best 15 % by this rank hold one within 0.5 % of the fastest in the mean, 2.9 % at
worst (10 %: 1.3 and 7.6 %).
"""

from collections.abc import Sequence
from itertools import product

import numpy as np

from ...kernels.configurations.tiles import Dot, Loop, Tiles
from ...simulator.device.device import Device
from ...simulator.screening.static_time import StaticWork, rank_of, static_times_s
from ..screening import KeepFraction
from ..tile_work import work_of
from .engine import FIELDS, GROUP, Configuration, Engine
from .layer import Layer, Product
from .routing import Routing

PORTION = KeepFraction(share=0.15, least=24, first=8)
SUM_BYTES = 4
"""Of a sum."""


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
) -> list[tuple[Configuration, float]]:
    """Those that are worth a prediction, in the order of the rank, with what all units take by their tiles [s]."""
    counts = np.bincount(routing.experts(layer, batch).ravel(), minlength=layer.experts) if layer.experts else [batch]
    counts = np.asarray(counts)

    def times_s(item: Configuration) -> list[tuple[float, float, float]]:
        tiles = int(np.sum(-(-counts // item["BLOCK_SIZE_M"])))
        works = [static_work(item, launch, layer, device, tiles, counts) for launch in layer.products(batch)]
        return [static_times_s(work, device) for work in works]

    timed = sorted((rank_of(times), place, times) for place, times in enumerate(map(times_s, items)))
    return [(items[place], sum(map(sum, times))) for _, place, times in timed[: portion.of(len(items))]]


def static_work(
    item: Configuration, launch: Product, layer: Layer, device: Device, tiles: int, counts: np.ndarray
) -> StaticWork:
    """Work of a launch from its tiles alone.

    Args:
        tiles: of rows.
        counts: rows of each expert.
    """
    rows, columns, depth = (item[f"BLOCK_SIZE_{axis}"] for axis in "MNK")
    steps, kind = -(-launch.k // depth), "f8" if layer.dtype else "bf16"
    stage_bytes = (rows + columns) * depth * layer.element_bytes
    held_bytes = float(SUM_BYTES * rows * columns)
    work = Tiles(
        ctas=tiles * -(-launch.n // columns),
        dots=[Dot(times=steps, m=rows, n=columns, k=depth, kind=kind)],
        loops=[Loop(), Loop(loaded_bytes=stage_bytes, products=1, held_bytes=held_bytes)],
        loaded_bytes=steps * stage_bytes,
        stored_bytes=held_bytes / 2,
        results=rows * columns,
    )
    hbm_bytes = float(np.count_nonzero(counts)) * launch.n * launch.k * layer.element_bytes
    return work_of(work, item["num_warps"], item["num_stages"], hbm_bytes, device)


def grouped(items: Sequence[Configuration], groups: Sequence[int]) -> list[Configuration]:
    """Each configuration with every group of rows of tiles."""
    return [{**item, GROUP: group} for item in items for group in groups]
