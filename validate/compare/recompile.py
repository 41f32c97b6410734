"""Machine code for what was measured, so that predictions can look at it; results hold none.

In: rows of a results file; out: the same rows, their resources with code, where the compiler of this machine
makes of every launch what ran; or, where there is no such compiler, with what the library keeps of it.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from ...kernels.launch.availability import missing_package
from ...simulator.device.device import Device
from ...simulator.display.render import plural
from ...simulator.library.lookup import resources_of_all
from ..measure.results_file import Row


def with_code(
    rows: Sequence[Row], device: Device, triton: str, progress: Callable[[int, int], None] | None = None
) -> tuple[list[Row], str]:
    """Attach machine code.

    Args:
        triton: version that compiled what was measured.

    Returns:
        The rows in order, and a note on where predictions look at code and where they do not.
    """
    reason = _hindrance(triton)
    if reason:
        return with_figures(rows, device, reason)
    from ...kernels.compile.compile import compile_many
    from ...kernels.compile.outcomes import Compiled

    pipelines = [row.point.launches(device) if row.resources else () for row in rows]
    wanted = [launch for chain in pipelines for launch in chain]
    outcomes = iter(compile_many(wanted, device, code=True, progress=progress))
    with_resources, other = [], 0
    for row, chain in zip(rows, pipelines, strict=True):
        made = [next(outcomes) for _ in chain]
        resources = tuple(outcome.resources for outcome in made if isinstance(outcome, Compiled))
        other += resources != row.resources
        with_resources.append(replace(row, resources=resources) if resources == row.resources else row)
    note = "cycles come from machine code"
    return with_resources, note + (
        f"; the compiler here builds another kernel for {plural(other, 'point')}" if other else ""
    )


def with_figures(rows: Sequence[Row], device: Device, reason: str) -> tuple[list[Row], str]:
    """Attach what the library keeps of the code, to resources that stay as they were measured."""
    attached, estimated = [], 0
    for row in rows:
        kept = resources_of_all(row.point.launches(device), device) if row.resources else None
        if isinstance(kept, tuple):
            pairs = zip(row.resources, kept, strict=True)
            row = replace(row, resources=tuple(replace(taken, figures=other.figures) for taken, other in pairs))
        else:
            estimated += bool(row.resources)
        attached.append(row)
    # What to install is of this machine: a page that is read elsewhere does without it.
    note = f"cycles come from the library of compiled kernels ({reason.partition(' (no GPU is needed)')[0]})"
    return attached, note + (
        f"; those of {plural(estimated, 'point')} are estimated from tile sizes" if estimated else ""
    )


def _hindrance(triton: str) -> str:
    """Why code cannot be compiled here as it was there, in one line; empty where it can."""
    missing = missing_package()
    if missing:
        return missing
    from triton import __version__

    return "" if __version__ == triton else f"Triton {triton} compiled what ran, and {__version__} is here"
