"""Chooses the configurations that are predicted fastest; all of them where nothing can be chosen."""

import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from triton.runtime.autotuner import Autotuner, Heuristics
from triton.runtime.jit import JITFunction

from ..compiling import why_not
from ..kernels.capture.lowering import lower_or_refuse
from ..kernels.capture.recorded import RecordedTensor
from ..kernels.capture.recording import Recorder
from ..kernels.capture.stores import stored_parameters
from ..kernels.compile.call import KernelLaunch, RefusedCall
from ..predicting import row_of
from ..simulator.device.device import Device, device_of_product, load_device
from ..simulator.prediction.kernels import Request
from ..simulator.store.store import usual_store
from ..tuning.answers import predict_all
from ..tuning.screening import USUAL, Screening
from ..tuning.tuning import Configured, ranked
from .contents import Values, contents_of, lead_bytes

TOGETHER = 4
"""Configurations that are predicted between two looks at the clock."""
NOT_ARGUMENTS = ("grid", "warmup")
"""Keywords of a launch that its kernel does not see."""
NOT_THE_USERS = (__name__.partition(".")[0], "triton")
"""Packages whose code a warning does not point at."""
OURS = __name__.partition(".")[0]


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


class NoChoice(RuntimeError):
    """Why nothing is chosen; the text is one line."""


class Chooser:
    """What `early_config_prune` of Triton's autotuner takes.

    Args:
        kernel, keep, values, budget_s: as `autotune.prune` takes them;
        device: with its name; None: the GPU that holds the tensors; clock: gives the time now [s].
    """

    def __init__(
        self,
        kernel: Any,
        *,
        keep: int,
        device: tuple[Device, str] | None,
        values: Values,
        budget_s: float | None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._kernel, self._keep, self._device, self._values = kernel, keep, device, values
        self._budget_s, self._clock = budget_s, clock
        self._said: set[str] = set()

    def __call__(self, configs: Sequence[Any], named_args: Mapping[str, Any], **kwargs: Any) -> Sequence[Any]:
        """Configurations that stay, the fastest first.

        Args:
            configs: to choose from; named_args: positional arguments of the launch, by name;
            kwargs: its keyword arguments, with `grid`.
        """
        if len(configs) <= self._keep or is_recorded():
            return configs
        try:
            return self._chosen(configs, named_args, kwargs)
        except Exception as error:  # whatever it is, the kernel is to run
            self._warn(error, len(configs))
            return configs

    def _chosen(self, configs: Sequence[Any], named_args: Mapping[str, Any], kwargs: Mapping[str, Any]) -> list[Any]:
        if reason := why_not():
            raise NoChoice(reason)
        if torch.cuda.is_available() and torch.cuda.is_current_stream_capturing():
            raise NoChoice("a CUDA graph is being captured: call it once before")
        begin_s = self._clock()

        def check_budget(done: int, total: int) -> None:
            if self._budget_s is not None and self._clock() - begin_s > self._budget_s:
                raise NoChoice(
                    f"{done} of {total} are predicted after budget_s = {self._budget_s:g} s: a larger budget, or a "
                    "call of `tilesight tune` before, would do"
                )

        arguments = {**named_args, **{name: value for name, value in kwargs.items() if name not in NOT_ARGUMENTS}}
        device, name = self._device or gpu_of(tensors_in(arguments))
        capability = device.capability
        calls = list(calls_of(self._kernel, configs, kwargs["grid"], arguments, self._values, capability))
        target = Request(device=device, name=name, compile_limit_s=self._budget_s, limit_s=self._budget_s)
        how: dict[str, Any] = {"store": usual_store(), "workers": 1, "together": TOGETHER, "progress": check_budget}
        usable = [call for call in calls if isinstance(call, KernelLaunch)]
        portion = replace(USUAL, least=max(USUAL.least, self._keep), first=max(USUAL.first, self._keep))
        predict = partial(predict_all, target=target, **how)
        rows = Screening(device=device, portion=portion).predicted([usable], (), predict)
        chosen = {
            id(call): config
            for config, call in zip(configs, calls, strict=True)
            if id(call) in rows or not isinstance(call, KernelLaunch)
        }
        configured = [
            Configured(
                values=chosen[id(call)].all_kwargs(),
                row=rows[id(call)] if isinstance(call, KernelLaunch) else row_of(call),
            )
            for call in calls
            if id(call) in chosen
        ]
        refused = [item.row.refused for item in configured if not item.row.prediction]
        if 2 * len(refused) > len(configured):
            raise NoChoice(f"{len(refused)} of {len(configured)} are not predicted, the first: {refused[0]}")
        places = {id(item): config for item, config in zip(configured, chosen.values(), strict=True)}
        predicted = [item for item in ranked(configured) if item.row.prediction]
        return [places[id(item)] for item in predicted[: self._keep]]

    def _warn(self, error: Exception, count: int) -> None:
        """Say why all configurations are measured, once for each reason."""
        said = " ".join(str(error).split())[:300]
        reason = said if isinstance(error, NoChoice) else f"{type(error).__name__}: {said}"
        if reason not in self._said:
            self._said.add(reason)
            text = f"kernel {_name(self._kernel)}: all {count} configurations are measured: {reason}"
            warnings.warn(text, stacklevel=_to_user())


def gpu_of(tensors: Mapping[str, torch.Tensor]) -> tuple[Device, str]:
    """The catalogue's device for the GPU that holds the tensors, and its name. Raises: NoChoice: there is none."""
    places = dict.fromkeys(tensor.device for tensor in tensors.values())
    place = next((place for place in places if place.type == "cuda"), None)
    if place is None:
        raise NoChoice(f"no tensor is on a GPU ({', '.join(map(str, places)) or 'there is none'}): pass device=")
    product = torch.cuda.get_device_name(place)
    name = device_of_product(product)
    if name is None:
        raise NoChoice(f"GPU {product!r} is not in the catalogue: pass device=, a name or a path to a TOML file")
    return load_device(name), name


def _name(kernel: Any) -> str:
    while not hasattr(kernel, "__name__") and hasattr(kernel, "fn"):
        kernel = kernel.fn
    return str(getattr(kernel, "__name__", kernel))


def _to_user() -> int:
    """How far above the caller the code of the user's is that launches."""
    frame, depth = sys._getframe(1), 1
    while frame.f_back and str(frame.f_globals.get("__name__", "")).partition(".")[0] in NOT_THE_USERS:
        frame, depth = frame.f_back, depth + 1
    return depth


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


class ChoosingAutotuner(Autotuner):  # type: ignore[misc]
    """Triton's autotuner, which measures nothing where one configuration is left. Args: as Triton's.

    Source: `Autotuner` of Triton 3.6, which measures that one as well wherever its list had several.
    """

    _alone = False

    def prune_configs(self, kwargs: dict[str, Any]) -> Any:
        """As Triton's: the configurations that are left. Args: kwargs: of the launch, by keyword."""
        left = super().prune_configs(kwargs)
        self._alone = len(left) == 1
        return left

    def _bench(self, *args: Any, config: Any, **meta: Any) -> Any:
        return [0.0, 0.0, 0.0] if self._alone else super()._bench(*args, config=config, **meta)
