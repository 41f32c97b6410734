"""Launches with real tensors, taken down as `tilesight.capture` does, while nothing of torch or Triton is replaced."""

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any

import torch
from triton.runtime.autotuner import Heuristics
from triton.runtime.jit import JITFunction

from ..kernels.capture.lowering import lower_or_refuse
from ..kernels.capture.recorded import RecordedTensor
from ..kernels.capture.recording import Recorder
from ..kernels.capture.stores import stored_parameters
from ..kernels.compile.call import KernelLaunch, RefusedCall
from .contents import Values, contents_of, lead_bytes

OURS = __name__.partition(".")[0]


def is_recorded() -> bool:
    """Whether launches are recorded or replayed here, of all configurations."""
    return str(JITFunction.run.__module__).startswith(f"{OURS}.")


def kernel_of(kernel: Any) -> JITFunction:
    """The `JITFunction` below heuristics. Raises: TypeError: something else is there; one line."""
    while isinstance(kernel, Heuristics):
        kernel = kernel.fn
    if not isinstance(kernel, JITFunction):
        raise TypeError(f"{getattr(kernel, '__name__', kernel)!r} is no triton.jit function, nor heuristics of one")
    return kernel


def tensors_in(arguments: Mapping[str, Any]) -> dict[str, torch.Tensor]:
    """Parameter -> tensor, of a descriptor the one that it describes."""
    bases = {name: getattr(value, "base", value) for name, value in arguments.items()}
    return {name: base for name, base in bases.items() if isinstance(base, torch.Tensor)}


def calls_of(
    kernel: Any, configs: Sequence[Any], grid: Any, arguments: Mapping[str, Any], values: Values, capability: int
) -> Iterator[KernelLaunch | RefusedCall]:
    """What each configuration would launch, in order, in plain values.

    Args:
        kernel: a `triton.jit` function, or heuristics around it; grid, arguments: of the launch, these by name;
        values: of tensors of whole numbers, as `contents`; capability: of the GPU, e.g. 90.
    """
    function = kernel_of(kernel)
    named = {name: value for name, value in arguments.items() if name in function.arg_names}
    recorder = LiveRecorder(contents_of(tensors_in(named), stored_parameters(function), values, named))
    for config in configs:
        given = {**arguments, **config.all_kwargs()}
        if config.pre_hook is not None:
            given |= recorder.hooked(config.pre_hook, given)
        outer = kernel
        while isinstance(outer, Heuristics):
            for name, heuristic in outer.values.items():
                given[name] = heuristic({**given, "grid": grid})
            outer = outer.fn
        call = lower_or_refuse(recorder.captured(function, (), grid, given), capability)
        yield recorder.shared(call) if isinstance(call, KernelLaunch) else call


class LiveRecorder(Recorder):
    """Takes down launches with real tensors. Args: contents: of storages, as `contents_of` gives them."""

    def __init__(self, contents: Mapping[int, torch.Tensor]) -> None:
        super().__init__(described=self._with_content)
        self._contents = contents
        self._originals: dict[int, torch.Tensor] = {}
        self._twins: list[torch.Tensor] = []  # one that is freed would give its identity to another
        self._shared: dict[int, bytes] = {}

    def hooked(self, hook: Any, given: Mapping[str, Any]) -> dict[str, Any]:
        """Descriptors as a hook leaves them; it gets copies, and tensors without data."""
        twins = {name: self._twin(tensor) for name, tensor in tensors_in(given).items()}
        copies: dict[str, Any] = {}
        for name, twin in twins.items():
            value = given[name]
            copies[name] = twin if isinstance(value, torch.Tensor) else deepcopy(value, {id(value.base): twin})
        hook({**given, **copies})
        return {name: copy for name, copy in copies.items() if not isinstance(copy, torch.Tensor)}

    def shared(self, call: KernelLaunch) -> KernelLaunch:
        """A call whose values of storages are those of the calls before it."""
        storages = tuple(
            storage
            if storage.values is None
            else replace(storage, values=self._shared.setdefault(storage.number, storage.values))
            for storage in call.storages
        )
        return replace(call, storages=storages)

    def _twin(self, tensor: torch.Tensor) -> torch.Tensor:
        twin = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta")
        self._twins.append(twin)
        self._originals[id(twin)] = tensor
        return twin

    def _with_content(self, tensor: torch.Tensor, shape: tuple[int, ...], strides: tuple[int, ...]) -> RecordedTensor:
        tensor = self._originals.get(id(tensor), tensor)
        storage = tensor.untyped_storage()
        lead = lead_bytes(storage)
        return RecordedTensor(
            storage=self.storages.number(tensor),
            storage_bytes=storage.nbytes() + lead,
            offset_bytes=tensor.storage_offset() * tensor.element_size() + lead,
            shape=shape,
            strides=strides,
            dtype=tensor.dtype,
            values=self._contents.get(storage._cdata),
        )
