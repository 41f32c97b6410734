"""`tilesight predict`: bytes and time of the kernels that a function of the user's launches."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from ..cubins import CubinOptions
from ..given import made
from ..groups import Group, argument, flag, option, spread
from ..kernels import REPREDICT, SWEEP, TARGET, Function, PartialOptions, TimingOptions, swept
from ..limit import LimitOptions
from ..options import DevicesOptions, each_device, leave, one_device
from ..output import PAGE, TIMELINE, BadInput, answer, say, show, text_color, text_width, trace_bytes

if TYPE_CHECKING:
    from ...diffing.difference import Difference
    from ...simulator.device.device import Device
    from ...simulator.prediction.kernels import KernelsPrediction
    from ...simulator.prediction.timeline import Timeline


class FunctionOptions(Group):
    """A function, and values to try beside its own."""

    target: str | None = argument(*TARGET, default=None)
    sweep: list[str] | None = option(None, *SWEEP)


class PredictOptions(TimingOptions, DevicesOptions, PartialOptions, LimitOptions, CubinOptions, FunctionOptions):
    """What `predict` takes."""

    save: Path | None = option(None, "Keep the answer, for a later --baseline and for `tilesight diff`.", "FILE.json")
    baseline: Path | None = option(
        None, "A file of --save: the table gets columns `was` and `change`, JSON a difference.", "FILE"
    )
    repredict: bool = flag(REPREDICT)
    json: bool = flag("Print JSON; of several devices a list.")
    csv: Path | None = option(None, "Write all launches as CSV.", "FILE")
    html: Path | None = option(None, PAGE, "FILE")
    trace: Path | None = option(None, TIMELINE, "FILE")

    def check(self) -> None:
        """Raises: BadInput: options that do not go together."""
        one_device(self.build(), trace=self.trace, save=self.save, baseline=self.baseline)
        if self.repredict and not self.baseline:
            raise BadInput("--repredict: changes nothing without --baseline; leave it out")
        if (self.save or self.baseline) and (self.trace or self.sweep or self.html):
            name = "save" if self.save else "baseline"
            raise BadInput(f"--{name}: not with --trace, --html or --sweep; run once for each")
        if self.trace and self.sweep:
            raise BadInput(
                f"--trace {str(self.trace)!r}: shows one configuration, not those of --sweep; write the best into the"
                " code"
            )


@dataclass(frozen=True, kw_only=True)
class Answered:
    """The prediction for a device, and what was asked for beside it."""

    prediction: "KernelsPrediction"
    timeline: "Timeline | None" = None
    saved: str = ""
    """Text of the file that keeps it."""
    difference: "Difference | None" = None
    """From the baseline."""


@spread
def predict(context: typer.Context, *, asked: PredictOptions) -> None:
    """Predict every kernel that a function launches: time, what binds it, and bytes at every level of memory.

    The function runs in a process of its own and its launches are recorded, not run: tensors with device="meta" or
    "cuda" need no data; values that decide addresses are read from tensors on the CPU. Repeat --device to compare.
    """
    from ...diffing.report.text import baseline_columns, baseline_lines
    from ...simulator.display.files import written_by
    from ...simulator.report.kernels.text import compared_text, kernels_json

    devices, space, launch = asked.build(), swept(asked.sweep), asked.launch(asked.target)
    target = asked.target or f"{asked.cubin}:{asked.kernel}".rstrip(":")

    def answered(name: str, device: "Device") -> Answered:
        function = Function(target, name, device, asked.set_, asked, asked.l2, space, launch=launch)
        outcome = _predicted(function, asked)
        notes = (*asked.notes(name, device), *outcome.prediction.notes)
        outcome = replace(outcome, prediction=replace(outcome.prediction, notes=notes).measured_as(asked.as_))
        if not asked.json:
            beside = baseline_columns(outcome.difference) if outcome.difference else []
            show(outcome.prediction.text(text_width(), text_color(), beside) + ("\n\n" if len(devices) > 1 else ""))
        return outcome

    outcomes, errors = each_device(devices, answered)
    reached = [outcome for outcome in outcomes.values() if not isinstance(outcome, str)]
    predictions = [outcome.prediction for outcome in reached]
    # A timeline or a difference is of one device, as `check` sees to.
    timeline, difference = (reached[0].timeline, reached[0].difference) if reached else (None, None)
    if (path := asked.trace) and not timeline:
        say(f"--trace: {path} is not written: no launch is predicted")

    def value() -> object:
        """For JSON, with what differs from the baseline."""
        values = kernels_json(
            {name: made if isinstance(made, str) else made.prediction for name, made in outcomes.items()}
        )
        return {**values, "baseline": difference.to_dict()} if difference and isinstance(values, dict) else values

    files = {
        "save": lambda: reached[0].saved,
        "html": lambda: written_by("kernels.html", "kernels_html")(predictions, target, made(context)),
        "csv": lambda: [row for prediction in predictions for row in prediction.flat_rows()],
        "trace": (lambda: trace_bytes(path, timeline)) if path and timeline else None,
    }
    below = "\n".join(baseline_lines(difference, text_width())) if difference else ""
    answer(
        asked,
        lambda: compared_text(predictions, text_width(), text_color()) or below,
        value,
        **(files if reached else {}),
    )
    complete = all(prediction.complete for prediction in predictions)
    leave(errors, [prediction.is_predicted for prediction in predictions], complete, asked.partial)


def _predicted(function: Function, asked: PredictOptions) -> Answered:
    """Record the function, and predict its launches for a device."""
    if asked.trace:
        outcome = function.simulated(record=True)
        return Answered(prediction=outcome.prediction, timeline=outcome.timeline)
    if asked.save or asked.baseline:
        prediction, saved, difference = function.compared(asked.as_, asked.baseline, asked.repredict)
        return Answered(prediction=prediction, saved=saved, difference=difference)
    return Answered(prediction=function.predicted())
