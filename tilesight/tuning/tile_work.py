"""Static work of a launch from its tiles alone: registers, shared memory and instructions are estimated."""

from math import inf
from typing import TYPE_CHECKING

from ..kernels.configurations.tiles import Dot, Tiles, tiles_of
from ..simulator.device.device import Device
from ..simulator.launch.program import Resources
from ..simulator.limits import WARP_THREADS, WARPGROUP_WARPS
from ..simulator.refusal import Refusal
from ..simulator.residency.occupancy import occupancy
from ..simulator.residency.registers_and_smem import MMA_ROWS, WGMMA_ROWS
from ..simulator.screening.static_time import StaticWork

if TYPE_CHECKING:
    from ..kernels.compile.call import KernelLaunch

KINDS = {"f32": ("tf32", 4), "f16": ("fp16", 2), "bf16": ("fp16", 2), "i8": ("int8", 1), "f64": ("fp64", 8)}
"""Element of the IR -> kind of product, bytes; else fp8."""
OWN_REGISTERS, OWN_OF_ROWS = 40, 24
"""Registers of a thread beside tiles, with products and without. Kind: estimated, of 72 where tiles take 32 and of 56
where they take 32 (machine code of cells of attention with one query and of RMSNorm, validate/lab/choice)."""
SPILLED = 3.0
"""How much slower is taken to be what spills."""
LANE_BYTES = 16
"""That a lane moves with an instruction at most."""

MMA_FLOP = 2 * 16 * 8 * 16
"""Of an instruction `mma.m16n8k16`."""


def static_work(call: "KernelLaunch", device: Device) -> StaticWork | None:
    """Static work of a launch; None where its IR does not tell, and of Gluon, whose first IR is another."""
    tiles = None if call.job["gluon"] else tiles_of(call.job["ttir"], call.grid, call.arguments, call.storages)
    hbm_bytes = float(sum(storage.size_bytes for storage in call.storages))
    return work_of(tiles, call.num_warps, call.num_stages, hbm_bytes, device) if tiles else None


def work_of(tiles: Tiles, warps: int, stages: int, hbm_bytes: float, device: Device) -> StaticWork:
    """Static work of tiles.

    Args:
        warps: of a CTA; stages: asked of the compiler; hbm_bytes: of device memory that the launch touches [B].

    Tensor cores, operands, special functions and issue are added up: little of one hides behind another.
    Source of buffers: Triton's pipeliner keeps a stage more where warp groups read operands from shared memory.
    """
    threads = warps * WARP_THREADS
    wide = any(_is_wide(dot, warps, device) for dot in tiles.dots)
    in_flight = [loop.loaded_bytes * max(1, (loop.stages or stages * (loop.products > 0)) - 1) for loop in tiles.loops]
    buffers = 0 if stages == 1 else stages if wide else stages - 1
    staged_bytes = max((loop.loaded_bytes for loop in tiles.loops if loop.products), default=0.0)
    smem_bytes = staged_bytes * (buffers or 0.5) + (tiles.loops[0].loaded_bytes if tiles.dots else 0.0)
    if tiles.dots:
        beside = OWN_REGISTERS
        held = [loop.held_bytes + loop.loaded_bytes * (loop.products > 0 and not buffers) for loop in tiles.loops]
    else:
        beside = OWN_OF_ROWS
        held = [loop.held_bytes + max(loop.loaded_bytes, tiles.widest_bytes) for loop in tiles.loops]
    needed = max(held) / 4 / threads + beside
    most = min(device.max_registers_per_thread, device.registers_per_sm // threads)
    fit = occupancy(
        Resources(registers_per_thread=min(int(needed), most), smem_bytes_per_cta=int(smem_bytes)), warps, device
    )
    slower = inf if isinstance(fit, Refusal) else SPILLED if needed > most else 1.0
    moved_bytes = tiles.loaded_bytes + tiles.stored_bytes
    cycles = sum(dot.times * _cycles(dot, warps, device) for dot in tiles.dots)
    cycles += (tiles.results / WARP_THREADS + moved_bytes / WARP_THREADS / LANE_BYTES) / device.issue_per_cycle
    cycles += tiles.special / device.mufu_per_cycle
    cycles += tiles.loaded_bytes / device.smem_bytes_per_cycle if tiles.dots else 0.0
    return StaticWork(
        ctas=tiles.ctas,
        resident=1 if isinstance(fit, Refusal) else fit.ctas_per_sm,
        sm_cycles=slower * cycles,
        fill_bytes=slower * moved_bytes,
        hbm_bytes=hbm_bytes,
        flight_bytes=max(in_flight),
    )


def _is_wide(dot: Dot, warps: int, device: Device) -> bool:
    """Whether warp groups multiply, with operands in shared memory."""
    kind, _ = KINDS.get(dot.kind, ("fp8", 1))
    rates = [device.matmul_flop_per_cycle(unit, kind) for unit in ("wgmma", "tcgen05")]
    return bool(dot.kind) and max(rates) > 0 and dot.m >= WGMMA_ROWS and warps % WARPGROUP_WARPS == 0


def _cycles(dot: Dot, warps: int, device: Device) -> float:
    """What a product takes tensor cores, its operands shared memory, and instructions of single warps the issue.

    Source of the warps' places in a tile: `warpsPerTileV2` of Triton 3.6.
    """
    kind, size_bytes = KINDS.get(dot.kind, ("fp8", 1))
    flop, rows, columns = 2.0 * dot.m * dot.n * dot.k, 1, 1
    if _is_wide(dot, warps, device):
        rate = max(device.matmul_flop_per_cycle(unit, kind) for unit in ("wgmma", "tcgen05"))
        read_bytes = dot.m / WGMMA_ROWS * (WGMMA_ROWS + dot.n) * dot.k * size_bytes
        return flop / rate + read_bytes / device.smem_bytes_per_cycle
    while rows * columns < warps:
        down = dot.m / rows >= dot.n / columns and rows * MMA_ROWS < dot.m
        rows, columns = (2 * rows, columns) if down else (rows, 2 * columns)
    read_bytes = (dot.m * columns + dot.n * rows) * dot.k * size_bytes
    rate = (device.matmul_flop_per_cycle("mma", kind) if dot.kind else 0.0) or 2 * device.fma_per_cycle
    issued = flop / MMA_FLOP + read_bytes / WARP_THREADS / LANE_BYTES
    return flop / rate + read_bytes / device.smem_bytes_per_cycle + issued / device.issue_per_cycle
