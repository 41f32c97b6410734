"""What commands that take FILE.py:FUNCTION share: the function's launches, recorded and simulated for a device."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from ..simulator.device.device import Device
from .limit import USERS_CODE_S, limit_of, stages
from .output import BadInput, Failed, announce_compiler, bad_input
from .parse import flag, one_of, option

if TYPE_CHECKING:
    from ..simulator.predict_kernels import SimulatedKernels

TARGET = typer.Argument(
    help="Function without arguments that launches Triton kernels, on tensors without data; or MODULE:FUNCTION.",
    metavar="FILE.py:FUNCTION",
)
Target = Annotated[str, TARGET]
L2 = Annotated[
    str,
    option(
        "--l2",
        "Caches before each launch: as those before left them, empty, or as itself left them.",
        "pipeline|cold|warm",
        one_of("pipeline", "cold", "warm"),
    ),
]
Partial = Annotated[
    bool, flag("--partial", "Exit with 0 though some launches are refused, or the function ended in an error.")
]


def simulated(
    target: str,
    name: str,
    device: Device,
    settings: Sequence[str] | None,
    *,
    l2: str,
    time_limit_s: float | None,
    command: str,
    record: bool = False,
) -> "SimulatedKernels":
    """Record what a function launches, and simulate it.

    Args:
        name, device: of the target; settings: what-ifs that made it; command: that asks, for messages.
        time_limit_s: as `--time-limit`, None: the defaults [s].

    Raises:
        BadInput: there is no such function, it launches nothing, or nothing can be compiled here.
        Failed: the user's code raised, died or did not end.
    """
    from ..compiling import why_not

    if reason := why_not():
        raise BadInput(f"{command}: {reason}")
    limit_s = limit_of(time_limit_s)
    from ..kernels.capture.file import CannotCapture, UserCodeFailed, capture_function
    from ..predicting import simulate_calls, with_recording

    with stages() as tell:
        tell(f"{target}: function")
        try:
            recorded = capture_function(target, name, settings or (), time_limit_s or USERS_CODE_S)
        except CannotCapture as error:
            raise BadInput(str(error)) from None
        except UserCodeFailed as error:
            raise Failed(str(error)) from None
        announce_compiler()
        with bad_input():
            outcome = simulate_calls(
                recorded.calls,
                device,
                name,
                l2=l2,
                record=record,
                compile_limit_s=time_limit_s or USERS_CODE_S,
                limit_s=limit_s,
                tell=lambda stage: tell(stage.text),
            )
            return with_recording(outcome, recorded)
