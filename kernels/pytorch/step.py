"""A step of PyTorch, run on tensors without data: what it launches on the target, in order."""

import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._pytree import tree_leaves

from ...simulator.device.device import Device
from ...simulator.operations.operation import Mode, RecordedStep
from ..capture.recorded import RecordedLaunch
from .attention import attention_of
from .choosing.graphs import Graphs
from .choosing.selection import Selection
from .choosing.trials import Times
from .distributed.groups import hook_groups
from .fused import kept_whole
from .hooks import compiler_on_demand, fake_cuda_device, hide_fakes
from .layers.cudnn import sampled_grids, shaped, whole_layers
from .layers.native import SHAPES
from .recorder import DependsOnData, Recorder
from .storages import Storages
from .training import RunsBackward, Training
from .triton_launches import TritonLaunches

COMPILER = "torch._inductor.compile_fx"
"""Loaded by the first call of `torch.compile`."""
COMPILED: Mapping[Mode, Mapping[str, Any]] = {"compiled": {}, "max-autotune": {"mode": "max-autotune"}}
"""Modes in which the whole function is compiled, and what torch.compile is given."""
SILENCED = (
    "Accessing the data pointer of FakeTensor",
    "The AccumulateGrad node's stream does not match",
    "PyTorch was compiled without cuDNN/MIOpen support",
    "Attempted to get default timeout for nccl backend",
)
"""Beginnings of torch's warnings that are of this machine, not of the GPU."""


class Session:
    """A recording that goes on. `captures`: launches of Triton kernels, which operations name by their numbers."""

    def __init__(
        self,
        recorder: Recorder,
        launches: TritonLaunches,
        training: Training,
        train: bool,
        selection: Selection,
        compiler: Mapping[str, Any] | None,
        hook_compiler: Any,
    ) -> None:
        self._recorder, self._launches, self._training, self._train = recorder, launches, training, train
        self._compiler, self._hook_compiler = compiler, hook_compiler
        self._asked_to_compile = self._is_given = False
        self.graphs, self.selection = Graphs(recorder), selection

    @property
    def storages(self) -> Storages:
        """What is known of memory."""
        return self._recorder.storages

    @property
    def captures(self) -> list[RecordedLaunch]:
        """Of all configurations, in order."""
        return self._launches.captures

    @property
    def notes(self) -> tuple[str, ...]:
        """What is to be said so far."""
        return tuple(self._recorder.notes)

    def run(
        self, function: Callable[..., Any], args: Sequence[Any] = (), options: Mapping[str, Any] | None = None
    ) -> Any:
        """Run a step; what it does is recorded.

        Returns:
            What the function returns.
        """
        recorder, self._is_given = self._recorder, bool(args or options)
        for leaf in tree_leaves((args, options)):
            if isinstance(leaf, torch.nn.Module):
                recorder.places.know(leaf)
        if self._training.is_on:
            self._warm_up(function, args, options)
        ran = torch.compile(function, **self._compiler) if self._compiler is not None else function
        try:
            return self._recorded(ran, args, options)
        except RunsBackward:
            self._training.is_on = True
        self._launches.captures.clear()
        if self._asked_to_compile:
            _forget_compiled()
        self._warm_up(function, args, options)
        return self._recorded(ran, args, options)

    def _recorded(self, function: Callable[..., Any], args: Sequence[Any], options: Mapping[str, Any] | None) -> Any:
        """What a function returns whose operations are taken down."""
        given = list(_parameters_of((function, args, options)))
        self._training.watch(given)
        with ExitStack() as stack, self._recorder.recording(tensor for _, tensor in given):
            hide_fakes(stack)
            result = function(*args, **(options or {}))
            if self._train:
                self._training.backward(result)
            self._training.check()
            return result

    def _warm_up(self, function: Callable[..., Any], args: Sequence[Any], options: Mapping[str, Any] | None) -> None:
        """Run a training step that does not count: optimizers make their state in their first step.

        Gradients stay as it leaves them, unless the backward pass is not the function's: then there are none.
        """
        # What depends on data ends the step itself too, which then tells what it had launched.
        with suppress(DependsOnData), self._recorder.paused(), eagerly(), ExitStack() as stack:
            hide_fakes(stack)
            result = function(*args, **(options or {}))
            if self._train and self._training.backward(result):
                for _, tensor in _parameters_of((function, args, options)):
                    tensor.grad = None
        self._training.forget()

    def step(self) -> RecordedStep:
        """What was recorded."""
        recorder = self._recorder
        compiled = any(operation.kind == "triton" and operation.parts for operation in recorder.operations)
        if self._asked_to_compile:
            compiled = compiled or _graphs() > 0
            self._note_compiler()
        if recorder.inits and not self._is_given:
            recorder.notes[
                f"{recorder.inits} operations that fill new tensors come first and count: let a function `inputs` of "
                "the same file make what the step is given"
            ] = None
        for root in recorder.places.roots:
            for tensor in (*root.parameters(), *root.buffers()):
                recorder.note_parameter(tensor)
        tuned = self._launches.tuned or self.selection.used
        recorder.notes.update(dict.fromkeys(self.graphs.texts))
        return RecordedStep(
            operations=tuple(recorder.operations),
            mode=("max-autotune" if tuned else "compiled") if compiled else "eager",
            graphed=compiled and self.graphs.count > 0 and not self.graphs.without,
            peak_bytes=recorder.storages.peak_bytes,
            parameter_bytes=sum(
                size for number, size in recorder.parameters.items() if number not in recorder.storages.resized
            ),
            notes=tuple(recorder.notes),
        )

    def asked_to_compile(self) -> None:
        """`torch.compile` is called."""
        self._hook_compiler()
        self._asked_to_compile = True

    def _note_compiler(self) -> None:
        """What the compiler left out."""
        from torch._dynamo.utils import counters, graph_break_reasons

        notes = self._recorder.notes
        for broken in graph_break_reasons:
            line = next((frame for frame in reversed(broken.user_stack)), None)
            if line and Path(line.filename).parent == Path(__file__).parent:
                continue  # in what follows a backward pass: on a GPU it is one with the call that breaks anyway
            where = f" at {line.filename.rpartition('/')[2]}:{line.lineno}" if line else ""
            notes[f"graph break{where}: {_first_line(broken.reason)}"] = None
        known = {_first_line(broken.reason) for broken in graph_break_reasons}
        for reason, count in counters["graph_break"].items():
            if _first_line(reason) not in known:
                notes[f"graph break ({count}): {_first_line(reason)}"] = None
        if skipped := counters["inductor"]["cudagraph_skips"]:
            notes[f"torch.compile makes no CUDA graph of {skipped} of {_graphs()} graphs: what it does forbids one"] = (
                None
            )
        if not _graphs() and (counters["frames"]["total"] or self._compiler is not None):
            notes["torch.compile has compiled nothing: the function runs as it is written"] = None


def eagerly() -> AbstractContextManager[Any]:
    """A block in which what torch.compile has made runs as it is written."""
    return torch.compiler.set_stance("force_eager") if COMPILER in sys.modules else nullcontext()


def _forget_compiled() -> None:
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    torch._dynamo.utils.graph_break_reasons.clear()


def _graphs() -> int:
    from torch._dynamo.utils import counters

    return int(counters["stats"]["unique_graphs"])


def _first_line(reason: str) -> str:
    return next((line.strip() for line in str(reason).splitlines() if line.strip()), "no reason given")


@contextmanager
def recording(
    device: Device,
    mode: Mode = "auto",
    train: bool = False,
    indices: str = "",
    *,
    compiler: Mapping[str, Any] | None = None,
    times: Times | None = None,
    gpus: int = 0,
    rank: int = 0,
) -> Iterator[Session]:
    """Have torch speak of a device, and record what is run on it.

    Args:
        device: the target; mode: `auto` (`torch.compile` is honoured), `eager` (it is not), `compiled` (the whole
            function is compiled), `max-autotune` (so that choices are tried); train: with the backward pass of what it
            returns.
        compiler: what `torch.compile` is given in mode `compiled`; times: predicts Triton kernels that are tried,
            None: they are not.
        gpus: that the step runs on, 0: not given; rank: of the one that is recorded.

    Yields:
        What runs a step.

    Raises:
        UserError: this torch lacks a hook; one line.
    """
    recorder = Recorder()
    launches = TritonLaunches(recorder, indices == "uniform")
    with ExitStack() as stack:
        stack.enter_context(compiler_on_demand())
        hook_all = stack.enter_context(fake_cuda_device(device, recorder.order, max(gpus, 1)))
        hook_groups(stack, recorder, gpus, rank)
        hooked = False

        def hook_compiler() -> None:
            nonlocal hooked
            if not hooked:
                hooked = True
                stack.callback(torch._dynamo.reset)  # code that it has compiled here speaks of the device
                hook_all()
                launches.hook_inductor(stack)
                session.selection.hook(stack)
                session.graphs.hook(stack)
                recorder.places.hook(stack)
                _forget_compiled()

        training = Training(recorder, mode in COMPILED, train)
        training.hook(stack)
        given = (compiler if mode == "compiled" else None) or COMPILED.get(mode)
        selection = Selection(launches, device, times or (lambda tried: [None] * len(tried)), recorder.notes)
        session = Session(recorder, launches, training, train, selection, given, hook_compiler)
        _hook_layers(stack, device, recorder)
        launches.hook_triton(stack)
        _hook_compile(stack, session, mode)
        # Gradients are on, as in torch, until the code turns them off.
        for context in (FakeTensorMode(allow_non_fake_inputs=True), torch.enable_grad(), recorder, _silenced()):
            stack.enter_context(context)
        torch.default_generator.manual_seed(0)  # drawn indices are the same each time
        yield session


def _hook_layers(stack: ExitStack, device: Device, recorder: Recorder) -> None:
    """Have attention, fused operations and layers recorded whole, as the device runs them."""
    major, minor = (int(digit) for digit in device.compute_capability.split("."))
    attention = attention_of((major, minor), lambda text: recorder.notes.setdefault(text))
    for whole in (attention, kept_whole(), shaped(SHAPES), whole_layers(), sampled_grids()):
        stack.enter_context(whole)


@contextmanager
def _silenced() -> Iterator[None]:
    """Without torch's warnings that are of this machine."""
    with warnings.catch_warnings():
        for text in SILENCED:
            warnings.filterwarnings("ignore", message=text)
        yield


def _hook_compile(stack: ExitStack, session: Session, mode: Mode) -> None:
    """Have `torch.compile` do nothing, or speak of the target."""
    original = torch.compile
    if COMPILER in sys.modules:  # functions may have been compiled before
        if mode == "eager":
            stack.enter_context(eagerly())
        else:
            session.asked_to_compile()

    def compiled(model: Any = None, **options: Any) -> Any:
        if mode == "eager":
            return model if model is not None else lambda function: function
        session.asked_to_compile()
        return original(model, **options)

    stack.enter_context(patch.object(torch, "compile", compiled))


def _parameters_of(values: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """Tensors among arguments, and in modules there, with their names."""
    for leaf in tree_leaves(values):
        if isinstance(leaf, torch.nn.Module):
            yield from leaf.named_parameters()
            yield from leaf.named_buffers()
        elif isinstance(leaf, torch.Tensor):
            yield "", leaf
