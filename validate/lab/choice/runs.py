"""Experiment: what device memory gives where CTAs read rows in runs of 64 B to 1 KiB, a row far from the next.

A CTA reads a tile of BN rows x BK columns in each iteration and goes on along the rows, as a product does whose weights
are K-major; loads are pipelined, nothing else is done. `blocks` of BN rows are read in order or, in groups of 16
blocks, at random, as experts are. All CTAs fit at once, `ctas_per_sm` on each SM, and read as long without a break;
`one` is a grid of a CTA for each block instead, as a grouped product has it.
"""

import itertools

import torch
import triton
import triton.language as tl
from cells import SMEM_BYTES, Cell, Config, Launch, Tensors, enter, normal, options

TOTAL_BYTES, READ_BYTES = 4 << 30, 512 << 20
SMS = 132
GROUP = 16
"""Blocks that lie side by side wherever their group is."""


@triton.jit
def read_rows(W, out, K, iterations, groups, MULTIPLY: tl.constexpr, TRIPS: tl.constexpr, GROUP: tl.constexpr,
              BN: tl.constexpr, BK: tl.constexpr, STAGES: tl.constexpr):  # fmt: skip
    """Read blocks of BN rows, TRIPS tiles each. Args: groups: a power of two, of GROUP blocks; MULTIPLY: odd."""
    pid, ctas = tl.program_id(0), tl.num_programs(0)
    rows, columns = tl.arange(0, BN), tl.arange(0, BK)
    total = tl.zeros([BN, BK], tl.float32)
    for t in tl.range(0, iterations, num_stages=STAGES):
        block = pid + t // TRIPS * ctas
        place = (block // GROUP * MULTIPLY) % groups * GROUP + block % GROUP
        at = (place * BN + rows)[:, None].to(tl.int64) * K + (t % TRIPS * BK + columns)[None, :]
        total += tl.load(W + at)
    tl.store(out + pid * BN + rows, tl.sum(total, 1))


@triton.jit
def nothing(out, BLOCK: tl.constexpr):
    """What every launch takes."""
    tl.store(out + tl.arange(0, BLOCK), 0.0)


def _launch(tensors: Tensors, config: Config) -> Launch:
    bn, bk, trips = config["BN"], config["BK"], config["TRIPS"]
    k = bk * trips
    blocks = TOTAL_BYTES // 2 // k // bn
    groups = blocks // GROUP
    multiply = 1 if config["order"] == "linear" else 0x9E3779B1 % groups | 1
    if config["ctas_per_sm"] == "one":
        ctas, iterations = READ_BYTES // 2 // k // bn, trips
    else:
        ctas = SMS * config["ctas_per_sm"]
        iterations = READ_BYTES // config["tile_bytes"] // ctas
    if -(-iterations // trips) * ctas > blocks:
        raise ValueError(f"{config} reads more than there is")
    named = {"MULTIPLY": multiply, "TRIPS": trips, "GROUP": GROUP, "BN": bn, "BK": bk, "STAGES": config["stages"]}
    args = [tensors["w"], tensors["out"], k, iterations, groups]
    return read_rows, (ctas,), args, named | options(config)


def moved_bytes(config: Config) -> int:
    """Bytes that a launch reads."""
    _, (ctas,), (*_, iterations, _), named = _launch({"w": None, "out": None}, config)
    return int(ctas * iterations * named["BN"] * named["BK"] * 2)


def _points() -> list[Config]:
    wide = itertools.product((64, 128, 256, 512, 1024), (4, 16), (8, 32), (2, 4), (1, 2, 4), ("random",))
    deep = itertools.product((64, 128, 256, 512, 1024), (2, 4, 8, 16), (16,), (3,), (2, 4), ("linear", "random"))
    single = itertools.product((64, 128, 256, 512, 1024), (4, 16), (16,), (2, 3, 4), ("one",), ("random",))
    points: list[Config] = []
    for run, stride_kib, tile_kib, stages, ctas_per_sm, order in [*wide, *deep, *single]:
        resident = 1 if ctas_per_sm == "one" else int(ctas_per_sm)
        if resident * (stages * (tile_kib << 10) + 1024) > SMEM_BYTES:
            continue
        points.append({
            "run_bytes": run, "stride_bytes": stride_kib << 10, "tile_bytes": tile_kib << 10, "stages": stages,
            "ctas_per_sm": ctas_per_sm, "order": order, "BK": run // 2, "BN": (tile_kib << 10) // run,
            "TRIPS": (stride_kib << 10) // run, "num_warps": 8 if tile_kib == 32 else 4,
        })  # fmt: skip
    return points


def _make(device: str) -> Tensors:
    return {
        "w": normal(device, 256, 2, TOTAL_BYTES >> 10, dtype=torch.float16).view(-1),
        "out": torch.empty(1 << 22, device=device),
    }


enter(Cell(family="runs", name="runs", shape={}, configs=_points(), make=_make, launch=_launch))
