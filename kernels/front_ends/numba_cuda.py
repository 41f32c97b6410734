"""Kernels of numba.cuda, compiled by its own NVVM and nvJitLink for the target, and what they are launched with.

Source: `numba/cuda/dispatcher.py` of numba-cuda 0.30.4: an array is passed as meminfo, parent, elements, bytes of one,
its address, shape and strides [B], each of 8 bytes.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import torch

from ...simulator.refusal import UserError
from .catcher import Catcher, Parameter


@contextmanager
def caught(catcher: Catcher) -> Iterator[None]:
    """Have launches caught, and arrays made without a GPU."""
    if find_spec("numba_cuda") is None:  # numba's own, older target has no cubins to give
        yield
        return
    import numpy as np
    from numba import cuda
    from numba.cuda import codegen, dispatcher

    device = SimpleNamespace(compute_capability=catcher.capability, MULTIPROCESSOR_COUNT=catcher.sms, WARP_SIZE=32)

    def made(shape: Any, dtype: Any = "float64", *_: Any, **__: Any) -> torch.Tensor:
        return torch.empty(shape, dtype=getattr(torch, np.dtype(dtype).name), device="meta")

    answers: dict[str, Any] = {
        "get_current_device": lambda: device,
        "synchronize": lambda: None,
        "stream": lambda *_: 0,
        "to_device": lambda array, *_, **__: torch.as_tensor(array),
        "device_array": made,
        "device_array_like": lambda array, *_, **__: torch.empty_like(torch.as_tensor(array), device="meta"),
    }
    with (
        patch.multiple(cuda, **answers),
        patch.object(dispatcher, "get_current_device", lambda: device),
        patch.object(codegen.CUDACodeLibrary, "_ensure_cc", lambda _, cc: cc or catcher.capability),
        patch.object(dispatcher.CUDADispatcher, "configure", _configured(catcher, dispatcher)),
    ):
        yield


def _configured(catcher: Catcher, dispatcher: Any) -> Any:
    """What stands for `kernel[grid, block, stream, shared memory]`; arrays of numpy's are copied to the GPU."""

    def configure(kernel: Any, grid: Any, block: Any, stream: Any = 0, smem_bytes: int = 0) -> Callable[..., None]:
        sizes, function = dispatcher.normalize_kernel_dimensions(grid, block), kernel.py_func

        def launch(*args: Any) -> None:
            values = [torch.as_tensor(value) if hasattr(value, "__array_interface__") else value for value in args]
            pairs = list(zip(function.__code__.co_varnames, values, strict=False))
            parameters = [part for name, value in pairs for part in _flat(name, value)]
            types = tuple(_type_of(name, value) for name, value in pairs)
            if (function, types) not in catcher.compiled:
                made = dispatcher._Kernel(function, types, **{**kernel.targetoptions, "lineinfo": True})
                cubin = made._codelibrary.get_cubin(cc=catcher.capability)
                catcher.compiled[function, types] = bytes(cubin.code), made.entry_name
            catcher.catch(function.__name__, catcher.compiled[function, types], sizes, parameters, smem_bytes)

        return launch

    return configure


def _type_of(name: str, value: Any) -> Any:
    """The type that numba would find."""
    from numba import cuda, typeof, types

    if not isinstance(value, torch.Tensor):
        return typeof(value)
    kind = str(value.dtype).removeprefix("torch.").replace("bool", "boolean")
    element = getattr(types, kind, None) or getattr(cuda.types, kind, None)
    if element is None:
        raise UserError(f"argument {name}: tensors of {value.dtype} are not recorded")
    across = value.dim() == 2 and value.mT.is_contiguous()
    layout: Any = "C" if value.is_contiguous() else "F" if across else "A"
    return types.Array(element, value.dim(), layout)


def _flat(name: str, value: Any) -> list[Parameter]:
    """Parameters of the machine code that an argument becomes."""
    if isinstance(value, bool | int | float):
        return [(name, f"bool:{int(value)}" if isinstance(value, bool) else value)]
    if not isinstance(value, torch.Tensor):
        raise UserError(f"argument {name}: values of type {type(value).__name__} are not recorded")
    size = value.element_size()
    head = [("meminfo", 0), ("parent", 0), ("nitems", value.numel()), ("itemsize", size)]
    return [
        *((f"{name}.{word}", number) for word, number in head),
        (name, value),
        *((f"{name}.shape[{axis}]", extent) for axis, extent in enumerate(value.shape)),
        *((f"{name}.strides[{axis}]", size * stride) for axis, stride in enumerate(value.stride())),
    ]
