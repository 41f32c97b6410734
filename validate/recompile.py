"""Machine code for what was measured: compiled again, so that predictions can look at it; results hold none.

In: rows of a results file; out: the same rows, their resources with code, where the compiler of this machine
makes of every launch what ran. Needs torch and triton, no GPU.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from ..kernels.availability import missing_package
from ..simulator.device import Device
from .results import Row


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
        return list(rows), f"costs are estimated from tile programs: {reason}"
    from ..kernels.compile import Compiled, compile_many

    pipelines = [row.point.launches(device) if row.resources else () for row in rows]
    wanted = [(launch, row.point.problem) for row, chain in zip(rows, pipelines, strict=True) for launch in chain]
    outcomes = iter(compile_many(wanted, device, code=True, progress=progress))
    found, other = [], 0
    for row, chain in zip(rows, pipelines, strict=True):
        made = [next(outcomes) for _ in chain]
        resources = tuple(each.resources for each in made if isinstance(each, Compiled))
        same = resources == row.resources
        other += not same
        found.append(replace(row, resources=resources) if same else row)
    note = "costs come from compiled code"
    return found, note + (f"; the compiler makes something else of {other} points here" if other else "")


def _hindrance(triton: str) -> str:
    """Why code cannot be compiled here as it was there, in one line; empty where it can."""
    missing = missing_package()
    if missing:
        return missing
    from triton import __version__

    return "" if __version__ == triton else f"Triton {triton} compiled what ran, and {__version__} is here"
