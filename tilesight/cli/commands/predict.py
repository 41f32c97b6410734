"""`tilesight predict`: bytes and time of the kernels that a function of the user's launches."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from ..given import made
from ..kernels import L2, TIME_LIMIT_S, Target, TimeLimit, simulated
from ..options import Devices, Settings, devices_given, one_device, set_notes
from ..output import Output, check_outputs, deliver, say, text_color, text_width, trace_output
from ..parse import flag, option


def predict(
    context: typer.Context,
    target: Target,
    device: Devices = None,
    set_: Settings = None,
    l2: L2 = "pipeline",
    time_limit: TimeLimit = TIME_LIMIT_S,
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
    predictions = []
    for name, gpu in devices.items():
        outcome = simulated(
            target, name, gpu, set_, l2=l2, time_limit_s=time_limit, command="predict", record=trace is not None
        )
        prediction = outcome.prediction
        predictions.append(replace(prediction, notes=(*set_notes(set_), *prediction.notes)))
        timeline = outcome.timeline
    if trace and not timeline:
        say(f"--trace: {trace} is not written: no launch is predicted")
    from ...simulator.display import render
    from ...simulator.report.kernels.html import kernels_html
    from ...simulator.report.kernels.text import kernels_json, kernels_rows, kernels_text

    deliver(
        render.to_json(kernels_json(predictions)) if json else kernels_text(predictions, text_width(), text_color()),
        Output(option="--html", path=html, make=lambda: kernels_html(predictions, target, made(context))),
        Output(option="--csv", path=csv, make=lambda: render.to_csv(kernels_rows(predictions))),
        *([trace_output(trace, timeline)] if trace and timeline else []),
    )
    if not any(prediction.is_predicted for prediction in predictions):
        raise typer.Exit(1)
