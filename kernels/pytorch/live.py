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
from typing import Any, Literal

import torch
from torch.utils._pytree import tree_map

from ...simulator.device.device import Device
from ..capture.file import CannotCapture, UserCodeFailed
from .file import TIMEOUT_S, Recorded, recorded_of
from .step import recording
from .worker import answered

STDERR = 2
ORIGINALS = ("_orig_mod", "_torchdynamo_orig_callable")
"""Where torch.compile keeps the module or function that it was given."""


def record_live(
    function: Callable[..., Any],
    arguments: Sequence[Any],
    device: Device,
    *,
    mode: Literal["auto", "eager", "compiled"] = "auto",
    train: bool = False,
    options: Mapping[str, Any] | None = None,
) -> Recorded:
    """Record what a function or module launches, called with these arguments.

    Args:
        device, mode, train, options: as `file.record_step`. In mode `auto` what torch.compile has made runs compiled.

    Raises:
        CannotCapture: this system forks no processes, or this torch lacks a hook.
        UserCodeFailed: it raised, died, took too long, or depends on data.
    """
    if "fork" not in multiprocessing.get_all_start_methods():
        raise CannotCapture("this system forks no processes: name the step as 'file.py:function'")
    original = next((made for name in ORIGINALS if (made := getattr(function, name, None)) is not None), None)
    if original is not None and mode == "auto":
        mode = "compiled"
    given = dict(options or {})
    limit_s = float(given.get("timeout_s", TIMEOUT_S))
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe(duplex=False)
    asked = (original or function, arguments, device, mode, train, given.get("indices", ""))
    process = context.Process(target=_answer, args=(there, *asked), daemon=True)
    process.start()
    there.close()
    try:
        if not here.poll(limit_s):
            raise UserCodeFailed(f"no answer after {limit_s:g} s: the step hangs, or takes longer to record")
        answer = here.recv()
    except EOFError:
        process.join()
        raise UserCodeFailed(f"the process that records the step died (exit code {process.exitcode})") from None
    finally:
        here.close()
        process.kill()
        process.join()
    return recorded_of(answer)


def _answer(
    connection: Connection,
    function: Callable[..., Any],
    arguments: Sequence[Any],
    device: Device,
    mode: Literal["auto", "eager", "compiled"],
    train: bool,
    indices: str,
) -> None:
    """In the fork: record, and tell it."""
    torch.set_num_threads(1)  # threads of the process that forked are not here
    sys.stderr = os.fdopen(os.dup(STDERR), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), STDERR)  # what C++ logs of fake tensors is not for people
    with redirect_stdout(sys.stderr):
        connection.send(
            answered(
                lambda: recording(device, mode, train, indices),
                lambda session: session.run(function, _on_device(function, arguments)),
                device,
                Path(inspect.getsourcefile(inspect.unwrap(getattr(function, "forward", function))) or "step"),
            )
        )


def _on_device(function: Callable[..., Any], arguments: Sequence[Any]) -> tuple[Any, ...]:
    """The arguments on the device; modules are moved where they are."""
    moved: dict[int, torch.Tensor] = {}

    def move(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor):
            return moved.setdefault(id(leaf), _moved(leaf))
        if isinstance(leaf, torch.nn.Module):
            for module in leaf.modules():
                for tensors in (module._parameters, module._buffers):
                    tensors.update({name: move(tensor) for name, tensor in tensors.items()})
        return leaf

    _rename(inspect.unwrap(function), lambda value: tree_map(move, value))
    move(function)
    move(getattr(function, "__self__", None))
    return tuple(tree_map(move, tuple(arguments)))


def _rename(function: Callable[..., Any], moved: Callable[[Any], Any]) -> None:
    """Put what is moved in the place of what a function names: its closure and globals, which are this process's."""
    for cell in getattr(function, "__closure__", None) or ():
        with suppress(ValueError):  # it is empty
            cell.cell_contents = moved(cell.cell_contents)
    known = getattr(function, "__globals__", {})
    for name in getattr(getattr(function, "__code__", None), "co_names", ()):
        if name in known:
            known[name] = moved(known[name])


def _moved(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor on the device like one elsewhere."""
    if tensor.device.type == "cpu":
        made = tensor.detach().to("cuda")
    else:
        made = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="cuda")
    if isinstance(tensor, torch.nn.Parameter):
        return torch.nn.Parameter(made, requires_grad=tensor.requires_grad)
    return made.requires_grad_(tensor.requires_grad)
