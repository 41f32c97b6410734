"""`tilesight validate FILE.py:FUNCTION`: launches replayed one by one, and held against predictions."""

import json
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from support.fake import ncu as fake_ncu
from support.fake.ncu import QUERY, VALUES, printed
from tilesight.kernels.launch.availability import missing_package
from tilesight.validate.counters.ncu import VARIABLE, copy_doubt
from users_file import DOUBLE

from tilesight.cli.main import main

if missing_package():
    pytest.skip(str(missing_package()), allow_module_level=True)

import torch
import triton
from tilesight.kernels.capture.replay import replays
from tilesight.kernels.capture.user_function import user_function
from tilesight.validate.functions import run_function
from tilesight.validate.functions.compare import QUANTITIES, Judged
from tilesight.validate.functions.measured import read_measured

FILE = (
    DOUBLE
    + """

@triton.autotune([triton.Config({"BLOCK": size}) for size in (256, 1024)], key=["n"])
@triton.jit
def tuned(X, Y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(Y + i, tl.load(X + i) * 2)


def run():
    x = torch.empty(1 << 22, device="meta")
    double[(4096,)](x, torch.empty_like(x), x.numel(), BLOCK=1024)


def several():
    x = torch.empty(1 << 12, device="meta")
    y = torch.empty_like(x)
    tuned[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, y, x.numel())
    double[(4,)](y, torch.zeros(4096), x.numel(), BLOCK=1024)
"""
)
Run = Callable[..., Any]


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that says that it has a GPU and counters: a worker with made-up figures, a stand-in for ncu."""
    monkeypatch.setenv("PYTHONPATH", f"{Path(__file__).parents[1]}:{Path(torch.__file__).parents[1]}")
    monkeypatch.setattr("tilesight.cli.validating.need_gpu", lambda: None)
    monkeypatch.setattr("tilesight.validate.measure.gpus.visible_gpus", lambda: ["0"])
    monkeypatch.setattr("tilesight.validate.measure.session.WORKER", "support.fake.function_worker")
    monkeypatch.setattr("tilesight.validate.functions.measured.copy_doubt", lambda *_: None)
    program = fake_ncu.install(tmp_path, query=QUERY, table=printed(*VALUES))
    monkeypatch.setenv(VARIABLE, str(program))


def test_launches_are_made_again_by_themselves(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the order in which they are recorded, every configuration of the autotuner among them, on real tensors."""
    ran: list[tuple[str, tuple[Any, ...]]] = []

    def launched(function: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> str:
        ran.append((function.__name__, args))
        return f"kernel {len(ran)}"

    monkeypatch.setattr(triton.runtime.jit.JITFunction, "run", launched)
    with replays("cpu") as made:
        user_function(file, "several")()
    assert [(launch.name, launch.grid) for launch in made] == [
        ("tuned", (16, 1, 1)),
        ("tuned", (4, 1, 1)),
        ("double", (4, 1, 1)),
    ]
    assert [name for name, _ in ran] == ["tuned", "tuned", "double"]
    x, y = ran[0][1][:2]
    assert x.device.type == "cpu" and 0.9 < float(x.std()) < 1.1  # 4096 numbers of a normal distribution
    assert ran[2][1][0] is y
    assert made[1].launch() == "kernel 4" and ran[3][1][0] is x
    assert triton.runtime.jit.JITFunction.run is launched


def test_other_launches_than_recorded_are_refused(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Code that does something else on a GPU cannot be held against its prediction."""
    monkeypatch.setattr(triton.runtime.jit.JITFunction, "run", lambda *_, **__: None)
    monkeypatch.setattr("tilesight.kernels.capture.replay.replays", lambda: replays("cpu"))
    job = {"file": str(file), "function": "run", "l2": "cold", "names": ["double", "double"], "numbers": [0]}
    assert run_function.measure(job) == {
        "unusable": "mine.py: run() launches double on the GPU, and double, double when it is recorded"
    }


def test_predicted_stands_beside_counted_and_timed(
    bench: None, file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each figure with its error and its verdict; a results file says the same again without a GPU."""
    kept = tmp_path / "kept.json"
    arguments = ["validate", f"{file}:run", "--device", "h200"]
    assert main([*arguments, "--results", str(kept), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["counters"] == "measured" and answer["l2"] == "cold"
    (launch,) = answer["launches"]
    quantities = launch["quantities"]
    assert list(quantities) == [quantity.name for quantity in QUANTITIES]
    assert quantities["hbm_read_bytes"]["measured"] == 201_347_584
    assert quantities["hbm_read_bytes"]["predicted"] == 16 << 20 and quantities["hbm_read_bytes"]["verdict"] == "FAIL"
    assert (
        quantities["registers_per_thread"]["measured"] == 192
        and quantities["registers_per_thread"]["verdict"] == "FAIL"
    )
    assert quantities["spilled_bytes_per_thread"]["verdict"] == "pass"
    assert quantities["executed_instructions"]["verdict"] == "not counted"
    assert quantities["replayed_time_s"]["measured"] == 2e-5
    assert quantities["time_s"]["measured"] == pytest.approx(1_458_720e-9)
    assert main(["validate", f"{file}:run", "--read", str(kept), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == answer
    assert main(["validate", f"{file}:run", "--read", str(kept)]) == 0
    text = capsys.readouterr().out
    assert "1. double, grid 4096 x 1 x 1" in text and "FAIL" in text and "figures pass" in text
    other = read_measured(kept)
    others = replace(other, launches=(other.launches[0],) * 2)
    kept.write_text(json.dumps(others.to_dict()), "utf-8")
    assert main(["validate", f"{file}:run", "--read", str(kept)]) == 2
    line = "measured were double 4096x1x1, double 4096x1x1; predicted are double 4096x1x1"
    assert capsys.readouterr().err.splitlines() == [f"tilesight: --read {str(kept)!r}: {line}"]


def test_without_counters_times_are_compared(
    bench: None, file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """And the reason is told; what the user's code raises on the GPU is its own message."""
    monkeypatch.setenv(VARIABLE, "/nowhere/ncu")
    assert main(["validate", f"{file}:run", "--device", "h200"]) == 0
    text = capsys.readouterr().out
    assert "no counters: ncu is not installed" in text and "not counted" in text
    monkeypatch.setenv("FAKE_ANSWER", json.dumps({"raised": "RuntimeError: no (mine.py:20)"}))
    assert main(["validate", f"{file}:run", "--device", "h200"]) == 1
    assert capsys.readouterr().err.splitlines()[-1] == "tilesight: RuntimeError: no (mine.py:20)"


@pytest.mark.parametrize(("l2", "mode"), [("cold", "kernel"), ("warm", "application")])
def test_the_program_starts_once_where_launches_find_l2_empty(
    bench: None, file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], l2: str, mode: str
) -> None:
    """A launch that finds what itself left is counted by repeating all of the program."""
    assert main(["validate", f"{file}:run", "--device", "h200", "--l2", l2, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["counters"] == "measured"
    assert ("--replay-mode", mode) in set(pairwise(fake_ncu.command_of(tmp_path / "ncu")))


def test_counters_that_miss_the_known_copy_are_not_trusted(
    bench: None, file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is counted in the same run, before the launches."""
    monkeypatch.setattr("tilesight.validate.functions.measured.copy_doubt", copy_doubt)
    assert main(["validate", f"{file}:run", "--device", "h200"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "no counters: counters are not trusted: a copy was launched, and no launch was counted" in text


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["FILE:run", "--full"], "--full: changes nothing with FILE:run; leave it out"),
        (["FILE:run", "--read", "nowhere.json"], "--read 'nowhere.json': cannot be read (No such file or directory)"),
        (["--time-limit", "3"], "--time-limit 3: changes nothing without FILE.py:FUNCTION; leave it out"),
    ],
)
def test_what_is_not_read_is_refused(
    file: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], line: str
) -> None:
    """Options of points with a function, and the other way round."""
    assert main(["validate", *(word.replace("FILE", str(file)) for word in arguments)]) == 2
    assert capsys.readouterr().err.splitlines() == [f"tilesight: {line.replace('FILE:', f'{file}:')}"]


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_it_is_one_line(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Before anything is recorded or compiled."""
    assert main(["validate", f"{file}:run"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("tilesight: no CUDA GPU is visible") and "tilesight doctor" in line


def test_verdicts_follow_their_limits() -> None:
    """At the limit it passes; too little to be judged is neither; nothing measured is no pass."""
    quantity = next(quantity for quantity in QUANTITIES if quantity.name == "hbm_read_bytes")

    def verdict(predicted: float, measured: float | None) -> str:
        return Judged(predicted, measured, quantity).verdict

    limit = quantity.limit
    assert verdict(1e8 * (1 + 0.99 * limit), 1e8) == "pass"
    assert verdict(1e8 * (1 + 1.01 * limit), 1e8) == "FAIL"
    assert verdict(1e8, 0.0) == "FAIL" and verdict(2e5, 1e5) == "small" and verdict(1e8, None) == "not counted"
