"""Steps of PyTorch in plain values, as a recorder would give them, and prices that are easy to add up."""

from collections.abc import Sequence
from itertools import count

from tilesight.simulator.device.device import Device, load_device
from tilesight.simulator.operations.gaps import Queue
from tilesight.simulator.operations.operation import Operand, Operation, RecordedStep
from tilesight.simulator.operations.priced import KernelEstimate, Source
from tilesight.simulator.operations.profile import Profile, profile_of

H200 = load_device("h200")
_NUMBERS = count()


def tensor(*shape: int, dtype: str = "bfloat16", strides: Sequence[int] = ()) -> Operand:
    """A tensor with a storage of its own, dense in the order of its dimensions where no strides are given."""
    dense = [1] * len(shape)
    for place in range(len(shape) - 2, -1, -1):
        dense[place] = dense[place + 1] * shape[place + 1]
    made = Operand(storage=next(_NUMBERS), storage_bytes=0, shape=shape, strides=tuple(strides or dense), dtype=dtype)
    return Operand(storage=made.storage, storage_bytes=made.bytes, shape=shape, strides=made.strides, dtype=dtype)


def torch_operation(
    name: str, inputs: Sequence[Operand] = (), outputs: Sequence[Operand] = (), *, module: str = "", where: str = ""
) -> Operation:
    """An operation of torch."""
    return Operation(kind="torch", name=name, inputs=tuple(inputs), outputs=tuple(outputs), module=module, where=where)


def matmul(m: int, n: int, k: int, *, dtype: str = "bfloat16", module: str = "") -> Operation:
    """A product of dense matrices."""
    return torch_operation(
        "mm", [tensor(m, k, dtype=dtype), tensor(k, n, dtype=dtype)], [tensor(m, n, dtype=dtype)], module=module
    )


def kernel(
    time_s: float, *, name: str = "gemm", source: Source = "matmul", bound_by: str = "tensor cores", reason: str = ""
) -> KernelEstimate:
    """A price, of 2 bytes read for each written."""
    return KernelEstimate(
        name=name,
        source=source,
        time_s=time_s,
        bound_by=bound_by,
        hbm_read_bytes=2000,
        hbm_write_bytes=1000,
        l2_bytes=4000,
        reason=reason,
    )


def profiled(
    operations: Sequence[Operation],
    priced: Sequence[Sequence[KernelEstimate]],
    *,
    device: Device = H200,
    mode: str = "eager",
    queue: Queue = "stream",
    peak_bytes: int = 1 << 30,
) -> Profile:
    """The profile of a step."""
    step = RecordedStep(
        operations=tuple(operations),
        mode="compiled" if mode == "compiled" else "eager",
        peak_bytes=peak_bytes,
        parameter_bytes=1 << 20,
        notes=("a note of the recording",),
    )
    return profile_of(step, priced, device, "h200", subject="model.py:step", queue=queue)


def layered(layers: int = 3) -> Profile:
    """Layers of a product and a copy, an odd layer at the end, and a kernel without a price."""
    operations, priced = [], []
    for layer in range(layers):
        operations += [
            matmul(4096, 4096, 4096, module=f"layers.{layer}.up"),
            torch_operation("gelu", module=f"layers.{layer}"),
        ]
        priced += [[kernel(100e-6)], [kernel(20e-6, name="elementwise", source="bytes", bound_by="HBM")]]
    operations += [torch_operation("cumsum", module=f"layers.{layers}"), torch_operation("sort", where="model.py:9")]
    priced += [
        [kernel(5e-6, name="scan", source="bytes", bound_by="latency")] * 2,
        [kernel(7e-6, name="sort", source="refused", bound_by="HBM", reason="sort has no price")],
    ]
    return profiled(operations, priced)
