"""`tilesight predict`: bytes and time of the kernels that a function of the user's launches."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..given import made
from ..kernels import L2, Partial, Repredict, Sweep, Target, Timing, compared, predicted, simulated, swept
from ..limit import TimeLimit
from ..options import Devices, Settings, device_notes, devices_given, one_device
from ..output import (
    BadInput,
    Failed,
    Output,
    deliver,
    one_line,
    say,
    show,
    text_color,
    text_width,
    trace_output,
)
from ..parse import flag, option

if TYPE_CHECKING:
    from ...simulator.prediction.kernels import KernelsPrediction


def predict(
    context: typer.Context,
    target: Target,
    device: Devices = None,
    set_: Settings = None,
    sweep: Sweep = None,
    l2: L2 = "pipeline",
    as_: Timing = "single",
    time_limit: TimeLimit = None,
    partial: Partial = False,
    save: Annotated[
        Path | None, option("--save", "Keep the answer, for a later --baseline and for `tilesight diff`.", "FILE.json")
    ] = None,
    baseline: Annotated[
        Path | None,
        option("--baseline", "A file of --save: the table gets columns `was` and `change`, JSON a difference.", "FILE"),
    ] = None,
    repredict: Repredict = False,
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
    devices = devices_given(device, set_)
    one_device(devices, trace=trace, save=save, baseline=baseline)
    if repredict and not baseline:
        raise BadInput("--repredict: changes nothing without --baseline; leave it out")
    if (save or baseline) and (trace or sweep or html):
        raise BadInput(f"--{'save' if save else 'baseline'}: not with --trace, --html or --sweep; run once for each")
    values = swept(sweep)
    if trace and sweep:
        raise BadInput(
            f"--trace {str(trace)!r}: shows one configuration, not those of --sweep; write the best into the code"
        )
    from ...diffing.report.text import baseline_columns, baseline_lines
    from ...simulator.display import render
    from ...simulator.display.files import written_by
    from ...simulator.report.kernels.text import compared_text, kernels_json, kernels_rows

    outcomes: dict[str, KernelsPrediction | str] = {}
    errors: list[Exception] = []
    timeline = difference = None
    kept, beside = "", []
    for name, gpu in devices.items():
        try:
            if trace:
                outcome = simulated(
                    *(target, name, gpu, set_),
                    l2=l2,
                    time_limit_s=time_limit,
                    command="predict",
                    record=True,
                    space=values,
                )
                prediction, timeline = outcome.prediction, outcome.timeline
            elif save or baseline:
                prediction, kept, difference = compared(
                    target,
                    name,
                    gpu,
                    set_,
                    l2=l2,
                    timing=as_,
                    time_limit_s=time_limit,
                    baseline=baseline,
                    repredict=repredict,
                )
            else:
                prediction = predicted(target, name, gpu, set_, l2=l2, time_limit_s=time_limit, space=values)
        except (BadInput, Failed) as error:
            if len(devices) == 1:
                raise
            errors.append(error)
            outcomes[name] = one_line(str(error))
            say(f"{name}: {error}")
            continue
        prediction = replace(prediction, notes=(*device_notes(name, gpu, set_), *prediction.notes)).measured_as(as_)
        outcomes[name] = prediction
        if not json:
            beside = baseline_columns(difference) if difference else []
            show(prediction.text(text_width(), text_color(), beside) + ("\n\n" if len(devices) > 1 else ""))
    if trace and not timeline:
        say(f"--trace: {trace} is not written: no launch is predicted")
    answer = kernels_json(outcomes)
    if difference and isinstance(answer, dict):
        answer = {**answer, "baseline": difference.to_dict()}
    below = "\n".join(baseline_lines(difference, text_width())) if difference else ""
    predictions = [outcome for outcome in outcomes.values() if not isinstance(outcome, str)]
    deliver(
        render.to_json(answer) if json else compared_text(predictions, text_width(), text_color()) or below,
        Output(option="--save", path=save if predictions else None, make=lambda: kept),
        Output(
            option="--html",
            path=html if predictions else None,
            make=lambda: written_by("kernels.html", "kernels_html")(predictions, target, made(context)),
        ),
        Output(
            option="--csv", path=csv if predictions else None, make=lambda: render.to_csv(kernels_rows(predictions))
        ),
        *([trace_output(trace, timeline)] if trace and timeline else []),
    )
    if errors and not predictions:
        raise errors[0]
    some = any(prediction.is_predicted for prediction in predictions)
    complete = not errors and all(prediction.complete for prediction in predictions)
    if not some or not (partial or complete):
        raise typer.Exit(1)
