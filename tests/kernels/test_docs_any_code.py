"""The page about any machine code tells the truth: sources are those of the cubins, commands print its lines."""

import linecache
import re
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest
from house.farm import ROOT
from house.pages import ANY_CODE, is_printed, missing, sections
from support.given_cubins import cubin, source
from tilesight.kernels.launch.availability import missing_package

from tilesight.cli.main import main

if missing_package():
    pytest.skip(str(missing_package()), allow_module_level=True)
if not version("triton").startswith("3.6"):
    pytest.skip("the page shows what the disassembler of Triton 3.6 reads", allow_module_level=True)

SECTIONS = sections(ROOT / ANY_CODE)
PROGRAM = re.compile(r"^```python\n(import tilesight.*?)^```\n\n```text\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.fixture(autouse=True)
def readers_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A folder with the files that the page has written, and their cubins; 120 columns."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    for section in SECTIONS:
        for file, text in section.files():
            Path(file).write_text(text, "utf-8")
    for name in ("tile", "padded"):
        Path(f"{name}.cubin").write_bytes(cubin(name))
        # The line tables name the folder in which the cubins were compiled.
        text = source(name)
        linecache.cache[f"/{name}.cu"] = (len(text), None, text.splitlines(keepends=True), f"/{name}.cu")
    yield
    linecache.clearcache()


def test_sources_are_those_of_the_cubins() -> None:
    """What a reader compiles would be other code."""
    assert Path("tile.cu").read_text("utf-8") == source("tile")
    assert source("tile").replace("tile[32][32];", "tile[32][33];") == source("padded")


def test_commands_print_what_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    """Every line below a command, in order; and every number with a unit in the prose is printed by one of them."""
    printed = ""
    commands = [command for section in SECTIONS for command in section.ours()]
    assert len(commands) == 3
    for command, shown in commands:
        assert main(command.split()[1:]) == 0
        out = capsys.readouterr().out
        assert missing(shown, out) == [], command
        printed += out
    numbers = [number for section in SECTIONS for number in section.numbers()]
    assert [number for number in numbers if number != "220 MB" and not is_printed(number, printed)] == []


def test_the_program_prints_what_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    """As a reader types it, beside the files of the steps before."""
    ((program, shown),) = [match for section in SECTIONS for match in PROGRAM.findall(section.text)]
    exec(program, {})
    assert capsys.readouterr().out == shown
