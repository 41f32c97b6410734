"""Launches of a function in a user's file, which runs in a process of its own: it may crash, hang and print."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ...simulator.jobs.processes import Answerer, Died
from ...simulator.prediction.torch_operation import TorchOperation
from ..compile.cache import triton_cache
from ..compile.call import KernelCall, RefusedCall, from_plain, values_of

WORKER = f"{__package__}.worker"


class CannotCapture(ValueError):
    """What was asked for is no function that launches something; the text is one line."""


class UserCodeFailed(RuntimeError):
    """The user's code raised, died or did not end; the text is one line, its own message with its line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedFunction:
    """What a function did. Args: calls: launches in the order of their calls; the rest as `Recording` has it."""

    calls: tuple[KernelCall | RefusedCall, ...]
    notes: tuple[str, ...]
    operations: tuple[TorchOperation, ...]
    ended: str


def capture_function(target: str, device: str, settings: Sequence[str], timeout_s: float) -> RecordedFunction:
    """Record what a function launches; what it prints reaches stderr once it has ended.

    Args:
        target: `file.py:function` or `package.module:function`; device: name or path of the target;
        settings: what-ifs of it, `key=value`; timeout_s: what the function may take [s].

    Raises:
        CannotCapture: there is no such file or function, it needs arguments, or it launches nothing.
        UserCodeFailed: it raised, died, or took too long.
    """
    file, colon, function = target.rpartition(":")
    if not colon or not file or not function.isidentifier():
        raise CannotCapture(f"{target!r}: must be FILE.py:FUNCTION or MODULE:FUNCTION")
    is_module = not file.endswith(".py") and all(part.isidentifier() for part in file.split("."))
    if not Path(file).is_file() and not is_module:
        raise CannotCapture(f"{file}: no such file")
    process = Answerer(WORKER, "user's code", (), triton_cache())
    try:
        job = {"file": file, "function": function, "device": device, "settings": list(settings)}
        answer = process.ask(job, timeout_s)
    except Died as death:
        raise UserCodeFailed(f"{target}: {death}") from None
    finally:
        sys.stderr.write(process.said)
        process.stop()
    if "unusable" in answer:
        raise CannotCapture(answer["unusable"])
    if "raised" in answer:
        raise UserCodeFailed(answer["raised"])
    values = values_of(answer["values"])
    return RecordedFunction(
        calls=tuple(from_plain(call, values) for call in answer["calls"]),
        notes=tuple(answer["notes"]),
        operations=tuple(TorchOperation(**operation) for operation in answer["torch_operations"]),
        ended=answer["ended"],
    )
