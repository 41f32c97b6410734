"""Launches of a user's own code, recorded, compiled and predicted, with no GPU."""

import csv
import json
from pathlib import Path

import pytest
from tilesight.kernels.launch.availability import missing_package
from tilesight.simulator.arguments import Settings
from users_file import FILE as FILE  # what the fixture `file` writes

from tilesight.cli.main import main

if missing_package() is None:
    import tilesight.simulator.traced_runs as traced_runs
    import torch
    import triton
    from zoo import descriptors, rowwise

    import tilesight

pytestmark = pytest.mark.skipif(missing_package() is not None, reason=str(missing_package()))


def test_launches_in_a_row_share_l2(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The second reads what the first has written, from L2; cold, both read HBM."""
    assert main(["predict", f"{file}:run", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert list(answer) == [
        *("schema", "device", "l2", "timing", "times", "complete", "ended", "launches", "total", "helps"),
        *("torch_operations", "notes"),
    ]
    first, second = answer["launches"]
    assert list(first) == [
        *("name", "grid", "num_warps", "num_stages", "registers_per_thread", "spilled_bytes_per_thread"),
        *("smem_bytes_per_cta", "executed_instructions", "traffic", "clock_hz", "do_bench_time_s"),
        *("sustained_clock_hz", "bottleneck", "causes", "global_smem_fraction", "peaks"),
        *("ctas_per_sm", "occupancy_fraction", "occupancy_limit", "compulsory_read_bytes", "compulsory_write_bytes"),
        *("roofline_s", "roofline_limit", "roofline_multiple", "tensors"),
        *("known_accesses", "accesses", "estimated_accesses", "estimated_bytes", "lower_bound"),
        *("notes", "refused"),
    ]
    assert first["name"] == "double" and first["grid"] == [1024, 1, 1] and first["refused"] is None
    assert first["traffic"]["hbm_read_bytes"] == 4 << 20
    assert second["traffic"]["hbm_read_bytes"] == 0
    assert first["known_accesses"] == first["accesses"] == 4
    assert answer["total"]["cycles"] == first["traffic"]["cycles"] + second["traffic"]["cycles"]
    assert main(["predict", f"{file}:run", "--json", "--l2", "cold"]) == 0
    cold = json.loads(capsys.readouterr().out)["launches"]
    assert [launch["traffic"]["hbm_read_bytes"] for launch in cold] == [4 << 20, 4 << 20]


def test_time_is_shown_as_it_is_measured(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """do_bench adds events once, and the write-back of what it zeroed; the others' times stand beside."""
    answers = {}
    for timing in ("single", "do_bench", "sustained"):
        assert main(["predict", f"{file}:run", "--json", "--as", timing]) == 0
        answers[timing] = json.loads(capsys.readouterr().out)
    single, bench = answers["single"], answers["do_bench"]
    assert all(answer["times"] == single["times"] for answer in answers.values())
    for timing, answer in answers.items():
        assert answer["timing"] == timing
        assert answer["total"]["time_s"] == pytest.approx(single["times"][timing]["time_s"], rel=1e-12)
    kernels_s = sum(launch["traffic"]["time_s"] for launch in bench["launches"])
    assert bench["total"]["time_s"] - kernels_s == pytest.approx(1.7e-6)
    assert bench["launches"][0]["traffic"]["hbm_write_bytes"] > single["launches"][0]["traffic"]["hbm_write_bytes"]
    assert answers["sustained"]["total"]["time_s"] == single["total"]["time_s"]  # no products, no power limit
    assert main(["predict", f"{file}:run", "--as", "do_bench"]) == 0
    assert capsys.readouterr().out.splitlines()[0].endswith("as do_bench shows it")


def test_a_launch_keeps_its_answer_where_do_bench_cannot_be_told(
    file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A note says why; asked for, it is refused."""
    simulate = traced_runs.simulate_costed

    def failing(launches: object, device: object, settings: Settings, **how: object) -> object:
        if settings.l2 == "dirty":
            raise RuntimeError("no zeros")
        return simulate(launches, device, settings, **how)

    monkeypatch.setattr(traced_runs, "simulate_costed", failing)
    monkeypatch.setenv("TILESIGHT_PREDICTIONS", "off")
    assert main(["predict", f"{file}:run", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["complete"] and list(answer["times"]) == ["single", "sustained", "graph"]
    assert any("no time as do_bench shows it" in note and "no zeros" in note for note in answer["launches"][0]["notes"])
    assert main(["predict", f"{file}:run", "--as", "do_bench"]) == 1
    assert "its time as do_bench shows it is not predicted" in capsys.readouterr().out


def test_configurations_of_an_autotuned_kernel_are_compared(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One row in the sum, the fastest; all of them below."""
    assert main(["predict", f"{file}:tune"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("1 launch on h200")
    assert text.count("BLOCK: 256") == 1 and "fastest of 2 configurations: BLOCK: 1024" in text


@pytest.mark.parametrize(
    ("function", "code", "line"),
    [
        ("rum", 2, "mine.py: function 'rum' is unknown: did you mean run?"),
        ("nothing", 2, "mine.py: nothing() launches no Triton kernel"),
        (
            "needs",
            2,
            "mine.py: needs needs arguments (something): tune --shapes gives them, or name a function that takes none",
        ),
        ("raises", 1, "KeyError: 'of my own' (mine.py:101)"),
    ],
)
def test_what_cannot_be_called_is_one_line(
    file: Path, capsys: pytest.CaptureFixture[str], function: str, code: int, line: str
) -> None:
    """The user's own message, where it is the user's code that raises."""
    assert main(["predict", f"{file}:{function}"]) == code
    assert capsys.readouterr().err.splitlines() == [f"tilesight: {line}"]


@pytest.mark.parametrize(
    ("function", "line"),
    [
        ("unknown", "kernel gather: line 24: its address depends on tensor IDS, whose values are not known: "
         "pass IDS as a CPU tensor"),
        ("beyond", "kernel sum_of: line 30: load reaches 320 B beyond tensor X"),
        ("gathers", "kernel rows_by_descriptor: line 107: gather through a tensor descriptor needs sm_100 or newer, "
         "the target is sm_90: take pointers"),
    ],
)  # fmt: skip
def test_what_cannot_be_predicted_names_line_and_tensor(
    file: Path, capsys: pytest.CaptureFixture[str], function: str, line: str
) -> None:
    """It is a row of the answer like others; nothing else was asked for, so the command fails."""
    assert main(["predict", f"{file}:{function}", "--json"]) == 1
    (launch,) = json.loads(capsys.readouterr().out)["launches"]
    assert launch["refused"] == line and launch["traffic"] is None


def test_there_is_no_such_file(capsys: pytest.CaptureFixture[str]) -> None:
    """Nor something that is none."""
    assert main(["predict", "nowhere.py:run"]) == 2
    assert main(["predict", "nowhere.py"]) == 2
    assert capsys.readouterr().err.splitlines() == [
        "tilesight: nowhere.py: no such file",
        "tilesight: 'nowhere.py': must be FILE.py:FUNCTION or MODULE:FUNCTION",
    ]


def test_values_of_cpu_tensors_decide_addresses() -> None:
    """Rows that are gathered twice are read once; each CTA reads a sector of the indices."""
    ids = torch.tensor([3, 3, 7, 3], dtype=torch.int32)
    with tilesight.capture() as launches:
        table, out = (torch.empty(rows, 128, device="meta", dtype=torch.float16) for rows in (64, 4))
        rowwise.embedding[(4,)](ids, table, out, D=128)
    predicted = tilesight.predict(launches, device="h200")
    assert predicted.rows[0].traffic.hbm_read_bytes <= 2 * 256 + 4 * 32
    assert "kernel embedding: values of IDS were used" in predicted.rows[0].notes


def test_bytes_of_copies_by_descriptor_are_predicted() -> None:
    """A and B come from HBM once, with the descriptors of 4 CTAs nothing else is written; all accesses are known."""
    with tilesight.capture() as launches:
        a, b, c = (torch.empty(256, 256, device="meta", dtype=torch.float16) for _ in range(3))
        descriptors.gemm_device[(2, 2)](a, b, c, 256, 256, 256, BM=128, BN=128, BK=64, num_stages=3)
    (row,) = tilesight.predict(launches, device="h200").rows
    assert row.refused is None and row.known_accesses == row.accesses > 0
    assert row.traffic.hbm_read_bytes == 2 * 256 * 256 * 2
    assert row.traffic.smem_fill_bytes == 2 * 2 * 256 * 256 * 2


def test_the_slow_path_of_an_exact_division_is_left_out() -> None:
    """It differs from a product by the ten instructions around it, and not by the hundred of a subroutine."""
    with tilesight.capture() as launches:
        x = torch.empty(4096, device="meta")
        rowwise.quotient[(32,)](x, x, x, EXACT=False, BLOCK=128)
        rowwise.quotient[(32,)](x, x, x, EXACT=True, BLOCK=128)
    product, quotient = tilesight.predict(launches, device="h200").rows
    assert any("slow path (denormals, overflow)" in note for note in quotient.notes) and not product.notes
    assert product.executed_instructions < quotient.executed_instructions < product.executed_instructions + 32 * 4 * 25


def test_rows_that_are_scattered_are_stored_line_by_line() -> None:
    """Where the rows go is given; their lanes lie side by side, as those of rows in order do."""
    order = torch.randperm(8192, generator=torch.Generator().manual_seed(1)).to(torch.int64)
    with tilesight.capture() as launches:
        x, y = (torch.empty(8192, 513, device="meta", dtype=torch.float16) for _ in range(2))
        rowwise.move_rows[(8192,)](order, x, y, 513, D=512, MOVED=False)
        rowwise.move_rows[(8192,)](order, x, y, 513, D=512, MOVED=True)
    straight, scattered = tilesight.predict(launches, device="h200", l2="cold").rows
    assert scattered.traffic.cycles < 1.1 * straight.traffic.cycles


def test_a_recording_runs_nothing_and_ends() -> None:
    """Outside of the block kernels are launched as ever, and there is no GPU again."""
    with tilesight.capture("a100") as launches:
        x = torch.zeros(1024)
        assert torch.cuda.get_device_capability() == (8, 0)
        rowwise.add[(4,)](x, x, x, 1024, BLOCK=256)
    assert launches[0].grid == (4, 1, 1) and launches[0].arguments == {"n": 1024, "BLOCK": 256}
    assert {tensor.storage for tensor in launches[0].tensors.values()} == {0}
    assert not torch.cuda.is_available() or torch.cuda.device_count() > 0
    assert triton.runtime.jit.JITFunction.run.__name__ == "run"


def test_one_kernel_compiles_for_every_architecture() -> None:
    """The same call on other devices; a frame has a row for it."""
    with tilesight.capture() as launches:
        rowwise.CASES["add"]("meta")()
    times = {name: tilesight.predict(launches, device=name).total.time_s for name in ("h200", "a100")}
    assert 0 < times["h200"] != times["a100"]


def test_several_devices_stand_beside_each_other(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """JSON is a list, in the order in which they are named; people get a comparison; code sees each device."""
    devices = ["--device", "h200,a100"]
    assert main(["predict", f"{file}:run", *devices, "--json"]) == 0
    first, second = json.loads(capsys.readouterr().out)
    assert (first["device"], second["device"]) == ("h200", "a100-sxm-80gb")
    assert first["total"]["time_s"] < second["total"]["time_s"]
    page = tmp_path / "report.html"
    assert main(["predict", f"{file}:run", *devices, "--html", str(page)]) == 0
    text = capsys.readouterr().out
    assert text.index("2 launches on h200") < text.index("2 launches on a100-sxm-80gb") < text.index("Each device")
    assert "Each launch: time on each device" in text
    assert page.read_text("utf-8").count("<table") == 8
    assert page.read_text("utf-8").count("<li>Longest: ") == 2
    assert main(["predict", f"{file}:by_device", *devices]) == 0
    text = capsys.readouterr().out
    assert "2 launches on h200" in text and "1 launch on a100-sxm-80gb" in text
    assert "Each device" in text and "Each launch" not in text


def test_a_timeline_that_is_not_written_is_told(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is predicted: no file, and a line that says so."""
    out = tmp_path / "t.json"
    assert main(["predict", f"{file}:unknown", "--trace", str(out)]) == 1
    assert "not written: no launch is predicted" in capsys.readouterr().err and not out.exists()


@pytest.mark.parametrize("l2", ["pipeline", "cold"])
def test_a_timeline_has_every_cta(file: Path, tmp_path: Path, l2: str) -> None:
    """Of both launches, the second after the first, under the names that Triton has for them."""
    trace = tmp_path / "trace.json"
    assert main(["predict", f"{file}:run", "--trace", str(trace), "--l2", l2, "--json"]) == 0
    bars = [event for event in json.loads(trace.read_text())["traceEvents"] if event["ph"] == "X"]
    launches = [bar for bar in bars if "CTAs" in bar["args"]]
    ctas = [bar for bar in bars if "CTA" in bar["args"]]
    assert [bar["name"] for bar in launches] == ["double", "double"]
    assert launches[1]["ts"] > launches[0]["ts"] + launches[0]["dur"]
    assert len(ctas) == 2048 and {bar["name"] for bar in ctas} == {f"program {cta}" for cta in range(1024)}


def test_a_timeline_shows_one_device(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """So does that of simulate."""
    trace = tmp_path / "trace.json"
    assert main(["predict", f"{file}:run", "--trace", str(trace), "--device", "h200,a100"]) == 2
    assert "shows one device" in capsys.readouterr().err


def test_a_csv_has_a_line_for_each_launch(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """On each device, in a file, as `explore` writes it; beside JSON on stdout."""
    table = tmp_path / "launches.csv"
    assert main(["predict", f"{file}:run", "--csv", str(table), "--json", "--device", "h200,a100"]) == 0
    assert len(json.loads(capsys.readouterr().out)) == 2
    rows = list(csv.DictReader(table.read_text("utf-8").splitlines()))
    assert [row["device"] for row in rows] == ["h200"] * 2 + ["a100-sxm-80gb"] * 2
    assert {row["hbm_read_bytes"] for row in rows[::2]} == {str(4 << 20)}


def test_a_configuration_that_does_not_fit_is_a_row(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It says why, and another one is chosen."""
    assert main(["predict", f"{file}:too_large", "--device", "a100", "--set", "smem_per_cta_bytes=24KiB"]) == 0
    text = capsys.readouterr().out
    assert "1 launch on" in text and "fastest of 2 configurations: BLOCK: 64" in text
    (line,) = [line for line in text.splitlines() if line.startswith("BLOCK: 128")]
    assert "refused: " in line and "shared memory" in line


def test_what_triton_refuses_is_a_refused_launch(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By kernel, and with Triton's own reason."""
    assert main(["predict", f"{file}:typed"]) == 1
    assert "Refused  kernel double: " in capsys.readouterr().out


LONGER = "a longer limit may do (--time-limit, or timeout_s)"


@pytest.mark.parametrize(
    ("function", "limit_s", "line"),
    [
        ("endless", "5", "endless: the user's code was still at work after 5 s of computing; " + LONGER),
        ("dies", "300", "dies: the user's code died (status 3)"),
    ],
)
def test_code_that_gives_no_answer_is_one_line(
    file: Path, capsys: pytest.CaptureFixture[str], function: str, limit_s: str, line: str
) -> None:
    """It runs in a process of its own, with a time limit."""
    assert main(["predict", f"{file}:{function}", "--time-limit", limit_s]) == 1
    (line_printed,) = capsys.readouterr().err.splitlines()
    assert line_printed.endswith(line)
    assert main(["predict", f"{file}:{function}", "--time-limit", "0"]) == 2
    assert "must be more than 0 seconds" in capsys.readouterr().err


def test_what_would_help_is_told(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Below the table: the longest launch, what binds it, and what its author can change."""
    assert main(["predict", f"{file}:run"]) == 0
    text = capsys.readouterr().out
    assert "Longest  double: " in text and "bound by launch" in text and "Helps    fewer launches" in text
