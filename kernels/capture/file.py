"""Launches of a function in a user's file, which runs in a process of its own: it may crash, hang and print."""

from collections.abc import Sequence
from pathlib import Path

from ...simulator.jobs.processes import Answerer, Died
from ..compile.cache import triton_cache
from ..compile.call import KernelCall, from_plain

TIMEOUT_S = 120.0
"""What a user's function may take to make its launches, none of which run [s]."""
WORKER = f"{__package__}.worker"


class CannotCapture(ValueError):
    """What was asked for is no function that launches something; the text is one line."""


class UserCodeFailed(RuntimeError):
    """The user's code raised, died or did not end; the text is one line, its own message with its line."""


def capture_function(
    target: str, device: str, settings: Sequence[str] = (), timeout_s: float = TIMEOUT_S
) -> list[KernelCall | tuple[str, tuple[int, int, int], str]]:
    """Record what a function launches.

    Args:
        target: `file.py:function`; device: name or path of the target; settings: what-ifs of it, `key=value`.

    Returns:
        Launches in the order of their calls; of one that is refused its name, its grid, and why.

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
    return [
        (told["name"], (told["grid"][0], told["grid"][1], told["grid"][2]), told["refused"])
        if "refused" in told
        else from_plain(told)
        for told in answer["calls"]
    ]
