"""`tilesight explain`: where the cycles of one configuration, or of a user's kernels, go, without a GPU."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

import typer

from ..compiled import compiler_for
from ..configs import ConfigOptions
from ..given import given as typed_options
from ..given import refuse_unread
from ..groups import spread
from ..kernels import TARGET, Partial, simulated
from ..limit import TimeLimit
from ..model.options import ModelOptions
from ..options import MachineOptions, OneSchedule
from ..output import BadInput, announce_compiler, bad_input, show, text_color, text_width
from ..parse import flag, one_of, option
from ..shapes import ProblemOptions, refuse_unread_shape

if TYPE_CHECKING:
    from ...simulator.launch.program import Launch
    from ...simulator.prediction.kernels import KernelsPrediction
    from ...simulator.prediction.prediction import Prediction

TARGET_OPTIONS = {"--device", "--set", "--l2", "--time-limit", "--partial", "--sass", "--json"}
"""Options that are read with FILE.py:FUNCTION."""


@dataclass(frozen=True, kw_only=True)
class ExplainMachine(MachineOptions):
    """The same, of a schedule or of a user's kernels."""

    l2: Annotated[
        str | None,
        option(
            "--l2",
            "L2 cache before the first launch; of a function's launches as `predict` has it."
            "  [default: cold; of a function pipeline]",
            "cold|warm|pipeline",
            one_of("cold", "warm", "pipeline"),
        ),
    ] = None  # type: ignore[assignment]


@spread
def explain(
    context: typer.Context,
    *,
    target: Annotated[str | None, TARGET] = None,
    schedule: OneSchedule = None,
    model: ModelOptions,
    problem: ProblemOptions,
    config: ConfigOptions,
    machine: ExplainMachine,
    time_limit: TimeLimit = None,
    partial: Partial = False,
    sass: Annotated[
        bool, flag("--sass", "Show the machine code, with the cycles and stalls of each instruction.")
    ] = False,
    json: Annotated[bool, flag("--json", "Print JSON.")] = False,
) -> None:
    """Show where cycles go: of one configuration of a schedule, or of the kernels that a function of yours launches.

    By line of the kernels' source; of a schedule by its steps, too; with --sass by loop and instruction.
    """
    typed = typed_options(context)
    prediction: Prediction | KernelsPrediction
    launches: Sequence[Launch | None]
    remarks: tuple[str, ...] = ()
    if target is not None:
        refuse_unread(typed, sorted(set(typed) - TARGET_OPTIONS), f"with {target}")
        name, device = machine.build()
        settings, l2 = machine.set_, machine.l2 or "pipeline"
        outcome = simulated(target, name, device, settings, l2=l2, time_limit_s=time_limit, command="explain")
        prediction, launches = outcome.prediction, outcome.launches
    else:
        refuse_unread(typed, ["--time-limit", "--partial"], "without FILE.py:FUNCTION")
        if machine.l2 == "pipeline":
            raise BadInput("--l2 'pipeline': of a schedule must be one of cold, warm")
        (named,) = problem.schedules([schedule] if schedule else None)
        solved = problem.kind([named])
        shape, of_model = model.fill(problem, solved, [named], typed)
        asked, (name, device) = shape.build(solved), machine.build()
        from ...simulator.schedules.registry import find_schedule

        with bad_input("schedule"):
            refuse_unread_shape(typed, [find_schedule(named)])
        given: dict[str, int | None] = {"registers": None, "smem_bytes": None}
        resources_of, remark = compiler_for(asked, device, given, wanted_by="explain")
        from ..fit import resolved

        runs = resolved(asked, named, config.chosen(), device, given, resources_of, "compiled")
        announce_compiler()
        from ...simulator.simulate import predict

        prediction = predict(runs, device, l2=machine.l2 or "cold", overhead=machine.overhead)
        launches, remarks = runs.launches, (*of_model, remark)
    from ...simulator import explain as door
    from ...simulator.display import render
    from ...simulator.report.explain import explain_text

    prediction = replace(prediction, device=name, notes=(*machine.notes(name, device), *remarks, *prediction.notes))
    explanation = door.explain(prediction, launches, device)
    if json:
        show(render.to_json(explanation.to_dict(sass)))
    else:
        show(explain_text(explanation, device, sass, text_width(), text_color()))
    if target is not None and not (explanation.longest and (partial or outcome.prediction.complete)):
        raise typer.Exit(1)
