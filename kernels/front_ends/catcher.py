"""Launches that are caught become `tilesight.Launch`: a cubin, a grid, a block, and arguments in plain data.

Memory is named by the parameter that it is first passed as; later launches that are passed the same memory point to it.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from ...simulator.refusal import UserError
from ..compile.kernel_info import read_cubin
from ..given.launch import Launch

DTYPES = {
    torch.float16: "fp16", torch.bfloat16: "bf16", torch.float32: "fp32", torch.float64: "fp64",
    torch.float8_e4m3fn: "fp8", torch.float8_e5m2: "fp8",
}  # fmt: skip
"""Of tensors -> as arguments of `tilesight.Launch` name it; whole numbers and bool are named alike."""
Parameter = tuple[str, object]
"""Of the machine code: its name, and a number as `tilesight.Launch` takes it, or the tensor that it leads to."""


class Catcher:
    """Takes down what front ends launch.

    Attributes:
        capability: of the target, e.g. (9, 0); sms: of it; compiled: by what front ends know it by;
        names: storage -> its name.
    """

    def __init__(self, capability: tuple[int, int], sms: int, recorder: Any) -> None:
        self.capability, self.sms = capability, sms
        self.compiled: dict[Any, tuple[bytes, str]] = {}
        self.names: dict[int, str] = {}
        self._recorder = recorder

    @property
    def numbers(self) -> dict[str, int]:
        """Name of each storage -> its number."""
        return {name: number for number, name in self.names.items()}

    def catch(
        self,
        title: str,
        compiled: tuple[bytes, str],
        grid: Sequence[int],
        block: Sequence[int],
        parameters: Sequence[Parameter],
        smem_bytes: int = 0,
    ) -> None:
        """Take a launch down.

        Args:
            title: the function's name; compiled: its cubin, and its name there.
            grid: CTAs along x, y, z; block: threads of a CTA, empty: as the cubin says.
            parameters: of the machine code, in order; smem_bytes: dynamic shared memory of a CTA [B].

        Raises:
            UserError: an argument is of a type that is not recorded; one line.
        """
        arguments: dict[str, object] = {}
        for name, value in parameters:
            tensor = isinstance(value, torch.Tensor)
            arguments |= self._pointer(name, value, arguments) if tensor else {name: value}
        cubin, kernel = compiled
        block = tuple(block) or read_cubin(cubin)[kernel].threads
        launch = Launch(cubin=cubin, kernel=kernel, grid=tuple(grid), block=block, args=arguments)
        self._recorder.launches.append(replace(launch, smem=smem_bytes, title=title))

    def _pointer(self, name: str, tensor: torch.Tensor, before: dict[str, object]) -> dict[str, object]:
        """An argument that leads to a tensor. Args: name: of the parameter; before: arguments so far."""
        number, known = self._recorder.storages.number(tensor), self.names
        unused = _unused(name, {*before, *known.values()})
        offset_bytes = tensor.storage_offset() * tensor.element_size()
        if number in known:
            return {unused: f"pointer:{known[number]}+{offset_bytes}"}
        if offset_bytes:
            raise UserError(f"argument {name}: a view that begins behind the begin of its memory: pass that first")
        known[number] = unused
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


def _unused(name: str, used: set[str]) -> str:
    return next(other for number in count(1) if (other := f"{name}_{number}" if number > 1 else name) not in used)
