"""`tilesight validate`: bad input in one line, a run on a GPU that is none, results that continue, and verdicts."""

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from support.made_up_measurements import HEADER, a_point, lost, measured, predicted, some_points
from support.waiting import HANG_S
from tilesight.simulator.launch.program import Resources
from tilesight.validate.measure import gpus as gpu_room
from tilesight.validate.measure.results_file import Row, appending, read_results
from tilesight.validate.measure.session import PointSession
from tilesight.validate.measurement import Measurement

from tilesight.cli.main import main

SMALL = ("--problem", "batch=1", "--problem", "heads=2", "--problem", "seqlen=256", "--device", "h200")
NO_GPU = "no CUDA GPU is visible"
RESOURCES = Resources(registers_per_thread=96, smem_bytes_per_cta=49152, origin="compiled")


@pytest.fixture(autouse=True)
def _compiled_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """The remark on compiling belongs to its own test."""
    monkeypatch.setattr("tilesight.simulator.engine.engine.is_compiled", lambda: True)


@pytest.fixture
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilesight.kernels.launch.availability.missing_gpu", lambda: NO_GPU)


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Three GPUs that are none, and a compiler that promises the same to all."""

    def compiler(device: object, workers: int) -> Any:
        return lambda wanted: [RESOURCES for _ in wanted]

    visible = ["0", "1", "2"]
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    monkeypatch.setattr("tilesight.kernels.launch.availability.missing_gpu", lambda: None)
    monkeypatch.setattr("tilesight.cli.commands.validate.compiler", compiler)
    monkeypatch.setattr(gpu_room, "visible_gpus", lambda: visible)
    monkeypatch.setattr(gpu_room, "PointSession", partial(PointSession, module="support.fake.worker", timeout_s=HANG_S))
    return visible


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """A results file of five points: one off in time by 50 %, one lost."""
    path = tmp_path / "h200.jsonl"
    points = some_points(4)
    with appending(path, HEADER) as (_, keep):
        for number, point in enumerate(points):
            keep(measured(point, predicted(point), {"time_s": 0.5 if number == 2 else 0.01}))
        gone = a_point("naive")
        keep(Row(point=gone, resources=(), outcome=lost(gone, "hang").outcome))
    return path


def _error(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line that bad input must give, on stderr alone."""
    assert main(["validate", *arguments]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.count("\n") == 1
    assert output.err.startswith("tilesight: ")
    return output.err.removeprefix("tilesight: ").rstrip("\n")


def test_validate_explains_itself(capsys: pytest.CaptureFixture[str]) -> None:
    """Every promised option is in its help, also without a GPU."""
    assert main(["validate", "--help"]) == 0
    text = capsys.readouterr().out
    promised = "schedule only config full seed json json-file html results gpus fail-on no-counters l2"
    assert [name for name in promised.split() if f"--{name} " not in text] == []


@pytest.mark.usefixtures("no_gpu")
@pytest.mark.parametrize("arguments", [(), ("--device", "h200"), SMALL])
def test_without_a_gpu_one_line_says_so(capsys: pytest.CaptureFixture[str], arguments: Sequence[str]) -> None:
    """Whatever is asked for; it points to the doctor."""
    said = _error(capsys, *arguments)
    assert said == f"{NO_GPU}; `tilesight doctor` says what is missing, and how to get it"


@pytest.mark.usefixtures("no_gpu")
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--fail-on", "speed=0.1"), "--fail-on 'speed=0.1': must be NAME=SIZE with a name of smem_fill_bytes, "),
        (("--fail-on", "time=fast"), "--fail-on 'time=fast': the size must be a number"),
        (("--fail-on", "time=-1"), "--fail-on 'time=-1': the size must be 0 or more"),
        (("--fail-on", ""), "--fail-on '': must be NAME=SIZE"),
        (("--full", *SMALL), "--problem and --full: do not go together"),
        (("--read", "x", "--results", "y"), "--results y: changes nothing with --read; leave it out"),
        (("--read", "no/such/file"), "--read 'no/such/file': cannot be read (No such file or directory)"),
        (("--schedule", "flash9", *SMALL), "schedule 'flash9' is unknown"),
        (("--only", "zz*", *SMALL), "--only 'zz*': matches none of "),
        (("--config", "block_m", *SMALL), "--config 'block_m': must be KEY=VALUE"),
        (("--config", "tile=3", *SMALL), "--config tile=3: key 'tile' is unknown"),
        (("--config", "block_m=x", *SMALL), "--config block_m=x: must be a whole number"),
        (("--config", "block_m=3", *SMALL), "--config block_m = 3: must be a power of two"),
        (("--config", "persistent=1", "--schedule", "naive", *SMALL), "--config persistent: none of these schedules"),
        (("--problem", "length=3", "--device", "h200"), "--problem length=3: key 'length' is unknown: did you mean"),
        (("--problem", "seqlen=x", "--device", "h200"), "--problem seqlen=x: must be a number"),
        (("--problem", "causal=1", "--device", "h200"), "--problem causal=1: must be true or false"),
        (("--problem", "seqlen=0", "--device", "h200"), "--problem: seqlen = 0: must be an integer of 1 or more"),
        (("--problem", "dtype=fp8", "--schedule", "flash1", "--device", "h200"), "--problem: schedule flash1: fp8"),
        (("--device", "h999"), "--device: device 'h999' is unknown"),
        (("--device", "h200", "--set", "sms=0"), "--set sms: sms = 0: must be a number from 1 to 1024"),
        (("--schedule", "flash2_tma", "--device", "a100-sxm-80gb"), "--schedule flash2_tma: NVIDIA A100"),
        (("--json-file", "no/such/folder/x"), "--json-file 'no/such/folder/x': cannot be written"),
        (("--workers", "0"), "--workers = 0: must be an integer of 1 or more"),
    ],
)
def test_bad_input_is_named(capsys: pytest.CaptureFixture[str], arguments: Sequence[str], said: str) -> None:
    """Option or key, value, and what is allowed; also without a GPU."""
    assert _error(capsys, *arguments).startswith(said)


@pytest.mark.usefixtures("no_gpu")
@pytest.mark.parametrize(
    ("text", "said"),
    [("", "holds no results"), ("hello\n", "line 1 is no result"), ('{"schema": "tilesight', "holds no results")],
)
def test_a_file_without_results_is_named(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str, said: str
) -> None:
    """Not read as an empty success."""
    file = tmp_path / "x.jsonl"
    file.write_text(text)
    assert said in _error(capsys, "--read", str(file))


@pytest.mark.usefixtures("no_gpu")
def test_a_row_that_is_cut_off_is_named(capsys: pytest.CaptureFixture[str], results: Path) -> None:
    """Its line, and what measures it again: on stderr first, and among the notes of the JSON."""
    whole = results.read_bytes()
    results.write_bytes(whole[:-3])
    arguments = ["validate", "--read", str(results), "--workers", "1", "--json"]
    main(arguments)
    output = capsys.readouterr()
    number = whole.count(b"\n")
    said = f"{results}: line {number} is cut off, as by a run that was stopped, and is left out; "
    assert output.err.startswith(f"tilesight: {said}`tilesight validate --results {results}` measures its point again")
    assert any(note.startswith(said) for note in json.loads(output.out)["notes"])


@pytest.mark.usefixtures("no_gpu")
def test_results_are_compared_without_a_gpu(capsys: pytest.CaptureFixture[str], results: Path) -> None:
    """Tables on stdout, nothing on stderr, exit code 0 though a point was lost."""
    assert main(["validate", "--read", str(results), "--workers", "1"]) == 0
    output = capsys.readouterr()
    assert output.out.startswith("Measured on NVIDIA H200")
    assert "+50.0 %" in output.out
    assert "hang" in output.out
    assert output.err == ""


@pytest.mark.usefixtures("no_gpu")
def test_a_larger_error_than_allowed_is_exit_code_1(capsys: pytest.CaptureFixture[str], results: Path) -> None:
    """Each break is a line on stderr; what was left out by a pattern breaks nothing."""
    arguments = ["validate", "--read", str(results), "--workers", "1", "--fail-on", "time=0.2,hbm_read_bytes=0.1"]
    assert main(arguments) == 1
    lines = capsys.readouterr().err.splitlines()
    assert [line.rsplit(": ", 1)[1] for line in lines] == ["time_s is off by +50.0%, allowed is 20.0%", "hang"]
    assert main([*arguments, "--only", "flash2/B[124]-*"]) == 0
    assert main([*arguments[:-1], "time=0.6", "--schedule", "flash2"]) == 0


@pytest.mark.usefixtures("no_gpu")
def test_nothing_compared_is_exit_code_1(capsys: pytest.CaptureFixture[str], results: Path) -> None:
    """A run that measured nothing must not look like a success."""
    assert main(["validate", "--read", str(results), "--workers", "1", "--schedule", "naive"]) == 1
    assert "Left out of the statistics, 1 of 1 points" in capsys.readouterr().out


@pytest.mark.usefixtures("no_gpu")
def test_json_replaces_the_tables_or_goes_beside_them(
    capsys: pytest.CaptureFixture[str], results: Path, tmp_path: Path
) -> None:
    """The same object on stdout and in a file; all five points in it."""
    arguments = ["validate", "--read", str(results), "--workers", "1"]
    assert main([*arguments, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["schema"], len(document["points"])) == ("tilesight.validation/1", 5)
    files = [tmp_path / name for name in ("out.json", "out.html", "out.md")]
    pairs = zip(("--json-file", "--html", "--page"), files, strict=True)
    assert main([*arguments, *(word for pair in pairs for word in map(str, pair))]) == 0
    assert capsys.readouterr().out.startswith("Measured on")
    assert json.loads(files[0].read_text("utf-8")) == document
    assert files[1].read_text("utf-8").startswith("<!DOCTYPE html>")
    assert files[2].read_text("utf-8").startswith("# Validated on NVIDIA H200")


@pytest.mark.usefixtures("no_gpu")
def test_what_if_changes_predictions_alone(capsys: pytest.CaptureFixture[str], results: Path) -> None:
    """The measurement stays, and the output says what was changed."""
    arguments = ["validate", "--read", str(results), "--workers", "1", "--json", "--only", "flash2/B1-*"]
    documents = []
    for more in ([], ["--set", "launch_graph_s=3e-6"]):
        main([*arguments, *more])
        documents.append(json.loads(capsys.readouterr().out))
    before, after = (document["points"][0]["compared"]["time_s"] for document in documents)
    assert before["measured"] == after["measured"]
    assert before["predicted"] != after["predicted"]
    assert documents[1]["notes"][0] == "device changed by --set launch_graph_s=3e-6"


@pytest.mark.usefixtures("gpus")
def test_a_run_measures_and_compares(capsys: pytest.CaptureFixture[str]) -> None:
    """All schedules at one problem, each with one row; no counters, and the rows say why."""
    arguments = ["validate", *SMALL, "--schedule", "flash2", "--schedule", "naive", "--no-counters", "--workers", "1"]
    assert main([*arguments, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [point["schedule"] for point in document["points"]] == ["flash2", "naive"]
    assert {point["measured"]["counters"] for point in document["points"]} == {"not asked for (--no-counters)"}
    assert document["machine"]["gpu"] == "a GPU that is none"
    registers = [launch["registers_per_thread"] for launch in document["points"][1]["predicted"]["launches"]]
    assert registers == [96, 96, 96]


@pytest.mark.usefixtures("gpus")
def test_a_second_run_continues_the_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Only what is missing is measured; the header is that of the first run."""
    file = tmp_path / "h200.jsonl"
    arguments = ["validate", *SMALL, "--no-counters", "--workers", "1", "--results", str(file), "--schedule", "flash2"]
    assert main(arguments) == 0
    first = read_results(file)[1]
    capsys.readouterr()
    assert main([*arguments, "--schedule", "naive"]) == 0
    output = capsys.readouterr()
    assert f"{file} holds 1 rows already" in output.err
    rows = read_results(file)[1]
    assert rows[:1] == first
    assert [row.point.schedule for row in rows] == ["flash2", "naive"]
    assert output.out.count("B=1 H=2") == 2


@pytest.mark.usefixtures("gpus")
def test_a_file_of_another_gpu_is_refused(capsys: pytest.CaptureFixture[str], results: Path) -> None:
    """And left as it is."""
    before = results.read_bytes()
    said = _error(capsys, *SMALL, "--no-counters", "--results", str(results))
    assert "was measured with gpu NVIDIA H200, this is a GPU that is none; name another file" in said
    assert results.read_bytes() == before


def test_points_are_spread_over_gpus(
    capsys: pytest.CaptureFixture[str], gpus: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`all` uses every one, a number the first so many."""
    for number, (chosen, expected) in enumerate((("all", {0.0, 1.0, 2.0}), ("2", {0.0, 1.0}))):
        file, met = tmp_path / f"{number}.jsonl", tmp_path / f"{number} met"
        met.mkdir()
        monkeypatch.setenv("FAKE_MEET", f"{met}:{len(expected)}")
        arguments = ["--device", "h200", "--no-counters", "--workers", "1", "--schedule", "flash2"]
        arguments += ["--only", "flash2/*N4096*", "--only", "flash2/*N1000*", "--only", "flash2/*N2048*"]
        assert main(["validate", *arguments, "--gpus", chosen, "--results", str(file)]) == 0
        timings = [row.outcome.timing for row in read_results(file)[1] if isinstance(row.outcome, Measurement)]
        assert {timing.fastest_s for timing in timings if timing} == expected
    capsys.readouterr()
    assert "--gpus = '4': must be all, or a number from 1 to 3" in _error(capsys, *SMALL, "--gpus", "4")


@pytest.mark.usefixtures("gpus")
def test_without_ncu_the_rows_say_what_would_help(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Times are compared all the same, with exit code 0."""
    monkeypatch.setenv("TILESIGHT_NCU", "/no/such/ncu")
    monkeypatch.setenv("PATH", "")
    assert main(["validate", *SMALL, "--schedule", "flash2", "--workers", "1"]) == 0
    output = capsys.readouterr().out
    assert "No counters for 1 of 1 points, time only: " in output
    assert "ncu" in output


def test_the_set_is_that_of_the_seed(capsys: pytest.CaptureFixture[str], gpus: list[str]) -> None:
    """`--full` draws hundreds of points; `--only` and `--config` narrow them before anything runs."""
    arguments = ["--full", "--device", "h200", "--only", "no such key"]
    said = [_error(capsys, *arguments, "--seed", seed) for seed in ("0", "1")]
    assert all("matches none of " in line for line in said)
    assert int(said[0].split("matches none of ")[1].split()[0]) >= 300
