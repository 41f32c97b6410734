"""Tensors that say they are on a GPU while launches are recorded; new ones for a GPU are made without it."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import zip_longest
from math import nan, prod
from typing import Any
from unittest.mock import patch

import torch
from torch.autograd.function import BackwardCFunction
from torch.nn import functional
from torch.overrides import TorchFunctionMode
from torch.utils._device import _device_constructors
from torch.utils._pytree import tree_leaves, tree_map

from .known import Known
from .operations import Operations, bytes_of
from .recorded import StorageNumbers
from .values import MOST_FLOATS, NoValues, Values, user_line

IS_CUDA = torch.Tensor.is_cuda.__get__
IS_CPU = torch.Tensor.is_cpu.__get__
DEVICE = torch.Tensor.device.__get__
GIVEN = frozenset({torch.tensor, torch.as_tensor, torch.asarray, torch.scalar_tensor})
"""They make tensors of values that the user's code has."""
NUMBERS = frozenset({torch.Tensor.item, torch.Tensor.__float__, torch.Tensor.__int__, torch.Tensor.__bool__,
                     torch.Tensor.__index__})  # fmt: skip
COMPARED = frozenset({torch.allclose, torch.Tensor.allclose, torch.equal, torch.Tensor.equal})
NO_DATA = "times and comparisons have no data here: those of tensors without data are nan, or pass"


class OnGpu(TorchFunctionMode):
    """What the user's code says to torch, above autograd.

    torch gives all tensors without data the same address, 0: they would be views of each other.

    Attributes:
        known: which tensors have values; operations: what torch would run; notes: of the recording, in order.
        values: the mode below it.
    """

    def __init__(self, storages: StorageNumbers, notes: dict[str, None]) -> None:
        super().__init__()
        self.known, self.operations, self.notes = Known(), Operations(), notes
        self.values = Values(self.known, self.operations, lambda: self)
        self.by_default = False
        self._storages = storages

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        options = dict(kwargs or {})
        if getattr(function, "__name__", "") in ("__get__", "__set__"):
            if function in (IS_CUDA, IS_CPU, DEVICE):
                return torch.device("cuda", 0) if function == DEVICE else function == IS_CUDA
            return function(*args, **options)
        if self.by_default and "device" not in options and function in _device_constructors():
            options["device"] = "cuda"
        if function in (torch.Tensor.cuda, torch.Tensor.cpu, torch.Tensor.to, torch.Tensor.pin_memory):
            return self._moved(function, args, options)
        if function is torch.Tensor.data_ptr and (args[0].is_meta or self.known.is_on_gpu(args[0])):
            return self._storages.address(args[0])
        if function is torch.Tensor.get_device:
            return 0
        if function in NUMBERS or function in (torch.Tensor.tolist, torch.Tensor.numpy, torch.Tensor.__format__):
            return self._asked(function, args, options)
        if function is torch.Tensor.__repr__ and not self.known.has_values(args[0]):
            return function(args[0].to("meta"), **options)
        if function in COMPARED and not all(self.known.has_values(tensor) for tensor in args[:2]):
            self.notes[NO_DATA] = None
            return True
        if function in FUSED:
            with self.operations.paused():
                result = function(*args, **options)
            name, flop = FUSED[function]
            self.operations.add(name, flop(*args, **options), bytes_of((args, options, result)))
            return result
        if is_cuda(options.get("device")):
            return self._new(function, args, options)
        result = function(*args, **options)
        if function is not torch._has_compatible_shallow_copy_type:
            return self._together(function, args, options, result)
        return result

    def _new(self, function: Any, args: Any, options: dict[str, Any]) -> Any:
        """A tensor that is asked for on the GPU."""
        options.pop("pin_memory", None)
        if function in GIVEN:
            del options["device"]
            made = function(*args, **options)
            self.known.put_on_gpu(made)
            return made
        options["device"] = "meta"
        if options.get("requires_grad"):
            return function(*args, **options)
        with self.values.made_for_gpu():
            return function(*args, **options)

    def _moved(self, function: Any, args: Any, options: dict[str, Any]) -> Any:
        """A tensor that is asked for elsewhere: where it lies does not matter, but that the GPU has it."""
        tensor, *rest = args
        options.pop("non_blocking", None)
        if function is torch.Tensor.pin_memory:
            return tensor
        if function in (torch.Tensor.cuda, torch.Tensor.cpu):
            rest, options, to_gpu = [], {}, function is torch.Tensor.cuda
        else:
            rest = [other.dtype if isinstance(other, torch.Tensor) else other for other in rest]
            asked = [*rest, options.get("device")]
            to_gpu = any(is_cuda(word) for word in asked)
            if tensor.is_meta or to_gpu:
                types = dict([("dtype", word) for word in rest if isinstance(word, torch.dtype)])
                kept = {name: word for name, word in options.items() if name != "device" or _is_meta(word)}
                rest, options = [word for word in rest if _is_meta(word)], {**types, **kept}
        parameters = tensor.dtype.is_floating_point and (tensor.requires_grad or tensor.numel() > MOST_FLOATS)
        if to_gpu and parameters and not tensor.is_meta:
            options["device"] = "meta"
        moved = torch.Tensor.to(tensor, *rest, **options) if rest or options else tensor
        if to_gpu:
            self.known.put_on_gpu(moved)
        return moved

    def _asked(self, function: Any, args: Any, options: dict[str, Any]) -> Any:
        """Values that code asks for: of floats without any it is told nan, as it would print them."""
        tensor = args[0]
        if self.known.has_values(tensor):
            return function(*args, **options)
        if function is torch.Tensor.__format__ and tensor.dim():
            return function(tensor.to("meta"), *args[1:])
        if tensor.dtype.is_floating_point and tensor.numel() == 1:
            if function in (torch.Tensor.item, torch.Tensor.tolist, torch.Tensor.__float__):
                self.notes[NO_DATA] = None
                return nan
            if function is torch.Tensor.__format__:
                self.notes[NO_DATA] = None
                return format(nan, *args[1:])
        origin, place = self.known.origin(tensor), user_line()
        shape = f"{str(tensor.dtype).removeprefix('torch.')} tensor of shape {list(tensor.shape)}"
        raise NoValues(
            f"{function.__name__.strip('_')}() of a {shape} without values{f', {origin}' if origin else ''}"
            + (f", asked for at {place}" if place else "")
        )

    def _together(self, function: Any, args: Any, options: dict[str, Any], result: Any) -> Any:
        """What a function gives; for autograd, parameters lose their data where what comes of them has none."""
        if not any(_is_to_learn(leaf) and leaf.is_meta for leaf in tree_leaves(result)):
            return result
        if not any(_is_to_learn(leaf) and not leaf.is_meta for leaf in tree_leaves(args)):
            return result
        moved = tree_map(lambda leaf: leaf.to("meta") if _is_to_learn(leaf) else leaf, args)
        with self.operations.paused():
            return function(*moved, **options)


@contextmanager
def on_gpu(mode: OnGpu) -> Iterator[None]:
    """Have torch speak of tensors as if there was a GPU, in a block and where torch calls the user's Python from it."""

    def apply(node: Any, *args: Any) -> Any:
        with mode:  # torch leaves it while it works
            return _where_inputs_are(node, before(node, *args))

    before = BackwardCFunction.apply
    with mode.values, mode, patch.object(BackwardCFunction, "apply", apply):
        yield


def _where_inputs_are(node: Any, gradients: Any) -> Any:
    """Gradients that a function of the user's gives back, on the device on which autograd has noted each input."""
    inputs = iter([edge for edge in node.next_functions if edge[0] is not None])
    given = gradients if isinstance(gradients, tuple) else (gradients,)
    moved = []
    for needed, gradient in zip_longest(node.needs_input_grad, given):
        if needed:
            function, number = next(inputs)
            if isinstance(gradient, torch.Tensor):
                with torch._C.DisableTorchFunction():
                    gradient = gradient.to(function._input_metadata[number].device)
        moved.append(gradient)
    return tuple(moved)


def _is_to_learn(value: Any) -> bool:
    """Whether autograd wants a gradient of a value."""
    return isinstance(value, torch.Tensor) and value.requires_grad


def _attention_flop(query: Any, key: Any, value: Any, *_: Any, **__: Any) -> int:
    """Of both matrix products, with scores that a mask leaves out, as `torch.utils.flop_counter` has it."""
    return int(2 * prod(query.shape[:-1]) * key.shape[-2] * (query.shape[-1] + value.shape[-1]))


FUSED = {
    functional.scaled_dot_product_attention: ("scaled_dot_product_attention", _attention_flop),
    functional.rms_norm: ("rms_norm", lambda *_, **__: 0),
}
"""Functions that are one kernel on a GPU, and several operations elsewhere: name, FLOP."""


def is_cuda(device: Any) -> bool:
    """Whether a device that was named is a GPU."""
    return _type_of(device) == "cuda" or (isinstance(device, int) and not isinstance(device, bool))


def _is_meta(device: Any) -> bool:
    return _type_of(device) == "meta"


def _type_of(device: Any) -> str:
    if isinstance(device, torch.device):
        return device.type
    return device.split(":")[0] if isinstance(device, str) else ""
