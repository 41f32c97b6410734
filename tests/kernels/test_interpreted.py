"""Runs `interpreted/`, file by file, in a process of its own: Triton is interpreted or compiled, never both in one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tilesight.kernels.launch.availability import missing_package

FOLDER = Path(__file__).parent / "interpreted"
ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(missing_package() is not None, reason=str(missing_package()))
@pytest.mark.parametrize("file", sorted(path.name for path in FOLDER.glob("test_*.py")))
def test_the_interpreter_agrees(file: str) -> None:
    """All tests of the file pass where Triton interprets kernels on the CPU."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "COV"))}
    finished = subprocess.run(
        [sys.executable, "-P", "-m", "pytest", "-q", "-p", "no:cacheprovider", "--no-header", str(FOLDER / file)],
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
    assert len(list(FOLDER.glob("test_*.py"))) >= 3
