"""`tilesight doctor`: what validate and calibrate need, whether it is here, and what helps where it is not."""

import typer

from ...simulator.problems.attention import AttentionProblem
from ..given import given
from ..groups import Group, flag, spread
from ..output import answer, say, text_width
from ..shapes import ProblemOptions


class DoctorOptions(Group):
    """How the answer is printed."""

    json: bool = flag("Print JSON.")


@spread
def doctor(context: typer.Context, *, problem: ProblemOptions, asked: DoctorOptions) -> None:
    """Check what `validate` and `calibrate` need, and say how to get what is missing.

    Exit code 1 if `validate` cannot run.
    """
    from ...validate.doctor import doctor as room

    posed = problem.build(AttentionProblem)
    checks = room.examine(room.this_host(), posed)
    if (unread := sorted(set(given(context)) - {"--json"})) and not room.looks_at_problem(checks):
        say(f"{', '.join(unread)}: changes nothing here: a problem is asked about where there is a GPU")
    answer(asked, lambda: room.doctor_text(checks, text_width()), lambda: room.doctor_dict(checks, posed))
    if not room.can_validate(checks):
        raise typer.Exit(1)
