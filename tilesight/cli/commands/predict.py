"""`tilesight predict`: bytes and time of the kernels that a function of the user's launches."""

from typing import Annotated

import typer

from ...simulator.device.device import catalogue
from ..options import DEFAULT_DEVICE, DEVICE_DOC, device_given
from ..output import BadInput, Failed, announce_compiler, bad_input, show, text_color, text_width
from ..parse import flag, one_of, option


def predict(
    target: Annotated[
        str,
        typer.Argument(
            help="Function without arguments that launches Triton kernels, on tensors without data.",
            metavar="FILE.py:FUNCTION",
        ),
    ],
    device: Annotated[str, option("--device", DEVICE_DOC, "NAME|FILE", words=catalogue)] = DEFAULT_DEVICE,
    set_: Annotated[
        list[str] | None,
        option("--set", "What if: change a number of the device, e.g. l2_bytes=30MiB; repeatable.", "KEY=VALUE"),
    ] = None,
    l2: Annotated[
        str,
        option(
            "--l2",
            "Caches before each launch: as those before left them, empty, or as itself left them.",
            "pipeline|cold|warm",
            one_of("pipeline", "cold", "warm"),
        ),
    ] = "pipeline",
    json: Annotated[bool, flag("--json", "Print JSON.")] = False,
    csv: Annotated[bool, flag("--csv", "Print CSV, a line for each launch.")] = False,
) -> None:
    """Predict every kernel that a function launches: time, what binds it, and bytes at every level of memory."""
    if json and csv:
        raise BadInput("--json and --csv: give one")
    name, gpu = device_given(device, set_)
    from ...compiling import why_not

    if reason := why_not():
        raise BadInput(f"predict: {reason}")
    from ...kernels.capture.file import CannotCapture, UserCodeFailed, capture_function
    from ...predicting import predict_calls
    from ...simulator.display import render
    from ...simulator.prediction.kernels import KernelRow

    try:
        found = capture_function(target, device, set_ or ())
    except CannotCapture as error:
        raise BadInput(str(error)) from None
    except UserCodeFailed as error:
        raise Failed(str(error)) from None
    calls = [
        KernelRow(name=one[0], grid=one[1], num_warps=0, num_stages=0, refused=one[2])
        if isinstance(one, tuple)
        else one
        for one in found
    ]
    announce_compiler()
    with bad_input():
        predicted = predict_calls(calls, gpu, name, l2=l2)
    if json:
        show(render.to_json(predicted.to_dict()))
    elif csv:
        show(render.to_csv(predicted.flat_rows()))
    else:
        show(predicted.text(text_width(), text_color()))
    if not predicted.is_predicted:
        raise typer.Exit(1)
