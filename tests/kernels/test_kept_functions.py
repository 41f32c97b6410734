"""What a function launches is recorded once, and again when anything changes that it was made of."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from tilesight.kernels.capture.file import Asked, RecordedFunction, UserCodeFailed, capture_calls
from tilesight.kernels.compile.call import KernelLaunch
from tilesight.kernels.launch.availability import missing_package

if missing_package():
    pytest.skip(str(missing_package()), allow_module_level=True)

LAUNCHES = """
import os, random, torch, numpy, triton
import triton.language as tl
from helper import BLOCK

with open(os.path.join(os.path.dirname(__file__), "runs.txt"), "a") as runs:
    runs.write("run ")

@triton.jit
def gather(index, out, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + tl.load(index + at), 1.0)

def run():
    with open(os.path.join(os.path.dirname(__file__), "rows.txt")) as rows:
        count = int(rows.read()) + int(os.environ.get("MORE_ROWS", "0"))
    index = torch.randint(0, 1000, (count * BLOCK,)) + random.randrange(8) + numpy.random.randint(8)
    print("said by the function")
    gather[(count,)](index, torch.empty(2000, device="cuda"), BLOCK)
    if os.path.exists(os.path.join(os.path.dirname(__file__), "fails")):
        raise ValueError("as asked")
"""
ASKED = Asked(device="h200", timeout_s=300)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's folder, and a file of its own for what is kept."""
    monkeypatch.setenv("TILESIGHT_PREDICTIONS", str(tmp_path / "kept.sqlite"))
    made = tmp_path / "code"
    made.mkdir()
    for name, text in {"launches.py": LAUNCHES, "helper.py": "BLOCK = 64", "rows.txt": "4"}.items():
        (made / name).write_text(text, encoding="utf-8")
    return made


def recorded(folder: Path, asked: Asked = ASKED) -> RecordedFunction:
    """What its function launches."""
    (made,) = capture_calls(f"{folder}/launches.py:run", asked)
    return made


def runs(folder: Path) -> int:
    """How often the user's file has run."""
    return len((folder / "runs.txt").read_text("utf-8").split())


def test_a_function_is_recorded_once_and_comes_back_as_it_was(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its launches with their values, and what it prints; the time of a file does not matter."""
    first = recorded(folder)
    printed = capsys.readouterr().err
    os.utime(folder / "helper.py", (2e9, 2e9))
    assert recorded(folder) == first
    assert printed == capsys.readouterr().err == "said by the function\n"
    assert runs(folder) == 1


def test_what_is_drawn_at_random_is_the_same_each_time(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the generators of torch, numpy and Python: else an answer that is kept would be one of many."""
    monkeypatch.setenv("TILESIGHT_PREDICTIONS", "off")
    first, again = recorded(folder), recorded(folder)
    assert runs(folder) == 2
    assert isinstance(first.calls[0], KernelLaunch)
    assert any(storage.values is not None for storage in first.calls[0].storages)
    assert first == again


def test_whatever_a_function_is_made_of_records_it_anew(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module that it imports, a file that it reads, a variable, a device, a value to try."""
    seen = [recorded(folder)]
    (folder / "helper.py").write_text("BLOCK = 128", encoding="utf-8")
    seen.append(recorded(folder))
    (folder / "rows.txt").write_text("5", encoding="utf-8")
    seen.append(recorded(folder))
    monkeypatch.setenv("MORE_ROWS", "1")
    seen.append(recorded(folder))
    recorded(folder, replace(ASKED, settings=("sms=100",)))
    assert runs(folder) == 5
    assert [call.grid[0] for made in seen for call in made.calls] == [4, 4, 5, 6]


def test_a_function_that_fails_is_asked_again(folder: Path) -> None:
    """After its last launch, or before the first: the reason may be gone."""
    (folder / "fails").touch()
    assert "as asked" in recorded(folder).ended
    assert "as asked" in recorded(folder).ended
    (folder / "rows.txt").write_text("none", encoding="utf-8")
    for _ in range(2):
        with pytest.raises(UserCodeFailed, match="invalid literal"):
            recorded(folder)
    assert runs(folder) == 4


def test_a_kept_answer_loads_neither_torch_nor_what_compiles_the_engine(folder: Path) -> None:
    """It is there before either would be."""
    code = (
        "import sys; from tilesight.cli.main import main; main(sys.argv[1:]);"
        "print(*sorted({'torch', 'triton', 'numba'} & set(sys.modules)), file=sys.stderr)"
    )
    command = [sys.executable, "-P", "-c", code, "predict", f"{folder}/launches.py:run"]
    first, again = (subprocess.run(command, capture_output=True, text=True, check=True) for _ in range(2))
    assert first.stdout == again.stdout
    assert "numba" in first.stderr.split()
    assert again.stderr == "said by the function\n\n"
