"""Functions of packages and of scripts, and what they print."""

from pathlib import Path

import pytest
from tilesight.kernels.launch.availability import missing_package

from tilesight.cli.main import main

if missing_package():
    pytest.skip(str(missing_package()), allow_module_level=True)

KERNEL = """
import torch
import triton
import triton.language as tl


@triton.jit
def copy(X, Y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(Y + i, tl.load(X + i, mask=i < n), mask=i < n)
"""
ENTRY = """
import torch
from ..k import copy


def run():
    print("hello from the user")
    x = torch.empty(4096, device="cuda")
    copy[(4,)](x, x, 4096, B=1024)
"""
SCRIPT = """
import argparse
from pkg.k import copy
parser = argparse.ArgumentParser()
parser.add_argument("--n", type=int, required=True)
arguments = parser.parse_args()


def run():
    pass
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's folder with a package in it, and a script beside that; the working directory."""
    package = tmp_path / "pkg" / "sub"
    package.mkdir(parents=True)
    for path, text in (("__init__.py", ""), ("k.py", KERNEL), ("sub/__init__.py", ""), ("sub/entry.py", ENTRY)):
        (tmp_path / "pkg" / path).write_text(text, encoding="utf-8")
    (tmp_path / "main_args.py").write_text(SCRIPT, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("target", ["pkg/sub/entry.py:run", "pkg.sub.entry:run"])
def test_a_module_of_a_package_is_run_as_a_part_of_it(
    folder: Path, capsys: pytest.CaptureFixture[str], target: str
) -> None:
    """It imports what lies beside it; what it prints reaches stderr, as stdout is the answer's."""
    assert main(["predict", target]) == 0
    said = capsys.readouterr()
    assert said.out.startswith("1 launch on h200") and "hello from the user\n" in said.err


def test_a_script_that_ends_itself_says_why(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In its own words, with its line."""
    assert main(["predict", "main_args.py:run"]) == 1
    said = "main_args.py: error: the following arguments are required: --n"
    usage, error, last = capsys.readouterr().err.splitlines()
    assert usage.startswith("usage: main_args.py") and error == said
    assert last == f"tilesight: the code ended itself: SystemExit: 2 (main_args.py:6): {said}"


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ("pkg.other:run", "pkg.other: is no module of Python source that can be imported here"),
        ("nowhere.other:run", "nowhere.other: no module named 'nowhere'"),
        ("pkg.k:run", "k.py: function 'run' is unknown: must be copy"),
    ],
)
def test_what_is_no_function_of_a_module_is_one_line(
    folder: Path, capsys: pytest.CaptureFixture[str], target: str, reason: str
) -> None:
    """It names what is not there."""
    assert main(["predict", target]) == 2
    assert capsys.readouterr().err.splitlines()[-1].startswith(f"tilesight: {reason.partition(': must')[0]}")
