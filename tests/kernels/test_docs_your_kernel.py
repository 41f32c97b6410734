"""The page about kernels of one's own tells the truth: what it shows is what its commands and its program print."""

import re
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest
from house.farm import ROOT
from house.pages import YOUR_KERNEL, is_printed, missing, sections
from support import doc_picture
from tilesight.kernels.launch.availability import missing_package

from tilesight.cli.main import main

if missing_package():
    pytest.skip(str(missing_package()), allow_module_level=True)
if not version("triton").startswith("3.6"):
    pytest.skip("the page shows what Triton 3.6 compiles", allow_module_level=True)

SECTIONS = sections(ROOT / YOUR_KERNEL)
PROGRAM = re.compile(r"^```python\n(.*?)^```\n\n```text\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.fixture(autouse=True)
def readers_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A folder with the files that the page has written, 120 columns."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("COLUMNS", "120")
    for section in SECTIONS:
        for file, text in section.files():
            Path(file).write_text(text, "utf-8")
    yield
    sys.modules.pop("norm", None)


def test_commands_print_what_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    """Every line below a command, in order; and every number with a unit in the prose is printed by one of them."""
    printed = ""
    commands = [command for section in SECTIONS for command in section.ours()]
    assert len(commands) >= 4
    for command, shown in commands:
        assert main(command.split()[1:]) == 0
        out = capsys.readouterr().out
        assert missing(shown, out) == [], command
        printed += out
    numbers = [number for section in SECTIONS for number in section.numbers()]
    assert [number for number in numbers if not is_printed(number, printed)] == []


def test_the_program_prints_what_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    """As a reader types it, beside the file of the first step."""
    ((program, shown),) = [match for section in SECTIONS for match in PROGRAM.findall(section.text)]
    exec(program, {})
    assert capsys.readouterr().out == shown


def test_the_picture_says_what_is_predicted() -> None:
    """Every word and figure of it, in order."""
    assert doc_picture.words(doc_picture.FILE.read_bytes()) == doc_picture.words(doc_picture.drawn(doc_picture.row()))
