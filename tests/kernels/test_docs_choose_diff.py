"""The pages about choices and changes tell the truth: what they show is what their commands print, in a clone."""

import os
import shlex
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from house.farm import ROOT
from house.pages import CHOOSE, DIFF, OURS, Section, missing, program, sections
from tilesight.kernels.launch.availability import missing_package

from tilesight.cli.main import main

if missing_package():
    pytest.skip(str(missing_package()), allow_module_level=True)
if not version("triton").startswith("3.6"):
    pytest.skip("the pages show what Triton 3.6 compiles", allow_module_level=True)

SECTIONS = [section for page in (CHOOSE, DIFF) for section in sections(ROOT / page) if section.blocks()]
INSTALLS = "tilesight diff --triton "
"""Begin of commands that install a Triton; `test_diff_environments.py` runs them on one that is made up."""
COMMIT = ("-c", "user.name=a reader", "-c", "user.email=reader@example.org", "commit", "-q", "-m", "a clone")


@pytest.fixture(autouse=True)
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A repository with the examples and two environments that have what this one has, 120 columns."""
    shutil.copytree(ROOT / "docs" / "examples", tmp_path / "docs" / "examples")
    for command in (("init", "-q", "-b", "main"), ("add", "."), COMMIT):
        subprocess.run(["git", "-C", str(tmp_path), *command], check=True)
    for name in (".venv", ".venv-old"):
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / name)], check=True)
        (packages,) = (tmp_path / name).glob("lib/python*/site-packages")
        (packages / "more.pth").write_text("".join(f"{path}\n" for path in sys.path if path), "utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")


def printed(command: str, capsys: pytest.CaptureFixture[str]) -> str:
    """What a command prints. Fails where its exit code is not 0."""
    arguments = shlex.split(command)[1:]
    if program(command) == OURS:
        assert main(arguments) == 0, command
        return capsys.readouterr().out
    asked = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments]
    return subprocess.run(asked, check=True, text=True, stdout=subprocess.PIPE, env=dict(os.environ)).stdout


@pytest.mark.parametrize(
    "section", SECTIONS, ids=lambda section: f"{section.page.replace('/', '|')}: {section.heading}"
)
def test_a_section_shows_what_its_commands_print(section: Section, capsys: pytest.CaptureFixture[str]) -> None:
    """Every line below a command, in order; the commands run one after the other."""
    for file, text in section.files():
        Path(file).write_text(text, "utf-8")
    for command, shown in section.blocks():
        if not command.startswith(INSTALLS):
            assert missing(shown, printed(command, capsys)) == [], command


def test_no_command_of_these_pages_is_left_out() -> None:
    """They stand in console blocks, each of which is run but for one that installs."""
    text = "".join((ROOT / page).read_text("utf-8") for page in (CHOOSE, DIFF))
    assert "```sh\n" not in text
    commands = [command for section in SECTIONS for command, _ in section.blocks()]
    assert sum(command.startswith(INSTALLS) for command in commands) == 1 and len(commands) >= 15
