"""Launches as they were recorded: a kernel, its grid, and what it was called with; nothing has run.

A tensor is where its storage lies and what is known of it: shapes decide, data matter only where they are given.
Tensors on the `meta` device have none. Those on the CPU have values, which kernels may compute addresses from.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from triton.runtime.jit import TensorWrapper

from ...simulator.emulator.storage import STORAGE_SHIFT
from ...simulator.prediction.torch_operation import TorchOperation
from ..configurations.tuned import Tuned
from ..front_ends.catcher import Catcher
from ..given.launch import Launch


class StorageNumbers:
    """Numbers of storages, from 0 on, in the order in which they are asked for; views of one tensor share it.

    Attributes:
        pointed: number of a storage whose address code has asked for -> its size [B].
    """

    def __init__(self) -> None:
        self.pointed: dict[int, int] = {}
        self._asked: dict[int, torch.Tensor] = {}
        self._numbers: dict[int, int] = {}
        self._kept: list[Any] = []  # a storage that is freed would give its identity to another one

    def number(self, tensor: torch.Tensor) -> int:
        """Of a tensor's storage."""
        storage = tensor.untyped_storage()
        if storage._cdata not in self._numbers:
            self._kept.append(storage)
        return self._numbers.setdefault(storage._cdata, len(self._numbers))

    def address(self, tensor: torch.Tensor) -> int:
        """Where a tensor begins, in the address space of `emulator.storage`."""
        number = self.number(tensor)
        self.pointed[number] = tensor.untyped_storage().nbytes()
        self._asked[number] = tensor
        return (number + 1 << STORAGE_SHIFT) + tensor.storage_offset() * tensor.element_size()

    def tensor_of(self, value: Any) -> tuple[torch.Tensor, int | None] | None:
        """The tensor that an argument stands for, and where in its storage it points to; None: where the tensor begins.

        Beside tensors that is whatever has `data_ptr`, as Triton has it: an address that code has asked a tensor for.
        """
        if isinstance(value, torch.Tensor | TensorWrapper):
            return (value if isinstance(value, torch.Tensor) else value.base), None
        if not hasattr(value, "data_ptr"):
            return None
        number, offset = divmod(value.data_ptr(), 1 << STORAGE_SHIFT)
        return (self._asked[number - 1], offset) if offset <= self.pointed.get(number - 1, -1) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedTensor:
    """A tensor that a kernel was called with.

    Args:
        storage: number of its storage in the recording, from 0 on; views of one tensor share it.
        storage_bytes: of the whole storage [B]; offset_bytes: where the tensor begins there [B].
        shape, strides: in elements; dtype: of the elements, Triton's where `triton.reinterpret` gave them another.
        values: the tensor where its data are given, on the CPU, as they were at the launch; None: they are not.
        fill: else bytes that repeat in all of its storage, where it holds one value.
        origin: where values went missing, for people; empty where that is not known.
    """

    storage: int
    storage_bytes: int
    offset_bytes: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: torch.dtype
    values: torch.Tensor | None = field(default=None, repr=False, compare=False)
    fill: bytes = b""
    origin: str = ""


def leaves(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """What is in a tuple, and in tuples in it, by names such as `strides[1]`; anything else is itself."""
    if not isinstance(value, tuple):
        yield name, value
        return
    for place, item in enumerate(value):
        yield from leaves(f"{name}[{place}]", item)


WHOLE = frozenset({
    torch.int8, torch.int16, torch.int32, torch.int64, torch.bool,
    torch.uint8, torch.uint16, torch.uint32, torch.uint64,
})  # fmt: skip
"""Types of values that addresses and branches may be computed from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedLaunch:
    """One launch of a Triton kernel.

    Args:
        function: the `JITFunction`.
        grid: CTAs along x, y, z.
        arguments: by name, without the tensors: numbers, compile-time constants, None; tuples, and what is in them.
        tensors: parameter -> tensor; those in a tuple are `name[0]` and so on.
        blocks: parameter -> block shape, where it is a tensor descriptor of that tensor, made on the host.
        descriptors: parameter -> that descriptor itself, Triton's or Gluon's, which may hold a layout and a padding.
        options: what was asked of the compiler (num_warps, num_stages, ...).
        tuned: number of the autotuned launch that this is one configuration of; -1: it is none.
        configuration: values that tell configurations of one launch apart, e.g. `{"BLOCK": 128, "num_warps": 4}`.
        refused: why no GPU would take it, in one line; None: one would.
        pointed: as of `StorageNumbers`: what tables of pointers may name.
    """

    function: Any
    grid: tuple[int, int, int]
    arguments: Mapping[str, Any]
    tensors: Mapping[str, RecordedTensor]
    blocks: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    descriptors: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    tuned: int = -1
    configuration: Mapping[str, Any] = field(default_factory=dict)
    refused: str | None = None
    pointed: Mapping[int, int] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Name of the kernel."""
        return str(self.function.__name__)

    def __repr__(self) -> str:
        """One line: kernel and grid."""
        return f"<RecordedLaunch: {self.name}, grid {' x '.join(map(str, self.grid))}>"


class Recording(list[RecordedLaunch | Launch]):
    """Launches in the order of their calls, and what else is to be said of the code that made them.

    Attributes:
        notes: one line each, in order.
        kernels: names of those that are launched, and of their compile-time constants.
        tuned: launches of which several configurations were recorded, in order.
        operations: of torch, that would run beside the launches.
        ended: what the code raised after its last launch, in one line; empty: it ran to its end.
        front_ends: catches what is launched by others than Triton; numbers: of storages that these name.
    """

    def __init__(self) -> None:
        super().__init__()
        self.notes: dict[str, None] = {}
        self.tuned: list[Tuned] = []
        self.kernels: dict[str, tuple[str, ...]] = {}
        self.operations: tuple[TorchOperation, ...] = ()
        self.ended = ""
        self.front_ends: Catcher | None = None
        self.numbers: dict[str, int] = {}
