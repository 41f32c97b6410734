"""`tilesight diff`: what a change does to the kernels that a function launches, without a GPU."""

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from ...simulator.device.device import Device, catalogue
from ...simulator.device.what_if import override
from ...simulator.refusal import UserError
from ..given import made
from ..groups import Group, argument, flag, option, spread
from ..kernels import REPREDICT, PartialOptions, TimingOptions, users_code
from ..limit import LimitOptions, limit_of, stages
from ..options import DEFAULT_DEVICE, DEVICE, DEVICE_DOC, SET_DOC, SETTING, devices_given
from ..output import BadInput, announce_compiler, answer, bad_input, say, text_color, text_width

if TYPE_CHECKING:
    from ...diffing.difference import Difference
    from ...diffing.sides import Question
    from ...simulator.report.page import Made

SHARE = re.compile(r"(\d+(?:\.\d+)?) ?%")


def share(text: str) -> float:
    """A share as people write it, for typer."""
    match = SHARE.fullmatch(text.strip())
    if not match:
        raise typer.BadParameter(f"{text!r} must be a share such as 5%")
    return float(match[1]) / 100.0


SIDE = "[REVISION:]FILE.py:FUNCTION|FILE.json"


class SidesOptions(Group):
    """What is compared, and on which devices."""

    old: str = argument(
        "Before: a function, at a revision of git or as it lies there; or a file of predict --save.", SIDE
    )
    new: str | None = argument(
        "After: the same; left out: OLD, on another device, what-if or environment.", SIDE, default=None
    )
    device: list[str] | None = option(
        None,
        f"{DEVICE_DOC} Two, by a comma: OLD on the first, NEW on the second.  [default: {DEFAULT_DEVICE}]",
        DEVICE,
        words=catalogue,
    )
    set_: list[str] | None = option(None, SET_DOC, SETTING)
    old_set: list[str] | None = option(None, "The same of OLD's device alone; repeatable.", SETTING)
    new_set: list[str] | None = option(None, "The same of NEW's device alone; repeatable.", SETTING)

    def machines(self) -> list[tuple[str, Device, tuple[str, ...]]]:
        """Name, device and what-ifs of either side.

        Raises:
            BadInput: as `devices_given`, more than two, or a key is set twice.
        """
        devices = list(devices_given(self.device, self.set_).items())
        if len(devices) > 2:
            raise BadInput(f"--device: names {len(devices)} devices; OLD and NEW have one each, or one for both")
        machines = []
        for (name, device), option_name, texts in (
            (devices[0], "--old-set", self.old_set),
            (devices[-1], "--new-set", self.new_set),
        ):
            for text in texts or ():
                key = text.partition("=")[0]
                if key in [setting.partition("=")[0] for setting in self.set_ or ()]:
                    raise BadInput(f"{option_name} {text}: {key} is given by --set for both sides already; give one")
            try:
                settings = (*(self.set_ or ()), *(texts or ()))
                machines.append((name, override(device, texts or []), settings))
            except ValueError as error:
                raise BadInput(str(error).replace("--set", option_name, 1)) from None
        return machines


class DiffOptions(Group):
    """How they are compared, and what is printed of it."""

    fail_above: float | None = option(
        None, "Exit with 1 where all launches together are slower by more, band excluded.", "PERCENT%", share
    )
    old_python: str = option("", "Record and compile OLD by this Python: with its torch and triton.", "PATH")
    new_python: str = option("", "Record and compile NEW by this Python.", "PATH")
    triton: str = option(
        "",
        "Compare two versions of Triton, as pip takes them, e.g. 3.6.0,3.9.0; they are installed, once, into "
        "environments in the cache folder.",
        "OLD,NEW",
    )
    repredict: bool = flag(REPREDICT)
    json: bool = flag("Print JSON.")
    html: Path | None = option(None, "Write both sides as a page for the browser; it opens offline.", "FILE")
    markdown: bool = flag("Print a comment for a pull request: a line where nothing changed, else a table.")

    def check(self) -> None:
        """Raises: BadInput: an option says what another one says already."""
        if self.json and self.markdown:
            raise BadInput("--json and --markdown: each prints the answer; give one")
        if self.triton and (self.old_python or self.new_python):
            raise BadInput("--triton and --old-python, --new-python: each names environments; give one")


@spread
def diff(
    context: typer.Context,
    *,
    sides: SidesOptions,
    timing: TimingOptions,
    asked: DiffOptions,
    limit: LimitOptions,
    end: PartialOptions,
) -> None:
    """Say what a change does to the kernels of a function: same code, faster, slower, within 10 %, or cannot tell.

    Where machine code, grid, arguments and device are the same nothing is predicted, and the answer is exact. A
    revision is read in a folder of its own (git worktree), which is removed afterwards.
    """
    from ...diffing.report.text import difference_markdown, difference_text
    from ...diffing.sides import Question

    limit_s = limit_of(limit.time_limit)
    before, after = (
        Question(
            device=gpu,
            name=name,
            settings=settings,
            l2=timing.l2,
            timing=timing.as_,
            compile_limit_s=limit.code_s,
            limit_s=limit_s,
        )
        for name, gpu, settings in sides.machines()
    )
    difference = _difference(sides, asked, before, after)
    answer(
        asked,
        lambda: (
            difference_markdown(difference)
            if asked.markdown
            else difference_text(difference, text_width(), text_color())
        ),
        difference.to_dict,
        html=lambda: _page(difference, made(context)),
    )
    slower = asked.fail_above is not None and difference.is_slower_by(asked.fail_above)
    if slower or not (difference.complete or end.partial):
        raise typer.Exit(1)


def _difference(sides: SidesOptions, asked: DiffOptions, before: "Question", after: "Question") -> "Difference":
    """Record and compare both sides, with what is under way told meanwhile."""
    from ...diffing.diff import difference_of, new_of, stage_text
    from ...diffing.environments.pairs import installations_of, installations_with

    old, pythons = sides.old, (asked.old_python, asked.new_python)
    with stages() as on_progress, users_code():
        before, after = (replace(question, on_progress=stage_text(on_progress)) for question in (before, after))
        with bad_input():
            elsewhere = asked.triton or any(pythons)
            new = old if sides.new is None and elsewhere else new_of(old, sides.new, before, after)
        try:
            on_progress("environments")
            gpus = before.device, after.device
            places = (
                installations_with(asked.triton, (old, new), gpus, say)
                if asked.triton
                else installations_of((old, new), pythons, gpus)
            )
            before, after = (
                replace(question, installation=place) for question, place in zip((before, after), places, strict=True)
            )
            return difference_of(old, new, before, after, on_progress, announce_compiler, asked.repredict)
        except UserError as error:
            raise BadInput(str(error)) from None
        except RuntimeError as error:
            if type(error) is RuntimeError:
                raise BadInput(f"diff: {error}") from None
            raise


def _page(difference: "Difference", made: "Made") -> str:
    """The page of --html."""
    # matplotlib takes half a second to load, which only the page needs.
    from ...diffing.report.html import difference_html

    return difference_html(difference, made)
