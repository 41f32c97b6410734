"""A step of PyTorch, recorded in the caller's own process: a function or module, and tensors with data or without."""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import torch
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_leaves, tree_map

from ...simulator.device.device import Device
from ..capture.lowering import lower_or_refuse
from .file import Recorded
from .step import Mode, Session, recording
from .storages import Storages, is_real


def record(
    function: Callable[..., Any],
    args: Sequence[Any] = (),
    options: Mapping[str, Any] | None = None,
    *,
    device: Device,
    mode: Mode = "auto",
    train: bool = False,
    indices: str = "",
) -> Recorded:
    """Record what a function launches on a device that is not there.

    Args:
        function: or a module; modules that it is a method of, closes over or names are taken to the device.
        args, options: that it is called with; tensors may be fake, on `meta` or on the CPU: the device is given tensors
            of their shapes, and of whole numbers on the CPU their values.
        device, mode, train, indices: as `file.record_step`.

    Raises:
        Unusable: this torch lacks a hook; one line. What the function raises.
    """
    with recording(device, mode, train, indices) as session:
        given = {"args": tuple(args), "options": dict(options or {})}
        with _on_device((*_modules_of(function), *tree_leaves(given)), session) as moved:
            at = tree_map(lambda leaf: moved.get(id(leaf), leaf), given)
            session.run(function, at["args"], at["options"])
            step = session.step()
    capability = int(device.compute_capability.replace(".", ""))
    return Recorded(step=step, calls=tuple(lower_or_refuse(capture, capability) for capture in session.captures))


@contextmanager
def _on_device(leaves: Sequence[Any], session: Session) -> Iterator[dict[int, torch.Tensor]]:
    """Tensors of the device in the places of others. Args: leaves: tensors, and modules, whose tensors are replaced.

    Yields:
        Tensors by the identities of those that they stand for.
    """
    moved = _Moved(session.storages)
    with ExitStack() as stack:
        for leaf in leaves:
            if isinstance(leaf, torch.nn.Module):
                for module in leaf.modules():
                    for name in ("_parameters", "_buffers"):
                        held = getattr(module, name)
                        replaced = {key: None if tensor is None else moved(tensor) for key, tensor in held.items()}
                        stack.enter_context(patch.dict(held, replaced))
            elif isinstance(leaf, torch.Tensor):
                moved(leaf)
        yield moved.made


class _Moved:
    """Makes tensors of the device that stand for others; views of one tensor stay views of one tensor."""

    def __init__(self, storages: Storages) -> None:
        self.made: dict[int, torch.Tensor] = {}
        self._bases: dict[int, torch.Tensor] = {}
        self._kept: list[torch.Tensor] = []  # one that is freed would give its identity to another
        self._storages = storages

    def __call__(self, tensor: torch.Tensor) -> torch.Tensor:
        if id(tensor) not in self.made:
            self._kept.append(tensor)
            self.made[id(tensor)] = self._stand_in(tensor)
        return self.made[id(tensor)]

    def _stand_in(self, tensor: torch.Tensor) -> torch.Tensor:
        with _disable_current_modes():
            storage = tensor.untyped_storage()
            key, elements = storage._cdata, storage.nbytes() // tensor.element_size()
            shape, strides, offset = tuple(tensor.shape), tensor.stride(), tensor.storage_offset()
        base = self._bases.get(key)
        if base is None or base.dtype != tensor.dtype:
            base = self._bases[key] = torch.empty(elements, dtype=tensor.dtype, device="cuda")
            if is_real(tensor):
                with _disable_current_modes():
                    values = torch.empty(0, dtype=tensor.dtype).set_(storage.clone())
                self._storages.keep(base, values)
        with torch.no_grad():
            made = base.as_strided(shape, strides, offset)
        if isinstance(tensor, torch.nn.Parameter):
            return torch.nn.Parameter(made, tensor.requires_grad)
        return made.requires_grad_(tensor.requires_grad)


def _modules_of(function: Any) -> list[torch.nn.Module]:
    """Modules that a function is, is a method of, closes over, or names."""
    plain = inspect.unwrap(function)
    code = getattr(plain, "__code__", None)
    cells = [cell.cell_contents for cell in getattr(plain, "__closure__", None) or ()]
    named = [plain.__globals__.get(name) for name in code.co_names] if code else []
    known = (function, getattr(function, "__self__", None), *cells, *named)
    return [value for value in known if isinstance(value, torch.nn.Module)]
