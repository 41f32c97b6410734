"""One launch or device that fails does not take the others along."""

import json
from pathlib import Path

import pytest
from tilesight.kernels.launch.availability import missing_package
from tilesight.simulator import predict_kernels, traced_runs
from tilesight.simulator.jobs import attempts
from tilesight.simulator.jobs.stopping import check_wanted
from users_file import FILE as FILE  # what the fixture `file` writes

from tilesight.cli.kernels import Function
from tilesight.cli.main import main
from tilesight.cli.output import Failed

pytestmark = pytest.mark.skipif(missing_package() is not None, reason=str(missing_package()))


def rows_of(file: Path, capsys: pytest.CaptureFixture[str], *options: str) -> list[dict]:
    """Launches of an answer, in order."""
    main(["predict", f"{file}:run", "--json", *options])
    return json.loads(capsys.readouterr().out)["launches"]


@pytest.mark.parametrize(
    ("function", "phase"),
    [("trace_grid", "trace"), ("costed_launch", "simulate an SM"), ("simulate_costed", "simulate memory")],
)
def test_an_error_inside_a_launch_is_its_refusal(
    file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, function: str, phase: str
) -> None:
    """The launch before keeps its prediction, where launches go through the phase one by one."""
    alone = rows_of(file, capsys)[0]
    module = predict_kernels if function == "trace_grid" else traced_runs
    usual, calls = getattr(module, function), []

    def failing(*arguments, **options):
        calls.append(arguments)
        if len(calls) == 2 or function == "simulate_costed":
            raise TypeError("int too big to convert")
        return usual(*arguments, **options)

    monkeypatch.setattr(module, function, failing)
    first, second = rows_of(file, capsys)
    assert second["traffic"] is None
    assert second["refused"].startswith("kernel double: internal: TypeError")
    assert second["refused"].endswith(
        f"(phase: {phase}): int too big to convert; please report this line and the kernel"
    )
    assert (first["traffic"] == alone["traffic"]) == (function != "simulate_costed")


def test_advice_that_fails_takes_no_prediction_along(
    file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A note says that there is none; every launch has its time, and what binds the longest is still told."""

    def failing(case):
        raise TypeError("int too big to convert")

    monkeypatch.setattr(predict_kernels, "advise", failing)
    assert main(["predict", f"{file}:run"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert text.startswith("2 launches on h200") and "Helps fewer launches" in text
    assert "Note no advice: kernel double: internal: TypeError" in text and "(phase: advice)" in text


def test_a_launch_that_takes_too_long_is_refused_by_name_and_phase(
    file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a clock that stands still but for the second launch."""
    now_s, usual, calls = [0.0], predict_kernels.trace_grid, []

    def slow(*arguments):
        calls.append(arguments)
        now_s[0] += 6001.0 * (len(calls) - 1)
        check_wanted()
        return usual(*arguments)

    monkeypatch.setattr(predict_kernels, "trace_grid", slow)
    monkeypatch.setattr(attempts.Attempts.__init__, "__defaults__", (None, None, lambda: now_s[0]))
    first, second = rows_of(file, capsys, "--time-limit", "6000")
    assert first["traffic"] and not second["traffic"]
    assert second["refused"] == (
        "kernel double: no answer within 6000 s (phase: trace); a longer --time-limit may give one"
    )


def test_a_device_that_fails_is_one_line_at_its_place(
    file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others' tables are printed, in JSON all are in order, and the exit code says that one is missing."""
    usual = Function.predicted

    def failing(function: Function):
        if function.name.startswith("a100"):
            raise Failed("int too big to convert")
        return usual(function)

    monkeypatch.setattr(Function, "predicted", failing)
    devices = ["--device", "h200", "--device", "a100", "--device", "h100"]
    assert main(["predict", f"{file}:run", *devices]) == 1
    out, err = capsys.readouterr()
    assert out.index("2 launches on h200") < out.index("2 launches on h100") < out.index("Each device")
    said = [line for line in err.splitlines() if line.startswith("tilesight: ")]
    assert said == ["tilesight: a100-sxm-80gb: int too big to convert"]
    assert main(["predict", f"{file}:run", "--json", *devices]) == 1
    answers = json.loads(capsys.readouterr().out)
    assert [answer["device"] for answer in answers] == ["h200", "a100-sxm-80gb", "h100-sxm"]
    assert answers[1]["failed"] == "int too big to convert" and "launches" in answers[2]
