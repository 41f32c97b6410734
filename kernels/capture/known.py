"""Which tensors have values while launches are recorded, and which of them lie on the GPU that is not there.

A tensor on the `meta` device has none, but where all of its storage holds one value, which is kept whatever its size.
One on the CPU has, unless something wrote to it that has none itself: then its
storage is kept as unknown, with a mask of the elements that were written since, so that filling it makes it known.

What an operation makes of one element of a tensor that holds one value throughout, it makes of all of them: so
`torch.zeros` of any size, and what is computed of it element by element, has values and takes no memory.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._pytree import tree_leaves, tree_map


@dataclass(slots=True)
class _Kept:
    """What is said of one storage.

    Args:
        reference: to it, so that its identity stays its own once it is freed.
        on_gpu: made for the GPU, or moved there; unknown: its values are not those that it holds.
        written: elements of an unknown one that were written since; None: none was.
        stored_by: kernel that was launched with it and stores to it, though it did not run.
        origin: what left it without values, for people; fill: the bytes of the one value that it holds, where it does.
    """

    reference: StorageWeakRef
    on_gpu: bool = False
    unknown: bool = False
    written: torch.Tensor | None = None
    stored_by: str = ""
    origin: str = ""
    fill: bytes = b""


class Known:
    """What is known of storages, by identity."""

    def __init__(self) -> None:
        self._kept: dict[int, _Kept] = {}

    def has_values(self, tensor: torch.Tensor) -> bool:
        """Whether code that runs now may read it: all of its storage is known, and no kernel would have written it."""
        return not tensor.is_meta and not self._of(tensor).unknown and not self._of(tensor).stored_by

    def has_values_for_kernels(self, tensor: torch.Tensor) -> bool:
        """The same, with what earlier launches would write left to the prediction, which knows what they do."""
        return not tensor.is_meta and not self._of(tensor).unknown

    def is_on_gpu(self, tensor: torch.Tensor) -> bool:
        """Whether it was made for the GPU, or moved there."""
        return tensor.is_meta or self._of(tensor).on_gpu

    def put_on_gpu(self, tensor: torch.Tensor) -> None:
        """It was made for the GPU, or moved there."""
        if not tensor.is_meta:
            self._entry(tensor).on_gpu = True

    def forget(self, tensor: torch.Tensor, origin: str = "") -> None:
        """What its storage holds is not known. Args: origin: what wrote it, for people."""
        entry = self._entry(tensor)
        entry.unknown, entry.written, entry.origin = True, None, origin

    def store(self, tensor: torch.Tensor, kernel: str) -> None:
        """A kernel that does not run would store to it."""
        self._entry(tensor).stored_by = kernel

    def fill(self, tensor: torch.Tensor, value: torch.Tensor | None) -> None:
        """A tensor was written to. Args: value: an element, where all of it holds that; None: it does not."""
        whole = tensor.numel() * tensor.element_size() == tensor.untyped_storage().nbytes()
        if value is not None and whole:
            self._entry(tensor).fill = bytes(value.reshape(1).view(torch.uint8).tolist())
        elif self._of(tensor).fill:
            self._entry(tensor).fill = b""

    def equal_element(self, tensor: torch.Tensor) -> torch.Tensor | None:
        """An element of a tensor whose elements are equal, as a tensor; None: they differ, or are not known."""
        fill, size = self._of(tensor).fill, tensor.element_size()
        parts = {(fill * size)[at : at + size] for at in range(0, len(fill) * size, size)}
        if len(parts) != 1:
            return None
        return torch.frombuffer(bytearray(parts.pop()), dtype=tensor.dtype).reshape([1] * tensor.dim())

    def fill_of(self, tensor: torch.Tensor) -> bytes:
        """The bytes that repeat in all of a tensor's storage; empty where they are not known."""
        return self._of(tensor).fill

    def name_origin(self, tensor: torch.Tensor, origin: str) -> None:
        """Say what made a tensor without values."""
        self._entry(tensor).origin = origin

    def origin(self, tensor: torch.Tensor) -> str:
        """What made a tensor without values, as far as it is known."""
        entry = self._of(tensor)
        return f"written by kernel {entry.stored_by}, which does not run" if entry.stored_by else entry.origin

    def write(self, tensor: torch.Tensor, mask: torch.Tensor | None = None) -> None:
        """Known values were written to all of a tensor, or to the elements of a mask of its shape."""
        entry = self._of(tensor)
        if not (entry.unknown or entry.stored_by):
            return
        elements = tensor.untyped_storage().nbytes() // tensor.element_size()
        if mask is None and tensor.numel() == elements:
            entry.unknown, entry.written, entry.stored_by = False, None, ""
            return
        if entry.written is None:
            entry.written = torch.zeros(elements, dtype=torch.bool)
        if entry.written.numel() != elements:  # seen as another type
            return
        part = entry.written.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())
        part.copy_(part | mask) if mask is not None else part.fill_(True)
        if bool(entry.written.all()):
            entry.unknown, entry.written = False, None

    def _of(self, tensor: torch.Tensor) -> _Kept:
        return self._kept.get(tensor.untyped_storage()._cdata) or NOTHING

    def _entry(self, tensor: torch.Tensor) -> _Kept:
        storage = tensor.untyped_storage()
        return self._kept.setdefault(storage._cdata, _Kept(StorageWeakRef(storage)))


NOTHING = _Kept(None)
"""Of a storage that nothing was said of; never changed."""

SIZES_AT = {"zeros": 0, "ones": 0, "full": 0, "new_zeros": 1, "new_ones": 1, "new_full": 1}
"""Operations that make such a tensor of a size -> place of that among the arguments."""
UNREAD = frozenset(
    {"new_zeros", "new_ones", "new_full", "zeros_like", "ones_like", "full_like", "fill_", "zero_", "copy_"}
)
"""Those that do not read their first argument."""
OF_ELEMENTS = frozenset({*SIZES_AT, *UNREAD, "_to_copy"})
PLACED = ("device", "pin_memory", "memory_format", "layout")
"""Options that say where a result lies."""


class _Differs(Exception):
    """A tensor holds several values, or unknown ones."""


def element_of(known: Known, function: Any, args: Any, options: dict[str, Any]) -> torch.Tensor | None:
    """The element that an operation makes or writes all over; None: elements may differ, or are not known."""
    packet, tags = function.overloadpacket.__name__, function.tags
    by_element = torch.Tag.pointwise in tags and torch.Tag.nondeterministic_seeded not in tags
    if not (by_element or packet in OF_ELEMENTS) or function._overloadname.endswith("out"):
        return None

    def reduced_leaf(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        if leaf.numel() == 1 and known.has_values(leaf):
            return leaf.clone()
        if (element := known.equal_element(leaf)) is None:
            raise _Differs
        return element

    reduced = list(args)
    if packet in SIZES_AT:
        reduced[SIZES_AT[packet]] = [1]
    if packet in UNREAD:
        reduced[0] = torch.empty([1], dtype=args[0].dtype)
    kept = {name: value for name, value in options.items() if name not in PLACED}
    try:
        unread = reduced[: packet in UNREAD]
        result = function(*unread, *tree_map(reduced_leaf, reduced[len(unread) :]), **tree_map(reduced_leaf, kept))
    except (_Differs, RuntimeError, NotImplementedError):
        return None
    made = tree_leaves(result)
    alone = len(made) == 1 and isinstance(made[0], torch.Tensor)  # `equal` of two tensors gives a bool
    return made[0] if alone and made[0].numel() == 1 and not made[0].is_meta else None
