"""Packages that are missing, or of another version than is supported: one line, and only where they are needed."""

import re
import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("state", "command", "said"),
    [
        (
            "sys.modules['hypothesis'] = None",
            "check-softmax json:dumps",
            f"hypothesis is not installed: {sys.executable} -m pip install hypothesis",
        ),
        (
            "import numba; numba.version_info = (0, 99, 1); numba.__version__ = '0.99.1'",
            "simulate --seqlen 256",
            "numba 0.99.1 is installed: must be 0.61 to 0.68 (pip install 'numba>=0.61,<0.69')",
        ),
    ],
)
def test_a_package_that_is_missing_or_another_is_named_in_one_line(state: str, command: str, said: str) -> None:
    """With what to install; no command but the one that needs it asks for it."""
    text = f"import sys; {state}; from tilesight.cli.main import main; sys.exit(main({command.split()}))"
    finished = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)
    assert (finished.returncode, finished.stdout, finished.stderr) == (2, "", f"tilesight: {said}\n")


def test_commands_need_no_extra() -> None:
    """What explores, simulates and compares runs without the packages of other commands."""
    text = "import sys; sys.modules['hypothesis'] = None; from tilesight.cli.main import main; "
    text += "sys.exit(main(sys.argv[1:]))"
    shape = ["--batch", "1", "--heads", "1", "--seqlen", "256"]
    pinned = ["--block-m", "64", "--block-n", "64", "--num-warps", "4", "--num-stages", "2"]
    compare = ["compare", "--schedule", "flash2", "--seqlens", "256"]
    for command in (["simulate"], ["explore", *pinned], [*compare, *pinned]):
        wanted = [*command, *(shape if command[0] != "compare" else shape[:4])]
        finished = subprocess.run([sys.executable, "-c", text, *wanted], capture_output=True, text=True, check=False)
        # On a busy machine a line now and then says how far the work has come.
        said = [line for line in finished.stderr.splitlines() if not re.search(r"\d+ of \d+ ", line)]
        assert (finished.returncode, said) == (0, []), finished.stderr
