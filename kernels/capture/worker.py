"""The process that runs a user's file: records what a function launches, and tells it in plain values.

Run as `python -m tilesight.kernels.capture.worker`; `file` starts and feeds it. Messages are lines of JSON; what the
user's code prints goes to stderr.
"""

import sys
import traceback
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from ...simulator.device.device import load_device, override
from ...simulator.jobs.processes import serve
from ..compile.call import to_plain
from .lowering import lower_or_refuse
from .recording import capture, needs_arguments


class Unusable(Exception):
    """A file or function that cannot be called; the text is one line."""


def answer(job: dict[str, Any]) -> dict[str, Any]:
    """Record the launches of a function.

    Args:
        job: file, function, device, settings (what-ifs of the device, `key=value`).

    Returns:
        calls: launches as `call.to_plain` has them; or `unusable`: what is wrong with what was asked for, or `raised`:
        what the user's code raised; one line each.
    """
    device = override(load_device(job["device"]), list(job["settings"]))
    capability = int(device.compute_capability.replace(".", ""))
    path = Path(job["file"]).resolve()
    try:
        with capture(device) as launches:
            function = _function(_module(path), job["function"], path.name)
            function()
    except Unusable as error:
        return {"unusable": str(error)}
    except (Exception, SystemExit) as error:
        return {"raised": _told(error, path)}
    if not launches:
        return {"unusable": f"{path.name}: {job['function']}() launches no Triton kernel"}
    return {"calls": [to_plain(lower_or_refuse(launch, capability)) for launch in launches]}


def _module(path: Path) -> ModuleType:
    spec = spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise Unusable(f"{path.name}: is no Python file")
    module = module_from_spec(spec)
    sys.path.insert(0, str(path.parent))
    sys.modules[path.stem] = module
    sys.argv = [str(path)]
    spec.loader.exec_module(module)
    return module


def _function(module: ModuleType, name: str, file: str) -> Any:
    function = getattr(module, name, None)
    if function is None:
        raise Unusable(f"{file}: has no function {name}")
    if not callable(function):
        raise Unusable(f"{file}: {name} is no function")
    if needed := needs_arguments(function):
        raise Unusable(f"{file}: {name} needs arguments ({needed}): name a function that takes none")
    return function


def _told(error: BaseException, path: Path) -> str:
    """What was raised, and by which line of the user's file."""
    if isinstance(error, SyntaxError):
        return f"SyntaxError: {error.msg} ({path.name}:{error.lineno})"
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename) == path]
    text = " ".join(str(error).split())
    where = f" ({path.name}:{lines[-1]})" if lines else ""
    return f"{type(error).__name__}: {text}{where}" if text else f"{type(error).__name__}{where}"


if __name__ == "__main__":
    serve(answer)
