"""Roofline bounds: times that no schedule, and no simulation of one, can beat.

Each resource gets the least it can be asked for, at the best rate it can have; the slowest of them bounds the time.
Nothing is added up over resources, and latency, waves and launch overhead count nothing.
"""

from dataclasses import dataclass

from ..device.device import Device
from ..launch.program import TileProgram
from ..launch.walk import Tally, steps
from ..problems.problem import Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Roofline:
    """Lower bounds on time, one per resource.

    Args:
        hbm_bytes: least traffic with device memory, both directions [B].
        tensor_flop: least that the tensor cores can be asked for [FLOP]; exp_count: exponentials.
        hbm_s: device memory at its achievable bandwidth [s].
        tensor_s: tensor cores at their boost clock; mufu_s: exponentials at the boost clock [s].
    """

    hbm_bytes: int
    tensor_flop: int
    exp_count: int
    hbm_s: float
    tensor_s: float
    mufu_s: float

    @property
    def bound_s(self) -> float:
        """The time that cannot be beaten [s]."""
        return max(self.hbm_s, self.tensor_s, self.mufu_s)

    @property
    def bottleneck(self) -> str:
        """The resource that sets `bound_s`: hbm, tensor or mufu; the first of equals."""
        times = {"hbm": self.hbm_s, "tensor": self.tensor_s, "mufu": self.mufu_s}
        return max(times, key=times.__getitem__)


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


def roofline(problem: Problem, device: Device) -> Roofline:
    """Bounds for a problem, whatever the schedule. Raises: ValueError: as `tensor_peak_flop_per_s`.

    Source: Williams et al., Roofline (2009); compulsory bytes as the problem says them; rates from the device file.
    """
    moved = problem.compulsory.read_bytes, problem.compulsory.write_bytes
    return bounds(device, problem.dtype, moved, problem.matmul_flop, problem.exp_count)


def bounds(device: Device, dtype: str, moved: tuple[int, int], tensor_flop: int, exp_count: int) -> Roofline:
    """Bounds for work. Args: moved: bytes read and written; what L2 holds at the end need not reach HBM [B]."""
    read_bytes, write_bytes = moved
    # Reads and writes share the bus, so their times add up.
    write_s = max(0, write_bytes - device.l2_bytes) / device.hbm_write_bytes_per_s
    return Roofline(
        hbm_bytes=read_bytes + write_bytes,
        tensor_flop=tensor_flop,
        exp_count=exp_count,
        hbm_s=read_bytes / device.hbm_read_bytes_per_s + write_s,
        tensor_s=tensor_flop / tensor_peak_flop_per_s(device, dtype),
        mufu_s=exp_count / (device.sms * device.boost_clock_hz * device.mufu_per_cycle),
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
