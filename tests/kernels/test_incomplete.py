"""An answer that leaves something out says so first; what a launch may not ask for is refused with the numbers."""

import json
from pathlib import Path

import pytest
from tilesight.kernels.launch.availability import missing_package

import tilesight
from tilesight.cli.main import main

if missing_package():
    pytest.skip(str(missing_package()), allow_module_level=True)

import torch
import triton
import triton.language as tl

FILE = """
import torch
import triton
import triton.language as tl


@triton.jit
def copy(X, Y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(Y + i, tl.load(X + i, mask=i < n), mask=i < n)


def launch(grid=(4,), **options):
    x = torch.empty(4096, device="cuda")
    copy[grid](x, torch.empty_like(x), 4096, B=1024, **options)


def half():
    launch()
    launch(num_ctas=2)


def on_some():
    launch()
    if torch.cuda.get_device_capability() < (9, 0):
        launch(num_ctas=2)


def ends():
    launch()
    launch()
    raise KeyError("of my own")


def chunks():
    x, w = torch.empty(4096, 1024, device="cuda"), torch.empty(1024, 1024, device="cuda")
    for _ in range(2):
        x = x @ w
        copy[(4096,)](x, x, x.numel(), B=1024)


def matmul():
    torch.empty(64, 64, device="cuda") @ torch.empty(64, 64, device="cuda")


def empty():
    launch((0,))


@triton.jit
def through(P, X, Z, B: tl.constexpr):
    i = tl.arange(0, B)
    where = (tl.load(P + i) * 1e3).to(tl.int64).to(tl.pointer_type(tl.float32))
    tl.store(Z + i, tl.load(where) + tl.load(X + i))


def anywhere():
    through[(4,)](*(torch.empty(128, device="cuda") for _ in range(3)), B=128)
"""


@pytest.mark.parametrize("command", ["predict", "explain"])
def test_a_sum_without_what_was_refused_says_so(file: Path, capsys: pytest.CaptureFixture[str], command: str) -> None:
    """In the first line, in JSON, and by the exit code, unless a part is all that is asked for."""
    assert main([command, f"{file}:half", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["complete"] is False
    assert main([command, f"{file}:half", "--partial"]) == 0
    first = capsys.readouterr().out.splitlines()[0]
    assert first.startswith("1 of 2 launches on h200") and first.endswith(" us without the 1 refused")


def test_an_answer_without_some_accesses_says_so(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A load of an address that is made of floats: in the first line, in JSON, and by the exit code."""
    assert main(["predict", f"{file}:anywhere"]) == 1
    assert capsys.readouterr().out.splitlines()[0].endswith(" us without the 1 access of unknown address")
    assert main(["predict", f"{file}:anywhere", "--json", "--partial"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["complete"] is False and answer["launches"][0]["known_accesses"] == 3


def test_devices_that_predict_all_stand_first(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """However fast the others are without what they lack."""
    assert main(["predict", f"{file}:on_some", "--device", "a100,h200"]) == 1
    table = capsys.readouterr().out.partition("Each device\n")[2].splitlines()
    assert [row.split()[0] for row in table[2:4]] == ["h200", "a100-sxm-80gb"]
    assert "1 of 1 " in table[2] and "1 of 2: incomplete" in table[3]


def test_launches_before_an_error_are_predicted(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The answer says first what the code ended in, and where."""
    assert main(["predict", f"{file}:ends"]) == 1
    text = capsys.readouterr().out
    line = FILE.splitlines().index('    raise KeyError("of my own")') + 1
    first = (
        "Incomplete: the code ended in an error after 2 launches, which are predicted: KeyError: 'of my own' (mine.py:"
    )
    assert " ".join(text.split()).startswith(f"{first}{line}) 2 launches on h200, L2 pipeline: ")
    assert main(["predict", f"{file}:ends", "--json", "--partial"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["ended"] == f"KeyError: 'of my own' (mine.py:{line})" and len(answer["launches"]) == 2


def test_operations_of_torch_beside_launches_are_told(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Below the table and in JSON; where there is nothing else, the error names them."""
    assert main(["predict", f"{file}:chunks"]) == 0
    note = "Note 2 matmuls of torch (17.2 GFLOP, 75.5 MB) run beside these launches and are not predicted; L2 does not"
    assert note in " ".join(capsys.readouterr().out.split())
    assert main(["predict", f"{file}:chunks", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["torch_operations"] == [
        {"name": "matmul", "count": 2, "flop": 2 * 2 * 4096 * 1024 * 1024, "bytes": 2 * 4 * (2 * 4096 + 1024) * 1024}
    ]
    assert main(["predict", f"{file}:matmul"]) == 2
    ran = "1 matmul of torch (524 kFLOP, 49.2 kB) ran: `tilesight profile` predicts these, too"
    assert capsys.readouterr().err == f"tilesight: mine.py: matmul() launches no Triton kernel; {ran}\n"


def test_a_grid_without_ctas_launches_nothing(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As Triton's launcher has it."""
    assert main(["predict", f"{file}:empty"]) == 2
    assert capsys.readouterr().err == (
        "tilesight: mine.py: empty() launches no Triton kernel; "
        "kernel copy: grid (0, 1, 1) has no CTAs: nothing is launched\n"
    )


@triton.jit
def touch(X, B: tl.constexpr):
    tl.store(X + tl.arange(0, B), 1.0)


@pytest.mark.parametrize(
    ("grid", "options", "reason"),
    [
        ((1, 65_536), {}, "grid (1, 65536, 1): y = 65,536: must be from 1 to 65,535"),
        ((1, 1, 65_536), {}, "grid (1, 1, 65536): z = 65,536: must be from 1 to 65,535"),
        ((1 << 31,), {}, "grid (2147483648, 1, 1): x = 2,147,483,648: must be from 1 to 2,147,483,647"),
        ((-2, -2), {}, "grid (-2, -2, 1): x = -2: must be from 1 to 2,147,483,647"),
        ((1,), {"num_warps": 64}, "num_warps = 64: a CTA has at most 1024 threads, 32 warps"),
        ((132 * 16 + 1,), {"launch_cooperative_grid": True},
         "launch_cooperative_grid = True: 2,113 CTAs have to be resident at once, and 132 SMs hold 2,112 (16 each): "
         "launch no more than that"),
        ((132 * 16,), {"launch_cooperative_grid": True}, None),
        ((65_536,), {}, None),
    ],
)  # fmt: skip
def test_what_no_gpu_would_launch_is_refused(
    grid: tuple[int, ...], options: dict[str, int], reason: str | None
) -> None:
    """Bounds of a grid, of threads, and of CTAs that wait for each other: 132 SMs of 2,048 threads hold 128 each."""
    with tilesight.capture("h200") as launches:
        touch[grid](torch.empty(1024, device="cuda"), B=1024, **options)
    (row,) = tilesight.predict(launches, device="h200").rows
    assert row.refused == (reason and f"kernel touch: {reason}")
