"""The process that runs a user's file: records what a function launches, and tells it in plain values.

Run as `python -m tilesight.kernels.capture.worker`; `file` starts and feeds it. Messages are lines of JSON; what the
user's code prints goes to stderr.
"""

import random
import sys
from contextlib import redirect_stderr, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, TextIO

import torch

from ...simulator.device.device import load_device
from ...simulator.device.what_if import override
from ...simulator.jobs.processes import serve
from ...simulator.prediction.torch_operation import torch_text
from ...simulator.refusal import UserError
from ..compile.call import ValueTexts, to_plain
from ..configurations.space import space_of
from ..kept.opened import FileAccessLog
from .lowering import lower_all
from .recorded import Recording
from .recording import capture
from .user_function import lacks_grid, located, raised_by, shown_arguments, user_function


def answer(job: dict[str, Any]) -> dict[str, Any]:
    """As `_answer`; `witnesses`: files that it is made of; None: not known. Args: job: with `asked_ns`, now [ns]."""
    opened = FileAccessLog(job["asked_ns"], ())
    _seed()
    made, witnesses = _answer(job), opened.witnesses()
    return made | {"witnesses": None if witnesses is None else [asdict(witness) for witness in witnesses]}


def _seed() -> None:
    """Let what the user's code draws be the same each time; an environment with torch may lack numpy."""
    random.seed(0)
    torch.manual_seed(0)
    with suppress(ImportError):
        import numpy as np

        np.random.seed(0)


def _answer(job: dict[str, Any]) -> dict[str, Any]:
    """Record the launches of a function, called once for each set of arguments.

    Args:
        job: file, function, arguments (of each call, by name), device, settings (what-ifs of it, `key=value`),
            space (values to try, as `space.space_of` takes them), triton_cache (as `capture`), folders (that modules
            are looked for in first).

    Returns:
        recorded: of each call of the function its launches as `call.to_plain` has them, notes, torch_operations,
        `tuned`, and `ended`: what the code raised after its last launch; beside them `values` that they share. Or
        `unusable`: what is wrong with what was asked for, or `raised`: what the user's code raised; one line each.
    """
    device = override(load_device(job["device"]), list(job["settings"]))
    path, heard = Path(job["file"]), _LastLine(sys.stderr)
    sys.path[:0] = job["folders"]
    values: ValueTexts = {}
    recorded: list[dict[str, Any]] = []
    notes: list[str] = []
    kernels: dict[str, tuple[str, ...]] = {}
    try:
        path = located(job["file"])
        with redirect_stderr(heard):
            for arguments in job["arguments"]:
                launches = Recording()
                try:
                    with capture(device, space_of(job["space"]), bool(job["triton_cache"])) as launches:
                        function = _loaded(path, job["function"], arguments, launches)
                        function(**arguments)
                except (Exception, SystemExit) as error:
                    notes = list(launches.notes)
                    if isinstance(error, UserError) or not launches:
                        raise
                    launches.ended = raised_by(error, path, heard.last)
                if not launches:
                    raise UserError(
                        f"{path.name}: {job['function']}({shown_arguments(arguments)}) launches no Triton kernel"
                        f"{_instead(launches)}"
                    )
                kernels |= launches.kernels
                recorded.append(_plain(launches, device.capability, values))
    except UserError as error:
        return {"unusable": str(error)}
    except (Exception, SystemExit) as error:
        return {"unusable" if lacks_grid(error) else "raised": "; ".join([raised_by(error, path, heard.last), *notes])}
    if unread := space_of(job["space"]).unread(kernels):
        return {"unusable": unread}
    return {"recorded": recorded, "values": values}


def _loaded(path: Path, name: str, arguments: dict[str, Any], launches: Recording) -> Any:
    """The function, with all front ends caught that its file imports."""
    assert launches.front_ends
    launches.front_ends.begin(path.read_text(encoding="utf-8", errors="replace"))
    function = user_function(path, name, arguments)
    launches.front_ends.begin()
    return function


def _plain(launches: Recording, capability: int, values: ValueTexts) -> dict[str, Any]:
    """What one call of a function launches."""
    return {
        "calls": [to_plain(call, values) for call in lower_all(launches, capability, launches.numbers)],
        "notes": list(launches.notes),
        "torch_operations": [operation.to_dict() for operation in launches.operations],
        "tuned": [asdict(tuned) for tuned in launches.tuned],
        "ended": launches.ended,
    }


def _instead(launches: Recording) -> str:
    """What a function did that launches nothing."""
    ran = (
        f"; {torch_text(launches.operations)} ran: `tilesight profile` predicts these, too"
        if launches.operations
        else ""
    )
    return "; ".join([ran, *launches.notes])


class _LastLine:
    """A stream that passes all on, and keeps the last line that says something."""

    def __init__(self, stream: TextIO) -> None:
        self.last = ""
        self._stream = stream

    def write(self, text: str) -> int:
        """As of a stream."""
        if lines := [line.strip() for line in text.splitlines() if line.strip()]:
            self.last = lines[-1]
        return self._stream.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


if __name__ == "__main__":
    serve(answer)
