"""What commands that take FILE.py:FUNCTION share: the function's launches, recorded and simulated for a device."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from ..simulator.device.device import Device
from .limit import USERS_CODE_S, limit_of, stages
from .output import BadInput, Failed, announce_compiler, bad_input
from .parse import flag, one_of, option

if TYPE_CHECKING:
    from ..diffing.difference import Difference
    from ..kernels.capture.file import RecordedFunction
    from ..kernels.configurations.space import Space
    from ..simulator.jobs.stopping import Stage
    from ..simulator.predict_kernels import SimulatedKernels
    from ..simulator.prediction.kernels import KernelsPrediction

Answer = TypeVar("Answer")

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
Timing = Annotated[
    str,
    option(
        "--as",
        "How time is measured: a single run, triton.testing.do_bench, or repeated without a pause.",
        "single|do_bench|sustained",
        one_of("single", "do_bench", "sustained"),
    ),
]
Partial = Annotated[
    bool, flag("--partial", "Exit with 0 though some launches are refused, or the function ended in an error.")
]

Repredict = Annotated[
    bool, flag("--repredict", "Predict launches of a saved file anew, as after another version of this program.")
]


Sweep = Annotated[
    list[str] | None,
    option(
        "--sweep",
        "Values of a parameter to try beside the code's own, e.g. num_warps=4,8 or KERNEL.BLOCK=64,128; repeatable.",
        "NAME=LIST",
    ),
]


def swept(texts: Sequence[str] | None) -> "Space":
    """The values of `--sweep`. Raises: BadInput: they are none."""
    from ..kernels.configurations.space import Space, sweep

    try:
        return sweep(texts) if texts else Space()
    except ValueError as error:
        raise BadInput(f"--sweep {error}") from None


@contextmanager
def users_code() -> Iterator[None]:
    """Errors of the user's function as those of the command line."""
    from ..kernels.capture.file import CannotCapture, UserCodeFailed

    try:
        yield
    except CannotCapture as error:
        raise BadInput(str(error)) from None
    except UserCodeFailed as error:
        raise Failed(str(error)) from None


def predicted(
    target: str,
    name: str,
    device: Device,
    settings: Sequence[str] | None,
    *,
    l2: str,
    time_limit_s: float | None,
    space: "Space",
) -> "KernelsPrediction":
    """Record what a function launches, and predict it, or find it predicted already. Args, raises: as `simulated`."""
    from ..predicting import predict_calls, with_recording

    def answer(recorded: "RecordedFunction", how: dict[str, Any]) -> "KernelsPrediction":
        return with_recording(predict_calls(recorded.calls, device, name, l2=l2, **how), recorded)

    return _answered(target, name, settings, time_limit_s, "predict", space, answer)


def compared(
    target: str,
    name: str,
    device: Device,
    settings: Sequence[str] | None,
    *,
    l2: str,
    timing: str,
    time_limit_s: float | None,
    baseline: Path | None,
    repredict: bool,
) -> "tuple[KernelsPrediction, str, Difference | None]":
    """Record what a function launches, and predict it beside a file that an earlier prediction was saved in.

    Args:
        baseline: that file, None: there is none; repredict: whether its launches are predicted anew; others as
            `simulated`.

    Returns:
        The prediction, the text of a file that keeps it, and what differs from the baseline.

    Raises:
        BadInput: the baseline cannot be used; others as `simulated`.
    """
    from ..diffing.difference import Difference
    from ..diffing.saved import saved_text, side_of
    from ..diffing.sides import Question, compiled_side
    from ..diffing.sides import predicted as side_predicted
    from ..simulator.jobs.stopping import LIMIT_S

    question = Question(
        device=device,
        name=name,
        settings=tuple(settings or ()),
        l2=l2,
        timing=timing,
        compile_limit_s=time_limit_s or USERS_CODE_S,
        limit_s=time_limit_s or LIMIT_S,
    )
    with bad_input():
        old = side_of(baseline, question, repredict) if baseline else None

    def answer(recorded: "RecordedFunction", how: dict[str, Any]) -> "tuple[KernelsPrediction, str, Difference | None]":
        asked = replace(question, tell=how["tell"])
        side, prediction = side_predicted(compiled_side(target, recorded, asked), asked, shown=True)
        return prediction, saved_text(side, recorded), Difference(old, side) if old else None

    return _answered(target, name, settings, time_limit_s, "predict", None, answer)


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
    space: "Space | None" = None,
) -> "SimulatedKernels":
    """Record what a function launches, and simulate it.

    Args:
        name, device: of the target; settings: what-ifs that made it; command: that asks, for messages.
        time_limit_s: as `--time-limit`, None: the defaults [s]; space: values of `--sweep`.

    Raises:
        BadInput: there is no such function, it launches nothing, or nothing can be compiled here.
        Failed: the user's code raised, died or did not end.
    """
    from ..predicting import simulate_calls, with_recording

    def answer(recorded: "RecordedFunction", how: dict[str, Any]) -> "SimulatedKernels":
        outcome = simulate_calls(recorded.calls, device, name, l2=l2, record=record, advice=command == "predict", **how)
        return replace(outcome, prediction=with_recording(outcome.prediction, recorded))

    return _answered(target, name, settings, time_limit_s, command, space, answer)


def _answered(
    target: str,
    name: str,
    settings: Sequence[str] | None,
    time_limit_s: float | None,
    command: str,
    space: "Space | None",
    answer: "Callable[[RecordedFunction, dict[str, Any]], Answer]",
) -> Answer:
    """What a function launches, recorded and answered, with what is under way told meanwhile."""
    from ..compiling import why_not

    if reason := why_not():
        raise BadInput(f"{command}: {reason}")
    limit_s = limit_of(time_limit_s)
    from ..kernels.capture.file import Asked, capture_calls
    from ..kernels.configurations.space import Space

    asked = Asked(device=name, settings=settings or (), space=space or Space(), timeout_s=time_limit_s or USERS_CODE_S)
    with stages() as tell:
        tell(f"{target}: function")
        with users_code():
            (recorded,) = capture_calls(target, asked)
        announce = cache(announce_compiler)

        def under_way(stage: "Stage") -> None:
            announce()  # only now: an answer that is kept loads no engine
            tell(stage.text)

        how = {"compile_limit_s": time_limit_s or USERS_CODE_S, "limit_s": limit_s, "tell": under_way}
        with bad_input():
            return answer(recorded, how)
