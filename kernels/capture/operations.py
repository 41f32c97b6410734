"""Operations of torch that would run as kernels on the GPU while launches are recorded: how many, with FLOP and bytes.

They are not predicted: only Triton kernels are. Source of FLOP: `torch.utils.flop_counter`; bytes are those of all
inputs and outputs, once each.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from math import prod
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from ...simulator.prediction.torch_operation import TorchOperation

NAMES = {
    "mm": "matmul", "bmm": "matmul", "addmm": "matmul", "baddbmm": "matmul", "mv": "matmul", "addmv": "matmul",
    "dot": "matmul", "copy": "copy", "clone": "copy", "to_copy": "copy", "unsafe_view": "", "lift_fresh": "",
    "native_layer_norm": "layer_norm", "safe_softmax": "softmax", "local_scalar_dense": "", "detach": "",
    "fill": "fill", "zero": "fill", "resize": "",
}  # fmt: skip
"""What people call an operation; empty: it runs nothing."""
UNMADE = frozenset({"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided"})
"""Allocations: no kernel runs."""


class Operations:
    """What torch would have run so far."""

    def __init__(self) -> None:
        self._count: Counter[str] = Counter()
        self._flop: Counter[str] = Counter()
        self._bytes: Counter[str] = Counter()
        self._paused = False

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Count nothing in a block: its operations are parts of one that is counted as a whole."""
        before, self._paused = self._paused, True
        try:
            yield
        finally:
            self._paused = before

    def count(self, function: Any, args: Any, kwargs: Any, result: Any) -> None:
        """One operation of ATen, as `__torch_dispatch__` sees it."""
        packet = function.overloadpacket.__name__
        name = packet.strip("_")
        if packet not in UNMADE and (name := NAMES.get(name, name)):
            self.add(name, flop_of(function, args, kwargs, result), bytes_of((args, kwargs, result)))

    def add(self, name: str, flop: int, size_bytes: int) -> None:
        """One operation. Args: flop: that it does; size_bytes: of inputs and outputs [B]."""
        if not self._paused:
            self._count[name] += 1
            self._flop[name] += flop
            self._bytes[name] += size_bytes

    @property
    def list(self) -> tuple[TorchOperation, ...]:
        """By bytes and FLOP, most first."""
        return tuple(
            TorchOperation(name=name, count=count, flop=self._flop[name], bytes=self._bytes[name])
            for name, count in sorted(
                self._count.items(), key=lambda item: (-self._flop[item[0]], -self._bytes[item[0]], item[0])
            )
        )


def bytes_of(values: Any) -> int:
    """Bytes of tensors, each storage's part once; what a view repeats counts once [B]."""
    sizes: dict[tuple[int, int, tuple[int, ...], tuple[int, ...]], int] = {}
    for tensor in tree_leaves(values):
        if isinstance(tensor, torch.Tensor):
            shape = tuple(size for size, stride in zip(tensor.shape, tensor.stride(), strict=True) if stride)
            key = (tensor.untyped_storage()._cdata, tensor.storage_offset(), tuple(tensor.shape), tensor.stride())
            sizes[key] = prod(shape) * tensor.element_size() if tensor.numel() else 0
    return sum(sizes.values())


def has_formula(function: Any) -> bool:
    """Whether it is a matrix product, a convolution or attention."""
    from torch.utils.flop_counter import flop_registry

    return function.overloadpacket in flop_registry


def flop_of(function: Any, args: Any, kwargs: Any, result: Any) -> int:
    """FLOP of an operation that torch has a formula for; 0 of others: additions and the like are not counted."""
    from torch.utils.flop_counter import flop_registry

    formula = flop_registry.get(function.overloadpacket)
    return int(formula(*args, **kwargs, out_val=result)) if formula else 0
