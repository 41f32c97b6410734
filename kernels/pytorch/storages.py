"""Memory of the device while a step is recorded: numbers of storages, what is alive, and whole numbers that are known.

Tensors are fake: they have shapes and no data. Small tensors of whole numbers that are made on the device with values
(`torch.randint`, `torch.arange`, `torch.zeros`), and what is computed of them, have their values on the CPU beside.
"""

import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import _disable_current_modes, is_traceable_wrapper_subclass
from torch.utils._pytree import tree_leaves, tree_map

from ...simulator.operations.operation import Operand
from ..capture.values import MOST_WHOLE

BLOCK_BYTES = 512
"""Of which torch's allocator gives multiples (`kMinBlockSize`)."""
WHOLE = frozenset({torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64, torch.bool})


FILLS_IN_PLACE = ("aten.zero_.default", "aten.fill_.Scalar")


class Storages:
    """Storages of the device.

    Attributes:
        live_bytes: of those that are alive; peak_bytes: the most of these so far.
        resized: numbers of those that took other sizes, as gathered parameters do.
    """

    def __init__(self) -> None:
        self.live_bytes = self.peak_bytes = 0
        self._numbers: dict[int, int] = {}
        self.resized: set[int] = set()
        self._sizes: dict[int, int] = {}
        self._count = self._first_made = 0
        self._values: dict[int, torch.UntypedStorage] = {}
        self._origins: dict[int, str] = {}

    def number(self, tensor: torch.Tensor) -> int:
        """Of the storage of a tensor, in order of their first use."""
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key not in self._numbers:
            self._numbers[key] = self._count
            self._count += 1
            self._take(key, storage.nbytes())
            weakref.finalize(storage, self._free, key)
        return self._numbers[key]

    def resize(self, storage: torch.UntypedStorage, size: int) -> None:
        """A storage takes another size, as those of gathered parameters do [B]."""
        if storage._cdata in self._numbers:
            self.resized.add(self._numbers[storage._cdata])
            self._take(storage._cdata, size)

    def _take(self, key: int, size: int) -> None:
        """Of a storage that takes so much now [B]."""
        taken = -(-size // BLOCK_BYTES) * BLOCK_BYTES
        self.live_bytes += taken - self._sizes.get(key, 0)
        self.peak_bytes = max(self.peak_bytes, self.live_bytes)
        self._sizes[key] = taken

    def _free(self, key: int) -> None:
        number = self._numbers.pop(key)
        self._values.pop(number, None)
        self.live_bytes -= self._sizes.pop(key)

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
        with outside():
            made = torch.empty(0, dtype=tensor.dtype)
            return made.set_(kept, tensor.storage_offset(), tensor.shape, tensor.stride())

    def begin_step(self) -> None:
        """What is numbered from now on is made by the step."""
        self._first_made = self._count

    def writable(self, tensor: torch.Tensor, elements: int) -> torch.Tensor | None:
        """A tensor on the CPU, writing to which gives values to one on the device; None: some stay unknown.

        Args: elements: that are written: all of a storage, or parts of one that the step has made, all zeros till then.
        """
        number, size = self.number(tensor), tensor.untyped_storage().nbytes()
        whole = elements * tensor.element_size() == size
        may = whole or (number >= self._first_made and not self.origin(tensor))
        if may and number not in self._values and size <= MOST_WHOLE * tensor.element_size():
            with outside():
                self._values[number] = torch.zeros(size, dtype=torch.uint8).untyped_storage()
        return self.values(tensor)

    def keep(self, tensor: torch.Tensor, values: torch.Tensor) -> None:
        """Have values of a tensor of the device that fills its storage; floats and large ones are not kept."""
        if tensor.dtype not in WHOLE or tensor.numel() > MOST_WHOLE or values.dtype != tensor.dtype:
            return
        if tensor.untyped_storage().nbytes() == values.untyped_storage().nbytes():
            self._values[self.number(tensor)] = values.untyped_storage()

    def draw(self, tensor: torch.Tensor, bound: int) -> None:
        """Have random values from 0 to below `bound` in all of a tensor's storage."""
        count = tensor.untyped_storage().nbytes() // tensor.element_size()
        with outside():
            drawn = torch.randint(0, bound, (count,), generator=torch.Generator().manual_seed(0)).to(tensor.dtype)
        self._values[self.number(tensor)] = drawn.untyped_storage()

    def forget(self, tensor: torch.Tensor, origin: str) -> None:
        """Something wrote to it whose values are not known. Args: origin: what, for people."""
        number = self.number(tensor)
        self._values.pop(number, None)
        self._origins[number] = origin

    def origin(self, tensor: torch.Tensor) -> str:
        """What wrote a tensor without values; empty: that is not known."""
        return self._origins.get(self.number(tensor), "")

    def computed(self, function: Any, given: Sequence[torch.Tensor], args: Any, options: Mapping[str, Any]) -> Any:
        """Results of an operation on whole numbers that are known, computed here; None: some are not, or too many.

        Args:
            given: tensors among the arguments and options.
        """
        if str(function) in FILLS_IN_PLACE and len(given) == 1:
            self.writable(given[0], given[0].numel())
        if any(tensor.dtype not in WHOLE or tensor.numel() > MOST_WHOLE for tensor in given):
            return None
        known = {id(tensor): self.values(tensor) for tensor in given}
        if any(values is None for values in known.values()):
            return None
        on_cpu = {name: torch.device("cpu") if name == "device" else value for name, value in options.items()}
        with outside():
            values_args, values_options = tree_map(lambda leaf: known.get(id(leaf), leaf), (args, on_cpu))
            try:
                return function(*values_args, **values_options)
            except (RuntimeError, NotImplementedError):
                return None


@contextmanager
def outside() -> Iterator[None]:
    """Run operations on tensors with data as if there were no modes, within transforms (`torch.func`) too."""
    with temporarily_clear_interpreter_stack(), _disable_current_modes():
        yield


def is_real(tensor: torch.Tensor) -> bool:
    """Whether a tensor has data."""
    return not isinstance(tensor, FakeTensor) and tensor.device.type == "cpu"


def parts_in(tensor: torch.Tensor) -> list[torch.Tensor]:
    """What a tensor is made of that wraps others, as one does that is spread over GPUs; else itself."""
    if not is_traceable_wrapper_subclass(tensor):
        return [tensor]
    names, _ = tensor.__tensor_flatten__()
    held = [getattr(tensor, name) for name in names]  # of torch 2.13 a mesh of GPUs, too
    return [part for value in held if isinstance(value, torch.Tensor) for part in parts_in(value)]


def tensors_in(values: Any) -> list[torch.Tensor]:
    """Tensors among nested arguments or results, in order."""
    return [leaf for leaf in tree_leaves(values) if isinstance(leaf, torch.Tensor)]
