"""The process that runs a user's file: records what a function launches, and tells it in plain values.

Run as `python -m tilesight.kernels.capture.worker`; `file` starts and feeds it. Messages are lines of JSON; what the
user's code prints goes to stderr.
"""

import sys
from contextlib import redirect_stderr
from typing import Any, TextIO

from ...simulator.device.device import load_device, override
from ...simulator.jobs.processes import serve
from ...simulator.prediction.torch_operation import torch_text
from ..compile.call import ValueTexts, to_plain
from .lowering import lower_or_refuse
from .recorded import Recording
from .recording import capture
from .user_function import Unusable, located, raised_by, user_function


def answer(job: dict[str, Any]) -> dict[str, Any]:
    """Record the launches of a function.

    Args:
        job: file, function, device, settings (what-ifs of the device, `key=value`).

    Returns:
        calls: launches as `call.to_plain` has them, with `values` that they share, notes, torch_operations, and
        `ended`: what the code raised after its last launch; or `unusable`: what is wrong with what was asked for, or
        `raised`: what the user's code raised; one line each.
    """
    device = override(load_device(job["device"]), list(job["settings"]))
    capability = int(device.compute_capability.replace(".", ""))
    launches, heard = Recording(), _LastLine(sys.stderr)
    try:
        path = located(job["file"])
        with redirect_stderr(heard):
            try:
                with capture(device) as launches:
                    user_function(path, job["function"])()
            except (Exception, SystemExit) as error:
                if isinstance(error, Unusable) or not launches:
                    raise
                launches.ended = raised_by(error, path, heard.last)
    except Unusable as error:
        return {"unusable": str(error)}
    except (Exception, SystemExit) as error:
        return {"raised": "; ".join([raised_by(error, path, heard.last), *launches.notes])}
    if not launches:
        return {"unusable": f"{path.name}: {job['function']}() launches no Triton kernel{_instead(launches)}"}
    values: ValueTexts = {}
    return {
        "calls": [to_plain(lower_or_refuse(launch, capability), values) for launch in launches],
        "values": values,
        "notes": list(launches.notes),
        "torch_operations": [operation.to_dict() for operation in launches.operations],
        "ended": launches.ended,
    }


def _instead(launches: Recording) -> str:
    """What a function did that launches nothing."""
    ran = (
        f"; {torch_text(launches.operations)} ran, but only Triton kernels are predicted" if launches.operations else ""
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
