"""`tilesight explain` with code compiled here: where the cycles of schedules and of a user's kernels go, by line."""

import json
from pathlib import Path
from typing import Any

import pytest
from tilesight.kernels.launch.availability import missing_package

from tilesight import kernels
from tilesight.cli.main import main

if missing_package():
    pytest.skip(str(missing_package()), allow_module_level=True)

pytestmark = pytest.mark.usefixtures("own_cache")

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
SHAPE = ("--batch", "1", "--heads", "4", "--seqlen", "512")


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
    # CTAs that go another way are simulated by themselves; the loop of half of them outweighs all else.
    time = {line["source"].strip(): sum(line["warp_cycles"].values()) for line in explained["launches"][1]["lines"]}
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


def test_every_launch_of_a_pipeline_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    """Each has code of its own, by line of its kernel; what all warps execute is known before it runs."""
    launches = answer_of(capsys, "explain", "--schedule", "naive", *SHAPE)["launches"]
    assert [launch["name"] for launch in launches] == ["scores", "softmax", "output"]
    for launch in launches:
        assert launch["cost"] == "compiled"
        assert launch["executed_instructions"] == sum(loop["executed"] for loop in launch["loops"]) > 0
        assert launch["executed_instructions"] == sum(line["executed"] for line in launch["lines"])
        assert sum(step["cycles_fraction"] for step in launch["steps"]) < 1.01
    (sources,) = {line["file"] for launch in launches for line in launch["lines"] if line["line"]}
    assert Path(sources) == Path(kernels.__file__).with_name("naive.py")
    matmuls = max(launches[0]["lines"], key=lambda line: line["warp_cycles"]["matmuls"])
    assert "tl.dot(" in matmuls["source"]


def test_specialised_warps_say_where_their_cycles_come_from(capsys: pytest.CaptureFixture[str]) -> None:
    """From their code, or from tiles with a note; never in silence."""
    chosen = ("--schedule", "flash2_tma", "--warp-specialize", "1", "--num-warps", "4", "--num-stages", "2")
    explained = answer_of(capsys, "explain", *SHAPE, *chosen)
    (launch,) = explained["launches"]
    assert (launch["cost"] == "compiled") is (len(explained["notes"]) == 1)
    if launch["cost"] == "compiled":  # Triton 3.9 divides warps by branches that are not followed
        assert launch["executed_instructions"] > 0
    assert main(["explain", *SHAPE, *chosen]) == 0
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 120


def test_what_does_not_fit_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """As `simulate` says it."""
    assert (
        main(["explain", *SHAPE, "--block-m", "128", "--block-n", "256", "--num-warps", "8", "--num-stages", "4"]) == 2
    )
    answer = capsys.readouterr()
    assert (answer.out, answer.err.count("\n")) == ("", 1)
    assert "does not fit: shared memory: a CTA needs" in answer.err
