"""A user's function on the GPU of this process: its launches measured one by one, or run under ncu; jobs of `worker`.

A job has: file, function, l2 (`cold` or `warm`), names (of all launches that were recorded), numbers (of those that are
to be measured); under ncu also copy_bytes: of a copy that is counted first, to see whether counters can be trusted.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...simulator.refusal import UserError
from ..measure.process import track_and_tare

if TYPE_CHECKING:
    from ...kernels.capture.replay import Replay


def measure(job: Mapping[str, Any]) -> dict[str, Any]:
    """Measure the launches of a job.

    Returns:
        launches: of each a `launch` and a `timing` as JSON has them; or `unusable` or `raised`, as
        `kernels.capture.worker` has them.
    """
    from ...kernels.capture.user_function import raised_by

    try:
        return {"launches": [_measured(replay, job["l2"]) for replay in chosen(job)]}
    except UserError as error:
        return {"unusable": str(error)}
    except (Exception, SystemExit) as error:
        return {"raised": raised_by(error, Path(job["file"]).resolve())}


def chosen(job: Mapping[str, Any]) -> "list[Replay]":
    """Run the function. Returns: its launches that are wanted. Raises: UserError: it launches something else here."""
    from ...kernels.capture.replay import replays
    from ...kernels.capture.user_function import located, user_function

    path = located(job["file"])
    with replays() as made:
        try:
            user_function(path, job["function"])()
        except Exception:
            if [replay.name for replay in made] != list(job["names"]):
                raise  # else what was recorded has run: the rest is not what is measured
    names = [replay.name for replay in made]
    if names != list(job["names"]):
        raise UserError(
            f"{path.name}: {job['function']}() launches {', '.join(names) or 'nothing'} on the GPU,"
            f" and {', '.join(job['names'])} when it is recorded"
        )
    return [made[number] for number in job["numbers"]]


def _measured(replay: "Replay", l2: Any) -> dict[str, Any]:
    from ..measure.output_checks import ran
    from ..timing.timing import time_run

    track, tare = track_and_tare()
    launch = ran(replay.name, replay.grid, replay.launch())
    timing = time_run(track, replay.launch, l2=l2, tare=tare)
    return {"launch": launch.to_dict(), "timing": timing.to_dict()}


def run_under_ncu(job: Mapping[str, Any]) -> None:
    """Make the copy and each launch once between the profiler's marks, with L2 as ncu or itself left it."""
    import torch

    from ..counters.self_check import copy
    from ..timing.profiler import between_marks

    copy(job["copy_bytes"])
    torch.cuda.empty_cache()
    for replay in chosen(job):
        between_marks(replay.launch)
