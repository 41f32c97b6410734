"""Roofline bounds: times that no schedule, and no simulation of one, can beat.

Each resource gets the least it can be asked for, at the best rate it can have; the slowest of them bounds the time.
Nothing is added up over resources, and latency, waves and launch overhead count nothing.
"""

from dataclasses import dataclass
from typing import Literal

from ..device.device import Device
from ..launch.program import Launch, TileProgram
from ..launch.walk import Tally, steps, tally
from ..problems.problem import Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Roofline:
    """Lower bounds on time, one per resource.

    Args:
        hbm_bytes: least traffic with device memory, both directions [B].
        tensor_flop: least that the tensor cores can be asked for [FLOP]; exp_count: exponentials.
        hbm_s: device memory at its achievable bandwidth [s].
        tensor_s: tensor cores at the boost clock [s].
        mufu_s: exponentials at the boost clock [s].
        fill_s: bytes into the SMs at the boost clock [s]; 0 where they are not given.
        tensor_sustained_s: tensor cores at the clock that power sustains [s]; no bound, as a light load clocks higher.
        ridge_flop_per_byte: intensity from which on tensor cores outlast device memory, at the boost clock.
    """

    hbm_bytes: int
    tensor_flop: int
    exp_count: int
    hbm_s: float
    tensor_s: float
    mufu_s: float
    fill_s: float
    tensor_sustained_s: float
    ridge_flop_per_byte: float

    @property
    def bound_s(self) -> float:
        """The time that cannot be beaten [s]."""
        return max(self.hbm_s, self.tensor_s, self.mufu_s, self.fill_s)

    @property
    def bottleneck(self) -> str:
        """The resource that sets `bound_s`: hbm, tensor, mufu or fill; the first of equals."""
        times = {"hbm": self.hbm_s, "tensor": self.tensor_s, "mufu": self.mufu_s, "fill": self.fill_s}
        return max(times, key=times.__getitem__)

    @property
    def intensity_flop_per_byte(self) -> float:
        """Operations of matrix products per byte of device memory traffic; infinite where there is no traffic."""
        return self.tensor_flop / self.hbm_bytes if self.hbm_bytes else float("inf")


def tensor_peak_flop_per_s(device: Device, dtype: str, clock_hz: float = 0.0) -> float:
    """Rate of all tensor cores with the fastest instruction class [FLOP/s].

    Args:
        dtype: of the operands; fp32 runs as tf32.
        clock_hz: SM clock; 0 means the fastest that it has while they are all at work [Hz].

    Raises:
        ValueError: the device has no tensor instruction for the type.

    Source: rates per cycle from the device file.
    """
    per_cycle = device.fastest_flop_per_cycle(dtype)
    if not per_cycle:
        raise ValueError(f"dtype = {dtype!r}: {device.name} has no tensor instruction for it")
    return device.sms * per_cycle * (clock_hz or device.tensor_boost_clock_hz)


def ridge_flop_per_byte(device: Device, dtype: str, clock_hz: float = 0.0) -> float:
    """Intensity at which tensor cores and device-memory reads take equally long.

    Args:
        dtype: of the operands; clock_hz: SM clock, 0 for the tensor boost clock [Hz].

    Source: Williams, Waterman, Patterson, Roofline (2009), ridge point.
    """
    return tensor_peak_flop_per_s(device, dtype, clock_hz) / device.hbm_read_bytes_per_s


def roofline(
    problem: Problem,
    device: Device,
    *,
    hbm_read_bytes: int | None = None,
    hbm_write_bytes: int | None = None,
    tensor_flop: int | None = None,
    exp_count: int | None = None,
    smem_fill_bytes: int = 0,
    l2: Literal["cold", "warm"] = "cold",
) -> Roofline:
    """Bounds for a problem: whatever the schedule, or for the traffic and operations of one.

    Args:
        hbm_read_bytes, hbm_write_bytes: traffic with device memory; None means the compulsory bytes [B].
        tensor_flop: None means `problem.matmul_flop` [FLOP].
        exp_count: None means `problem.exp_count`.
            A kernel that computes exponentials as polynomials is not bound by this one.
        smem_fill_bytes: bytes that reach the SMs from L2 [B].
        l2: `warm` grants that inputs which fit into L2 are there already.
            Outputs may stay in L2 in either state, up to its capacity: they count beyond it.

    Raises:
        ValueError: the device has no tensor instruction for the problem's type.

    Source: Williams et al., Roofline (2009); compulsory bytes as the problem says them; rates from the device file.
    """
    compulsory = problem.compulsory
    return _bounds(
        device,
        dtype=problem.dtype,
        read_bytes=compulsory.read_bytes if hbm_read_bytes is None else hbm_read_bytes,
        write_bytes=compulsory.write_bytes if hbm_write_bytes is None else hbm_write_bytes,
        tensor_flop=problem.matmul_flop if tensor_flop is None else tensor_flop,
        exp_count=problem.exp_count if exp_count is None else exp_count,
        smem_fill_bytes=smem_fill_bytes,
        l2=l2,
    )


def launch_roofline(launch: Launch, device: Device, *, l2: Literal["cold", "warm"] = "warm") -> Roofline:
    """Bounds for one kernel launch, whatever its tiles and order.

    Each tensor counts once in each direction, or less where the launch asks for less of it,
    and not as read where the launch itself stores it first;
    operations are those that the launch's tiles execute, padding and masked parts included.

    Args:
        launch: its program is tallied, not simulated.
        l2: `warm`, as the launch before may have left its output in L2; `cold` for a first launch.

    Raises:
        ValueError: the device has no tensor instruction for the launch's type.

    Source: Williams et al., Roofline (2009); counts from the tile program.
    """
    program = launch.program
    totals = tally(program)
    work = [(step.work, totals.executions[step.name]) for step, _ in steps(program.body)]
    read, written = compulsory_bytes(program, totals)
    return _bounds(
        device,
        dtype=launch.dtype,
        read_bytes=sum(read.values()),
        write_bytes=sum(written.values()),
        tensor_flop=sum(times * matmul.flop for step_work, times in work for matmul in step_work.matmuls),
        exp_count=sum(times * step_work.exp_count for step_work, times in work),
        smem_fill_bytes=0,
        l2=l2,
    )


def compulsory_bytes(program: TileProgram, totals: Tally) -> tuple[dict[str, int], dict[str, int]]:
    """What a launch has to read and to write of each tensor: once, or less where it asks for less of it [B].

    What it stores before it loads it (FlashAttention-1's O) may never come from device memory.
    """
    sizes = {tensor.name: tensor.slabs * tensor.rows * tensor.row_bytes for tensor in program.tensors}
    first_use: dict[str, str] = {}
    for step, _ in steps(program.body):
        for kind, tiles in (("load", step.loads), ("store", step.stores)):
            for tile in tiles:
                first_use.setdefault(tile.tensor, kind)
    read = {name: min(sizes[name], asked) for name, asked in totals.load_bytes.items() if first_use[name] == "load"}
    return read, {name: min(sizes[name], asked) for name, asked in totals.store_bytes.items()}


def _bounds(
    device: Device,
    *,
    dtype: str,
    read_bytes: int,
    write_bytes: int,
    tensor_flop: int,
    exp_count: int,
    smem_fill_bytes: int,
    l2: Literal["cold", "warm"],
) -> Roofline:
    if l2 not in ("cold", "warm"):
        raise ValueError(f"l2 = {l2!r}: must be cold or warm")
    cached = device.l2_bytes if l2 == "warm" else 0
    hbm_s = max(0, read_bytes - cached) / device.hbm_read_bytes_per_s
    # Reads and writes share the bus, so their times add up.
    hbm_s += max(0, write_bytes - device.l2_bytes) / device.hbm_write_bytes_per_s
    peak = tensor_peak_flop_per_s(device, dtype)
    cycles_per_s = device.sms * device.boost_clock_hz
    return Roofline(
        hbm_bytes=read_bytes + write_bytes,
        tensor_flop=tensor_flop,
        exp_count=exp_count,
        hbm_s=hbm_s,
        tensor_s=tensor_flop / peak,
        mufu_s=exp_count / (cycles_per_s * device.mufu_per_cycle),
        fill_s=smem_fill_bytes / (cycles_per_s * device.sm_fill_bytes_per_cycle),
        tensor_sustained_s=tensor_flop / tensor_peak_flop_per_s(device, dtype, device.tensor_clock_hz),
        ridge_flop_per_byte=ridge_flop_per_byte(device, dtype),
    )
