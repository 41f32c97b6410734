"""What a command reads it never writes over: every option that names a file is declared, and checked first."""

import os
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import typer

from tilesight.cli.line.files import FOLDERS, READS, WRITES
from tilesight.cli.main import app, main

NO_FILE = {
    *("--set", "--old-set", "--new-set", "--sweep", "--config", "--price", "--declare", "--fail-on", "--only"),
    *("--schedule", "--law", "--layer", "--skew", "--batch-sizes", "--seqlens", "--triton", "--dask", "--ray"),
    *("--screen", "--gpus", "--decode", "--buckets", "--fail-above", "--time-limit", "--timeout", "--triton-configs"),
    *("--mode", "--tp", "--ep", "--pp", "--draw", "--dropout", "--softcap", "--window", "--indices", "--kind"),
    *("--kernel", "--grid", "--block", "--cluster", "--host"),
}
"""Options with a text of their own that names no file."""
GROUP: Any = typer.main.get_command(app)
COMMANDS: dict[str, Any] = {name: GROUP.get_command(None, name) for name in GROUP.list_commands(None)}
LINES = {
    "target": "{}:run", "old": "{}:run", "new": "HEAD:{}:run", "--mask": "blocks:{}", "--problem": "mask=documents:{}",
    "--arg": "x=tensor:int32[4]@{}",
}  # fmt: skip
"""Option or argument -> a text that names a file, where it is not the file alone."""


def is_of_words(param: Any) -> bool:
    """A flag, a number, or one of some words: no file can be named by it."""
    shown = param.metavar or ""
    return getattr(param, "is_flag", False) or shown.startswith("INT") or ("|" in shown and "FILE" not in shown)


PAIRS = [
    (name, reader.opts[0], writer.opts[0])
    for name, command in COMMANDS.items()
    for reader, writer in product(command.params, command.params)
    if reader.opts[0] in READS and writer.opts[0] in WRITES and not is_of_words(writer)
]


@pytest.mark.parametrize("command", list(COMMANDS))
def test_every_option_says_whether_it_names_a_file(command: str) -> None:
    """One that is new is declared in `cli/line/files.py`, or known here to name none."""
    named = {param.opts[0] for param in COMMANDS[command].params if not is_of_words(param)} - {"--help"}
    assert named <= {*READS, *WRITES, *FOLDERS, *NO_FILE}
    files = {param.opts[0] for param in COMMANDS[command].params if "FILE" in (param.metavar or "")}
    assert files <= {*READS, *WRITES}


def test_each_option_has_one_part() -> None:
    """None reads and writes; none is declared that no command has."""
    declared = [*READS, *WRITES, *FOLDERS]
    assert len(declared) == len(set(declared)) and not NO_FILE & set(declared)
    assert set(declared) | NO_FILE <= {param.opts[0] for command in COMMANDS.values() for param in command.params}


@pytest.mark.parametrize(("command", "reader", "writer"), PAIRS, ids=[" ".join(pair) for pair in PAIRS])
def test_what_is_read_is_not_written_over(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: str,
    reader: str,
    writer: str,
) -> None:
    """Of every command, by any option; found before anything runs, and said in one line."""
    monkeypatch.chdir(tmp_path)
    file = Path("mine.py")
    file.write_text("mine", "utf-8")
    other = file.absolute()
    text = LINES.get(reader, "{}").format(file)
    before = ["x.py:run"] if reader == "new" else []
    before += ["x.py:run"] if command in ("predict", "profile", "diff") and reader.startswith("--") else []
    read = [reader, text] if reader.startswith("--") else [text]
    assert main([command, *before, *read, writer, str(other)]) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.count("\n") == 1
    said = " ".join(read)
    assert f"{writer} {str(other)!r}: is a file that {said} reads; name another one" in captured.err
    assert file.read_text("utf-8") == "mine" and list(tmp_path.iterdir()) == [file.absolute()]


@pytest.mark.parametrize("link", [os.link, os.symlink])
def test_a_file_is_known_by_its_other_names(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    link: Callable[[str, str], None],
) -> None:
    """A hard link and a symbolic one."""
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text("mine", "utf-8")
    link("mine.py", "other.py")
    assert main(["predict", "mine.py:run", "--html", "other.py"]) == 2
    assert "--html 'other.py': is a file that mine.py:run reads" in capsys.readouterr().err
    assert Path("mine.py").read_text("utf-8") == "mine"


def test_pairs_are_of_many_commands() -> None:
    """So that the test above is of some."""
    assert len(PAIRS) > 50 and {command for command, _, _ in PAIRS} >= {
        *("predict", "profile", "diff", "tune", "validate", "explore", "compare", "simulate", "calibrate"),
    }


@pytest.mark.parametrize(
    ("target", "file"),
    [
        ("hf:config.json", "config.json"),
        ("package.kernels:run", "package/kernels.py"),
        ("package:run", "package/__init__.py"),
    ],
)
def test_modules_and_models_are_read_too(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str, file: str
) -> None:
    """A module is found as Python finds it."""
    monkeypatch.chdir(tmp_path)
    Path(file).parent.mkdir(exist_ok=True)
    Path(file).write_text("mine", "utf-8")
    assert main(["profile", target, "--csv", file]) == 2
    assert f"--csv {file!r}: is a file that {target} reads" in capsys.readouterr().err


def test_a_list_of_devices_is_read_one_by_one(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between commas, too."""
    monkeypatch.chdir(tmp_path)
    Path("mine.toml").write_text("mine", "utf-8")
    assert main(["explore", "--device", "h200, mine.toml", "--csv", "mine.toml"]) == 2
    assert "--csv 'mine.toml': is a file that --device h200, mine.toml reads" in capsys.readouterr().err


def test_two_outputs_are_two_files(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a hard link, too."""
    monkeypatch.chdir(tmp_path)
    Path("one").touch()
    os.link("one", "two")
    assert main(["explore", "--csv", "one", "--html", "two"]) == 2
    assert "--html 'two': is the file of --csv already; name two files" in capsys.readouterr().err


def test_a_folder_for_files_is_no_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Said before anything is predicted, not once it cannot be made."""
    (tmp_path / "here").touch()
    assert main(["tune", "x.py:run", "--format", "triton-cache", "--to", str(tmp_path / "here")]) == 2
    assert "is a file; name a folder" in capsys.readouterr().err
