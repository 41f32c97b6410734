"""A training step: phases, backward passes of what a function returns, and parameters that no gradient reaches."""

from collections.abc import Iterable
from contextlib import ExitStack
from time import sleep
from typing import Any

import torch
from torch._guards import TracingContext
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.utils._pytree import tree_leaves

from ...simulator.refusal import UserError
from .hooks import replace
from .recorder import Recorder
from .storages import outside

LET_GO_S = 0.05
"""The engine's thread lets go of the last graph after it has told its end, and needs the interpreter for that: were it
to end at once, the process would abort [s]."""
MOST_NAMES = 3
"""Parameters that a note names."""


LATE = (
    "training: this process has run a backward pass before, when there was no GPU to run it on: record in a new one, "
    "or name the function in a file"
)


class RunsBackward(BaseException):
    """The step runs a backward pass itself, where it was not said to train: no fault, and none to be caught."""


class Training:
    """Follows the phases of a step.

    Args:
        recorder: that takes it down; compiled: whether the whole step will be; is_on: whether it trains: else a
            backward pass raises `RunsBackward`.
    """

    def __init__(self, recorder: Recorder, compiled: bool, is_on: bool) -> None:
        self._recorder, self._compiled, self.is_on = recorder, compiled, is_on
        self._has_run_backward = self._has_engine = False
        self._watched: dict[int, tuple[str, torch.Tensor]] = {}
        self._reached: set[int] = set()

    def hook(self, stack: ExitStack) -> None:
        """Follow backward passes and optimizers. Raises: UserError: this torch lacks a hook."""

        def run_backward(*args: Any, **kwargs: Any) -> Any:
            if TracingContext.try_get() is not None:  # torch's compiler looks at it
                return engine(*args, **kwargs)
            if not self.is_on:
                raise RunsBackward
            self._start_engine()
            before, recorder.phase = recorder.phase, "backward"
            self._has_run_backward = True
            try:
                return engine(*args, **kwargs)
            finally:
                recorder.phase = before
                self._reached |= {key for key, (_, tensor) in self._watched.items() if tensor.grad is not None}

        def enter(*_: Any) -> None:
            recorder.phase = "optimizer"

        def leave(optimizer: torch.optim.Optimizer, *_: Any) -> None:
            recorder.phase = "forward"
            for state in optimizer.state.values() if self._compiled else ():
                # The compiler would move these itself, to a device that is none.
                state |= {name: value.to("cuda") for name, value in state.items() if isinstance(value, torch.Tensor)}

        recorder = self._recorder
        stack.callback(lambda: sleep(LET_GO_S if self._has_engine else 0.0))
        engine = replace(stack, "torch.autograd:_engine_run_backward", run_backward)
        stack.callback(register_optimizer_step_pre_hook(enter).remove)
        stack.callback(register_optimizer_step_post_hook(leave).remove)
        # Optimizers join tensors of these types alone.
        path = "torch.optim.optimizer:_foreach_supported_types"
        replace(stack, path, [torch.Tensor, torch.nn.Parameter, FakeTensor])

    def forget(self) -> None:
        """Begin anew."""
        self._has_run_backward = False

    def _start_engine(self) -> None:
        """Have autograd's engine find the device: it looks for devices once, when it runs for the first time."""
        if self._has_engine:
            return
        self._has_engine = True
        with outside(), FakeTensorMode():
            probe = torch.ones(1, device="cuda", requires_grad=True)
            try:
                torch.autograd.backward(probe)
            except RuntimeError:
                raise UserError(LATE) from None

    def backward(self, result: Any) -> bool:
        """Run the backward pass of what a function has returned, unless the function has run one. Returns: whether."""
        if self._has_run_backward:
            return False
        recorder = self._recorder
        loss = getattr(result, "loss", None)
        leaves = [loss] if isinstance(loss, torch.Tensor) else tree_leaves(result)
        roots = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
        if not roots:
            recorder.notes["training: nothing that the function returns has a gradient: no backward pass"] = None
            return False
        with recorder.paused():
            gradients = [None if root.numel() == 1 else torch.empty_like(root) for root in roots]
        torch.autograd.backward(roots, gradients)
        return True

    def watch(self, given: Iterable[tuple[str, torch.Tensor]]) -> None:
        """Look which parameters gradients reach. Args: given: their names, and themselves."""
        leaves = ((name, tensor) for name, tensor in given if tensor.requires_grad and tensor.is_leaf)
        self._watched, self._reached = {id(tensor): (name, tensor) for name, tensor in leaves}, set()

    def check(self) -> None:
        """Note parameters that no gradient has reached."""
        lost = [name or "an input" for key, (name, _) in self._watched.items() if key not in self._reached]
        if lost and self._has_run_backward:
            names = ", ".join(lost[:MOST_NAMES]) + (", ..." if len(lost) > MOST_NAMES else "")
            self._recorder.notes[
                f"no gradient reaches {len(lost)} of {len(self._watched)} parameters ({names}): the backward pass is "
                "incomplete"
            ] = None
