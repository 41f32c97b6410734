"""A step of code that is loaded already, recorded by a fork of this process: torch there is told of another GPU.

Tensors and modules that the step is given, or refers to, lie on the device in the fork, wherever they lie here; whole
numbers of small tensors on the CPU keep their values.
"""

import inspect
import multiprocessing
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout, suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_map

from ...simulator.device.device import Device
from ...simulator.jobs.processes import ASKS
from ...simulator.operations.operation import Mode
from ...simulator.refusal import UserError
from ..capture.file import UserCodeFailed
from .file import TIMEOUT_S, Recorded, Times, recorded_of, reply_to
from .step import recording
from .storages import Storages, is_real
from .worker import answered, times_of

STDERR = 2
ORIGINALS = ("_orig_mod", "_torchdynamo_orig_callable")
"""Where torch.compile keeps the module or function that it was given."""


def record_live(
    function: Callable[..., Any],
    arguments: Sequence[Any] = (),
    *,
    device: Device,
    mode: Mode = "auto",
    train: bool = False,
    options: Mapping[str, Any] | None = None,
    times: Times | None = None,
) -> Recorded:
    """Record what a function or module launches, called with these arguments.

    Args:
        device, mode, train, options, times: as `file.record_step`. In mode `auto` what torch.compile has made runs
            compiled, with the options that it was given.

    Raises:
        UserError: this system forks no processes, or this torch lacks a hook.
        UserCodeFailed: it raised, died, took too long, or depends on data.
    """
    if "fork" not in multiprocessing.get_all_start_methods():
        raise UserError("this system forks no processes: name the step as 'file.py:function'")
    original = next((made for name in ORIGINALS if (made := getattr(function, name, None)) is not None), None)
    compiler: dict[str, Any] = {}
    if original is not None and mode == "auto":
        mode, compiler = "compiled", _compiler_of(function)
    given = dict(options or {})
    limit_s = float(given.get("timeout_s", TIMEOUT_S))
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe()
    asked = (original or function, arguments, device, mode, train, given, compiler)
    process = context.Process(target=_answer, args=(there, *asked), daemon=True)
    process.start()
    there.close()
    try:
        answer = _received(here, limit_s)
        while ASKS in answer:
            here.send(reply_to(answer[ASKS], times))
            answer = _received(here, limit_s)
    except EOFError:
        process.join()
        raise UserCodeFailed(f"the process that records the step died (exit code {process.exitcode})") from None
    finally:
        here.close()
        process.kill()
        process.join()
    return recorded_of(answer)


def _compiler_of(function: Any) -> dict[str, Any]:
    """What torch.compile was given when it made a function or a module, as far as it is not what it does anyway."""
    config: Mapping[str, Any] = getattr(function, "get_compiler_config", dict)() or {}
    usual = torch._inductor.config.get_config_copy() if config else {}
    changed = {name: value for name, value in config.items() if usual.get(name) != value}
    return {"options": changed} if changed else {}


def _received(connection: Connection, limit_s: float) -> dict[str, Any]:
    if not connection.poll(limit_s):
        raise UserCodeFailed(f"no answer after {limit_s:g} s: the step hangs, or takes longer to record")
    message: dict[str, Any] = connection.recv()
    return message


def _answer(
    connection: Connection,
    function: Callable[..., Any],
    arguments: Sequence[Any],
    device: Device,
    mode: Mode,
    train: bool,
    given: Mapping[str, Any],
    compiler: Mapping[str, Any],
) -> None:
    """In the fork: record, and tell it."""

    def ask(question: Mapping[str, Any]) -> dict[str, Any]:
        connection.send({ASKS: question})
        reply: dict[str, Any] = connection.recv()
        return reply

    torch.set_num_threads(1)  # threads of the process that forked are not here
    sys.stderr = os.fdopen(os.dup(STDERR), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), STDERR)  # what C++ logs of fake tensors is not for people
    with redirect_stdout(sys.stderr):
        connection.send(
            answered(
                lambda: recording(
                    *(device, mode, train, given.get("indices", "")),
                    compiler=compiler,
                    times=times_of(device, ask),
                    gpus=given.get("gpus", 0),
                    rank=given.get("rank", 0),
                ),
                lambda session: session.run(function, _on_device(function, arguments, session.storages)),
                device,
                _source(function),
            )
        )


def _source(function: Callable[..., Any]) -> Path:
    """The file that a function or module is written in; of a builtin there is none."""
    try:
        return Path(inspect.getsourcefile(inspect.unwrap(getattr(function, "forward", function))) or "step")
    except TypeError:
        return Path("step")


def _on_device(function: Callable[..., Any], arguments: Sequence[Any], storages: Storages) -> tuple[Any, ...]:
    """The arguments on the device; modules and optimizers are moved where they are."""
    stand_ins = StandIns(storages)

    def move(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor):
            return stand_ins.of(leaf)
        if isinstance(leaf, torch.nn.Module):
            for module in leaf.modules():
                for tensors in (module._parameters, module._buffers):
                    tensors.update({name: move(tensor) for name, tensor in tensors.items()})
        elif isinstance(leaf, torch.optim.Optimizer):
            for group in leaf.param_groups:
                group["params"] = [move(parameter) for parameter in group["params"]]
            states = {move(parameter): tree_map(move, state) for parameter, state in leaf.state.items()}
            leaf.state.clear()
            leaf.state.update(states)
        elif inspect.isfunction(leaf):
            _rename(leaf, move, seen)
        return leaf

    seen: set[int] = set()
    move(inspect.unwrap(function))
    move(function)
    move(getattr(function, "__self__", None))
    return tuple(tree_map(move, tuple(arguments)))


def _rename(function: Callable[..., Any], move: Callable[[Any], Any], seen: set[int]) -> None:
    """Put what is moved in the place of what a function names: its closure and globals, which are this process's.

    Args:
        seen: identities of functions that this was done for.
    """
    if id(function) in seen or str(getattr(function, "__module__", "")).partition(".")[0] == "torch":
        return
    seen.add(id(function))
    for cell in getattr(function, "__closure__", None) or ():
        with suppress(ValueError):  # it is empty
            cell.cell_contents = tree_map(move, cell.cell_contents)
    known = getattr(function, "__globals__", {})
    for name in getattr(getattr(function, "__code__", None), "co_names", ()):
        if name in known:
            known[name] = tree_map(move, known[name])


class StandIns:
    """Tensors of the device that stand for others; views of one tensor stay views of one tensor.

    Args:
        storages: that values of whole numbers are kept in.
    """

    def __init__(self, storages: Storages) -> None:
        self._made: dict[int, torch.Tensor] = {}
        self._bases: dict[int, torch.Tensor] = {}
        self._kept: list[torch.Tensor] = []  # one that is freed would give its identity to another
        self._storages = storages

    def of(self, tensor: torch.Tensor) -> torch.Tensor:
        """The one that stands for a tensor; itself, where it stands for one."""
        if id(tensor) not in self._made:
            made = self._stand_in(tensor)
            self._kept += (tensor, made)
            self._made |= {id(tensor): made, id(made): made}
        return self._made[id(tensor)]

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
