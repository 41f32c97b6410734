"""The process that runs a user's file: records what a function launches, and tells it in plain values.

Run as `python -m tilesight.kernels.capture.worker`; `file` starts and feeds it. Messages are lines of JSON; what the
user's code prints goes to stderr.
"""

from pathlib import Path
from typing import Any

from ...simulator.device.device import load_device, override
from ...simulator.jobs.processes import serve
from ..compile.call import to_plain
from .lowering import lower_or_refuse
from .recording import capture
from .user_function import Unusable, raised_by, user_function


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
            user_function(path, job["function"])()
    except Unusable as error:
        return {"unusable": str(error)}
    except (Exception, SystemExit) as error:
        return {"raised": raised_by(error, path)}
    if not launches:
        return {"unusable": f"{path.name}: {job['function']}() launches no Triton kernel"}
    return {"calls": [to_plain(lower_or_refuse(launch, capability)) for launch in launches]}


if __name__ == "__main__":
    serve(answer)
