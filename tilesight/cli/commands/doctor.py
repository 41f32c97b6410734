"""`tilesight doctor`: what validate and calibrate need, whether it is here, and what helps where it is not."""

from typing import Annotated

import typer

from ...simulator.problems.attention import AttentionProblem
from ..given import given as typed_options
from ..groups import spread
from ..output import say, show, text_width
from ..parse import flag
from ..shapes import ProblemOptions


@spread
def doctor(
    context: typer.Context,
    *,
    problem: ProblemOptions,
    json: Annotated[bool, flag("--json", "Print JSON.")] = False,
) -> None:
    """Check what `validate` and `calibrate` need, and say how to get what is missing.

    Exit code 1 if `validate` cannot run.
    """
    from ...simulator.display import render
    from ...validate.doctor import doctor as room
    from ...validate.doctor import host

    asked = problem.build(AttentionProblem)
    checks = room.examine(host.this_host(), asked)
    if (unread := sorted(set(typed_options(context)) - {"--json"})) and not room.looks_at_problem(checks):
        say(f"{', '.join(unread)}: changes nothing here: a problem is asked about where there is a GPU")
    show(render.to_json(room.doctor_dict(checks, asked)) if json else room.doctor_text(checks, text_width()))
    if not room.can_validate(checks):
        raise typer.Exit(1)
