"""The pages about PyTorch and several GPUs tell the truth: what they show is what commands and programs print."""

import re
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest
from house.farm import ROOT
from house.pages import PYTORCH, SEVERAL, missing, sections
from tilesight.kernels.launch.availability import missing_package

from tilesight.cli.main import main

if missing_package():
    pytest.skip(str(missing_package()), allow_module_level=True)
if not (version("triton").startswith("3.6") and version("torch").startswith("2.13")):
    pytest.skip("the page shows what torch 2.13 and Triton 3.6 make", allow_module_level=True)

SECTIONS = [section for page in (PYTORCH, SEVERAL) for section in sections(ROOT / page)]
PROGRAM = re.compile(r"^```python\n(.*?)^```\n\n```text\n(.*?)^```", re.MULTILINE | re.DOTALL)
COMMANDS = [block for section in SECTIONS for block in section.ours()]


@pytest.fixture(autouse=True)
def readers_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A folder with the files that the pages have written or named, 120 columns."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("COLUMNS", "120")
    for section in SECTIONS:
        for file, text in section.files():
            Path(file).write_text(text, "utf-8")
    Path("context.py").write_bytes((ROOT / "docs" / "examples" / "context.py").read_bytes())
    yield
    for name in ("model", "faster", "train", "sum", "context"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize(("command", "shown"), COMMANDS, ids=[command for command, _ in COMMANDS])
def test_a_command_prints_what_is_shown(command: str, shown: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Every line below it, in order."""
    assert main(command.split()[1:]) == 0
    assert missing(shown, capsys.readouterr().out) == []


def test_the_program_prints_what_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    """As a reader types it, beside the files of the first steps."""
    ((program, shown),) = [match for section in SECTIONS for match in PROGRAM.findall(section.text)]
    exec(program, {})
    assert capsys.readouterr().out == shown
