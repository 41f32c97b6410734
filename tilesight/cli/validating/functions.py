"""`tilesight validate FILE.py:FUNCTION`: the launches of a user's function on this GPU, predicted beside measured."""

from dataclasses import replace
from typing import TYPE_CHECKING

import typer

from ..gpu import MeasureOptions, Named, device_named, need_gpu
from ..kernels import Function, users_code
from ..limit import LimitOptions
from ..options import device_notes
from ..output import Asked, BadInput, answer, say, text_color, text_width, write_file
from ..parse import read_option

if TYPE_CHECKING:
    from ...simulator.predict_kernels import SimulatedKernels
    from ...validate.functions.measured import MeasuredFunction


def validate_function(target: str, l2: str, how: MeasureOptions, limit: LimitOptions, asked: Asked) -> None:
    """Predict, measure and compare. Raises: typer.Exit: nothing could be compared."""
    from ...validate.functions.measured import read_measured

    kept = read_option("--read", how.read, read_measured, named=True) if how.read else None
    if not kept:
        need_gpu()
    named = device_named(how.device or (kept.device if kept else None), how.set_)
    l2 = kept.l2 if kept else l2
    function = Function(target, named.name, named.device, how.set_, limit, l2=l2, command="validate")
    outcome = function.simulated()
    measured = kept or _measured(function, outcome, named, how)
    if how.results:
        from ...simulator.display import render

        write_file(how.results, render.to_json(measured.to_dict()))
    from ...validate.functions.compare import compare_function
    from ...validate.report.functions import function_dict, function_text

    notes = (*device_notes(named.name, named.device, how.set_), *outcome.prediction.notes)
    try:
        comparison = compare_function(replace(outcome.prediction, notes=notes), measured)
    except ValueError as error:
        raise BadInput(f"--read {str(how.read)!r}: {error}" if how.read else str(error)) from None
    answer(asked, lambda: function_text(comparison, text_width(), text_color()), lambda: function_dict(comparison))
    if not comparison.launches:
        raise typer.Exit(1)


def _measured(function: Function, outcome: "SimulatedKernels", named: Named, how: MeasureOptions) -> "MeasuredFunction":
    from ...validate.functions.measured import job_of, measure_function
    from ...validate.measure.gpus import visible_gpus

    rows = zip(outcome.numbers, outcome.prediction.rows, strict=True)
    numbers = [number for number, row in rows if row.prediction]
    say(f"measuring {len(numbers)} launches, each by itself ...")
    with users_code():
        return measure_function(
            function.target,
            job_of(function.target, outcome.asked, numbers, function.l2),
            gpu=visible_gpus()[0],
            device=named.device,
            name=named.name,
            counted=not how.no_counters,
            time_limit_s=function.limit.code_s,
        )
