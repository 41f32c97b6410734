"""What tensors of whole numbers hold, as far as a choice looks at it.

A choice has to be the same on every rank, and index values (routing, page tables) are not. So it is made for a
canonical content, which depends on shapes alone: elements rise in even steps from the first to the last row of the
largest tensor that the kernel only reads. So experts get blocks in turn and equal shares, page tables name each page
once, and sequences between two offsets are equally long. The one element of a count is the length of the longest
tensor of whole numbers. Tensors of 8 bits are data, and have no content. Users who know better say so by `values`.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Any

import torch

from ..kernels.capture.recorded import WHOLE
from ..kernels.capture.values import MOST_WHOLE
from ..simulator.emulator.storage import MOST_VALUES_BYTES

ALIGNMENT_BYTES = 16
"""Triton tells addresses apart by whether they are multiples of this [B]."""
Values = bool | Mapping[str, Any | Callable[[Mapping[str, Any]], Any]] | None
"""As `autotune.prune` takes them."""


def lead_bytes(storage: Any) -> int:
    """How far behind a multiple of the alignment a storage begins [B]."""
    return int(storage.data_ptr()) % ALIGNMENT_BYTES


def contents_of(
    tensors: Mapping[str, torch.Tensor], stored: Collection[str], values: Values, arguments: Mapping[str, Any]
) -> dict[int, torch.Tensor]:
    """Contents of storages, by their identity: bytes on the CPU, `lead_bytes` of nothing in front.

    Args:
        tensors: parameter -> tensor; stored: parameters that the kernel may store to;
        values: as above; arguments: all of the launch, by name.

    Raises:
        ValueError: values name no tensor of whole numbers; one line.
    """
    by_user = values if isinstance(values, Mapping) else {}
    index = {name: tensor for name, tensor in tensors.items() if tensor.dtype in WHOLE and tensor.numel()}
    if unknown := [name for name in by_user if name not in index]:
        raise ValueError(f"values name {unknown[0]}: must be one of {', '.join(index) or 'none: there is no such'}")
    contents: dict[int, torch.Tensor] = {}
    for name, tensor in index.items():
        storage = tensor.untyped_storage()
        if storage.nbytes() > MOST_VALUES_BYTES:
            continue
        if values is True:
            if not tensor.is_meta:
                contents.setdefault(storage._cdata, _copied(tensor))
        elif name in by_user:
            value = by_user[name]
            _write(contents, tensor, value(arguments) if callable(value) else value)
        elif tensor.element_size() > 1 and tensor.numel() <= MOST_WHOLE:
            _write(contents, tensor, canonical(tensor, index, _rows(tensors, stored)))
    return contents


def canonical(tensor: torch.Tensor, index: Mapping[str, torch.Tensor], rows: int) -> torch.Tensor:
    """The content of a tensor, of its shape. Args: index: all tensors of whole numbers; rows: that they lead to."""
    count = tensor.numel()
    if count == 1:
        longest = max(other.numel() for other in index.values())
        return torch.full(tensor.shape, longest if longest > 1 else rows)
    last = min(rows - 1, torch.iinfo(tensor.dtype).max)
    return (torch.arange(count) * last // (count - 1)).reshape(tensor.shape)


def _rows(tensors: Mapping[str, torch.Tensor], stored: Collection[str]) -> int:
    """Rows of the largest tensor that is only read, other than of indices; 1 where there is none."""
    read = [
        tensor
        for name, tensor in tensors.items()
        if name not in stored and tensor.dim() and not (tensor.dtype in WHOLE and tensor.element_size() > 1)
    ]
    return max((int(max(read, key=_bytes).shape[0]) if read else 1), 1)


def _bytes(tensor: torch.Tensor) -> int:
    return int(tensor.numel() * tensor.element_size())


def _copied(tensor: torch.Tensor) -> torch.Tensor:
    """All of a tensor's storage, on the CPU."""
    storage = tensor.untyped_storage()
    lead = lead_bytes(storage)
    content = torch.zeros(storage.nbytes() + lead, dtype=torch.uint8)
    content[lead:] = torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(storage).cpu()
    return content


def _write(contents: dict[int, torch.Tensor], tensor: torch.Tensor, value: torch.Tensor) -> None:
    """Write the elements of a tensor to the content of its storage, which other tensors may share."""
    storage = tensor.untyped_storage()
    lead = lead_bytes(storage)
    begin, beside = divmod(tensor.storage_offset() * tensor.element_size() + lead, tensor.element_size())
    if beside:
        raise ValueError(f"a tensor of {tensor.dtype} begins at no multiple of its elements")
    if storage._cdata not in contents:
        contents[storage._cdata] = torch.zeros(storage.nbytes() + lead, dtype=torch.uint8)
    whole = contents[storage._cdata]
    once = tuple(1 if not stride else size for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    place = torch.empty(0, dtype=tensor.dtype).set_(whole.untyped_storage(), begin, once, tensor.stride())
    full = torch.as_tensor(value).expand(tensor.shape)
    place.copy_(full[tuple(slice(size) for size in once)])
