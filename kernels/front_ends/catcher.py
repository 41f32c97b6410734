"""Launches of other front ends than Triton are caught, and become `tilesight.Launch`.

A front end is a module of this folder with `caught(catcher)`, a context manager in which its launches are caught.
Memory is named by the parameter that it is first passed as; later launches that are passed the same memory point to it.
"""

import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from importlib import import_module
from itertools import count
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from ...simulator.refusal import UserError
from ..compile.kernel_info import read_cubin
from ..given.launch import Launch

FRONT_ENDS = {"numba.cuda": "numba_cuda", "cuda.tile": "cutile", "helion": "helion"}
"""Module that a user's file imports -> the module here that catches what it launches."""
DTYPES = {
    torch.float16: "fp16", torch.bfloat16: "bf16", torch.float32: "fp32", torch.float64: "fp64",
    torch.float8_e4m3fn: "fp8", torch.float8_e5m2: "fp8",
}  # fmt: skip
"""Of tensors -> as arguments of `tilesight.Launch` name it; whole numbers and bool are named alike."""
Parameter = tuple[str, object]
"""Of the machine code: its name, and a number as `tilesight.Launch` takes it, or the tensor that it leads to."""


class Catcher:
    """Takes down what front ends launch, until a stack is left. Args: capability: e.g. (9, 0); sms: of the target.

    `compiled`: cubins, and the kernel's name there, by what front ends know them by.
    """

    def __init__(self, stack: ExitStack, capability: tuple[int, int], sms: int, recorder: Any) -> None:
        self.capability, self.sms = capability, sms
        self.compiled: dict[Any, tuple[bytes, str]] = {}
        self._stack, self._recorder = stack, recorder
        self._caught, self._names = set[str](), dict[int, str]()

    def begin(self, text: str = "") -> None:
        """Catch front ends that are loaded, or that a text may import, e.g. the user's file."""
        for name, module in FRONT_ENDS.items():
            named = all(part in text for part in name.split("."))  # `from numba import cuda` has them apart
            if name in self._caught or not (named or name in sys.modules):
                continue
            try:
                import_module(name)
            except ImportError:  # the user's own code is told
                continue
            self._caught.add(name)
            self._stack.enter_context(import_module(f"{__package__}.{module}").caught(self))

    def catch(
        self, title: str, compiled: tuple[bytes, str], sizes: Sequence[Sequence[int]], parameters: Sequence[Parameter],
        smem_bytes: int = 0,
    ) -> None:  # fmt: skip
        """Take a launch down. Raises: UserError: an argument is of a type that is not recorded; one line.

        Args:
            title: the function's name; compiled: its cubin, and its name there; parameters: in order.
            sizes: CTAs of the grid, and threads of a CTA, empty: as the cubin says; smem_bytes: dynamic, of a CTA.
        """
        arguments: dict[str, object] = {}
        for name, value in parameters:
            tensor = isinstance(value, torch.Tensor)
            arguments |= self._pointer(name, value, arguments) if tensor else {name: value}
        (cubin, kernel), (grid, block) = compiled, sizes
        block = tuple(block) or read_cubin(cubin)[kernel].threads
        launch = Launch(cubin=cubin, kernel=kernel, grid=tuple(grid), block=block, args=arguments)
        self._recorder.launches.append(replace(launch, smem=smem_bytes, title=title))

    def _pointer(self, name: str, tensor: torch.Tensor, before: dict[str, object]) -> dict[str, object]:
        """An argument that leads to a tensor. Args: name: of the parameter; before: arguments so far."""
        number, used = self._recorder.storages.number(tensor), {*before, *self._names.values()}
        unused = next(new for place in count(1) if (new := f"{name}_{place}" if place > 1 else name) not in used)
        offset_bytes = tensor.storage_offset() * tensor.element_size()
        if number in self._names:
            return {unused: f"pointer:{self._names[number]}+{offset_bytes}"}
        if offset_bytes:
            raise UserError(f"argument {name}: a view that begins behind the begin of its memory: pass that first")
        self._names[number], self._recorder.launches.numbers[unused] = unused, number
        if (values := self._values(tensor)) is not None:
            return {unused: values}
        dtype = DTYPES.get(tensor.dtype, str(tensor.dtype).removeprefix("torch."))
        elements = tensor.untyped_storage().nbytes() // tensor.element_size()
        whole = tensor.dim() and tensor.is_contiguous() and tensor.numel() == elements
        return {unused: f"tensor:{dtype}[{','.join(map(str, tensor.shape if whole else (elements,)))}]"}

    def _values(self, tensor: torch.Tensor) -> Any:
        """What a tensor's storage holds, as an array, of whole numbers that are given; None: that is not known."""
        mode = self._recorder.mode
        if tensor.is_meta or tensor.dtype in DTYPES or not (mode and mode.known.has_values_for_kernels(tensor)):
            return None
        with torch._C.DisableTorchFunction(), _disable_current_modes():
            return torch.empty(0, dtype=tensor.dtype).set_(tensor.untyped_storage()).clone().numpy()
