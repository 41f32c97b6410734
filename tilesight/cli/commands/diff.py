"""`tilesight diff`: what a change does to the kernels that a function launches, without a GPU."""

import re
from typing import Annotated

import typer

from ...simulator.device.device import catalogue
from ..kernels import L2, Partial, Repredict, Timing, users_code
from ..limit import USERS_CODE_S, TimeLimit, limit_of, stages
from ..options import DEFAULT_DEVICE, DEVICE_DOC, Settings, device_given
from ..output import BadInput, announce_compiler, say, show, text_color, text_width
from ..parse import flag, option

SHARE = re.compile(r"(\d+(?:\.\d+)?) ?%")


def share(text: str) -> float:
    """A share as people write it, for typer."""
    match = SHARE.fullmatch(text.strip())
    if not match:
        raise typer.BadParameter(f"{text!r} must be a share such as 5%")
    return float(match[1]) / 100.0


SIDE = "[REVISION:]FILE.py:FUNCTION|FILE.json"


def diff(
    old: Annotated[
        str,
        typer.Argument(
            help="Before: a function, at a revision of git or as it lies there; or a file of predict --save.",
            metavar=SIDE,
        ),
    ],
    new: Annotated[
        str | None, typer.Argument(help="After: the same; with --triton OLD again where it is left away.", metavar=SIDE)
    ] = None,
    device: Annotated[str, option("--device", DEVICE_DOC, "NAME|FILE", words=catalogue)] = DEFAULT_DEVICE,
    set_: Settings = None,
    l2: L2 = "pipeline",
    as_: Timing = "single",
    fail_above: Annotated[
        float | None,
        option(
            "--fail-above",
            "Exit with 1 where all launches together are slower by more, band excluded.",
            "PERCENT%",
            share,
        ),
    ] = None,
    old_python: Annotated[
        str, option("--old-python", "Record and compile OLD by this Python: with its torch and triton.", "PATH")
    ] = "",
    new_python: Annotated[str, option("--new-python", "Record and compile NEW by this Python.", "PATH")] = "",
    triton: Annotated[
        str,
        option(
            "--triton",
            "Compare two versions of Triton, as pip takes them, e.g. 3.6.0,3.9.0; they are installed, once, into "
            "environments in the cache folder.",
            "OLD,NEW",
        ),
    ] = "",
    repredict: Repredict = False,
    time_limit: TimeLimit = None,
    partial: Partial = False,
    json: Annotated[bool, flag("--json", "Print JSON.")] = False,
    markdown: Annotated[
        bool, flag("--markdown", "Print a comment for a pull request: a line where nothing changed, else a table.")
    ] = False,
) -> None:
    """Say what a change does to the kernels of a function: same code, faster, slower, or cannot tell, and why.

    Where machine code, grid and arguments are the same nothing is predicted, and the answer is exact. A revision is
    read in a folder of its own (git worktree), which is removed afterwards.
    """
    if json and markdown:
        raise BadInput("--json and --markdown: each prints the answer; give one")
    if triton and (old_python or new_python):
        raise BadInput("--triton and --old-python, --new-python: each names environments; give one")
    if new is None and not triton:
        raise BadInput("NEW is missing: diff OLD NEW, or diff --triton 3.6.0,3.9.0 FILE.py:FUNCTION")
    new = new or old
    from ...diffing.diff import difference_of, stage_text
    from ...diffing.environments.found import NoEnvironment
    from ...diffing.environments.pairs import installations_of, installations_with
    from ...diffing.markdown import difference_markdown
    from ...diffing.revision import NoRevision
    from ...diffing.saved import Unusable
    from ...diffing.sides import Question
    from ...diffing.text import difference_text
    from ...simulator.display import render

    name, gpu = device_given(device, set_)
    limit_s = limit_of(time_limit)
    with stages() as tell, users_code():
        question = Question(
            device=gpu,
            name=name,
            l2=l2,
            timing=as_,
            compile_limit_s=time_limit or USERS_CODE_S,
            limit_s=limit_s,
            tell=stage_text(tell),
        )
        try:
            tell("environments")
            places = (
                installations_with(triton, (old, new), gpu, say)
                if triton
                else installations_of((old, new), (old_python, new_python), gpu)
            )
            difference = difference_of(
                old, new, question, tuple(set_ or ()), tell, announce_compiler, repredict, installations=places
            )
        except (NoRevision, Unusable, NoEnvironment) as error:
            raise BadInput(str(error)) from None
        except RuntimeError as error:
            if type(error) is RuntimeError:
                raise BadInput(f"diff: {error}") from None
            raise
    if json:
        show(render.to_json(difference.to_dict()))
    elif markdown:
        show(difference_markdown(difference))
    else:
        show(difference_text(difference, text_width(), text_color()))
    slower = fail_above is not None and difference.is_slower_by(fail_above)
    if slower or not (difference.complete or partial):
        raise typer.Exit(1)
