"""Groups of options: a field is an option, a command takes whole groups and fits on a page."""

import ast
from dataclasses import FrozenInstanceError, asdict
from pathlib import Path
from typing import Any

import pytest
import typer

from tilesight.cli.groups import Group, argument, flag, option, spread, word
from tilesight.cli.output import BadInput

ROOM = Path(__file__).resolve().parents[3] / "tilesight" / "cli"
LINES, PARAMETERS = 60, 8


class Shared(Group):
    """Options of two commands."""

    time_limit: int | None = option(None, "What it may take.", least=1)
    as_: str = word("single", "How it is measured.", "single", "do_bench")


class Derived(Shared):
    """Those of one."""

    target: str = argument("What to run.", "FILE")
    json: bool = flag("Print JSON.")


def test_an_option_has_the_name_of_its_field() -> None:
    """Without the underscore that a keyword of Python's needs; a flag has no opposite."""
    taken: list[Any] = []

    @spread
    def command(*, asked: Derived) -> None:
        taken.append(asked)

    app = typer.Typer()
    app.command()(command)
    parameters = {param.name: param.opts + param.secondary_opts for param in typer.main.get_command(app).params}
    assert parameters["time_limit"] == ["--time-limit"] and parameters["as_"] == ["--as"]
    assert parameters["json"] == ["--json"] and parameters["target"] == ["target"]
    app(["x.py", "--as", "do_bench", "--time-limit", "3"], standalone_mode=False)
    (asked,) = taken
    assert asdict(asked) == {"target": "x.py", "time_limit": 3, "as_": "do_bench", "json": False}
    with pytest.raises(FrozenInstanceError):
        asked.json = True


def test_shared_options_come_before_own_ones() -> None:
    """In the order of the help."""
    assert [item.name for item in Derived.parameters()] == ["time_limit", "as_", "target", "json"]


def test_a_number_below_the_least_is_refused_by_name() -> None:
    """Wherever the group is taken; what is not given is not looked at."""
    with pytest.raises(BadInput, match="--time-limit = 0: must be an integer of 1 or more"):
        Derived(target="x.py", time_limit=0)
    assert Derived(target="x.py").time_limit is None


def test_commands_fit_on_a_page() -> None:
    """No function of the command line has more than sixty lines, or more than eight parameters."""
    functions = [
        (path.name, item)
        for path in ROOM.rglob("*.py")
        for item in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(item, ast.FunctionDef)
    ]
    assert len(functions) > 100
    for name, item in functions:
        count = len(item.args.args) + len(item.args.kwonlyargs)
        assert (item.end_lineno or 0) - item.lineno < LINES and count <= PARAMETERS, f"{name}: {item.name}"
