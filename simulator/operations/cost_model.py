"""What one kernel of torch's takes on a GPU, from the tensors that it touches and the work that it does.

A kernel takes as long as the busiest of HBM or L2, the tensor cores, the issue slots, the chain of its latencies and
the dispatch of its CTAs, a little more where several are busy: their `overlap`-norm. That is never less than any of
them, so no kernel beats the bytes that it must move or the FLOP that it must do.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from math import prod
from typing import TypedDict, Unpack

from ..device.device import Device
from ..launch.before import StorageUse
from .operation import Operand
from .priced import KernelEstimate, Source
from .storage_cache import StorageCache

OVERLAPPED, SERIAL = "kernel.overlapped_norm", "kernel.serial_norm"
"""Norms of kernels that load ahead of what they compute, and of those whose threads take an element after the other."""
LANES = 32


class Load(TypedDict, total=False):
    """What a kernel keeps busy beside moving each byte of its tensors once.

    Args:
        instructions: of all threads; ctas: that it launches; tensor_s: that tensor cores are busy [s].
        chain: loads that wait for each other, one thread after all; latency_s: other waiting [s].
        start_s: before anything of it begins, and a miss more where L2 does not have all of it [s].
        end_s: after all of it [s].
        l2_s: that L2 is busy beyond moving each byte once [s]; read_again: bytes that HBM sends once more [B].
        hbm_fraction: of HBM's bandwidth that it reaches, 1 unless said.
        overlap: key of the norm of its parts, e.g. `OVERLAPPED`, unless said, or `SERIAL`.
    """

    instructions: float
    ctas: float
    tensor_s: float
    chain: float
    latency_s: float
    start_s: float
    end_s: float
    l2_s: float
    read_again: float
    hbm_fraction: float
    overlap: str


class KernelCostModel:
    """A GPU, and what its L2 holds while operations follow each other.

    Args:
        device: whose rates count.

    Attributes:
        kernels: that ran, by what each touched.
        one_shape: keys of numbers that were asked for, and read off one shape each.
    """

    def __init__(self, device: Device) -> None:
        self.device = device
        self.cache = StorageCache(device)
        self.kernels: list[tuple[StorageUse, ...]] = []
        self.one_shape: list[str] = []
        self.hbm_bytes_per_s = device.hbm_read_bytes_per_s

    @property
    def sms(self) -> int:
        """Its streaming multiprocessors."""
        return self.device.sms

    def cost(self, key: str) -> float:
        """A number of its kernels (`device/torch_kernels`). Args: key: e.g. `softmax.row_s`."""
        number = self.device.torch_kernels[key]
        if number.shapes == 1:
            self.one_shape.append(key)
        return number.value

    def issue_s(self, instructions: float) -> float:
        """Time that all SMs take to issue instructions of single threads [s]."""
        device = self.device
        return instructions / (device.sms * device.issue_per_cycle * LANES * device.boost_clock_hz)

    def dispatch_s(self, ctas: float) -> float:
        """Time in which the GPU hands out CTAs [s]."""
        return ctas * self.device.cta_dispatch_cycles / self.device.boost_clock_hz

    def cycles_s(self, cycles: float) -> float:
        """Cycles of the SM clock as time [s]."""
        return cycles / self.device.boost_clock_hz

    def chain_s(self, loads: float, missed: float) -> float:
        """Latency of loads that follow each other [s]; the first of HBM's finds its translation.

        Args:
            loads: how many; missed: share of them that L2 does not have.
        """
        latency = self.cycles_s(self.device.l2_latency_cycles) + missed * self.device.hbm_latency_s
        return loads * latency + (self.cost("kernel.first_miss_s") if missed and loads else 0.0)

    def hbm_s(self, read: float, written: float) -> float:
        """Time in which HBM moves bytes [s]; a little of one kind costs no turns."""
        turns = 2.0 * min(read, written) / (read + written) if read + written else 0.0
        return (
            (read + written)
            / self.hbm_bytes_per_s
            / (1.0 - (1.0 - self.cost("kernel.turn_fraction")) * min(2.0 * turns, 1.0))
        )

    def _filled(self, writes: Iterable[Operand]) -> float:
        """Bytes that HBM sends to complete sectors that are written in part, and leave L2 like that [B]."""
        moved = [(sectors(operand, self.device.sector_bytes), operand.bytes) for operand in writes]
        return sum(size for size, filled in moved if filled < size > self.cache.dirty_bytes)

    def kernel(
        self,
        name: str,
        reads: Iterable[Operand],
        writes: Iterable[Operand],
        *,
        source: Source = "bytes",
        scratch_bytes: int = 0,
        note: str = "",
        **load: Unpack[Load],
    ) -> KernelEstimate:
        """A kernel that reads and writes tensors, each byte once.

        Args:
            scratch_bytes: memory beside tensors, those of `scratch` among them, that its operation has meanwhile [B].
            load: what it keeps busy beside.
        """
        reads, writes = tuple(reads), tuple(writes)
        sector = self.device.sector_bytes
        wanted, made = _bytes_of(reads, sector), _bytes_of(writes, sector)
        missed, written = self._moved(wanted, made)
        share = missed / max(sum(wanted.values()), 1.0)
        missed += load.get("read_again", 0.0) + self._filled(writes)
        asked, stored = sum(wanted.values()), sum(made.values())
        busy = {
            "HBM": self.hbm_s(missed, written) / load.get("hbm_fraction", 1.0),
            "L2": asked / self.device.l2_bytes_per_s
            + stored / self.device.l2_write_bytes_per_s
            + load.get("l2_s", 0.0),
            "tensor cores": load.get("tensor_s", 0.0),
            "instructions": self.issue_s(load.get("instructions", 0.0)),
            "latency": load.get("latency_s", 0.0) + self.chain_s(load.get("chain", 0.0), share),
        }
        memory = max(busy["HBM"], busy["L2"])
        rest = [busy[key] for key in ("tensor cores", "instructions", "latency")]
        dispatch, norm = self.dispatch_s(load.get("ctas", 0.0)), self.cost(load.get("overlap", OVERLAPPED))
        time = max(sum(part**norm for part in (memory, *rest)) ** (1.0 / norm), dispatch)
        start_s, end_s = load.get("start_s", 0.0), load.get("end_s", 0.0)
        begun = (
            self.cost("kernel.empty_s")
            + start_s
            + (self.cost("kernel.first_miss_s") + self.device.hbm_latency_s if start_s and missed else 0.0)
        )
        bound_by = "latency" if time in (min(time, begun + end_s), dispatch) else max(busy, key=lambda key: busy[key])
        return KernelEstimate(
            name=name,
            source=source,
            time_s=begun + time + end_s,
            bound_by=bound_by,
            hbm_read_bytes=missed,
            hbm_write_bytes=written,
            l2_bytes=float(asked + stored),
            scratch_bytes=scratch_bytes + _scratch_bytes((*reads, *writes)),
            note=note,
        )

    def _moved(self, wanted: Mapping[int, float], made: Mapping[int, float]) -> tuple[float, float]:
        """Bytes that HBM reads and writes for a kernel. Args: wanted, made: storage -> bytes read, and written [B]."""
        touched = [(wanted, False), (made, True)]
        uses = [(number, size, stored) for sizes, stored in touched for number, size in sizes.items()]
        self.kernels.append(tuple(StorageUse(number=it[0], bytes=it[1], written=it[2]) for it in uses))
        missed = written = 0.0
        for storage, size in wanted.items():
            sent, evicted = self.cache.read(storage, size)
            missed, written = missed + sent, written + evicted
        return missed, written + sum(self.cache.write(storage, size) for storage, size in made.items())


def sectors(operand: Operand, sector_bytes: int) -> float:
    """Bytes of the sectors in which elements lie: more than theirs where no dimension's neighbours are adjacent [B]."""
    gap = min((t for t, size in zip(operand.strides, operand.shape, strict=True) if t and size > 1), default=1)
    return operand.bytes * max(min(gap, sector_bytes / operand.item_bytes), 1.0)


def as_profiled_s(launch_s: float, device: Device) -> float:
    """A simulated launch's time, without what its ramp has beyond an empty kernel as the profiler sees it [s].

    The ramp was measured from launch to launch; between kernels of a step that part is the gap (`gaps.queued`).
    """
    empty_s = empty_kernel_s(device)
    outside_s = device.launch_ramp_cycles / device.boost_clock_hz - empty_s
    return max(launch_s - max(outside_s, 0.0), empty_s)


def empty_kernel_s(device: Device) -> float:
    """A kernel with nothing to do, as the profiler sees it [s]."""
    return device.torch_kernels["kernel.empty_s"].value


def memset(gpu: KernelCostModel, size: float = 0.0) -> KernelEstimate:
    """A memset that a vendor's kernel brings along, of `size` bytes."""
    time = gpu.cost("kernel.memset_s") + size / gpu.hbm_bytes_per_s
    return KernelEstimate(name="Memset", source="bytes", time_s=time, bound_by="latency", hbm_write_bytes=size)


def scratch(
    like: Operand,
    number: int,
    *,
    shape: tuple[int, ...] = (),
    strides: tuple[int, ...] = (),
    dtype: str = "",
) -> Operand:
    """A tensor that the kernels of an operation make for themselves.

    Args:
        like: a tensor of the operation, whose shape, order and type it has unless others are given.
        number: of such tensors of `like`, from 0 to 15.
    """
    kept = not shape and like.is_dense
    shape = shape or like.shape
    contiguous = tuple(prod(shape[axis + 1 :]) for axis in range(len(shape)))
    made = Operand(
        storage=-16 * abs(like.storage) - number - 1,
        storage_bytes=0,
        shape=shape,
        strides=strides or (like.strides if kept else contiguous),
        dtype=dtype or like.dtype,
    )
    return replace(made, storage_bytes=made.bytes)


def part(whole: Operand, size: int) -> Operand:
    """As many bytes of a tensor, in a view of one dimension."""
    elements = size // whole.item_bytes
    return replace(whole, shape=(elements,), strides=(1,))


def _scratch_bytes(operands: Iterable[Operand]) -> int:
    """Of tensors that an operation makes for itself."""
    return sum({operand.storage: operand.storage_bytes for operand in operands if operand.storage < 0}.values())


def _bytes_of(operands: Iterable[Operand], sector_bytes: int) -> Mapping[int, float]:
    """Bytes that each storage is asked for: of its distinct views' sectors, at most all of it."""
    views: dict[int, dict[tuple, float]] = {}  # type: ignore[type-arg]
    sizes: dict[int, int] = {}
    for operand in operands:
        view = (operand.offset_bytes, operand.shape, operand.strides)
        views.setdefault(operand.storage, {})[view] = sectors(operand, sector_bytes)
        sizes[operand.storage] = operand.storage_bytes
    return {storage: min(sum(parts.values()), sizes[storage]) for storage, parts in views.items()}
