"""A GPU of two SMs with caches of a few tiles, hand-made launches, and the engine run on them.

Rates are round numbers of bytes per cycle, latencies round numbers of cycles, so that counts and times come out exact.
A tile is 8 rows of 128 B: 1 KiB.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from support.strategies import TOY
from tilesight.simulator.arguments import Settings
from tilesight.simulator.device.device import Device
from tilesight.simulator.dtypes import DTYPES
from tilesight.simulator.engine.clock import Clocks
from tilesight.simulator.engine.continued import Marks
from tilesight.simulator.engine.costed import CostedLaunch
from tilesight.simulator.engine.engine import LaunchRun, run_launches
from tilesight.simulator.launch.before import Before
from tilesight.simulator.launch.program import Launch, Loop, Path, Resources, Step, Tensor, Tile, TileProgram, affine
from tilesight.simulator.launch.walk import steps, tally
from tilesight.simulator.residency.residency import residency_of
from tilesight.simulator.sm.step_cost import StepCost

KIB = 1024
TILE_ROWS, COLS, ELEMENT_BYTES = 8, 64, 2
TILE_BYTES = TILE_ROWS * COLS * ELEMENT_BYTES
GPU = replace(
    TOY,
    name="two SMs, two partitions",
    l2_bytes=64 * KIB,
    l2_partitions=2,
    l1_latency_cycles=30,
    l2_latency_cycles=100,
    fabric_latency_cycles=50,
    hbm_latency_s=200e-9,
    l2_bytes_per_s=256e9,
    l2_write_bytes_per_s=256e9,
    fabric_bytes_per_s=128e9,
    hbm_peak_bytes_per_s=64e9,
    hbm_read_bytes_per_s=64e9,
    hbm_write_bytes_per_s=64e9,
    sm_fill_bytes_per_cycle=64,
    cta_dispatch_cycles=0,
)
"""At 1 GHz: 128 B per cycle from each partition, 128 over the fabric, 64 from HBM and into an SM."""
ONE_PARTITION = replace(GPU, name="two SMs, one partition", l2_partitions=1)
"""The same 64 KiB of L2 in one piece."""


def tensor(name: str, tiles: int, slabs: int = 1, role: str = "input") -> Tensor:
    """A stack of matrices that are so many tiles high."""
    rows = tiles * TILE_ROWS
    return Tensor(name=name, role=role, slabs=slabs, rows=rows, cols=COLS, dtype=DTYPES["fp16"])  # type: ignore[arg-type]


def tile(name: str, slab: str = "slab", path: Path = "async", **terms: int) -> Tile:
    """A tile of that tensor. Args: terms: variable = tiles, added up to the tile's number in its slab."""
    row = affine(**{variable: TILE_ROWS * tiles for variable, tiles in terms.items()})
    return Tile(tensor=name, slab=slab, rows=TILE_ROWS, cols=COLS, row=row, path=path)


def launch(
    body: Sequence[Step | Loop],
    tensors: Sequence[Tensor],
    items: Sequence[Sequence[int]],
    variables: Sequence[str] = ("slab",),
    *,
    ctas: int = 0,
    smem_bytes: int = 0,
    period: int = 0,
    warps: int = 4,
    name: str = "toy",
) -> Launch:
    """One CTA per item (or fewer CTAs, persistent), its variables a row of `items`."""
    table = np.array(items, dtype=np.int64).reshape(len(items), len(variables))
    return Launch(
        name=name,
        grid=(ctas or len(items), 1, 1),
        num_warps=warps,
        num_stages=1,
        program=TileProgram(
            tensors=tuple(tensors),
            variables=tuple(variables),
            items=lambda indices: table[indices],
            item_count=len(items),
            period_items=period or len(items),
            body=tuple(body),
        ),
        resources=Resources(registers_per_thread=32, smem_bytes_per_cta=smem_bytes),
        dtype="fp16",
    )


def sweeps(
    *,
    tiles: int,
    times: int,
    slabs: Sequence[int],
    path: Path = "async",
    stages: int = 1,
    smem_bytes: int = 0,
    name: str = "X",
    role: str = "input",
) -> Launch:
    """CTA i loads `tiles` tiles of slab `slabs[i]`, one after the other, `times` times over."""
    step = Step(name="load", loads=(tile(name, path=path, i=1),))
    inner = Loop(counter="i", trips=tiles, stages=stages, body=(step,))
    return launch(
        (Loop(counter="again", trips=times, body=(inner,)),),
        (tensor(name, tiles, slabs=max(slabs) + 1, role=role),),
        [(slab,) for slab in slabs],
        smem_bytes=smem_bytes,
    )


def writes(*, tiles: int, slabs: Sequence[int], times: int = 1, role: str = "output", name: str = "write") -> Launch:
    """CTA i stores `tiles` tiles of slab `slabs[i]` of Y, `times` times over."""
    step = Step(name="store", stores=(tile("Y", i=1),))
    inner = Loop(counter="i", trips=tiles, body=(step,))
    return launch(
        (Loop(counter="again", trips=times, body=(inner,)),),
        (tensor("Y", tiles, slabs=max(slabs) + 1, role=role),),
        [(slab,) for slab in slabs],
        name=name,
    )


def cost(
    critical_path: float = 0.0, tensor: float = 0.0, mufu: float = 0.0, slowdown_by_age: tuple[float, ...] = ()
) -> StepCost:
    """A step that takes a lone CTA so long, and the two pipes so many of these cycles."""
    return StepCost(
        pipe_cycles=(tensor, mufu, 0.0, 0.0, 0.0, 0.0),
        critical_path_cycles=critical_path,
        smem_read_bytes=0,
        smem_write_bytes=0,
        executed_flop=0,
        other_flop=0,
        exp_count=0,
        slowdown_by_age=slowdown_by_age,
    )


def run_all(
    *launches: Launch,
    gpu: Device = GPU,
    costs: dict[str, StepCost] | None = None,
    l2: str = "cold",
    before: Before = (),
    resolution: str = "chunk",
    steady_state: bool = False,
    record: bool = False,
    clock_hz: float = 0.0,
    marks: Marks | None = None,
) -> list[LaunchRun]:
    """Simulate launches, one after the other on the same L2.

    Args:
        costs: of named steps; others cost nothing; before: kernels that ran before; clock_hz: 0 means the boost clock;
        marks: of the same launch.
    """
    settings = Settings(l2=l2, resolution=resolution, steady_state=steady_state)
    costed = [costed_as(kernel, gpu, costs or {}, clock_hz) for kernel in launches]
    return run_launches(costed, gpu, settings, before=before, record=record, marks=marks, marked=True)


def costed_as(kernel: Launch, gpu: Device, costs: Mapping[str, StepCost], clock_hz: float = 0.0) -> CostedLaunch:
    """A launch whose steps take so long; steps that are not named cost nothing. Args: clock_hz: as above."""
    return CostedLaunch(
        launch=kernel,
        residency=residency_of(kernel, gpu),
        costs={step.name: costs.get(step.name, cost()) for step, _ in steps(kernel.program.body)},
        tally=tally(kernel.program),
        clocks=Clocks(clock_hz or gpu.boost_clock_hz, clock_hz or gpu.boost_clock_hz),
    )


def run(launch: Launch, **options: object) -> LaunchRun:
    """Simulate one launch from an empty L2; options as in `run_all`."""
    return run_all(launch, **options)[0]  # type: ignore[arg-type]


def every_sm_sweeps(gpu: Device, *, total_bytes: int, shared: bool, times: int) -> tuple[LaunchRun, int]:
    """One CTA on every SM sweeps a buffer, shared or a share of its own. Returns: (run, size of all buffers [B])."""
    slabs = [0] * gpu.sms if shared else list(range(gpu.sms))
    tile_bytes = 8 * KIB
    tiles = total_bytes // tile_bytes if shared else total_bytes // gpu.sms // tile_bytes
    rows = tile_bytes // (COLS * ELEMENT_BYTES)
    held = Tensor(name="X", role="input", slabs=max(slabs) + 1, rows=rows * tiles, cols=COLS, dtype=DTYPES["fp16"])
    part = Tile(tensor="X", slab="slab", rows=rows, cols=COLS, row=affine(i=rows), path="async")
    inner = Loop(counter="i", trips=tiles, body=(Step(name="load", loads=(part,)),))
    body = (Loop(counter="again", trips=times, body=(inner,)),)
    alone = gpu.smem_per_sm_bytes // 2 + KIB
    seen = run(launch(body, (held,), [(slab,) for slab in slabs], smem_bytes=alone), gpu=gpu)
    return seen, held.size_bytes
