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


@triton.jit
def sine(X, Y, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(Y + i, tl.sin(tl.load(X + i)))  # sine


@triton.jit
def guarded(X, Y, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(X + i)
    if tl.max(x, 0) > 1e30:  # guard
        for k in range(64):
            x = tl.exp(x - k) * tl.cos(x)
    tl.store(Y + i, x)


@triton.jit
def printing(X, Y, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(X + i)
    if tl.program_id(0) == 0:
        tl.device_print("x", x)  # print
    tl.store(Y + i, x)


@triton.jit
def asserting(X, IDS, Y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.device_assert(tl.load(IDS + i) < n, "out of bounds")  # assert
    tl.store(Y + i, tl.load(X + i))


@triton.jit
def looked_up(X, W, Y, rows, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    at = (tl.load(X + i) * rows).to(tl.int32)
    tl.store(Y + i, tl.load(W + at * 32))  # lookup


def waits():
    x, y = floats(4096), floats(4096)
    locked[(8,)](x, whole(device="meta"), y, BLOCK=256)
    locked[(8,)](x, whole(), y, BLOCK=256)
    met[(8,)](x, whole(device="meta"), y, 8, BLOCK=256)
    met[(8,)](x, whole(), y, 8, BLOCK=256)


def counts():
    x, y = floats(4096), floats(4096)
    appended[(8,)](x, whole(), y, BLOCK=256)
    last_sums[(8,)](x, whole(), floats(8), y, CTAS=8, BLOCK=256)


def left_out():
    x, y = floats(4096), floats(4096)
    copied[(4,)](x, y, BLOCK=1024)
    sine[(4,)](x, y, BLOCK=1024)
    guarded[(4,)](x, y, BLOCK=1024)
    printing[(4,)](x, y, BLOCK=1024)
    asserting[(4,)](x, whole([0], "meta").expand(4096).contiguous(), y, 8, BLOCK=1024, debug=True)


def look_ups():
    looked_up[(64,)](floats(1 << 16), floats(1 << 25), floats(1 << 16), 1 << 20, BLOCK=1024)


def run():
    x, y = floats(4096), floats(4096)
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
    ("a tolerance", "tolerance",
     "kernel converges: {}: how often a loop runs depends on values computed from tensor X: "
     "cannot be predicted from code alone"),
    ("a cluster", "", "kernel copied: num_ctas = 2: clusters are not modelled"),
    ("beyond a tensor", "shift", "kernel shifted: {}: load reaches 12 B beyond tensor X"),
    ("in front of a tensor", "shift", "kernel shifted: {}: load reaches 8 B in front of tensor X"),
    ("a page beyond a tensor", "page", "kernel paged: {}: load reaches 256 B beyond tensor X"),
    ("a page in front of a tensor", "page", "kernel paged: {}: load reaches 256 B in front of tensor X"),
    ("an end that is not known", "empty",
     "kernel ragged: {}: a branch depends on tensor OFFSETS, whose values are not known: pass OFFSETS as a CPU tensor"),
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


def test_who_waits_for_others_takes_a_lower_bound(predicted: Predict) -> None:
    """Locks and barriers of the grid are taken to be free at once, whether or not their values are known."""
    code, answer = predicted("waits")
    assert code == 0
    for launch, (mark, tensor) in zip(
        answer["launches"], [("lock", "LOCK")] * 2 + [("barrier", "ARRIVED")] * 2, strict=True
    ):
        assert launch["lower_bound"] and launch["refused"] is None
        text = f"{line_of(mark)} waits for other CTAs (it polls {tensor}): taken never to wait"
        assert any(text in note for note in launch["notes"])


def test_the_last_cta_to_count_up_sums_up(predicted: Predict) -> None:
    """One of eight reads what all have left: 8 words, one sector; where it does is in a note."""
    code, answer = predicted("counts")
    appended, last = answer["launches"]
    assert code == 0 and last["lower_bound"]
    assert any(f"{line_of('last')}: CTAs count up ARRIVED" in note for note in last["notes"])
    assert appended["known_accesses"] == appended["accesses"]
    assert appended["traffic"]["l2_write_bytes"] >= 8 * 256 * 4, "each CTA at a place of its own"


def test_rare_sides_prints_and_assertions_are_left_out_and_named(predicted: Predict) -> None:
    """As many bytes as a copy, and as many again for what an assertion looks at."""
    code, answer = predicted("left_out")
    _, *others, asserting = answer["launches"]
    assert code == 0
    for launch, mark, text in zip(
        (*others, asserting),
        ("sine", "guard", "print", "assert"),
        ("rare case", "rare case", "device_print is left out", "device_assert is left out"),
        strict=True,
    ):
        assert any(f"{line_of(mark)}: {text}" in note for note in launch["notes"]), launch["notes"]
        assert launch["spilled_bytes_per_thread"] == 0
    fills = [launch["traffic"]["smem_fill_bytes"] for launch in answer["launches"]]
    assert fills[1:4] == [fills[0]] * 3 and fills[4] == 2 * fills[0]


def test_addresses_that_are_computed_cost_each_lane_a_sector_and_the_answer_says_so_first(
    predicted: Predict, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of 2^16 lanes, in a table of 128 MiB that L1 does not keep."""
    code, answer = predicted("look_ups")
    (launch,) = answer["launches"]
    assert code == 0 and launch["estimated_bytes"] == 32 << 16
    assert launch["traffic"]["smem_fill_bytes"] == pytest.approx((32 + 4) << 16, rel=0.02)
    assert main(["predict", f"{file}:look_ups"]) == 0
    remarks = [line for line in capsys.readouterr().out.splitlines() if line.startswith(("Note", "Longest"))]
    assert "estimated (2.10 MB of 2.62 MB that are asked for)" in remarks[0]


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
