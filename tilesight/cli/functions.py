"""`tilesight validate FILE.py:FUNCTION`: the launches of a user's function on this GPU, predicted beside measured."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from .bench import Wanted, tell
from .gpu import Named, device_named, need_gpu
from .kernels import simulated, users_code
from .limit import USERS_CODE_S
from .options import device_notes
from .output import BadInput, say, text_color, text_width, write_file

if TYPE_CHECKING:
    from ..simulator.predict_kernels import SimulatedKernels
    from ..validate.functions.measured import MeasuredFunction


@dataclass(frozen=True, slots=True, kw_only=True)
class Measuring:
    """How it is measured.

    Args:
        time_limit_s: as `--time-limit`, None: the defaults [s]; counted: whether ncu is asked.
        results: file for what was measured; read: file to take it from, in place of a GPU.
    """

    time_limit_s: float | None
    counted: bool
    results: Path | None
    read: Path | None


def validate_function(
    target: str, device: str | None, settings: Sequence[str] | None, l2: str, how: Measuring, wanted: Wanted
) -> None:
    """Predict, measure and compare. Raises: typer.Exit: nothing could be compared."""
    kept = _kept(how.read) if how.read else None
    if not kept:
        need_gpu()
    named = device_named(device or (kept.device if kept else None), settings)
    l2 = kept.l2 if kept else l2
    outcome = simulated(
        target, named.name, named.device, settings, l2=l2, time_limit_s=how.time_limit_s, command="validate"
    )
    measured = kept or _measured(target, outcome, named, l2, how)
    if how.results:
        from ..simulator.display import render

        write_file(how.results, render.to_json(measured.to_dict()))
    from ..validate.functions.compare import compare_function
    from ..validate.report.functions import function_dict, function_text

    notes = (*device_notes(named.name, named.device, settings), *outcome.prediction.notes)
    try:
        comparison = compare_function(replace(outcome.prediction, notes=notes), measured)
    except ValueError as error:
        raise BadInput(f"--read {str(how.read)!r}: {error}" if how.read else str(error)) from None
    tell(function_dict(comparison), wanted, lambda: function_text(comparison, text_width(), text_color()))
    if not comparison.launches:
        raise typer.Exit(1)


def _kept(path: Path) -> "MeasuredFunction":
    from ..validate.functions.measured import read_measured

    try:
        return read_measured(path)
    except OSError as error:
        raise BadInput(f"--read {str(path)!r}: cannot be read ({error.strerror})") from None
    except ValueError as error:
        raise BadInput(f"--read {error}") from None


def _measured(target: str, outcome: "SimulatedKernels", named: Named, l2: str, how: Measuring) -> "MeasuredFunction":
    from ..validate.functions.measured import job_of, measure_function
    from ..validate.measure.gpus import visible_gpus

    rows = zip(outcome.numbers, outcome.prediction.rows, strict=True)
    numbers = [number for number, row in rows if row.prediction]
    say(f"measuring {len(numbers)} launches, each by itself ...")
    with users_code():
        return measure_function(
            target,
            job_of(target, outcome.asked, numbers, l2),
            gpu=visible_gpus()[0],
            device=named.device,
            name=named.name,
            counted=how.counted,
            time_limit_s=how.time_limit_s or USERS_CODE_S,
        )
