"""Public measured tables beside predictions: how they are read, drawn, priced, and what no physics allows."""

import json
import sys
from csv import DictReader
from dataclasses import replace
from pathlib import Path
from statistics import mean
from types import ModuleType
from zipfile import ZipFile

import pytest
from tilesight.simulator.device.device import device_of_product, load_device
from tilesight.simulator.operations.cost_model import KernelCostModel
from tilesight.simulator.operations.operation import Operand, Operation
from tilesight.simulator.operations.price import price
from tilesight.validate.tables.predicting import FP8, predict_row
from tilesight.validate.tables.rows import PARTS, TableRow, read_rows, row_of, sampled
from tilesight.validate.tables.scores import scores

from tilesight.cli.main import main

LINEAR = "torch.nn.functional.linear"
RECORDED = Path(__file__).parents[2] / "recorded"
LIMITS = {"l40s": 0.14, "b300": 0.12}
FP8_LIMITS = {"l40s": 0.15, "b200": 0.12}
"""Largest mean error of a GPU's rows; 0.10 where nothing is said."""

FP8_ROW = {"source": FP8, "dtype": "fp8"}
H100_FP8 = FP8_ROW | {"device": "h100-sxm"}


def row(m: int, n: int, k: int, us: float = 100.0, **said: str) -> TableRow:
    """A product, in bf16 by torch on a B200 unless it is said otherwise."""
    asked = {"device": "b200", "source": LINEAR, "framework": "vllm 0.24.0", "dtype": "bfloat16"} | said
    return TableRow(kind="gemm", sizes={"m": m, "n": n, "k": k}, time_s=1e-6 * us, **asked)


def wheel(folder: Path, monkeypatch: pytest.MonkeyPatch, product: str = "NVIDIA B200") -> Path:
    """A wheel with a table of 20 products, read by a stand-in for pyarrow, as JSON."""
    entry = {"framework": "VLLM", "version": "0.24.0", "device": product, "kernel_source": LINEAR, "k": 512}
    rows = [entry | {"gemm_dtype": "bfloat16", "m": m, "n": 4096, "latency": 0.02} for m in range(1, 21)]

    class Table(dict[str, list[str]]):
        @property
        def column_names(self) -> list[str]:
            return [*self]

        def to_pylist(self) -> list[dict[str, object]]:
            return rows

    module = ModuleType("pyarrow.parquet")
    module.read_table = lambda file: Table(device=[json.loads(file.read())["device"]])  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pyarrow", ModuleType("pyarrow"))
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", module)
    path = folder / "tables.whl"
    with ZipFile(path, "w") as made:
        made.writestr("data/b200_sxm/gemm/vllm/0.24.0/gemm_perf.parquet", json.dumps(entry))
    return path


def test_a_table_needs_pyarrow_and_says_so_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the command that installs it, and exit code 2."""
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert main(["validate", "--table", "none.whl", "--device", "b200"]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "pip install pyarrow" in said


def test_a_row_of_collectives_is_priced_as_torch_calls_it() -> None:
    """By its bytes and GPUs, whose log2 and number decide its part; 64 MiB on two H200s took 247.6 us elsewhere."""
    entry = {"framework": "TRTLLM", "version": "2.29.2", "kernel_source": "NCCL", "op_name": "all_reduce"}
    entry |= {"nccl_dtype": "half", "num_gpus": 2, "message_size": 32 << 20, "latency": 0.25}
    measured = row_of(entry, "collective", "h200")
    assert (measured.framework, measured.source, measured.part) == ("nccl 2.29.2", "all_reduce", PARTS[(26 + 2) % 5])
    made = predict_row(measured, load_device("h200"))
    assert made.predicted_s == pytest.approx(247.6e-6, rel=0.1)
    assert made.least_s == pytest.approx((64 << 20) / 450e9)
    assert predict_row(replace(measured, source="gather"), load_device("h200")).reason
    assert predict_row(measured, load_device("l4")).reason


def test_rows_of_a_table_are_predicted_and_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line a row, behind one of errors; the same rows for the same seed."""
    results = tmp_path / "rows.ndjson"
    asked = ["validate", "--table", str(wheel(tmp_path, monkeypatch)), "--device", "b200", "--sample", "5"]
    assert main([*asked, "--results", str(results), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    first, *lines = map(json.loads, results.read_text().splitlines())
    assert first == said
    assert sum(score["rows"] for score in said["scores"]) == len(lines) == 5
    assert all(line["time_s"]["predicted"] > line["roofline_s"] / 2 > 0 for line in lines)
    assert main([*asked, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == said


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (["--schedule", "flash2"], "--schedule"),
        (["--only", "nothing"], "matches none of 20 rows"),
        (["--device", "h200"], "holds no rows of gemm for h200"),
    ],
)
def test_what_a_table_cannot_answer_is_refused(
    wrong: list[str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """In one line that names the option."""
    device = [] if "--device" in wrong else ["--device", "b200"]
    assert main(["validate", "--table", str(wheel(tmp_path, monkeypatch)), *device, *wrong]) == 2
    assert said in capsys.readouterr().err


def test_a_gb200_is_no_b200(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The name of a product is all of a word."""
    assert device_of_product("NVIDIA GB200") != "b200"
    with pytest.raises(ValueError, match="no rows of gemm"):
        read_rows(wheel(tmp_path, monkeypatch, "NVIDIA GB200"), "gemm", ["b200"])


def test_a_problem_is_of_one_part_on_all_gpus() -> None:
    """Test rows are those whose sizes add up to a multiple of five."""
    rows = [row(m, 4096, 512, device=device) for m in range(1, 21) for device in ("b200", "l40s")]
    assert {made.key for made in sampled(rows, 0, 0, part="test")} == {f"m={m} n=4096 k=512" for m in (2, 7, 12, 17)}
    parts = [len(sampled(rows, 0, 0, part=part)) for part in ("fit", "check", "test")]
    assert parts == [16, 16, 8]


def test_rows_faster_than_the_peaks_are_left_out_and_counted() -> None:
    """70 TFLOP take a B200 more than 28 ms; half of it is of no use, and no error is made of it."""
    device = load_device("b200")
    made = [predict_row(row(32768, 32768, 32768, us), device) for us in (15e3, 60e3)]
    assert [row.impossible for row in made] == [True, False]
    (score,) = scores(made)
    assert (score.rows, score.impossible, score.time and score.time.points) == (2, 1, 1)


def test_weights_that_l2_holds_are_no_reason_to_doubt_a_row() -> None:
    """Six calls' weights of 2 MB stay in the 127 MB of L2: faster than HBM is possible there."""
    device = load_device("b200")
    small, large = predict_row(row(1, 1024, 1024), device), predict_row(row(1, 65536, 16384), device)
    assert small.least_s < small.roofline_s
    assert large.least_s > 0.98 * (large.roofline_s - device.l2_bytes / device.hbm_peak_bytes_per_s)


def test_products_without_a_price_are_refused_by_name() -> None:
    """Block-scaled ones, and fp8 by kernels whose conversion is not known."""
    device = load_device("b200")
    for source, dtype in (("deepgemm", "fp8_block"), ("torch_flow", "fp8")):
        refused = predict_row(row(64, 4096, 4096, source=source, dtype=dtype), device)
        assert refused.reason == f"{source} of {dtype} has no price"
    assert not predict_row(row(64, 4096, 4096, source=FP8, dtype="fp8"), device).reason


def test_a_call_in_a_graph_costs_a_gap_more_than_its_kernels() -> None:
    """Time is from call to call."""
    device = load_device("b200")
    slow = replace(device, launch_graph_s=device.launch_graph_s + 1e-6)
    small = row(16, 256, 256)
    assert predict_row(small, slow).predicted_s - predict_row(small, device).predicted_s == pytest.approx(1e-6)


def recorded(device: str, file: str = "public-products.csv", **said: str) -> list[TableRow]:
    """Rows of a GPU on which nothing was fitted."""
    lines = (RECORDED / file).read_text("utf-8").splitlines()[1:]
    entries = [entry for entry in DictReader(lines) if entry["device"] == device]
    return [
        row(
            *(int(entry[name]) for name in ("m", "n", "k")),
            float(entry["us"]),
            **{name: entry[name] for name in ("device", "framework", "source")} | said,
        )
        for entry in entries
    ]


@pytest.mark.parametrize("name", ["a100-sxm-80gb", "l40s", "rtx-pro-6000", "h100-sxm", "h200", "b200", "b300"])
def test_products_take_as_long_as_public_tables_say(name: str) -> None:
    """No constant was fitted on them, nor on any row of a B300; the L40S's own tables differ by 12 %."""
    rows = recorded(name)
    assert len(rows) == 40
    assert {made.part for made in rows} == {"check"}
    made = [predict_row(product, load_device(name)) for product in rows]
    sizes = [abs(product.pair.relative_error) for product in made]
    roofline = [abs(product.roofline_s / product.row.time_s - 1) for product in made]
    assert mean(sizes) < LIMITS.get(name, 0.10)
    assert mean(roofline) > 3 * mean(sizes)


@pytest.mark.parametrize("name", ["l40s", "rtx-pro-6000", "h100-sxm", "h200", "b200", "b300"])
def test_products_in_fp8_take_as_long_as_public_tables_say(name: str) -> None:
    """With the conversion before them; no constant was fitted on these rows, nor on any row of a B300."""
    rows = recorded(name, "public-fp8-products.csv", dtype="fp8")
    assert len(rows) == 30
    assert {made.part for made in rows} == {"check"}
    made = [predict_row(product, load_device(name)) for product in rows]
    assert mean(abs(product.pair.relative_error) for product in made) < FP8_LIMITS.get(name, 0.10)
    assert mean(abs(product.roofline_s / product.row.time_s - 1) for product in made) > 0.5


def test_vllm_does_not_split_k() -> None:
    """Few results of long K take as long as one tile's steps do, where the vendor's library splits K."""
    device = load_device("h100-sxm")
    split, whole = (predict_row(row(6, 32, 65536, device="h100-sxm", **said), device) for said in ({}, FP8_ROW))
    assert whole.predicted_s > 3 * split.predicted_s


def test_a_row_of_activations_is_converted_by_one_cta() -> None:
    """4,096 rows of 32 elements take as long as of 2,048, and 32 times as long as 128: 35 and 4.9 us on an H100."""
    device = load_device("h100-sxm")
    short, full, more = (predict_row(row(4096, 32, k, **H100_FP8), device).predicted_s for k in (32, 2048, 4096))
    assert short == pytest.approx(35.5e-6, rel=0.15)
    assert full < 1.25 * short
    assert more > 1.5 * short


def test_gpus_without_fp8_are_refused() -> None:
    """An A100 has no such product."""
    square = Operand(storage=1, storage_bytes=4096, shape=(64, 64), strides=(64, 1), dtype="float8_e4m3fn")
    product = Operation(kind="torch", name="_C::cutlass_scaled_mm", inputs=(square, square), outputs=(square,))
    (kernel,) = price(product, KernelCostModel(load_device("a100-sxm-80gb")))
    assert "float8_e4m3fn on compute capability 8.0 has no price" in kernel.reason


def test_few_results_are_made_by_one_serial_kernel_on_an_l40s() -> None:
    """8 x 32 results of K = 7,168 take 31.2 us there, of K = 8,192 but 4.7, in pieces; on a B200 both do."""
    times = {
        (name, k): predict_row(row(8, 32, k, device=name), load_device(name)).predicted_s
        for name in ("l40s", "b200")
        for k in (7168, 8192)
    }
    assert times["l40s", 7168] == pytest.approx(31.2e-6, rel=0.1)
    assert times["l40s", 8192] < 6e-6
    assert times["b200", 7168] < times["b200", 8192] < 6e-6
