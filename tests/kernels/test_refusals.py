"""Launches that cannot be predicted are refused in one line that names kernel, line and tensor."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tilesight.kernels.launch.availability import missing_package

from tilesight.cli.main import main

pytestmark = pytest.mark.skipif(missing_package() is not None, reason=str(missing_package()))

Answer = dict[str, list[dict[str, Any]]]
Predict = Callable[..., tuple[int, Answer]]
FILE = """
import torch
import triton
import triton.language as tl


@triton.jit
def locked(X, LOCK, Y, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x = tl.load(X + tl.program_id(0) * BLOCK + i)
    while tl.atomic_cas(LOCK, 0, 1) == 1:  # lock
        pass
    tl.store(Y + i, tl.load(Y + i) + x)
    tl.debug_barrier()
    tl.atomic_xchg(LOCK, 0)


@triton.jit
def met(X, ARRIVED, Y, ctas, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(Y + i, tl.load(X + i) * 2)
    tl.atomic_add(ARRIVED, 1)
    while tl.load(ARRIVED, volatile=True) < ctas:  # barrier
        pass
    tl.store(X + i, tl.load(Y + ctas * BLOCK - 1 - i))


@triton.jit
def queued(X, TICKET, Y, n, BLOCK: tl.constexpr):
    t = tl.atomic_add(TICKET, 1)
    while t < n:  # ticket
        i = t * BLOCK + tl.arange(0, BLOCK)
        tl.store(Y + i, tl.load(X + i) * 2)
        t = tl.atomic_add(TICKET, 1)


@triton.jit
def appended(X, END, Y, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x = tl.load(X + tl.program_id(0) * BLOCK + i)
    at = tl.atomic_add(END, BLOCK)
    tl.store(Y + at + i, x)  # append


@triton.jit
def last_sums(X, ARRIVED, PARTS, Y, CTAS: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(PARTS + tl.program_id(0), tl.sum(tl.load(X + tl.program_id(0) * BLOCK + i), 0))
    if tl.atomic_add(ARRIVED, 1) == CTAS - 1:  # last
        tl.store(Y, tl.sum(tl.load(PARTS + tl.arange(0, CTAS)), 0))


@triton.jit
def converges(X, Y, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(X + i)
    while tl.max(x, 0) > 1.0:  # tolerance
        x = x * 0.5
    tl.store(Y + i, x)


@triton.jit
def copied(X, Y, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(Y + i, tl.load(X + i))


@triton.jit
def shifted(X, Y, by, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(X + i + by)  # shift
    tl.store(Y + i, x)


@triton.jit
def paged(X, PAGES, Y, count, SIZE: tl.constexpr):
    i = tl.arange(0, SIZE)
    total = tl.zeros([SIZE], tl.float32)
    for k in range(count):
        page = tl.load(PAGES + tl.program_id(0) * count + k)
        total += tl.load(X + page * SIZE + i)  # page
    tl.store(Y + tl.program_id(0) * SIZE + i, total)


@triton.jit
def ragged(X, OFFSETS, Y, BLOCK: tl.constexpr):
    begin = tl.load(OFFSETS + tl.program_id(0))
    end = tl.load(OFFSETS + tl.program_id(0) + 1)
    if begin >= end:  # empty
        return
    i = tl.arange(0, BLOCK)
    tl.store(Y + tl.program_id(0) * BLOCK + i, tl.load(X + i))


@triton.jit
def ordered(KEYS, X, Y, N: tl.constexpr, D: tl.constexpr):
    r, c = tl.arange(0, N), tl.arange(0, D)
    row = tl.sort(tl.load(KEYS + r))
    x = tl.load(X + row[:, None] * D + c[None, :])  # order
    tl.store(Y + r[:, None] * D + c[None, :], x)


@triton.jit
def added(Z, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.atomic_add(Z + i, (i + tl.program_id(0)).to(tl.bfloat16))  # add


def floats(*shape):
    return torch.empty(shape, device="meta")


def whole(values=(0,), device="cpu"):
    return torch.tensor(values, dtype=torch.int32, device=device)


def run():
    x, y = floats(4096), floats(4096)
    locked[(8,)](x, whole(device="meta"), y, BLOCK=256)
    locked[(8,)](x, whole(), y, BLOCK=256)
    met[(8,)](x, whole(device="meta"), y, 8, BLOCK=256)
    met[(8,)](x, whole(), y, 8, BLOCK=256)
    queued[(4,)](x, whole(), y, 16, BLOCK=256)
    appended[(8,)](x, whole(), y, BLOCK=256)
    last_sums[(8,)](x, whole(), floats(8), y, CTAS=8, BLOCK=256)
    converges[(8,)](x, y, BLOCK=256)
    copied[(8,)](x, y, BLOCK=256, num_ctas=2)
    shifted[(16,)](x, y, 3, BLOCK=256)
    shifted[(16,)](x, y, -2, BLOCK=256)
    pages = list(range(32))
    pages[17] = 64
    paged[(8,)](x, whole(pages), y, 4, SIZE=64)
    pages[17] = -1
    paged[(8,)](x, whole(pages), y, 4, SIZE=64)
    ragged[(8,)](x, whole(list(range(9)), "meta"), y, BLOCK=256)
    ordered[(1,)](whole(list(range(64)), "meta"), x, y, N=64, D=64)


def retry():
    z = torch.empty(64, device="meta", dtype=torch.bfloat16)
    added[(8,)](z, BLOCK=64)


def stale():
    x, y, pages = floats(4096), floats(4096), whole(list(range(32)))
    copied[(1,)](whole([0] * 32), pages, BLOCK=32)
    paged[(8,)](x, pages, y, 4, SIZE=64)
"""
REFUSED = (
    ("a lock", "lock",
     "kernel locked: CTAs wait for each other through memory ({}): not modelled: they poll tensor LOCK"),
    ("a lock that is free at first", "lock",
     "kernel locked: CTAs wait for each other through memory ({}): not modelled: they poll tensor LOCK"),
    ("a barrier of the grid", "barrier",
     "kernel met: CTAs wait for each other through memory ({}): not modelled: they poll tensor ARRIVED"),
    ("a barrier of the grid with its counter", "barrier",
     "kernel met: CTAs wait for each other through memory ({}): not modelled: they poll tensor ARRIVED"),
    ("a queue of work", "ticket",
     "kernel queued: {} uses the result of an atomic on tensor TICKET: CTA order decides what it does"),
    ("a place that an atomic gives", "append",
     "kernel appended: {} uses the result of an atomic on tensor END: CTA order decides what it does"),
    ("the last CTA", "last",
     "kernel last_sums: {} uses the result of an atomic on tensor ARRIVED: CTA order decides what it does"),
    ("a tolerance", "tolerance",
     "kernel converges: {} branches on values computed from tensor X; cannot be predicted from code alone"),
    ("a cluster", "", "kernel copied: num_ctas = 2: clusters are not modelled"),
    ("beyond a tensor", "shift", "kernel shifted: {}: load reaches 12 B beyond tensor X"),
    ("in front of a tensor", "shift", "kernel shifted: {}: load reaches 8 B in front of tensor X"),
    ("a page beyond a tensor", "page", "kernel paged: {}: load reaches 256 B beyond tensor X"),
    ("a page in front of a tensor", "page", "kernel paged: {}: load reaches 256 B in front of tensor X"),
    ("an end that is not known", "empty",
     "kernel ragged: {}: EXIT depends on tensor OFFSETS, whose values are not known: pass OFFSETS as a CPU tensor"),
    ("keys that are sorted, not known", "order",
     "kernel ordered: {}: its address depends on tensor KEYS, whose values are not known: pass KEYS as a CPU tensor"),
)  # fmt: skip


def line_of(mark: str) -> str:
    """The line of the file that a comment marks."""
    number = next((place for place, line in enumerate(FILE.splitlines(), 1) if line.endswith(f"# {mark}")), 0)
    return f"line {number}"


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A user's file."""
    path = tmp_path_factory.mktemp("refusals") / "mine.py"
    path.write_text(FILE, encoding="utf-8")
    return path


@pytest.fixture
def predicted(file: Path, capsys: pytest.CaptureFixture[str]) -> Predict:
    """What the command answers to a function of the file, and how it ends."""

    def predict(function: str, *options: str) -> tuple[int, Answer]:
        code = main(["predict", f"{file}:{function}", "--json", *options])
        answer: Answer = json.loads(capsys.readouterr().out)
        return code, answer

    return predict


def test_what_cannot_be_predicted_is_refused(predicted: Predict) -> None:
    """Each launch in a line of its own; nothing is predicted, so the command fails."""
    code, answer = predicted("run")
    lines = [launch["refused"] for launch in answer["launches"]]
    assert lines == [text.format(line_of(mark)) for _, mark, text in REFUSED]
    assert all(launch["traffic"] is None for launch in answer["launches"])
    assert code == 1


def test_an_atomic_that_the_compiler_tries_again_waits_for_nobody(predicted: Predict) -> None:
    """The A100 adds to narrow floats by compare-and-swap: it is predicted, with a note."""
    code, answer = predicted("retry", "--device", "a100")
    (launch,) = answer["launches"]
    assert code == 0 and launch["refused"] is None
    assert any("tries an atomic until it succeeds" in note for note in launch["notes"])


def test_values_that_an_earlier_launch_would_write_are_doubtful(predicted: Predict) -> None:
    """No launch runs, so what was passed is used, and the answer says so."""
    code, answer = predicted("stale")
    first, second = answer["launches"]
    assert code == 0 and first["refused"] is None is second["refused"]
    doubt = "kernel paged: an earlier launch writes PAGES, but does not run: the values that were passed are used"
    assert doubt in second["notes"] and doubt not in first["notes"]
