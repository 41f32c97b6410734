"""Triton kernels that a step launches: those that Inductor writes, and the user's own, each with its configurations."""

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from math import prod
from types import FunctionType
from typing import Any
from unittest.mock import patch

import torch
from torch.utils._python_dispatch import _disable_current_modes
from triton.runtime.autotuner import Autotuner, Heuristics
from triton.runtime.interpreter import InterpretedFunction
from triton.runtime.jit import JITFunction

from ...simulator.operations.operation import Operand, Operation
from ..capture.recorded import RecordedLaunch, RecordedTensor
from ..capture.recording import Recorder as LaunchRecorder
from ..capture.stores import stored_parameters
from .device_guard import lacking
from .hooks import replace
from .recorder import Recorder
from .storages import Storages, is_real, outside

INDUCTORS = "triton_"
"""What names of kernels begin with that Inductor writes."""
INDICES = frozenset({torch.int16, torch.int32, torch.int64})
POINTWISE = "triton_poi"
"""What names of pointwise kernels begin with."""
BLOCKS = {"XBLOCK": "xnumel", "YBLOCK": "ynumel", "ZBLOCK": "znumel"}
"""Sizes of a CTA, and what they divide."""
MOST_ELEMENTS = 1 << 20
"""Of the CTA that takes all of it."""


class TritonLaunches:
    """Takes down launches among the operations of a recorder.

    Attributes:
        captures: of all configurations, in order; tuned: whether Inductor wrote kernels of the step with max_autotune.
        beyond: of a kernel of Inductor's, and what captures its launch: configurations that it does not list.

    Args:
        draws: whether index tensors without values get random ones.
    """

    def __init__(self, recorder: Recorder, draws: bool = False) -> None:
        self.captures: list[RecordedLaunch] = []
        self.tuned = False
        self.beyond: Callable[[Any, Callable[[Any], RecordedLaunch]], list[Any]] = lambda *_: []
        self._recorder, self._draws = recorder, draws
        self._described = _Described(recorder.storages)
        self._users = LaunchRecorder(described=self._described.tensor)
        self._depth = 0

    @contextmanager
    def aside(self) -> Iterator[Recorder]:
        """Launches of the block are taken down by another recorder, beside the step; `captures` are theirs there."""
        before, recorder = dict(vars(self)), Recorder()
        self._recorder, self._described, self.captures = recorder, _Described(recorder.storages), []
        self._draws, self.beyond = False, lambda *_: []
        try:
            yield recorder
        finally:
            vars(self).update(before)

    def hook_triton(self, stack: ExitStack) -> None:
        """Record what the user's code launches itself."""
        stack.enter_context(patch.object(JITFunction, "run", self._outermost(self._users.jit_run())))
        stack.enter_context(patch.object(Heuristics, "run", self._outermost(self._users.heuristics_run())))
        stack.enter_context(patch.object(Autotuner, "run", self._outermost(self._users.autotuner_run())))

    def hook_inductor(self, stack: ExitStack) -> None:
        """Record what Inductor's code launches. Raises: UserError: this torch lacks a hook."""
        heuristics = "torch._inductor.runtime.triton_heuristics"
        replace(stack, f"{heuristics}:CachingAutotuner.precompile", lambda *_, **__: None)
        from torch._inductor.runtime import triton_heuristics

        for name in ("GridExpr", "config_to_dict"):
            if not hasattr(triton_heuristics, name):
                raise lacking(f"{heuristics}.{name}")

        def run(tuner: Any, *args: Any, stream: Any = None, **_: Any) -> None:
            if self._draws and self._recorder.is_on:
                self._draw(tuner, args)
            self.tuned |= bool(tuner.inductor_meta.get("max_autotune"))

            def captured(config: Any) -> RecordedLaunch:
                return self._of_inductor(tuner, config, args, triton_heuristics)

            beyond = self.beyond(tuner, captured) if self._recorder.is_on else []
            captures = [captured(config) for config in (*tuner.configs, *beyond)]
            stored = _stored_by_inductor(tuner)
            known = self._recorder.is_on and computed(tuner.fn, _given(tuner, args), stored, self._recorder.storages)
            self._add(captures, stored, args, known)

        replace(stack, f"{heuristics}:CachingAutotuner.run", run)

    def _outermost(self, run: Callable[..., Any]) -> Any:
        """`run` of a kernel, of its autotuner or its heuristics; the outermost of these is one operation."""

        def outermost(function: Any, *args: Any, **kwargs: Any) -> Any:
            launches = self._users.launches
            before = len(launches)
            self._depth += 1
            try:
                result = run(function, *args, **kwargs)
            finally:
                self._depth -= 1
            if not self._depth and len(launches) > before:
                captures = [launch for launch in launches[before:] if isinstance(launch, RecordedLaunch)]
                self._add(captures, stored_parameters(captures[0].function), (*args, *kwargs.values()))
            return result

        return outermost

    def _of_inductor(self, tuner: Any, config: Any, args: Any, heuristics: Any) -> RecordedLaunch:
        """One candidate configuration of a launch."""
        constants = dict(heuristics.config_to_dict(config))
        fixed = _fixed(tuner) | config.kwargs
        extra = tuple(tuner.inductor_meta.get("extra_launcher_args") or ())
        given = _given(tuner, args[: len(args) - len(extra)])
        numbers = {name: value for name, value in given.items() if not isinstance(value, torch.Tensor)}
        numbers |= dict(zip(extra, args[len(args) - len(extra) :], strict=True))
        grid = heuristics.GridExpr.from_meta(tuner.inductor_meta, config).eval_slow({**constants, **numbers})
        x, y, z = (max(1, int(axis)) for axis in grid)
        tensors = {
            name: self._described.tensor(value, tuple(value.shape), tuple(value.stride()))
            for name, value in given.items()
            if isinstance(value, torch.Tensor)
        }
        arguments = {name: value for name, value in {**given, **fixed}.items() if name not in tensors}
        return RecordedLaunch(
            function=tuner.fn,
            grid=(x, y, z),
            arguments=arguments,
            tensors=tensors,
            options={"num_warps": config.num_warps, "num_stages": config.num_stages},
            configuration={**config.kwargs, "num_warps": config.num_warps, "num_stages": config.num_stages},
        )

    def _draw(self, tuner: Any, args: Any) -> None:
        """Give random values to index tensors that a launch of Inductor's reads, and that have none."""
        recorder = self._recorder
        place = recorder.places.here(backward=True)
        read = set(tuner.fn.arg_names) - _stored_by_inductor(tuner)
        for name, tensor in _given(tuner, args).items():
            if not (place.indexed and name in read and isinstance(tensor, torch.Tensor) and tensor.dtype in INDICES):
                continue
            if recorder.storages.values(tensor) is None:
                below = min(place.indexed, torch.iinfo(tensor.dtype).max + 1)
                recorder.storages.draw(tensor, below)
                where = f" ({place.where})" if place.where else ""
                recorder.notes[f"indices without values are drawn from 0 to {below - 1:,}{where}"] = None

    def _add(self, captures: list[RecordedLaunch], stored: frozenset[str], args: Any, known: bool = False) -> None:
        """Take a launch down. Args: known: whether values of what it stores are."""
        recorder = self._recorder
        if not recorder.is_on:
            return
        tensors = _tensors(args)
        given = captures[0].tensors
        names: dict[int, set[str]] = {tensor.storage: set() for tensor in given.values()}
        for name, tensor in given.items():
            names[tensor.storage].add(name)
        operands = {name: _operand(tensor) for name, tensor in given.items()}
        for tensor in tensors:
            if not known and names.get(recorder.storages.number(tensor), set()) & stored:
                recorder.storages.forget(tensor, f"written by kernel {captures[0].name}, which does not run")
        place = recorder.places.here(recorder.phase == "backward")
        first = len(self.captures)
        self.captures += [dataclasses.replace(capture, tuned=first if captures[1:] else -1) for capture in captures]
        recorder.add(
            Operation(
                kind="triton",
                name=captures[0].name,
                inputs=tuple(operand for name, operand in operands.items() if not name.startswith("out_ptr")),
                outputs=tuple(operand for name, operand in operands.items() if name in stored),
                module=place.module,
                where=place.where,
                parts=place.parts if captures[0].name.startswith(INDUCTORS) else (),
                phase=recorder.phase,
                calls=tuple(range(first, first + len(captures))),
                live_bytes=recorder.storages.live_bytes,
            )
        )


def _stored_by_inductor(tuner: Any) -> frozenset[str]:
    """Names of the parameters that a kernel of Inductor's stores to; of a user's kernel, as its source says."""
    names = tuner.fn.arg_names
    if not tuner.fn.__name__.startswith(INDUCTORS):
        return stored_parameters(tuner.fn)
    written = {name for name in names if name.startswith(("out_ptr", "in_out_ptr"))}
    return frozenset(written | ({*(tuner.inductor_meta.get("mutated_arg_names") or ())} & {*names}))


def _given(tuner: Any, args: Any) -> dict[str, Any]:
    """What Inductor's code passes, by names of parameters."""
    fixed = _fixed(tuner) | tuner.configs[0].kwargs
    return dict(zip((name for name in tuner.fn.arg_names if name not in fixed), args, strict=False))


def _fixed(tuner: Any) -> dict[str, Any]:
    """Arguments of a kernel that Inductor's code does not pass: compile-time constants, and None."""
    constants = tuner.triton_meta.get("constants") or {}
    written = {tuner.fn.arg_names[place] for place in tuner.fn.constexprs}
    return {name: value for name, value in constants.items() if name in written or value is None}


def _operand(tensor: RecordedTensor) -> Any:
    return Operand(
        storage=tensor.storage,
        storage_bytes=tensor.storage_bytes,
        shape=tensor.shape,
        strides=tensor.strides,
        dtype=str(tensor.dtype).removeprefix("torch."),
        offset_bytes=tensor.offset_bytes,
    )


def _tensors(args: Any) -> list[torch.Tensor]:
    based = [getattr(value, "base", None) if hasattr(value, "block_shape") else value for value in args]
    return [value for value in based if isinstance(value, torch.Tensor)]


class _Described:
    """Tensors as launches have them. Args: storages: that number them, and know values."""

    def __init__(self, storages: Storages) -> None:
        self._storages = storages

    def tensor(self, tensor: torch.Tensor, shape: tuple[int, ...], strides: tuple[int, ...]) -> RecordedTensor:
        """One tensor, with its values as they are now."""
        values = None if is_real(tensor) else self._storages.values(tensor)
        if values is not None:
            values = _copied(values)
        return RecordedTensor(
            storage=self._storages.number(tensor),
            storage_bytes=tensor.untyped_storage().nbytes(),
            offset_bytes=int(tensor.storage_offset()) * tensor.element_size(),
            shape=tuple(map(int, shape)),
            strides=tuple(map(int, strides)),
            dtype=tensor.dtype,
            values=values,
            origin="" if values is not None else self._storages.origin(tensor),
        )


def _copied(values: torch.Tensor) -> torch.Tensor:
    """The same values in a storage of their own, which later code does not change."""
    with _disable_current_modes():
        kept = torch.empty(0, dtype=values.dtype)
        return kept.set_(values.untyped_storage().clone(), values.storage_offset(), values.shape, values.stride())


def computed(kernel: Any, given: Mapping[str, Any], stored: frozenset[str], storages: Storages) -> bool:
    """Run a kernel on the values that are known of its tensors, which thereby are known of those that it stores to.

    Done of a pointwise kernel all of whose tensors are whole numbers with values: ones, ranges, masks of packed tokens.

    Args:
        kernel: a function of Triton that Inductor wrote; given: its arguments; stored: names that it stores to.

    Returns:
        Whether it was run: else nothing is known of what it stores.
    """
    sizes = {block: 1 << (int(given[size]) - 1).bit_length() for block, size in BLOCKS.items() if size in given}
    if not kernel.__name__.startswith(POINTWISE) or prod(sizes.values()) > MOST_ELEMENTS:
        return False
    numbers = prod(int(given[BLOCKS[block]]) for block in sizes)
    known = {
        name: storages.writable(value, numbers) if name in stored else storages.values(value)
        for name, value in given.items()
        if isinstance(value, torch.Tensor)
    }
    if any(value is None for value in known.values()):
        return False
    alone = FunctionType(kernel.fn.__code__, dict(kernel.fn.__globals__), kernel.fn.__name__)  # it adds to globals
    alone.__annotations__ = kernel.fn.__annotations__
    passed = {name: value for name, value in {**given, **known, **sizes}.items() if name in kernel.arg_names}
    try:
        with outside():
            InterpretedFunction(alone).run(**passed, grid=(1, 1, 1), warmup=False)
    except Exception:
        return False
    return True
