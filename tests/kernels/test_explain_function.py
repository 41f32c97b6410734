"""`tilesight explain FILE.py:FUNCTION`: where the cycles of a user's kernels go, by line of the source."""

import json
from pathlib import Path
from typing import Any

import pytest
from tilesight.kernels.launch.availability import missing_package

from tilesight.cli.main import main

if missing_package():
    pytest.skip(str(missing_package()), allow_module_level=True)

FILE = """
import torch
import triton
import triton.language as tl


@triton.jit
def scale(X, Y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(X + i, mask=i < n)
    tl.store(Y + i, x * 2, mask=i < n)


@triton.jit
def triangle(X, Y, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    if row % 2 == 0:
        for j in range(0, row + 1):
            total += tl.load(X + j * BLOCK + i)
    else:
        total += tl.exp(tl.load(X + i))
    tl.store(Y + row * BLOCK + i, total)


@triton.jit
def gather(X, IDS, Y, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(Y + i, tl.load(X + tl.load(IDS + i)))


def run():
    x = torch.empty(1 << 16, device="meta")
    y = torch.empty_like(x)
    scale[(64,)](x, y, x.numel(), BLOCK=1024)
    triangle[(256,)](x, y, x.numel(), BLOCK=256)


def unknown():
    x = torch.empty(1024, device="meta")
    gather[(4,)](x, torch.empty(1024, dtype=torch.int32, device="meta"), torch.empty_like(x), BLOCK=256)
"""
LINES = FILE.splitlines()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A user's file."""
    path = tmp_path / "mine.py"
    path.write_text(FILE, encoding="utf-8")
    return path


def answer_of(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    """What a command prints as JSON."""
    assert main([*arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_every_instruction_counts_at_its_line(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Over the lines of each launch they sum up to what its warps execute, whichever way its CTAs go."""
    explained = answer_of(capsys, "explain", f"{file}:run")
    predicted = answer_of(capsys, "predict", f"{file}:run")
    assert explained["schema"] == "tilesight.explain.kernels/1" and explained["l2"] == "pipeline"
    assert explained["time_s"] == predicted["total"]["time_s"]
    for launch, row in zip(explained["launches"], predicted["launches"], strict=True):
        assert launch["name"] == row["name"] and launch["cost"] == "compiled"
        assert sum(line["executed"] for line in launch["lines"]) == row["executed_instructions"]
        assert launch["executed_instructions"] == row["executed_instructions"]
        for line in launch["lines"]:
            assert line["source"] == (LINES[line["line"] - 1] if line["line"] else "")


def test_lines_of_both_branches_have_their_cycles(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """CTAs that go another way are simulated by themselves; the loop of half of them outweighs all else."""
    _, launch = answer_of(capsys, "explain", f"{file}:run")["launches"]
    time = {line["source"].strip(): sum(line["warp_cycles"].values()) for line in launch["lines"]}
    loop, other = time["total += tl.load(X + j * BLOCK + i)"], time["total += tl.exp(tl.load(X + i))"]
    assert loop > other > 0


def test_the_longest_launch_is_shown_with_its_source(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Others in a line or three, refused ones with their reason; nothing wider than the page."""
    assert main(["explain", f"{file}:run", "--sass"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("2 launches on h200") and "Launch 2 of 2: triangle, the longest" in text
    assert "by line of mine.py" in text and "    total += tl.load(X + j * BLOCK + i)" in text
    assert "Other launches" in text and "EXIT" in text
    assert main(["explain", f"{file}:unknown"]) == 1
    assert "Refused  kernel gather: line 30: its address depends on tensor IDS" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["FILE:run", "--schedule", "flash2"], "--schedule flash2: changes nothing with FILE:run; leave it out"),
        (["FILE:absent"], "mine.py: function 'absent' is unknown; known are run, unknown"),
        (["--time-limit", "3"], "--time-limit 3: changes nothing without FILE.py:FUNCTION; leave it out"),
        (["--l2", "pipeline"], "--l2 'pipeline': of a schedule must be one of cold, warm"),
    ],
)
def test_what_is_not_read_is_refused(
    file: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], line: str
) -> None:
    """Options of schedules with a function, and the other way round."""
    assert main(["explain", *(word.replace("FILE", str(file)) for word in arguments)]) == 2
    assert capsys.readouterr().err.splitlines() == [f"tilesight: {line.replace('FILE:', f'{file}:')}"]
