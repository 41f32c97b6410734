"""Launches of a function in a user's file, which runs in a process of its own: it may crash, hang and print."""

from collections.abc import Sequence
from pathlib import Path

from ...simulator.jobs.processes import Answerer, Died
from ..compile.cache import triton_cache
from ..compile.call import KernelCall, RefusedCall, from_plain

WORKER = f"{__package__}.worker"


class CannotCapture(ValueError):
    """What was asked for is no function that launches something; the text is one line."""


class UserCodeFailed(RuntimeError):
    """The user's code raised, died or did not end; the text is one line, its own message with its line."""


def capture_function(
    target: str, device: str, settings: Sequence[str], timeout_s: float
) -> list[KernelCall | RefusedCall]:
    """Record what a function launches.

    Args:
        target: `file.py:function`; device: name or path of the target; settings: what-ifs of it, `key=value`;
        timeout_s: what the function may take [s].

    Returns:
        Launches in the order of their calls.

    Raises:
        CannotCapture: there is no such file or function, it needs arguments, or it launches nothing.
        UserCodeFailed: it raised, died, or took too long.
    """
    file, colon, function = target.rpartition(":")
    if not colon or not file or not function.isidentifier():
        raise CannotCapture(f"{target!r}: must be FILE.py:FUNCTION")
    if not Path(file).is_file():
        raise CannotCapture(f"{file}: no such file")
    process = Answerer(WORKER, "user's code", (), triton_cache())
    try:
        job = {"file": file, "function": function, "device": device, "settings": list(settings)}
        answer = process.ask(job, timeout_s)
    except Died as death:
        raise UserCodeFailed(f"{target}: {death}") from None
    finally:
        process.stop()
    if "unusable" in answer:
        raise CannotCapture(answer["unusable"])
    if "raised" in answer:
        raise UserCodeFailed(answer["raised"])
    return [from_plain(call) for call in answer["calls"]]
