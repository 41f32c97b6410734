"""`tilesight explain`: where the cycles of one configuration, or of a user's kernels, go, without a GPU."""

from dataclasses import dataclass, replace
from typing import Annotated

import typer

from ..compiled import compiler_for
from ..configs import ConfigOptions
from ..given import given as typed_options
from ..given import refuse_unread
from ..groups import spread
from ..kernels import TARGET, Partial, simulated
from ..limit import TimeLimit
from ..options import DEFAULT_SCHEDULE, MachineOptions, OneSchedule, problem_of
from ..output import BadInput, announce_compiler, bad_input, show, text_color, text_width
from ..parse import flag, one_of, option
from ..shapes import ProblemOptions, refuse_unread_shape

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
    schedule: OneSchedule = DEFAULT_SCHEDULE,
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

    Of a schedule per step, per loop of the machine code, per instruction; of FILE.py:FUNCTION by line of its source.
    """
    if target is not None:
        refuse_unread(typed_options(context), sorted(set(typed_options(context)) - TARGET_OPTIONS), f"with {target}")
        _explain_function(target, machine, time_limit, partial, sass, json)
        return
    refuse_unread(typed_options(context), ["--time-limit", "--partial"], "without FILE.py:FUNCTION")
    if machine.l2 == "pipeline":
        raise BadInput("--l2 'pipeline': of a schedule must be one of cold, warm")
    asked, (name, device) = problem.build(problem_of([schedule])), machine.build()
    from ...simulator.schedules.registry import find_schedule

    with bad_input("schedule"):
        refuse_unread_shape(typed_options(context), [find_schedule(schedule)])
    given: dict[str, int | None] = {"registers": None, "smem_bytes": None}
    resources_of, remark = compiler_for(asked, device, given, wanted_by="explain")
    from ..fit import resolved

    runs = resolved(asked, schedule, config.chosen(), device, given, resources_of, "compiled")
    announce_compiler()
    from ...simulator import explain as door
    from ...simulator.display import render
    from ...simulator.report.explain import explain_dict, explain_text

    explanation = door.explain_resolved(runs, device, l2=machine.l2 or "cold", overhead=machine.overhead)
    notes = (*machine.notes(), remark, *explanation.prediction.notes)
    explanation = replace(explanation, prediction=replace(explanation.prediction, device=name, notes=notes))
    if json:
        show(render.to_json(explain_dict(explanation, sass)))
    else:
        show(explain_text(explanation, device, sass, text_width(), text_color()))


def _explain_function(
    target: str, machine: ExplainMachine, time_limit_s: float | None, partial: bool, sass: bool, json: bool
) -> None:
    """The same of a user's kernels. Raises: typer.Exit: none was predicted, or, unless `partial`, not all."""
    name, device = machine.build()
    outcome = simulated(
        target, name, device, machine.set_, l2=machine.l2 or "pipeline", time_limit_s=time_limit_s, command="explain"
    )
    from ...simulator.display import render
    from ...simulator.explain_kernels import explain_kernels
    from ...simulator.report.kernels.explain import kernels_explanation_dict, kernels_explanation_text

    explanation = explain_kernels(outcome, device)
    notes = (*machine.notes(), *explanation.prediction.notes)
    explanation = replace(explanation, prediction=replace(explanation.prediction, notes=notes))
    if json:
        show(render.to_json(kernels_explanation_dict(explanation, sass)))
    else:
        show(kernels_explanation_text(explanation, sass, text_width(), text_color()))
    if explanation.dominating is None or not (partial or explanation.prediction.complete):
        raise typer.Exit(1)
