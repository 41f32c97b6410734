"""`tilesight.capture()`: Triton launches are recorded, not run.

    with tilesight.capture() as launches:
        my_op(torch.empty(4, 4096, 4096, device="meta"))

In the block `JITFunction.run` takes down what it is called with, and `Autotuner.run` does so for each configuration
that it would measure; heuristics compute their constants as ever. A space adds configurations, of kernels that are not
autotuned as well. Questions for a GPU are answered for the target.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from math import prod
from operator import index
from typing import Any
from unittest.mock import patch

import torch
from torch.utils._python_dispatch import _disable_current_modes
from triton.backends.nvidia.compiler import CUDAOptions
from triton.runtime.autotuner import Autotuner, Config, Heuristics
from triton.runtime.jit import JITFunction

from ...simulator.device.device import Device, load_device
from ...simulator.emulator.storage import MOST_VALUES_BYTES
from ...simulator.limits import MAX_GRID, MAX_GRID_AXES
from ..configurations.points import points_of, text_of
from ..configurations.space import OPTIONS, Space, Values
from ..configurations.tuned import Tuned, cache_file, tuned_of
from ..front_ends.catcher import Catcher
from .launched import LaunchedKernel
from .on_gpu import OnGpu
from .recorded import WHOLE, RecordedLaunch, RecordedTensor, Recording, StorageNumbers, leaves
from .stores import stored_parameters
from .target_answers import fake_target

FOR_THE_COMPILER = frozenset(CUDAOptions.__dataclass_fields__)
"""Keywords that Triton's compiler takes, though a kernel has parameters of the same names (num_warps)."""
NO_SPACE = Space()
ON_CPU = (
    'a kernel is passed CPU tensors of floats, which Triton refuses on a GPU ("cannot be accessed from Triton"): '
    'make them with device="cuda"; only whole numbers on the CPU give values'
)
NUMBERS = "kernel {}: its grid is given as numbers, and does not follow other constants; grid=lambda meta: ... would"
"""Why a configuration is not predicted: with as many CTAs as ever it might do less than the launch has to."""


@contextmanager
def capture(device: Device | str = "h200", space: Space = NO_SPACE, triton_cache: bool = False) -> Iterator[Recording]:
    """Record the launches of Triton kernels in a block, instead of running them.

    Args:
        device: what code that asks for properties of its GPU is told.
        space: values of parameters to try beside the code's own.
        triton_cache: whether to find out where Triton keeps what its autotuner measures.

    Yields:
        The list that launches are added to, in the order of their calls.

    Raises (in the block):
        NoValues: code asks for values of a tensor that has none; one line.
    """
    gpu = load_device(device) if isinstance(device, str) else device
    capability = gpu.capability
    recorder = Recorder(space, capability if triton_cache else None)
    mode = recorder.mode = OnGpu(recorder.storages, recorder.launches.notes)
    with ExitStack() as stack:
        for kind, replacement in (
            (JITFunction, recorder.jit_run()),
            (Heuristics, recorder.heuristics_run()),
            (Autotuner, recorder.autotuner_run()),
        ):
            stack.enter_context(patch.object(kind, "run", replacement))
        stack.enter_context(fake_target(gpu, mode))
        recorder.launches.front_ends = Catcher(stack, divmod(capability, 10), gpu.sms, recorder)
        recorder.launches.front_ends.begin()
        try:
            yield recorder.launches
        finally:
            recorder.launches.operations = mode.operations.list


class Recorder:
    """What has been launched so far. `launches`: in order; configurations of an autotuned one follow each other.

    `storages`: numbers of the storages that were launched with, or asked for their addresses; `mode`: knows what values
    tensors have, where that is to be known; `kernels`: names of those launched, and of their compile-time constants.

    Args:
        space: values to try beside the code's own; cache_of: compute capability of timings in Triton's cache,
            None: where is not asked for; described: says of a tensor, its shape and strides what a launch has of it.
    """

    def __init__(
        self,
        space: Space = NO_SPACE,
        cache_of: int | None = None,
        described: Callable[[torch.Tensor, tuple[int, ...], tuple[int, ...]], RecordedTensor] | None = None,
    ) -> None:
        self.launches = Recording()
        self._space, self._cache_of = space, cache_of
        self._tensor = described or self._described
        self.storages = StorageNumbers()
        self.mode: OnGpu | None = None
        self._snapshots: dict[tuple[int, int], torch.UntypedStorage] = {}
        self._tuned, self._tuned_count = -1, 0
        self._configuration: Mapping[str, Any] = {}
        self._refused: str | None = None

    def jit_run(self) -> Any:
        """What stands for `JITFunction.run`."""

        def run(function: Any, *args: Any, grid: Any, warmup: bool = False, **kwargs: Any) -> Any:
            if not warmup:
                self.launches.kernels[function.__name__] = constants_of(function)
                if values := self._values(function):
                    return self._try(function, values, args, {**kwargs, "grid": grid}, lambda new: run(function, **new))
            capture = self.captured(function, args, grid, kwargs)
            if not warmup and prod(capture.grid) <= 0:  # as Triton's launcher has it
                empty = f"kernel {capture.name}: grid {capture.grid} has no CTAs: nothing is launched"
                self.launches.notes[empty] = None
            elif not warmup:
                self.launches.append(capture)
                self._store(capture, {**dict(zip(function.arg_names, args, strict=False)), **kwargs})
            return LaunchedKernel(capture, partial(run, function))

        return run

    def _store(self, capture: RecordedLaunch, given: Mapping[str, Any]) -> None:
        """Note what the launch would write: code that reads it later finds no values."""
        if self.mode is None:
            return
        self.mode.values.launched = True
        for name, value in (leaf for pair in given.items() for leaf in leaves(*pair)):
            if name in capture.tensors and name.partition("[")[0] in stored_parameters(capture.function):
                tensor, _ = self.storages.tensor_of(value) or (value.base, 0)
                if not tensor.is_meta:
                    self.mode.known.store(tensor, capture.name)

    def heuristics_run(self) -> Any:
        """What stands for `Heuristics.run`: constants that are computed follow the values of a space."""
        original = Heuristics.run

        def run(heuristics: Any, *args: Any, **kwargs: Any) -> Any:
            function = innermost(heuristics)
            if values := self._values(function):
                return self._try(function, values, args, kwargs, lambda given: original(heuristics, **given))
            return original(heuristics, *args, **kwargs)

        return run

    def autotuner_run(self) -> Any:
        """What stands for `Autotuner.run`: every configuration that it would measure is a launch of its own."""

        def run(tuner: Any, *args: Any, **kwargs: Any) -> Any:
            tuner.nargs = dict(zip(tuner.arg_names, args, strict=False))
            try:
                name = innermost(tuner).__name__
                if unknown := [key for key in tuner.keys if key not in tuner.arg_names]:
                    ignored = (
                        f"kernel {name}: key of @triton.autotune names {', '.join(unknown)}, which it has no argument"
                    )
                    self.launches.notes[f"{ignored} of: Triton tunes as if it was not there"] = None
                twice = {*tuner.nargs, *kwargs}.intersection(*(config.all_kwargs() for config in tuner.configs[:1]))
                if twice:
                    self._refused = (
                        f"kernel {name}: {', '.join(sorted(twice))} is passed, and set by @triton.autotune as well: "
                        "Triton takes it from one place (conflicting meta-parameters); leave it out of the call"
                    )
                    return tuner.fn.run(*args, **{**tuner.configs[0].all_kwargs(), **kwargs})
                # What prunes may yield its configurations.
                authors = list(tuner.prune_configs(kwargs) if len(tuner.configs) > 1 else tuner.configs)
                if authors:
                    tuner.best_config = authors[0]  # for code that asks; which is fastest is not known yet
                else:
                    self.launches.notes[f"kernel {name}: its early_config_prune leaves no configuration"] = None
                configs = authors
                if values := self._values(innermost(tuner)):
                    with patch.object(tuner, "configs", points_of(tuner.configs, values)):
                        configs = points_of([*authors, *tuner.prune_configs(kwargs)], {})
                tuned = tuned_of(self._tuned_count, tuner, kwargs, authors)
                if self._cache_of and tuned.cache_key:
                    tuned = replace(tuned, cache=cache_file(tuner, tuned.cache_key, authors, self._cache_of))
                launch = partial(tuner.fn.run, *args)
                given = {**tuner.nargs, **kwargs}
                return self._launch_all(tuned, configs, given, lambda options: launch(**{**kwargs, **options}))
            finally:
                tuner.nargs, self._refused = None, None

        return run

    def _values(self, function: Any) -> Values:
        """What a space has of a kernel; nothing while one of its configurations is launched."""
        return {} if self._tuned >= 0 else self._space.values(function.__name__, constants_of(function))

    def _try(
        self,
        function: Any,
        values: Values,
        args: Any,
        kwargs: Mapping[str, Any],
        launch: Callable[[dict[str, Any]], Any],
    ) -> Any:
        """Launch a kernel that is not autotuned: as called, and with values of a space. Args: launch: takes it all."""
        given = {**dict(zip(function.arg_names, args, strict=False)), **kwargs}
        defaults = {name: parameter.default for name, parameter in function.signature.parameters.items()}
        authors = Config(
            {name: given.get(name, defaults[name]) for name in values if name not in OPTIONS},
            **{name: given[name] for name in OPTIONS if name in given},
        )
        configs = points_of([authors], values)
        tuned = Tuned(number=self._tuned_count, kernel=function.__name__, authors=(text_of(authors),))
        return self._launch_all(tuned, configs, given, lambda options: launch({**given, **options}))

    def _launch_all(
        self, tuned: Tuned, configs: Sequence[Any], given: Mapping[str, Any], launch: Callable[[dict[str, Any]], Any]
    ) -> Any:
        """Launch each configuration of one launch; the first is given back. Args: given: its arguments."""
        before, kernels = (self._tuned, self._configuration), []
        written = [config.kwargs for config in configs if text_of(config) in tuned.authors]
        self.launches.tuned.append(tuned)
        self._tuned, self._tuned_count = self._tuned_count, self._tuned_count + 1
        try:
            for config in configs:
                options = config.all_kwargs()
                self._configuration = options
                follows = callable(given.get("grid")) or config.kwargs in written
                self._refused = None if follows else NUMBERS.format(tuned.kernel)
                if config.pre_hook is not None:
                    config.pre_hook({**given, **options})
                kernels.append(launch(options))
            return kernels[0] if kernels else None
        finally:
            self._tuned, self._configuration = before
            self._refused = None

    def captured(self, function: Any, args: tuple[Any, ...], grid: Any, kwargs: Mapping[str, Any]) -> RecordedLaunch:
        """What a launch is called with."""
        names = set(function.arg_names)
        bound = function.signature.bind(*args, **{name: value for name, value in kwargs.items() if name in names})
        bound.apply_defaults()
        given = dict(bound.arguments)
        tensors, blocks, descriptors = {}, {}, {}
        arguments = {name: value for name, value in given.items() if isinstance(value, tuple)}
        for name, value in (leaf for pair in given.items() for leaf in leaves(*pair)):
            if _is_descriptor(value):
                tensors[name] = self._tensor(value.base, tuple(value.shape), tuple(value.strides))
                blocks[name], descriptors[name] = tuple(value.block_shape), value
            elif pointed := self.storages.tensor_of(value):
                tensor, offset = pointed
                seen = self._tensor(tensor, tuple(tensor.shape), tuple(tensor.stride()))
                begin = seen.offset_bytes if offset is None else offset
                tensors[name] = replace(seen, dtype=value.dtype, offset_bytes=begin)
            else:
                arguments[name] = value
        axes, wrong = _grid(function.__name__, grid, given)
        return RecordedLaunch(
            function=function,
            grid=axes,
            arguments=arguments,
            tensors=tensors,
            blocks=blocks,
            descriptors=descriptors,
            options={name: value for name, value in kwargs.items() if name not in names or name in FOR_THE_COMPILER},
            tuned=self._tuned,
            configuration=self._configuration,
            refused=self._refused or wrong or _beyond(function.__name__, axes),
            pointed=dict(self.storages.pointed),
        )

    def _described(self, tensor: torch.Tensor, shape: tuple[int, ...], strides: tuple[int, ...]) -> RecordedTensor:
        known = self.mode.known if self.mode else None
        if known and not known.is_on_gpu(tensor) and tensor.dtype not in WHOLE:
            self.launches.notes[ON_CPU] = None
        has_values = known.has_values_for_kernels(tensor) if known else not tensor.is_meta
        return RecordedTensor(
            storage=self.storages.number(tensor),
            storage_bytes=tensor.untyped_storage().nbytes(),
            offset_bytes=tensor.storage_offset() * tensor.element_size(),
            shape=shape,
            strides=strides,
            dtype=tensor.dtype,
            values=self._snapshot(tensor.detach()) if has_values else None,
            fill=known.fill_of(tensor) if known else b"",
            origin=known.origin(tensor) if known and not has_values else "",
        )

    def _snapshot(self, tensor: torch.Tensor) -> torch.Tensor:
        """A tensor that code may write to later, as it is now, where its values may decide something."""
        storage = tensor.untyped_storage()
        if self.mode is None or tensor.dtype not in WHOLE or storage.nbytes() > MOST_VALUES_BYTES:
            return tensor
        key = (storage._cdata, -1 if tensor.is_inference() else tensor._version)
        with torch._C.DisableTorchFunction(), _disable_current_modes():  # a copy of bytes, whatever is recorded
            if key not in self._snapshots or tensor.is_inference():
                self._snapshots[key] = storage.clone()
            kept = torch.empty(0, dtype=tensor.dtype)
            return kept.set_(self._snapshots[key], tensor.storage_offset(), tensor.shape, tensor.stride())


def innermost(function: Any) -> Any:
    """The `JITFunction` below an autotuner or heuristics."""
    while not isinstance(function, JITFunction):
        function = function.fn
    return function


def constants_of(function: Any) -> tuple[str, ...]:
    """Names of the compile-time constants of a kernel."""
    return tuple(parameter.name for parameter in function.params if parameter.is_constexpr)


def _is_descriptor(value: Any) -> bool:
    """Whether an argument is a tensor descriptor of the host, Triton's or Gluon's."""
    return isinstance(getattr(value, "base", None), torch.Tensor) and hasattr(value, "block_shape")


def _grid(name: str, grid: Any, given: Mapping[str, Any]) -> tuple[tuple[int, int, int], str | None]:
    """CTAs along each axis, and why Triton's launcher takes no such grid; None: it does."""
    axes = grid(dict(given)) if callable(grid) else grid
    if not hasattr(axes, "__len__"):
        return (1, 1, 1), f"kernel {name}: grid {axes!r}: Triton takes a tuple: ({axes!r},)"
    for axis in axes[:3]:
        if not hasattr(axis, "__index__"):
            cure = "triton.cdiv(n, BLOCK), or n // BLOCK in place of n / BLOCK"
            return (1, 1, 1), f"kernel {name}: grid {tuple(axes)!r}: {axis!r} is no whole number: {cure}"
    x, y, z = (*map(index, axes), 1, 1, 1)[:3]
    return (x, y, z), None


def _beyond(name: str, grid: tuple[int, int, int]) -> str | None:
    """Why no GPU takes a grid; None where one would."""
    for axis, size, most in zip("xyz", grid, MAX_GRID_AXES, strict=True):
        if not size <= most or size < 1:
            return f"kernel {name}: grid {grid}: {axis} = {size:,}: must be from 1 to {most:,}"
    if prod(grid) > MAX_GRID:
        return f"kernel {name}: grid {grid}: {prod(grid):,} CTAs: at most {MAX_GRID:,} (2^31 - 1) are predicted"
    return None
