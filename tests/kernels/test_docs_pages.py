"""Pages about code of one's own tell the truth: what they show is what their commands and programs print."""

import linecache
import re
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest
from house.farm import ROOT
from house.pages import ANY_CODE, PYTORCH, SEVERAL, YOUR_KERNEL, Section, is_printed, missing, sections
from support import doc_picture
from support.given_cubins import cubin, source
from tilesight.kernels.launch.availability import missing_package

from tilesight.cli.main import main

if missing_package():
    pytest.skip(str(missing_package()), allow_module_level=True)
if not version("triton").startswith("3.6"):
    pytest.skip("the pages show what Triton 3.6 compiles and its disassembler reads", allow_module_level=True)

PAGES = {"your kernel": [YOUR_KERNEL], "any code": [ANY_CODE], "pytorch": [PYTORCH, SEVERAL]}
"""Pages whose files stand in one folder; together they have one program."""
SECTIONS = {name: [part for page in pages for part in sections(ROOT / page)] for name, pages in PAGES.items()}
PROGRAM = re.compile(r"^```python\n((?:(?!```)[^\n]*\n)*)```\n\n```text\n(.*?)^```", re.MULTILINE | re.DOTALL)
MEASURED = "What is refused"
"""Heading of the part that ends in what a GPU took."""
NOT_PRINTED = {"220 MB"}
"""Numbers of prose that no command prints: the size of a compiler."""
other_torch = pytest.mark.skipif(not version("torch").startswith("2.13"), reason="the pages show what torch 2.13 makes")
every_page = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=other_torch) if name == "pytorch" else name for name in PAGES]
)


@pytest.fixture(autouse=True)
def readers_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A folder with the files that the pages have written, and their cubins; 120 columns."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("COLUMNS", "120")
    known = set(sys.modules)
    yield
    for name in set(sys.modules) - known:
        if (getattr(sys.modules[name], "__file__", None) or "").startswith(str(tmp_path)):
            del sys.modules[name]
    linecache.clearcache()


def written(name: str) -> list[Section]:
    """The sections of pages, whose files are written into the folder."""
    for section in SECTIONS[name]:
        for file, text in section.files():
            Path(file).write_text(text, "utf-8")
    if name == "pytorch":  # the one file that is named, not written
        Path("context.py").write_bytes((ROOT / "docs" / "examples" / "context.py").read_bytes())
    for kernel in ("tile", "padded") if name == "any code" else ():
        Path(f"{kernel}.cubin").write_bytes(cubin(kernel))
        # The line tables name the folder in which the cubins were compiled.
        text = source(kernel)
        linecache.cache[f"/{kernel}.cu"] = (len(text), None, text.splitlines(keepends=True), f"/{kernel}.cu")
    return SECTIONS[name]


@every_page
def test_commands_print_what_is_shown(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Every line below a command, in order; and numbers with a unit in prose about kernels are printed."""
    printed, parts = "", written(name)
    commands = [command for section in parts for command in section.ours()]
    assert len(commands) >= 3
    for command, shown in commands:
        assert main(command.split()[1:]) == 0, command
        out = capsys.readouterr().out
        assert missing(shown, out) == [], command
        printed += out
    printing = [section for section in parts if section.heading != MEASURED]
    numbers = {number for section in printing for number in section.numbers()} if name != "pytorch" else set()
    assert [number for number in numbers - NOT_PRINTED if not is_printed(number, printed)] == []


@every_page
def test_the_program_prints_what_is_shown(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """As a reader types it, beside the files of the steps before."""
    ((program, shown),) = [match for section in written(name) for match in PROGRAM.findall(section.text)]
    exec(program, {})
    assert capsys.readouterr().out == shown


def test_sources_are_those_of_the_cubins() -> None:
    """What a reader compiles would be other code."""
    written("any code")
    assert Path("tile.cu").read_text("utf-8") == source("tile")
    assert source("tile").replace("tile[32][32];", "tile[32][33];") == source("padded")


def test_the_picture_says_what_is_predicted() -> None:
    """Of a kernel of one's own: every word and figure of it, in order."""
    assert doc_picture.words(doc_picture.FILE.read_bytes()) == doc_picture.words(doc_picture.drawn(doc_picture.row()))
