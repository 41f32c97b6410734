"""`tilesight predict`: bytes and time of the kernels that a function of the user's launches."""

import gzip
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..given import made
from ..kernels import L2, Partial, Target, simulated
from ..limit import TimeLimit
from ..options import Devices, Settings, devices_given, one_device, set_notes
from ..output import BadInput, Failed, check_outputs, one_line, say, show, text_color, text_width, write_file
from ..parse import flag, option

if TYPE_CHECKING:
    from ...simulator.prediction.kernels import KernelsPrediction


def predict(
    context: typer.Context,
    target: Target,
    device: Devices = None,
    set_: Settings = None,
    l2: L2 = "pipeline",
    time_limit: TimeLimit = None,
    partial: Partial = False,
    json: Annotated[bool, flag("--json", "Print JSON; of several devices a list.")] = False,
    csv: Annotated[Path | None, option("--csv", "Write all launches as CSV.", "FILE")] = None,
    html: Annotated[Path | None, option("--html", "Write a report for the browser; it opens offline.", "FILE")] = None,
    trace: Annotated[
        Path | None,
        option(
            "--trace",
            "Write a timeline of CTAs on SMs for https://ui.perfetto.dev; compressed if FILE ends in .gz.",
            "FILE",
        ),
    ] = None,
) -> None:
    """Predict every kernel that a function launches: time, what binds it, and bytes at every level of memory.

    The function runs in a process of its own and its launches are recorded, not run: tensors with device="meta" or
    "cuda" need no data; values that decide addresses are read from tensors on the CPU. Repeat --device to compare.
    """
    check_outputs(csv=csv, html=html, trace=trace)
    devices = devices_given(device, set_)
    one_device(devices, trace=trace)
    from ...simulator.display import render
    from ...simulator.report.kernels.text import compared_text, kernels_json, kernels_rows

    outcomes: dict[str, KernelsPrediction | str] = {}
    errors: list[Exception] = []
    for name, gpu in devices.items():
        try:
            outcome = simulated(
                target, name, gpu, set_, l2=l2, time_limit_s=time_limit, command="predict", record=trace is not None
            )
        except (BadInput, Failed) as error:
            if len(devices) == 1:
                raise
            errors.append(error)
            outcomes[name] = one_line(str(error))
            say(f"{name}: {error}")
            continue
        prediction = outcome.prediction
        prediction = outcomes[name] = replace(prediction, notes=(*set_notes(set_), *prediction.notes))
        if not json:
            show(prediction.text(text_width(), text_color()) + ("\n\n" if len(devices) > 1 else ""))
        if trace and outcome.timeline:
            from ...simulator.report.perfetto import trace_of

            text = trace_of(outcome.timeline).text.encode()
            packed = gzip.compress(text, mtime=0) if trace.suffix == ".gz" else text
            write_file(trace, packed, "open it at https://ui.perfetto.dev")
        elif trace:
            say(f"--trace: {trace} is not written: no launch is predicted")
    predictions = [outcome for outcome in outcomes.values() if not isinstance(outcome, str)]
    if json:
        show(render.to_json(kernels_json(outcomes)))
    elif compared := compared_text(predictions, text_width(), text_color()):
        show(compared)
    if html and predictions:
        from ...simulator.report.kernels.html import kernels_html

        write_file(html, kernels_html(predictions, target, made(context)))
    if csv and predictions:
        write_file(csv, render.to_csv(kernels_rows(predictions)))
    if errors and not predictions:
        raise errors[0]
    predicted = any(prediction.is_predicted for prediction in predictions)
    complete = not errors and all(prediction.complete for prediction in predictions)
    if not predicted or not (partial or complete):
        raise typer.Exit(1)
