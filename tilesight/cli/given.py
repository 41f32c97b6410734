"""What the user typed: nothing twice that can be given once, and nothing that changes nothing."""

import shlex
from collections.abc import Iterable, Mapping
from copy import copy
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperCommand, TyperOption

from .line.files import check_files
from .line.headings import write_options
from .output import BadInput

if TYPE_CHECKING:
    from ..simulator.report.page import Made

GIVEN, ARGUMENTS = "tilesight.given", "tilesight.arguments"
Given = Mapping[str, tuple[str, ...]]
"""Option as typed, e.g. `--block-m` -> the texts given for it, in order; of a flag the empty text."""


class Command(TyperCommand):
    """A command that remembers what was typed, refuses what was typed twice, and has its help under headings."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Raises: BadInput: an option was given twice that can be given once, or twice with the same value or key.

        Or a file cannot be written, or is read by this command.
        """
        if not ctx.resilient_parsing:
            ctx.meta[GIVEN] = self._given(ctx, args)
            ctx.meta[ARGUMENTS] = tuple(args)
        rest: list[str] = super().parse_args(ctx, args)
        if not ctx.resilient_parsing:
            for param in self.get_params(ctx):
                _refuse_repeats(param, ctx.meta[GIVEN].get(param.opts[0], ()))
            check_files(ctx, {param.opts[0]: ctx.params.get(param.name) for param in self.get_params(ctx)})
        return rest

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Under headings."""
        write_options(self, ctx, formatter)

    def _given(self, ctx: Any, args: list[str]) -> Given:
        """Parse once more, with a parser that keeps every value of an option."""
        keeps_all = type(self.make_parser(ctx))(ctx)
        options = {}
        for param in self.get_params(ctx):
            twin = copy(param)
            if isinstance(twin, TyperOption):
                twin.multiple = True
                options[twin.name] = twin.opts[0]
            twin.add_to_parser(keeps_all, ctx)
        texts, _, _ = keeps_all.parse_args(list(args))
        return {
            options[name]: tuple(text if isinstance(text, str) else "" for text in every)
            for name, every in texts.items()
            if name in options
        }


def _refuse_repeats(param: Any, texts: tuple[str, ...]) -> None:
    option = param.opts[0]
    if len(texts) > 1 and not param.multiple:
        if param.is_flag:
            raise BadInput(f"{option}: is given twice; give it once")
        raise BadInput(f"{option}: is given as {' and as '.join(map(repr, texts))}; give one")
    # Of KEY=VALUE each key can be given once.
    keyed = "=" in (param.metavar or "")
    seen: dict[str, str] = {}
    for text in texts:
        key = text.partition("=")[0].strip().replace("-", "_") if keyed else text
        if key in seen:
            raise BadInput(f"{option}: is given as {seen[key]!r} and as {text!r}; give one")
        seen[key] = text


def given(context: typer.Context) -> Given:
    """The options that the user gave to this command, as typed, with their texts."""
    typed: Given = context.meta[GIVEN]
    return typed


def made(context: typer.Context) -> "Made":
    """What makes a report: this command line, now; or at the time that SOURCE_DATE_EPOCH tells, as of builds [s]."""
    from ..simulator.report.page import made_now

    return made_now(shlex.join(("tilesight", context.info_name or "", *context.meta[ARGUMENTS])))


def refuse_unread(typed: Given, options: Iterable[str], where: str) -> None:
    """See that the user gave none of the options.

    Args:
        typed: as `given` says; options: e.g. `--block-m`; where: they change nothing, e.g. `with --read`.

    Raises:
        BadInput: one is given; the text names it, and what to do.
    """
    for option in options:
        if option in typed:
            shown = " ".join((option, *typed[option][:1])).strip()
            raise BadInput(f"{shown}: changes nothing {where}; leave it out")
