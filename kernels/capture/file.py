"""Launches of a function in a user's file, which runs in a process of its own: it may crash, hang and print.

What was recorded once is kept, and taken while all that it was made of is as it was (`kept`), without loading torch.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import time_ns
from typing import Any

from ...simulator.device.device import Device, load_device
from ...simulator.device.what_if import override
from ...simulator.jobs.processes import Ask, WorkerDied, WorkerProcess
from ...simulator.prediction.torch_operation import TorchOperation
from ...simulator.refusal import UserError
from ..compile.cache import triton_cache
from ..compile.call import KernelLaunch, RefusedCall, from_plain, values_of
from ..configurations.space import Space
from ..given.launch import Launch, calls_of
from ..interpreter import Interpreter
from ..kept.recordings import keep_recording, kept_recording, recording_key

WORKER = f"{__package__}.worker"


class UserCodeFailed(RuntimeError):
    """The user's code raised, died or did not end; the text is one line, its own message with its line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedFunction:
    """What a function did.

    Args:
        calls: launches in the order of their calls; tuned: those of which several configurations are compared, values
            as `configurations.tuned.Tuned` has them; arguments: that it was called with; the rest as `Recording`.
    """

    calls: tuple[KernelLaunch | RefusedCall, ...]
    notes: tuple[str, ...]
    operations: tuple[TorchOperation, ...]
    ended: str
    tuned: tuple[Mapping[str, Any], ...] = ()
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a function is called with, and told.

    Args:
        device: name or path of the target; settings: what-ifs of it, `key=value`; shapes: arguments of each call;
        space: values of kernels' parameters to try; triton_cache: as `recording.capture`; timeout_s: what all calls
        together may take [s]; folders: that modules are looked for in first; interpreter: that runs it, None: this one.
    """

    device: str
    settings: Sequence[str] = ()
    shapes: Sequence[Mapping[str, Any]] = ({},)
    space: Space = field(default_factory=Space)
    triton_cache: bool = False
    timeout_s: float
    folders: Sequence[str] = ()
    interpreter: Interpreter | None = None


def capture_calls(target: str, asked: Asked) -> tuple[RecordedFunction, ...]:
    """Record what a function launches; what it prints reaches stderr once it has ended.

    Args:
        target: `file.py:function` or `package.module:function`.

    Returns:
        What each call of it launches, in the order of `asked.shapes`.

    Raises:
        UserError: there is no such file or function, it needs other arguments, it launches nothing, or what a space
            names no kernel has.
        UserCodeFailed: it raised, died, or took too long.
    """
    file, function = file_and_function(target)
    job = {
        "file": file,
        "function": function,
        "arguments": [dict(shape) for shape in asked.shapes],
        "device": asked.device,
        "settings": list(asked.settings),
        "space": asked.space.to_dict(),
        "triton_cache": asked.triton_cache,
        "folders": list(asked.folders),
    }
    # What another interpreter loads is not known here.
    key = "" if asked.interpreter else recording_key(job, override(load_device(asked.device), list(asked.settings)))
    if key and (kept := kept_recording(key)):
        answer, printed = kept
        sys.stderr.write(printed)
    else:
        answer = _recorded_anew(job, asked, key)
    values = values_in(answer)
    return tuple(
        RecordedFunction(
            calls=tuple(from_plain(call, values) for call in recorded["calls"]),
            notes=tuple(recorded["notes"]),
            operations=tuple(TorchOperation(**operation) for operation in recorded["torch_operations"]),
            ended=recorded["ended"],
            tuned=tuple(recorded["tuned"]),
            arguments=dict(shape),
        )
        for recorded, shape in zip(answer["recorded"], asked.shapes, strict=True)
    )


def given_function(launches: tuple[Launch, ...], device: Device) -> RecordedFunction:
    """Launches as if a function had made them. Raises: UserError: as `calls_of`."""
    capability = device.capability
    return RecordedFunction(calls=calls_of(launches, capability), notes=(), operations=(), ended="")


def file_and_function(target: str) -> tuple[str, str]:
    """The file or module of a target, and its function. Raises: UserError: it names none, or there is no such file."""
    file, colon, function = target.rpartition(":")
    if not colon or not file or not function.isidentifier():
        raise UserError(f"{target!r}: must be FILE.py:FUNCTION or MODULE:FUNCTION")
    is_module = not file.endswith(".py") and all(part.isidentifier() for part in file.split("."))
    if not Path(file).is_file() and not is_module:
        raise UserError(f"{file}: no such file")
    return file, function


def values_in(answer: Mapping[str, Any]) -> dict[str, bytes]:
    """Values of storages in what a recording process answers. Raises: UserError, UserCodeFailed: it says why not."""
    if "unusable" in answer:
        raise UserError(answer["unusable"])
    if "raised" in answer:
        raise UserCodeFailed(answer["raised"])
    return values_of(answer["values"])


def answer_of(
    process: WorkerProcess, job: Mapping[str, Any], limit_s: float, reply: Ask | None = None
) -> dict[str, Any]:
    """What a process answers that runs the user's code and then ends; what it printed reaches stderr.

    Raises:
        UserCodeFailed: it died, or took too long.
    """
    try:
        return process.ask(job, limit_s, reply)
    except WorkerDied as death:
        raise UserCodeFailed(f"{job['file']}:{job['function']}: {death}") from None
    finally:
        sys.stderr.write(process.said)
        process.stop()


def _recorded_anew(job: Mapping[str, Any], asked: Asked, key: str) -> dict[str, Any]:
    """Have a process record, and keep its answer under a key if the code ran to its end. Raises: UserCodeFailed."""
    other = asked.interpreter
    variables = triton_cache() | dict(other.variables if other else {})
    process = WorkerProcess(WORKER, "user's code", (), variables, other.path if other else "")
    answer = answer_of(process, {**job, "asked_ns": time_ns()}, asked.timeout_s)
    witnesses = answer.pop("witnesses", None)
    ran = "recorded" in answer and not any(made["ended"] for made in answer["recorded"])
    if key and ran and witnesses is not None:
        keep_recording(key, answer, witnesses, process.said)
    return answer
