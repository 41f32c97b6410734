"""What commands that take FILE.py:FUNCTION share: the function's launches, recorded and simulated for a device."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from ..simulator.device.device import Device
from ..simulator.refusal import UserError
from .groups import Group, flag, word
from .limit import LimitOptions, limit_of, stages
from .output import BadInput, Failed, announce_compiler, bad_input

if TYPE_CHECKING:
    from ..diffing.difference import Difference
    from ..kernels.capture.file import Asked, RecordedFunction
    from ..kernels.configurations.space import Space
    from ..kernels.given.launch import Launch
    from ..simulator.jobs.stopping import Stage
    from ..simulator.predict_kernels import SimulatedKernels
    from ..simulator.prediction.kernels import KernelsPrediction, Request

Answer = TypeVar("Answer")

TARGET = (
    "Function without arguments that launches Triton kernels, on tensors without data; or MODULE:FUNCTION; or launches "
    "of cubins in a file.",
    "FILE.py:FUNCTION|FILE.toml",
)
"""What the help says of the argument, and shows in its place."""
SWEEP = (
    "Values of a parameter to try beside the code's own, e.g. num_warps=4,8 or KERNEL.BLOCK=64,128; repeatable.",
    "NAME=LIST",
)
"""The same of `--sweep`."""
REPREDICT = "Predict launches of a saved file anew, as after another version of this program."
"""What it says of `--repredict`."""


class TimingOptions(Group):
    """What is in the caches before a launch, and how its time is measured."""

    l2: str = word(
        "pipeline",
        "Caches before each launch: as those before left them, empty, or as itself left them.",
        *("pipeline", "cold", "warm"),
    )
    as_: str = word(
        "single",
        "How time is measured: a single run, triton.testing.do_bench, repeated without a pause, or in a CUDA graph.",
        *("single", "do_bench", "sustained", "graph"),
    )


class PartialOptions(Group):
    """What of an incomplete answer."""

    partial: bool = flag(
        "Exit with 0 though launches are refused, accesses left out, or the function ended in an error."
    )


def swept(texts: Sequence[str] | None) -> "Space":
    """The values of `--sweep`. Raises: BadInput: they are none."""
    from ..kernels.configurations.space import Space, sweep

    with bad_input(before="--sweep "):
        return sweep(texts) if texts else Space()


@contextmanager
def users_code() -> Iterator[None]:
    """Errors of the user's function as those of the command line."""
    from ..kernels.capture.file import UserCodeFailed

    try:
        yield
    except UserError as error:
        raise BadInput(str(error)) from None
    except UserCodeFailed as error:
        raise Failed(str(error)) from None


@dataclass(frozen=True)
class Function:
    """A function of the user's whose launches are recorded and predicted.

    Its methods raise BadInput where there is no such function, it launches nothing, or nothing can be compiled here;
    and Failed where the user's code raised, died or did not end.
    """

    target: str
    name: str
    """Of the device."""
    device: Device
    settings: Sequence[str] | None
    """Of `--set`."""
    limit: LimitOptions
    l2: str = "pipeline"
    space: "Space | None" = None
    """Values to try beside those of the code."""
    command: str = "predict"
    """Which asks, for messages."""
    launch: "Launch | None" = None
    """Of a kernel in a cubin, in the place of the function; `target` then names it for people."""

    def predicted(self) -> "KernelsPrediction":
        """The prediction, found where it is kept already."""
        from ..predicting import predict_calls, with_recording

        def answer(recorded: "RecordedFunction", request: "Request") -> "KernelsPrediction":
            return with_recording(predict_calls(recorded.calls, request), recorded)

        return self._answered(answer)

    def simulated(self, record: bool = False) -> "SimulatedKernels":
        """The prediction and what was simulated for it. Args: record: keep a timeline."""
        from ..predicting import simulate_calls, with_recording

        def answer(recorded: "RecordedFunction", request: "Request") -> "SimulatedKernels":
            outcome = simulate_calls(recorded.calls, request, record=record, advice=self.command == "predict")
            return replace(outcome, prediction=with_recording(outcome.prediction, recorded))

        return self._answered(answer)

    def compared(
        self, timing: str, baseline: Path | None, repredict: bool
    ) -> "tuple[KernelsPrediction, str, Difference | None]":
        """The prediction, the text of a file that keeps it, and what differs from a file that kept an earlier one.

        Args:
            timing: how time is measured.
            baseline: that file, None: there is none.
            repredict: whether its launches are predicted anew.

        Raises:
            BadInput: the baseline cannot be used.
        """
        from ..diffing.difference import Difference
        from ..diffing.saved import saved_text, side_of
        from ..diffing.sides import Question, compiled_side
        from ..diffing.sides import predicted as side_predicted

        question = Question(
            device=self.device,
            name=self.name,
            settings=tuple(self.settings or ()),
            l2=self.l2,
            timing=timing,
            compile_limit_s=self.limit.code_s,
            limit_s=limit_of(self.limit.time_limit),
        )
        with bad_input():
            old = side_of(baseline, question, repredict) if baseline else None

        def answer(
            recorded: "RecordedFunction", request: "Request"
        ) -> "tuple[KernelsPrediction, str, Difference | None]":
            asked = replace(question, on_progress=request.on_progress)
            side, prediction = side_predicted(compiled_side(self.target, recorded, asked), asked, shown=True)
            return prediction, saved_text(side, recorded), Difference(old, side) if old else None

        return self._answered(answer)

    def _answered(self, answer: "Callable[[RecordedFunction, Request], Answer]") -> Answer:
        """What the function launches, recorded and answered, with what is under way told meanwhile."""
        need_compiler(self.command)
        limit_s, code_s = limit_of(self.limit.time_limit), self.limit.code_s
        from ..kernels.capture.file import Asked
        from ..kernels.configurations.space import Space
        from ..simulator.prediction.kernels import Request

        asked = Asked(device=self.name, settings=self.settings or (), space=self.space or Space(), timeout_s=code_s)
        with stages() as on_progress:
            on_progress(f"{self.target}: function")
            with users_code():
                recorded = self._recorded(asked)
            announce = cache(announce_compiler)

            def under_way(stage: "Stage") -> None:
                announce()  # only now: an answer that is kept loads no engine
                on_progress(stage.text)

            with bad_input():
                request = Request(
                    device=self.device,
                    name=self.name,
                    l2=self.l2,
                    compile_limit_s=code_s,
                    limit_s=limit_s,
                    on_progress=under_way,
                )
                return answer(recorded, request)

    def _recorded(self, asked: "Asked") -> "RecordedFunction":
        """The launches. Raises: as `capture_calls` and `given.launch.calls_of`."""
        from ..kernels.capture.file import capture_calls, given_function
        from ..kernels.given.launch import is_launch_file, read_launches

        if self.launch is None and not is_launch_file(self.target):
            return capture_calls(self.target, asked)[0]
        if self.space:
            raise BadInput("--sweep: a kernel in a cubin has no parameters left to try; leave it out")
        return given_function((self.launch,) if self.launch else read_launches(Path(self.target)), self.device)


def need_compiler(command: str) -> None:
    """Raises: BadInput: nothing can be compiled here. Args: command: that needs it, for the message."""
    from ..compiling import why_not

    if reason := why_not():
        raise BadInput(f"{command}: {reason}")
