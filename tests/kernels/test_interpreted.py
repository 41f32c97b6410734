"""Runs `interpreted/` in processes of its own: Triton is interpreted or compiled, never both in one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tilesight.kernels.launch.availability import missing_package

FOLDER = Path(__file__).parent / "interpreted"
ROOT = Path(__file__).parents[2]


FILES = sorted(FOLDER.glob("test_*.py"))
HALVES = (FILES[::2], FILES[1::2])
"""Two processes, which a machine of two cores runs side by side; each file by itself would import torch anew."""


@pytest.mark.skipif(missing_package() is not None, reason=str(missing_package()))
@pytest.mark.parametrize("files", HALVES, ids=["every other file", "the files between"])
def test_the_interpreter_agrees(files: list[Path]) -> None:
    """All tests of the files pass where Triton interprets kernels on the CPU."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "COV"))}
    options = ("-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--no-header")
    finished = subprocess.run(
        [sys.executable, "-P", "-m", "pytest", *options, *map(str, files)],
        env=environment | {"TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stdout[-6000:] + finished.stderr[-2000:]
    assert " passed" in finished.stdout


def test_there_are_files_to_interpret() -> None:
    """An empty folder would pass unseen."""
    assert len(FILES) >= 3
