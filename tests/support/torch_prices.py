"""Operations of torch as plain values, and `validate/lab/torch_prices.py`, which holds their prices against GPUs."""

import sys
from dataclasses import replace
from importlib import util
from types import ModuleType

from support.lab import LAB
from tilesight.simulator.device.device import Device
from tilesight.simulator.operations.operation import ITEM_BYTES, Operand, Operation, RecordedStep
from tilesight.simulator.operations.price import price_step
from tilesight.simulator.operations.priced import KernelEstimate

SCRIPT = LAB / "torch_prices.py"


def script() -> ModuleType:
    """`validate/lab/torch_prices.py`, loaded once."""
    if "torch_prices" not in sys.modules:
        spec = util.spec_from_file_location("torch_prices", SCRIPT)
        assert spec
        assert spec.loader
        sys.modules["torch_prices"] = util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules["torch_prices"])
    return sys.modules["torch_prices"]


def tensor(storage: int, *shape: int, dtype: str = "bfloat16") -> Operand:
    """A contiguous tensor, alone in its storage."""
    strides, run = [], 1
    for size in reversed(shape):
        strides.append(run)
        run *= size
    size = run * ITEM_BYTES[dtype]
    return Operand(storage=storage, storage_bytes=size, shape=shape, strides=tuple(reversed(strides)), dtype=dtype)


def channels_last(storage: int, batch: int, channels: int, height: int, width: int, dtype: str = "bfloat16") -> Operand:
    """A tensor of images whose channels lie together."""
    strides = (channels * height * width, 1, channels * width, channels)
    return replace(tensor(storage, batch, channels, height, width, dtype=dtype), strides=strides)


def transposed(operand: Operand) -> Operand:
    """Another view of a matrix."""
    return replace(operand, shape=operand.shape[::-1], strides=operand.strides[::-1])


def operation(name: str, inputs: tuple[Operand, ...], outputs: tuple[Operand, ...], **arguments: object) -> Operation:
    """An operation of torch."""
    return Operation(kind="torch", name=name, inputs=inputs, outputs=outputs, arguments=arguments)


def kernels_of(device: Device, *operations: Operation) -> list[KernelEstimate]:
    """Their kernels, L2 empty before."""
    step = RecordedStep(operations=operations, mode="eager", peak_bytes=0)
    return [kernel for kernels in price_step(step, device, {}) for kernel in kernels]


def time_of(device: Device, *operations: Operation) -> float:
    """Time of all of them, L2 empty before [s]."""
    return sum(kernel.time_s for kernel in kernels_of(device, *operations))


def behind_a_flush(device: Device, *operations: Operation) -> list[KernelEstimate]:
    """Their kernels where they have run before, and L2 has been overwritten since, as measurements are made."""
    lab = script()
    case = lab.Case(name="", operations=operations, kernels={}, fitted=False)
    kernels: list[KernelEstimate] = lab.second_run(case, device, "cold")
    return kernels
