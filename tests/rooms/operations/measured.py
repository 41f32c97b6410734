"""Operations of torch beside the kernels that GPUs launched for them: `docs/lab/data/torch-*.ndjson.xz`."""

import json
import lzma
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tilesight.simulator.device.device import Device
from tilesight.simulator.operations.gpu import Gpu
from tilesight.simulator.operations.operation import Operand, Operation, RecordedStep
from tilesight.simulator.operations.price import price, price_step
from tilesight.simulator.operations.priced import PricedKernel

FOLDER = Path(__file__).parents[3] / "docs/lab/data"
FUNCTIONS = "torch-functions-h200-2026-11-25"
OPERATIONS = "torch-operations-h100-2026-11-27"
FLUSH_BYTES = 256 << 20


@dataclass(frozen=True, kw_only=True)
class Case:
    """Operations, and the kernels of them as (name, us), behind a flushed L2 (`cold`) and repeated (`warm`)."""

    name: str
    operations: tuple[Operation, ...]
    cold: tuple[tuple[str, float], ...]
    warm: tuple[tuple[str, float], ...]


def cases(file: str) -> Iterator[Case]:
    """Those of a file whose operations are written down."""
    with lzma.open(FOLDER / f"{file}.ndjson.xz", "rt") as lines:
        for row in map(json.loads, lines):
            if row["operations"]:
                kernels = {key: tuple((name, us) for name, us in row.get(key, ())) for key in ("cold", "warm")}
                yield Case(name=row["name"], operations=tuple(map(Operation.from_dict, row["operations"])), **kernels)


def step_of(operations: tuple[Operation, ...]) -> RecordedStep:
    """A step of operations and nothing else."""
    return RecordedStep(operations=operations, mode="eager", peak_bytes=0)


def kernels_of(operations: tuple[Operation, ...], device: Device) -> list[PricedKernel]:
    """Their kernels, L2 empty before."""
    return [kernel for kernels in price_step(step_of(operations), device, {}) for kernel in kernels]


def repeated(case: Case, device: Device, *, flushed: bool) -> list[PricedKernel]:
    """Kernels of a second run, L2 flushed by zeros between both or not."""
    gpu = Gpu(device)
    run = [kernel for operation in case.operations for kernel in price(operation, gpu)]
    if flushed:
        price(operation("zero_", (flush := tensor(FLUSH_BYTES, storage=-5, dtype="uint8"),), (flush,)), gpu)
    run = [kernel for operation in case.operations for kernel in price(operation, gpu)]
    return run


def tensor(*shape: int, storage: int, dtype: str = "bfloat16") -> Operand:
    """A contiguous tensor."""
    strides, run = [], 1
    for size in reversed(shape):
        strides.append(run)
        run *= size
    made = Operand(storage=storage, storage_bytes=0, shape=shape, strides=tuple(reversed(strides)), dtype=dtype)
    return Operand(storage=storage, storage_bytes=run * made.item_bytes, shape=shape, strides=made.strides, dtype=dtype)


def operation(name: str, inputs: tuple[Operand, ...], outputs: tuple[Operand, ...], **arguments: object) -> Operation:
    """An operation of torch."""
    return Operation(kind="torch", name=name, inputs=inputs, outputs=outputs, arguments=arguments)
