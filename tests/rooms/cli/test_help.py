"""Help: options under headings by what they are about, commands in three lists."""

import re
from typing import Any

import pytest
import typer

from tilesight.cli.line.files import WRITES
from tilesight.cli.line.headings import MODEL, MORE_PROBLEM, MORE_SCHEDULE, ORDER, OUTPUT, PROBLEM, SCHEDULE
from tilesight.cli.main import app, main

GROUP: Any = typer.main.get_command(app)
COMMANDS: dict[str, Any] = {name: GROUP.get_command(None, name) for name in GROUP.list_commands(None)}
MOST_OTHERS = 16
"""Options of a command that are about none of the headings."""


def sections(text: str) -> dict[str, list[str]]:
    """Heading -> options, or commands, below it."""
    headings: dict[str, list[str]] = {}
    for line in text.splitlines():
        if heading := re.fullmatch(r"([A-Z].*):", line):
            headings[heading[1]] = []
        elif headings and (name := re.match(r"  (?:-h, )?([-a-z\[][^ ]*)", line)):
            headings[list(headings)[-1]].append(name[1])
    return headings


def help_of(capsys: pytest.CaptureFixture[str], *command: str) -> dict[str, list[str]]:
    """The help of a command, or of all."""
    assert main([*command, "-h"]) == 0
    return sections(capsys.readouterr().out)


@pytest.mark.parametrize("command", list(COMMANDS))
def test_every_option_is_under_one_heading(capsys: pytest.CaptureFixture[str], command: str) -> None:
    """In the same order for all commands, and few under none; what writes files is output."""
    headings = help_of(capsys, command)
    assert list(headings) == [heading for heading in ORDER if heading in headings]
    shown = [name for names in headings.values() for name in names if name.startswith("--")]
    wanted = {param.opts[0] for param in COMMANDS[command].params} | {"--help"}
    assert sorted(shown) == sorted(name for name in wanted if name.startswith("--"))
    assert len(headings["Options"]) <= MOST_OTHERS
    outputs = {param.opts[0] for param in COMMANDS[command].params} & WRITES - {"--page"}
    assert outputs <= set(headings.get(OUTPUT, []))


def test_what_only_some_schedules_take_is_by_itself(capsys: pytest.CaptureFixture[str]) -> None:
    """The problem and the options of the schedule that runs unasked come first."""
    headings = help_of(capsys, "explore")
    assert {"--batch", "--heads", "--causal", "--seqlen-k", "--model"} <= set(headings[PROBLEM])
    assert {"--page", "--softcap", "--latent-dim", "--lengths"} <= set(headings[MORE_PROBLEM])
    assert {"--schedule", "--block-m", "--num-warps"} <= set(headings[SCHEDULE])
    assert {"--splits", "--deterministic", "--softmax-variant"} <= set(headings[MORE_SCHEDULE])


def test_options_of_a_config_are_by_themselves(capsys: pytest.CaptureFixture[str]) -> None:
    """Those that a function of yours does not take."""
    assert help_of(capsys, "profile")[MODEL] == ["--tokens", "--decode", "--buckets", "--batch", "--layers"]


def test_commands_are_in_three_lists(capsys: pytest.CaptureFixture[str]) -> None:
    """By whom they are for, each once."""
    headings = help_of(capsys)
    lists = [
        [name for name in headings[heading] if name != "bad"]  # the epilog's second line begins so
        for heading in ("For schedules", "For your code", "On a GPU")
    ]
    assert sorted(name for names in lists for name in names) == sorted(COMMANDS)
    assert "explore" in lists[0] and "predict" in lists[1] and "validate" in lists[2]
