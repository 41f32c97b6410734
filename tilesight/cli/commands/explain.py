"""`tilesight explain`: where the cycles of one configuration go, from its machine code, without a GPU."""

from dataclasses import replace
from typing import Annotated

import typer

from ..compiled import compiler_for
from ..configs import ConfigOptions
from ..given import given as typed_options
from ..groups import spread
from ..options import DEFAULT_SCHEDULE, MachineOptions, OneSchedule, problem_of
from ..output import announce_compiler, bad_input, show, text_color, text_width
from ..parse import flag
from ..shapes import ProblemOptions, refuse_unread_shape


@spread
def explain(
    context: typer.Context,
    *,
    schedule: OneSchedule = DEFAULT_SCHEDULE,
    problem: ProblemOptions,
    config: ConfigOptions,
    machine: MachineOptions,
    sass: Annotated[
        bool, flag("--sass", "Show the machine code, with the cycles and stalls of each instruction.")
    ] = False,
    json: Annotated[bool, flag("--json", "Print JSON.")] = False,
) -> None:
    """Compile one configuration and show where its cycles go: per step, per loop of the code, per instruction."""
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

    found = door.explain_resolved(runs, device, l2=machine.l2, overhead=machine.overhead)
    notes = (*machine.notes(), remark, *found.prediction.notes)
    found = replace(found, prediction=replace(found.prediction, device=name, notes=notes))
    if json:
        show(render.to_json(explain_dict(found, sass)))
    else:
        show(explain_text(found, device, sass, text_width(), text_color()))
