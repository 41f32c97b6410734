"""What bounds a launch whatever its code: bytes that it cannot but move, operations, and the peaks of the device.

In: its program, what it asks for, and its prediction. Out: the roofline's time, and bytes by tensor.
"""

from dataclasses import asdict, dataclass

from ..closed_form.roofline import compulsory_bytes
from ..device.device import Device
from ..engine.clock import tensor_clock_hz
from ..launch.program import Launch
from ..launch.walk import Tally
from ..sm.tensor_rate import peak_flop_per_cycle
from .prediction import LaunchPrediction


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorBytes:
    """What a launch asks for of one tensor.

    Args:
        size_bytes: that it takes in device memory [B].
        loaded_bytes, stored_bytes: that CTAs load and store, in whole sectors, before L1 and L2 [B].
    """

    name: str
    size_bytes: int
    loaded_bytes: int
    stored_bytes: int

    @property
    def times_loaded(self) -> float:
        """Loaded bytes over its size: below 1 a part is loaded, above 1 some of it again and again."""
        return self.loaded_bytes / self.size_bytes if self.size_bytes else 0.0

    def to_dict(self) -> dict[str, str | int]:
        """The tensor's object in `predict --json`."""
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceiling:
    """The roofline of a launch, and the peaks that its rates are held against.

    Args:
        compulsory_read_bytes, compulsory_write_bytes: each tensor once, or less where the launch asks for less of it;
            and no more than HBM moves, where L2 has it from a launch before or keeps it for one behind [B].
        flop: operations of its matrix instructions [FLOP].
        hbm_bytes_per_s: HBM, by the datasheet; l2_bytes_per_s: L2; fabric_bytes_per_s: between its partitions;
            fill_bytes_per_s: into all SMs; smem_bytes_per_s: L1 and shared memory of all SMs [B/s].
        flop_per_s: tensor cores, with the types of the operands and sums; 0: no matrix instructions [FLOP/s].
        tensors: bytes by tensor, the largest traffic first.
    """

    compulsory_read_bytes: int
    compulsory_write_bytes: int
    flop: int
    hbm_bytes_per_s: float
    l2_bytes_per_s: float
    fabric_bytes_per_s: float
    fill_bytes_per_s: float
    smem_bytes_per_s: float
    flop_per_s: float
    tensors: tuple[TensorBytes, ...]

    @property
    def compulsory_bytes(self) -> int:
        """Both directions [B]."""
        return self.compulsory_read_bytes + self.compulsory_write_bytes

    @property
    def hbm_s(self) -> float:
        """Compulsory bytes at the peak of HBM [s]."""
        return self.compulsory_bytes / self.hbm_bytes_per_s

    @property
    def tensor_s(self) -> float:
        """Operations at the peak of the tensor cores [s]."""
        return self.flop / self.flop_per_s if self.flop_per_s else 0.0

    @property
    def bound_s(self) -> float:
        """The roofline's time [s]."""
        return max(self.hbm_s, self.tensor_s)

    @property
    def limit(self) -> str:
        """What sets it: `hbm` or `tensor`."""
        return "hbm" if self.hbm_s >= self.tensor_s else "tensor"

    @property
    def peaks(self) -> dict[str, float]:
        """The peaks in `predict --json`, which `% of peak` is of: bytes over time over one of them [B/s, FLOP/s]."""
        names = ("hbm", "l2", "fabric", "fill", "smem")
        return {f"{name}_bytes_per_s": getattr(self, f"{name}_bytes_per_s") for name in names} | {
            "flop_per_s": self.flop_per_s
        }

    def multiple(self, time_s: float) -> float:
        """A time over the roofline's; 0 where nothing bounds it."""
        return time_s / self.bound_s if self.bound_s else 0.0


def ceiling_of(launch: Launch, totals: Tally, prediction: LaunchPrediction, device: Device) -> Ceiling:
    """The roofline of a launch. Args: totals: of its program; prediction: of it on the device.

    Source: Williams, Waterman, Patterson, Roofline (2009).
    """
    read, written = compulsory_bytes(launch.program, totals)
    traffic = prediction.traffic
    loaded, stored = totals.load_bytes, totals.store_bytes
    tensors = (
        TensorBytes(
            name=tensor.name,
            size_bytes=tensor.size_bytes,
            loaded_bytes=loaded.get(tensor.name, 0),
            stored_bytes=stored.get(tensor.name, 0),
        )
        for tensor in launch.program.tensors
        if tensor.name in loaded or tensor.name in stored
    )
    cycles_per_s = device.sms * prediction.clock_hz
    flop = traffic.matmul_flop
    return Ceiling(
        compulsory_read_bytes=min(sum(read.values()), traffic.hbm_read_bytes),
        compulsory_write_bytes=min(sum(written.values()), traffic.hbm_write_bytes),
        flop=flop,
        hbm_bytes_per_s=device.hbm_peak_bytes_per_s,
        l2_bytes_per_s=device.l2_bytes_per_s,
        fabric_bytes_per_s=device.fabric_bytes_per_s,
        fill_bytes_per_s=device.sm_fill_bytes_per_cycle * cycles_per_s,
        smem_bytes_per_s=device.smem_bytes_per_cycle * cycles_per_s,
        flop_per_s=device.sms * peak_flop_per_cycle(launch, device) * tensor_clock_hz(launch, device) if flop else 0.0,
        tensors=tuple(sorted(tensors, key=lambda tensor: -(tensor.loaded_bytes + tensor.stored_bytes))),
    )
