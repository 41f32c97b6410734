"""`tilesight diff`: what a change does to the kernels that a function launches, without a GPU."""

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ...simulator.device.device import Device, catalogue
from ...simulator.device.what_if import override
from ..given import made
from ..kernels import L2, Partial, Repredict, Timing, users_code
from ..limit import USERS_CODE_S, TimeLimit, limit_of, stages
from ..options import DEFAULT_DEVICE, DEVICE_DOC, Settings, devices_given
from ..output import (
    BadInput,
    Output,
    announce_compiler,
    bad_input,
    deliver,
    say,
    text_color,
    text_width,
)
from ..parse import flag, option

if TYPE_CHECKING:
    from ...diffing.difference import Difference
    from ...simulator.report.page import Made

SHARE = re.compile(r"(\d+(?:\.\d+)?) ?%")


def share(text: str) -> float:
    """A share as people write it, for typer."""
    match = SHARE.fullmatch(text.strip())
    if not match:
        raise typer.BadParameter(f"{text!r} must be a share such as 5%")
    return float(match[1]) / 100.0


SIDE = "[REVISION:]FILE.py:FUNCTION|FILE.json"


def diff(
    context: typer.Context,
    old: Annotated[
        str,
        typer.Argument(
            help="Before: a function, at a revision of git or as it lies there; or a file of predict --save.",
            metavar=SIDE,
        ),
    ],
    new: Annotated[
        str | None,
        typer.Argument(help="After: the same; left out: OLD, on another device, what-if or environment.", metavar=SIDE),
    ] = None,
    device: Annotated[
        list[str] | None,
        option(
            "--device",
            f"{DEVICE_DOC} Two, by a comma: OLD on the first, NEW on the second.  [default: {DEFAULT_DEVICE}]",
            "NAME|FILE",
            words=catalogue,
        ),
    ] = None,
    set_: Settings = None,
    old_set: Annotated[
        list[str] | None, option("--old-set", "The same of OLD's device alone; repeatable.", "KEY=VALUE")
    ] = None,
    new_set: Annotated[
        list[str] | None, option("--new-set", "The same of NEW's device alone; repeatable.", "KEY=VALUE")
    ] = None,
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
    html: Annotated[
        Path | None, option("--html", "Write both sides as a page for the browser; it opens offline.", "FILE")
    ] = None,
    markdown: Annotated[
        bool, flag("--markdown", "Print a comment for a pull request: a line where nothing changed, else a table.")
    ] = False,
) -> None:
    """Say what a change does to the kernels of a function: same code, faster, slower, within 10 %, or cannot tell.

    Where machine code, grid, arguments and device are the same nothing is predicted, and the answer is exact. A
    revision is read in a folder of its own (git worktree), which is removed afterwards.
    """
    if json and markdown:
        raise BadInput("--json and --markdown: each prints the answer; give one")
    if triton and (old_python or new_python):
        raise BadInput("--triton and --old-python, --new-python: each names environments; give one")
    from ...diffing.diff import difference_of, new_of, stage_text
    from ...diffing.environments.found import NoEnvironment
    from ...diffing.environments.pairs import installations_of, installations_with
    from ...diffing.report.markdown import difference_markdown
    from ...diffing.report.text import difference_text
    from ...diffing.revision import NoRevision
    from ...diffing.saved import Unusable
    from ...diffing.sides import Question
    from ...simulator.display import render

    machines = _machines(device, set_, old_set, new_set)
    limit_s = limit_of(time_limit)
    with stages() as tell, users_code():
        before, after = (
            Question(
                device=gpu,
                name=name,
                settings=(*(set_ or ()), *(settings or ())),
                l2=l2,
                timing=as_,
                compile_limit_s=time_limit or USERS_CODE_S,
                limit_s=limit_s,
                tell=stage_text(tell),
            )
            for (name, gpu), settings in zip(machines, (old_set, new_set), strict=True)
        )
        with bad_input():
            elsewhere = triton or old_python or new_python
            new = old if new is None and elsewhere else new_of(old, new, before, after)
        try:
            tell("environments")
            gpus = before.device, after.device
            places = (
                installations_with(triton, (old, new), gpus, say)
                if triton
                else installations_of((old, new), (old_python, new_python), gpus)
            )
            before, after = (
                replace(question, installation=place) for question, place in zip((before, after), places, strict=True)
            )
            difference = difference_of(old, new, before, after, tell, announce_compiler, repredict)
        except (NoRevision, Unusable, NoEnvironment) as error:
            raise BadInput(str(error)) from None
        except RuntimeError as error:
            if type(error) is RuntimeError:
                raise BadInput(f"diff: {error}") from None
            raise
    if json:
        text = render.to_json(difference.to_dict())
    elif markdown:
        text = difference_markdown(difference)
    else:
        text = difference_text(difference, text_width(), text_color())
    deliver(text, Output(option="--html", path=html, make=lambda: _page(difference, made(context))))
    slower = fail_above is not None and difference.is_slower_by(fail_above)
    if slower or not (difference.complete or partial):
        raise typer.Exit(1)


def _page(difference: "Difference", made: "Made") -> str:
    """The page of --html."""
    # matplotlib takes half a second to load, which only the page needs.
    from ...diffing.report.html import difference_html

    return difference_html(difference, made)


def _machines(
    names: list[str] | None, settings: list[str] | None, old_set: list[str] | None, new_set: list[str] | None
) -> list[tuple[str, Device]]:
    """Name and device of either side. Raises: BadInput: as `devices_given`, more than two, or a key is set twice."""
    devices = list(devices_given(names, settings).items())
    if len(devices) > 2:
        raise BadInput(f"--device: names {len(devices)} devices; OLD and NEW have one each, or one for both")
    machines = []
    for (name, device), option_name, texts in (
        (devices[0], "--old-set", old_set),
        (devices[-1], "--new-set", new_set),
    ):
        for text in texts or ():
            key = text.partition("=")[0]
            if key in [setting.partition("=")[0] for setting in settings or ()]:
                raise BadInput(f"{option_name} {text}: {key} is given by --set for both sides already; give one")
        try:
            machines.append((name, override(device, texts or [])))
        except ValueError as error:
            raise BadInput(str(error).replace("--set", option_name, 1)) from None
    return machines
