"""`tilesight profile` on a step that is given: what it prints, writes and refuses; nothing is recorded or compiled."""

import csv
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.steps import kernel, matmul, torch_operation
from tilesight.simulator.operations.operation import RecordedStep
from tilesight.simulator.operations.price import StepPrices
from tilesight.simulator.refusal import UserError

from tilesight import profiling
from tilesight.cli.main import main

MEMORY_BYTES = 100 << 30
"""More than an H100 has, less than an H200."""


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[profiling.Asked]:
    """What the recorder is asked for; it answers with a product and a sum, priced by mode."""
    every: list[profiling.Asked] = []

    def recorded(target: str, wanted: profiling.Asked, how: object) -> Any:
        every.append(wanted)
        if not target.endswith(":step"):
            raise UserError("model.py: function 'stop' is unknown: did you mean step?")
        operations = (matmul(4096, 4096, 4096, module="mlp"), torch_operation("sort" if wanted.train else "add"))
        mode = "eager" if wanted.mode == "auto" else wanted.mode
        graphed = mode == "max-autotune"
        step = RecordedStep(operations=operations, mode=mode, peak_bytes=MEMORY_BYTES, graphed=graphed)
        return SimpleNamespace(step=step, calls=())

    def prices(step: RecordedStep, device: object, stated: object, l2: str) -> StepPrices:
        refused = step.operations[1].name == "sort"
        second = kernel(5e-6, name="sort", source="refused", reason="sort has no price") if refused else kernel(50e-6)
        kernels = ((kernel(100e-6 if step.mode == "eager" else 80e-6),), (second,))
        return StepPrices(kernels=kernels, before={})

    monkeypatch.setattr("tilesight.compiling.why_not", lambda: None)
    monkeypatch.setattr(profiling, "recorded", recorded)
    monkeypatch.setattr(profiling, "price_around_triton", prices)
    monkeypatch.setattr(profiling, "slowdown", lambda *_: 1.0)  # it has tests of its own
    return every


def test_a_step_without_triton_kernels_compiles_nothing(
    asked: list[profiling.Asked], capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So it does not announce that it will, where nothing is compiled yet."""
    monkeypatch.setattr("tilesight.simulator.engine.engine.is_compiled", lambda: False)
    assert main(["profile", "model.py:step"]) == 0
    assert "compiling" not in capsys.readouterr().err


def test_a_step_is_printed_and_written(asked: list[profiling.Asked], capsys: Any, tmp_path: Path) -> None:
    """As text, and its kernels in a table and a timeline."""
    table, timeline = tmp_path / "kernels.csv", tmp_path / "t.json"
    assert main(["profile", "model.py:step", "--csv", str(table), "--trace", str(timeline)]) == 0
    assert capsys.readouterr().out.startswith(
        "model.py:step on h200, eager: 150 us in 2 kernels; of the time 100 % mat"
    )
    assert [row["operation"] for row in csv.DictReader(table.read_text("utf-8").splitlines())] == ["mm", "add"]
    events = json.loads(timeline.read_text("utf-8"))["traceEvents"]
    assert [event["dur"] for event in events if event.get("cat") == "kernel"] == [100.0, 50.0]
    assert [(wanted.mode, wanted.train, wanted.queue) for wanted in asked] == [("auto", False, "stream")]


def test_options_reach_the_recorder(asked: list[profiling.Asked], capsys: Any) -> None:
    """And a kernel without a price is an incomplete answer: exit code 1, unless that is expected."""
    options = ["--compile", "--train", "--graph", "--indices", "uniform", "--set", "l2_bytes=30MiB"]
    assert main(["profile", "model.py:step", *options]) == 1
    text = capsys.readouterr().out
    assert text.startswith("Incomplete: 1 of 2 kernels without a price") and "device changed by --set" in text
    (wanted,) = asked
    assert (wanted.mode, wanted.train, wanted.queue) == ("compiled", True, "graph")
    assert wanted.options["indices"] == "uniform" and wanted.settings == ("l2_bytes=30MiB",)
    assert main(["profile", "model.py:step", *options, "--partial"]) == 0


def test_both_modes_stand_beside_each_other(asked: list[profiling.Asked], capsys: Any) -> None:
    """As text, and as a list in JSON."""
    assert main(["profile", "model.py:step", "--compare"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["time", "150", "us", "130", "us", "1.15x"] in lines
    assert main(["profile", "model.py:step", "--compare", "--json"]) == 0
    assert [entry["mode"] for entry in json.loads(capsys.readouterr().out)] == ["eager", "compiled"]


def test_a_mode_that_torch_graphs_is_told_as_a_graph(asked: list[profiling.Asked], capsys: Any) -> None:
    """Three modes in one table, and which is fastest: no launch of the last waits for the host."""
    assert main(["profile", "model.py:step", "--mode", "eager,compiled,max-autotune"]) == 0
    text = capsys.readouterr().out
    assert ["time", "150", "us", "130", "us", "130", "us", "1.15x", "1.15x"] in [x.split() for x in text.splitlines()]
    assert (
        "Fastest max-autotune: 131 us in a CUDA graph; faster than compiled (150 us, 15 % more), "
        "faster than eager (162 us, 24 % more)"
    ) in " ".join(text.split())
    assert [wanted.mode for wanted in asked] == ["eager", "compiled", "max-autotune"]


def test_devices_are_a_table(asked: list[profiling.Asked], capsys: Any) -> None:
    """With which of them the step fits."""
    assert main(["profile", "model.py:step", "--device", "h100,h200"]) == 0
    rows = capsys.readouterr().out.split("Which GPU\n")[1].splitlines()[2:]
    assert [row.split()[0] for row in rows] == ["h200,", "h100-sxm,"]
    assert "yes" in rows[0] and "no: 20.9 GiB too much" in rows[1]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--eager", "--compile"], "--eager and --compile: give one; --compare runs both"),
        (["--compare", "--eager"], "--eager and --compare: give one; --compare runs both"),
        (["--mode", "eager,fast"], "--mode 'eager,fast': 'fast' must be one of auto, eager, compiled, max-autotune"),
        (["--mode", "eager,eager"], "--mode 'eager,eager': has eager twice; give it once"),
        (
            ["--mode", "eager", "--compile"],
            "--compile and --mode: give one; --compare runs both, and --mode has several",
        ),
        (["--buckets", "1,2"], "--buckets 1,2: is for --decode BxHELD of hf:config.json"),
        (["--decode", "4x8", "--buckets", "1,b"], "--buckets '1,b': 'b' must be sequences, or sequences x tokens held"),
        (["--decode", "4x8", "--buckets", "2,1"], "--buckets '2,1': 1x8 comes after 2x8; give the smaller first"),
        (["--decode", "4x8", "--buckets", "2", "--compare"], "--buckets 2: shows one mode, not 2; run once with each"),
        (["--by", "layer"], "'layer' must be one of module, op, kernel, source, phase"),
        (["--device", "h30"], "--device: device 'h30' is unknown: did you mean h20, h200, b300?"),
        (["--top", "0"], "--top = 0: must be an integer of 1 or more"),
        (["--compare", "--trace", "t.json"], "--trace 't.json': shows one mode, not 2; run once with each"),
        (["--device", "h100,h200", "--trace", "t.json"], "--trace 't.json': shows one device, not h100-sxm, h200"),
    ],
)
def test_what_cannot_be_asked_is_one_line(
    asked: list[profiling.Asked], options: list[str], said: str, capsys: Any
) -> None:
    """Before anything is recorded."""
    assert main(["profile", "model.py:step", *options]) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.count("\n") == 1 and said in captured.err
    assert asked == []


def test_a_function_that_is_not_there_is_one_line(asked: list[profiling.Asked], capsys: Any) -> None:
    """As the process that runs the file says it."""
    assert main(["profile", "model.py:stop"]) == 2
    assert capsys.readouterr().err == "tilesight: model.py: function 'stop' is unknown: did you mean step?\n"


def test_lines_are_what_by_says(asked: list[profiling.Asked], capsys: Any) -> None:
    """As many as are asked for, the longest first."""
    assert main(["profile", "model.py:step", "--by", "module", "--top", "1"]) == 0
    text = capsys.readouterr().out
    assert [line.split() for line in text.splitlines() if line.startswith("mlp")] == [
        ["mlp", "x", "1", "100", "us", "67", "%", "3.00", "kB", "tensor", "cores"]
    ]
    assert "... and 1 other line: 33 % of the time; --top shows more" in text


def test_a_step_is_measured_as_benchmarks_do(asked: list[profiling.Asked], capsys: Any) -> None:
    """`--as do_bench` and `--l2 cold` reach the prices; the first says what it would show, and both are checked."""
    assert main(["profile", "model.py:step", "--as", "do_bench"]) == 0
    assert "As do_bench shows it: " in capsys.readouterr().out
    assert main(["profile", "model.py:step", "--l2", "cold"]) == 0
    assert [(wanted.l2, wanted.timing) for wanted in asked] == [("warm", "do_bench"), ("cold", "single")]
    assert main(["profile", "model.py:step", "--l2", "hot"]) == 2
    assert "must be one of warm, cold" in capsys.readouterr().err
