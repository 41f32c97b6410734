"""Memory of the device while a step is recorded: numbers of storages, what is alive, and whole numbers that are known.

Tensors are fake: they have shapes and no data. Small tensors of whole numbers that are made on the device with values
(`torch.randint`, `torch.arange`, `torch.zeros`), and what is computed of them, have their values on the CPU beside.
"""

import weakref
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from ...simulator.operations.operation import Operand

MOST_VALUES = 1 << 24
"""Elements of a tensor from which on it is data: no values are kept of it."""
WHOLE = frozenset({torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64, torch.bool})


class Storages:
    """Storages of the device. `live_bytes`: of those that are alive; `peak_bytes`: the most of these so far."""

    def __init__(self) -> None:
        self.live_bytes = self.peak_bytes = 0
        self._numbers: dict[int, int] = {}
        self._count = 0
        self._values: dict[int, torch.UntypedStorage] = {}
        self._origins: dict[int, str] = {}

    def number(self, tensor: torch.Tensor) -> int:
        """Of the storage of a tensor, in order of their first use."""
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key not in self._numbers:
            self._numbers[key] = self._count
            self._count += 1
            size = storage.nbytes()
            self.live_bytes += size
            self.peak_bytes = max(self.peak_bytes, self.live_bytes)
            weakref.finalize(storage, self._free, key, size)
        return self._numbers[key]

    def _free(self, key: int, size: int) -> None:
        number = self._numbers.pop(key)
        self._values.pop(number, None)
        self.live_bytes -= size

    def operand(self, tensor: torch.Tensor) -> Operand:
        """A tensor as an operation sees it."""
        return Operand(
            storage=self.number(tensor),
            storage_bytes=tensor.untyped_storage().nbytes(),
            shape=tuple(map(int, tensor.shape)),
            strides=tuple(map(int, tensor.stride())),
            dtype=str(tensor.dtype).removeprefix("torch."),
            offset_bytes=int(tensor.storage_offset()) * tensor.element_size(),
        )

    def values(self, tensor: torch.Tensor) -> torch.Tensor | None:
        """A tensor on the CPU with the values of one on the device, or itself; None: they are not known."""
        if tensor.device.type == "cpu":
            return tensor if is_real(tensor) else None
        kept = self._values.get(self.number(tensor))
        if kept is None or tensor.dtype not in WHOLE:
            return None
        with _disable_current_modes():
            made = torch.empty(0, dtype=tensor.dtype)
            return made.set_(kept, tensor.storage_offset(), tensor.shape, tensor.stride())

    def keep(self, tensor: torch.Tensor, values: torch.Tensor) -> None:
        """Have values of a tensor of the device that fills its storage; floats and large ones are not kept."""
        if tensor.dtype not in WHOLE or tensor.numel() > MOST_VALUES or values.dtype != tensor.dtype:
            return
        if tensor.untyped_storage().nbytes() == values.untyped_storage().nbytes():
            self._values[self.number(tensor)] = values.untyped_storage()

    def forget(self, tensor: torch.Tensor) -> None:
        """Something wrote to it whose values are not known."""
        self._values.pop(self.number(tensor), None)


def is_real(tensor: torch.Tensor) -> bool:
    """Whether a tensor has data."""
    from torch._subclasses.fake_tensor import FakeTensor

    return not isinstance(tensor, FakeTensor) and tensor.device.type == "cpu"


def tensors_in(values: Any) -> list[torch.Tensor]:
    """Tensors among nested arguments or results, in order."""
    return [leaf for leaf in torch.utils._pytree.tree_leaves(values) if isinstance(leaf, torch.Tensor)]
