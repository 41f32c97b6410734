"""`tilesight explain`: where the cycles of one configuration, or of a user's kernels, go, without a GPU."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import typer

from ..compiled import CostOptions, compiler_for
from ..configs import ConfigOptions, Posed, pose
from ..cubins import OPTIONS, CubinOptions
from ..given import given, refuse_unread
from ..groups import argument, flag, spread, word
from ..kernels import TARGET, Function, PartialOptions
from ..limit import LimitOptions
from ..model.options import ModelOptions
from ..options import MachineOptions, ScheduleOptions
from ..output import BadInput, announce_compiler, answer, text_color, text_width
from ..shapes import ProblemOptions

if TYPE_CHECKING:
    from ...simulator.device.device import Device
    from ...simulator.launch.program import Launch
    from ...simulator.prediction.kernels import KernelsPrediction
    from ...simulator.prediction.prediction import Prediction

TARGET_OPTIONS = {"--device", "--set", "--l2", "--time-limit", "--partial", "--sass", "--json"} | OPTIONS
"""Options that are read with FILE.py:FUNCTION."""


class ExplainOptions(PartialOptions, LimitOptions, ScheduleOptions, CubinOptions):
    """What `explain` alone takes."""

    target: str | None = argument(*TARGET, default=None)
    sass: bool = flag("Show the machine code, with the cycles and stalls of each instruction.")
    json: bool = flag("Print JSON.")


class ExplainMachine(MachineOptions):
    """The same, of a schedule or of a user's kernels."""

    l2: str | None = word(  # type: ignore[assignment]
        None,
        "L2 cache before the first launch; of a function's launches as `predict` has it."
        "  [default: cold; of a function pipeline]",
        *("cold", "warm", "pipeline"),
    )


@spread
def explain(
    context: typer.Context,
    *,
    asked: ExplainOptions,
    model: ModelOptions,
    problem: ProblemOptions,
    config: ConfigOptions,
    machine: ExplainMachine,
) -> None:
    """Show where cycles go: of one configuration of a schedule, or of the kernels that a function of yours launches.

    By line of the kernels' source; of a schedule by its steps, too; with --sass by loop and instruction.
    """
    typed = given(context)
    prediction: Prediction | KernelsPrediction
    launches: Sequence[Launch | None]
    kernels = asked.target is not None or bool(OPTIONS & set(typed))
    if kernels:
        launch = asked.launch(asked.target)
        target = asked.target or str(asked.cubin)
        refuse_unread(typed, sorted(set(typed) - TARGET_OPTIONS), f"with {target}")
        name, device = machine.build()
        l2 = machine.l2 or "pipeline"
        function = Function(target, name, device, machine.set_, asked, l2=l2, command="explain", launch=launch)
        outcome = function.simulated()
        prediction, launches = outcome.prediction, outcome.launches
        complete = asked.partial or outcome.prediction.complete
    else:
        refuse_unread(typed, ["--time-limit", "--partial"], "without FILE.py:FUNCTION")
        if machine.l2 == "pipeline":
            raise BadInput("--l2 'pipeline': of a schedule must be one of cold, warm")
        (posed,) = pose([(problem, asked.schedules)], ProblemOptions.build, model, config, typed)
        (name, device), complete = machine.build(), True
        prediction, launches = _predicted(posed, device, machine)
    from ...simulator import explain as door
    from ...simulator.report.explain import explain_text

    prediction = replace(prediction, device=name, notes=(*machine.notes(name, device), *prediction.notes))
    explanation = door.explain(prediction, launches, device)
    answer(
        asked,
        lambda: explain_text(explanation, device, asked.sass, text_width(), text_color()),
        lambda: explanation.to_dict(asked.sass),
    )
    if kernels and not (explanation.longest and complete):
        raise typer.Exit(1)


def _predicted(posed: Posed, device: "Device", machine: MachineOptions) -> "tuple[Prediction, Sequence[Launch]]":
    """The configuration of a schedule, compiled here, and its launches."""
    from ...simulator.arguments import Settings
    from ...simulator.simulate import predict
    from ..fit import resolved

    resources_of, remark = compiler_for(device, wanted_by="explain")
    runs = resolved(posed, device, CostOptions(), resources_of)
    announce_compiler()
    prediction = predict(runs, device, Settings(l2=machine.l2 or "cold", overhead=machine.overhead))
    return replace(prediction, notes=(*posed.notes, remark, *prediction.notes)), runs.launches
