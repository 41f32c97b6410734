"""Whether torch's compiler pads a matrix product to aligned sizes: it would time both; here both are priced."""

from collections.abc import Callable, Sequence
from importlib import import_module
from itertools import count
from math import prod
from typing import Any

import torch

from ...simulator.device.device import Device
from ...simulator.operations.operation import Operand, Operation, RecordedStep
from ...simulator.operations.price import price_step

WORTHWHILE = 1.1
"""The compiler pads where the product alone takes this many times as long (`is_padded_faster`)."""
PADDED = "a product is padded, as that is predicted to be faster: torch's compiler would have timed both"


def padding_for(device: Device, notes: dict[str, None]) -> Callable[..., bool]:
    """What stands for `pad_mm._should_pad`. Args: device: that is spoken of; notes: of the recording."""
    module = import_module("torch._inductor.fx_passes.pad_mm")

    def should_pad(_: Any, left: torch.Tensor, right: torch.Tensor, *__: Any) -> bool:
        m, k = (int(size) for size in left.shape[-2:])
        n, batch = int(right.shape[-1]), [int(size) for size in left.shape[:-2]]
        more_m, more_k, more_n = (
            int(module.get_padded_length(size, module.get_alignment_size(matrix)))
            for size, matrix in ((m, left), (k, left), (n, right))
        )
        dtype, numbers = str(left.dtype).removeprefix("torch."), count()
        wide = (m + more_m, k + more_k, n + more_n)

        def made(*shape: int) -> Operand:
            return _operand((*batch, *shape), dtype, next(numbers))

        def product(a: Operand, b: Operand, rows: int, columns: int) -> Operation:
            name = "bmm" if batch else "mm"
            return Operation(kind="torch", name=name, inputs=(a, b), outputs=(made(rows, columns),))

        a, b = made(m, k), made(k, n)
        padded, pads = [], []
        for matrix, shape in ((a, wide[:2]), (b, wide[1:])):
            larger = matrix if matrix.shape[-2:] == shape else made(*shape)
            if larger is not matrix:
                pads.append(Operation(kind="torch", name="constant_pad_nd", inputs=(matrix,), outputs=(larger,)))
            padded.append(larger)
        as_it_is = _time_s([product(a, b, m, n)], device)
        with_padding = _time_s([*pads, product(padded[0], padded[1], wide[0], wide[2])], device)
        if as_it_is <= WORTHWHILE * with_padding:
            return False
        notes[PADDED] = None
        return True

    return should_pad


def _operand(shape: tuple[int, ...], dtype: str, number: int) -> Operand:
    """A tensor that fills its storage, row by row."""
    strides = tuple(prod(shape[place + 1 :]) for place in range(len(shape)))
    made = Operand(storage=number, storage_bytes=0, shape=shape, strides=strides, dtype=dtype)
    return Operand(storage=number, storage_bytes=made.bytes, shape=shape, strides=strides, dtype=dtype)


def _time_s(operations: Sequence[Operation], device: Device) -> float:
    step = RecordedStep(operations=tuple(operations), mode="eager", peak_bytes=0)
    return sum(kernel.time_s for kernels in price_step(step, device, {}) for kernel in kernels)
