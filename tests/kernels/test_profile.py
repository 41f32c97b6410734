"""`tilesight profile` of functions that run: recorded, priced and predicted as a user asks for it, with no GPU."""

import json
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from tilesight.kernels.launch.availability import missing_package
from tilesight.simulator.device.device import load_device

from tilesight.cli.main import main

if missing_package():
    pytest.skip(str(missing_package()), allow_module_level=True)

import torch
import torch.nn.functional as F
from tilesight.kernels.capture.file import UserCodeFailed
from tilesight.kernels.compile.call import KernelLaunch
from tilesight.kernels.compile.question import question_key
from tilesight.simulator.emulator.storage import Storage
from tilesight.simulator.launch.before import StorageUse

import tilesight
from tilesight.tuning.step_kernels import movable

FILE = """
import torch
import torch.nn.functional as F


def inputs():
    x, w = torch.randn(2048, 4096, device="cuda"), torch.randn(8192, 4096, device="cuda")
    return x.bfloat16(), w.bfloat16()


def mlp(x, w):
    return F.gelu(F.linear(x, w) * 2)
"""
FLOP = 2 * 2048 * 8192 * 4096
"""Of the product."""


def mlp(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """The function of the file."""
    return F.gelu(F.linear(x, w) * 2)


def meta() -> tuple[torch.Tensor, torch.Tensor]:
    """What it is given, without data."""
    shapes = (2048, 4096), (8192, 4096)
    x, w = (torch.empty(shape, dtype=torch.bfloat16, device="meta") for shape in shapes)
    return x, w


def test_both_modes_of_a_function_stay_above_the_roofline(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No kernel beats its device; compiled, one kernel does what two did, and moves a half of their bytes."""
    assert main(["profile", f"{file}:mlp", "--compare", "--json"]) == 0
    eager, compiled = json.loads(capsys.readouterr().out)
    assert [row["operation"] for row in eager["rows"] if row["kernel"] != "Memset"] == ["mm", "mul", "gelu"]
    (fused,) = [row for row in compiled["rows"] if row["source"] == "simulated"]
    assert set(fused["parts"]) >= {"mul", "gelu"} and fused["where"].startswith("mine.py:")
    device = load_device("h200")
    peak_flop_per_s = device.fastest_flop_per_cycle("bf16") * device.sms * device.tensor_boost_clock_hz
    for answer in (eager, compiled):
        assert answer["complete"] and answer["mode"] in ("eager", "compiled")
        for row in answer["rows"]:
            moved = row["hbm_read_bytes"] + row["hbm_write_bytes"]
            assert row["time_s"] >= moved / device.hbm_peak_bytes_per_s
        (product,) = [row for row in answer["rows"] if row["operation"] == "mm" and row["source"] == "matmul"]
        assert FLOP / peak_flop_per_s <= product["time_s"] <= 2 * FLOP / peak_flop_per_s
        assert answer["step_s"] >= answer["time_s"]
    assert compiled["time_s"] < eager["time_s"] and compiled["kernels"] < eager["kernels"]


def test_a_function_that_is_loaded_is_profiled_as_its_file_is(file: Path) -> None:
    """By a fork of this process, whose tensors keep their places."""
    x, w = meta()
    lines = (tilesight.profile(mlp, x, w), tilesight.profile(f"{file}:mlp"))
    kernels = [[(row.operation.name, row.kernel) for row in profile.rows] for profile in lines]
    assert kernels[0] == kernels[1]
    assert lines[0].peak_bytes == lines[1].peak_bytes
    assert x.is_meta and w.is_meta
    assert lines[0].subject == "mlp" and "test_profile.py:" in lines[0].rows[0].operation.where


def test_modules_are_moved_wherever_they_are_named() -> None:
    """As arguments, in closures; their parameters count."""
    with torch.device("meta"):
        model = torch.nn.Sequential(torch.nn.Linear(512, 512), torch.nn.ReLU()).to(torch.bfloat16)
        x = torch.empty(256, 512, dtype=torch.bfloat16)
    called, named = tilesight.profile(model, x), tilesight.profile(lambda: model(x))
    assert [row.kernel for row in called.rows] == [row.kernel for row in named.rows]
    assert called.parameter_bytes == (512 * 512 + 512) * 2
    assert {row.operation.module for row in called.rows} == {"0", "1"}
    assert next(model.parameters()).is_meta


def test_what_a_loaded_function_raises_is_one_line() -> None:
    """With its line."""
    with pytest.raises(UserCodeFailed, match=r"^RuntimeError: .* \(test_profile\.py:\d+\)$"):
        tilesight.profile(lambda: mlp(*reversed(meta()))[:, 0] @ torch.empty(3, device="cuda"))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"mode": "fast"}, "mode = 'fast': must be one of auto, eager, compiled, max-autotune"),
        ({"queue": "heap"}, "queue = 'heap': must be one of stream, graph"),
        ({"indices": "zeros"}, "indices = 'zeros': must be one of uniform"),
        ({"device": "h2000"}, "device 'h2000' is unknown"),
        ({"prices": {"op": "12"}}, "op=12: must be a time such as 12us, or a bandwidth such as 450GB/s, above 0"),
        ({"prices": {"op": 12e-6}}, r"prices = {'op': 1.2e-05}: must be texts, e.g. {'mylib::op': '12us'}"),
    ],
)
def test_settings_that_are_none_are_one_line(arguments: dict[str, Any], said: str) -> None:
    """Before anything is recorded."""
    with pytest.raises(ValueError, match=said):
        tilesight.profile(mlp, *meta(), **arguments)


def test_what_a_file_cannot_be_given_is_one_line(file: Path) -> None:
    """Its own function makes the inputs, and its process loads the device by name."""
    with pytest.raises(ValueError, match=r"mlp: takes no arguments here: `inputs\(\)` of its file makes"):
        tilesight.profile(f"{file}:mlp", *meta())
    with pytest.raises(ValueError, match=r"^device = <Device: .*>: name it, or its file, for a function"):
        tilesight.profile(f"{file}:mlp", device=load_device("h200"))


def call(x: int, y: int) -> KernelLaunch:
    """A copy between two storages of these numbers."""
    storages = tuple(Storage(number=number, size_bytes=64, name="X") for number in dict.fromkeys((x, y)))
    return KernelLaunch(
        name="copy",
        file="",
        line=1,
        grid=(1, 1, 1),
        num_warps=4,
        num_stages=1,
        num_ctas=1,
        job={"signature": [["X", "*bf16"], ["Y", "*bf16"], ["n", "i64"]]},
        arguments={"X": x + 1 << 40, "Y": (y + 1 << 40) + 16, "n": 8 << 40},
        storages=storages,
    )


def test_launches_of_like_layers_are_one_question() -> None:
    """Wherever their tensors lie; not where two pointers lead to one tensor in one layer, and to two in another."""
    first = movable(call(7, 9))
    assert first == movable(call(8, 3)) == replace(call(0, 1))
    assert movable(call(7, 7)) != first


def test_launches_behind_like_kernels_are_one_question() -> None:
    """What ran before counts, by which of the launch's storages it touched, whatever numbers others have."""
    device = load_device("h200")

    def key(call: KernelLaunch, *numbers: int) -> str:
        before = (tuple(StorageUse(number=number, bytes=64.0, written=True) for number in numbers),)
        return question_key([movable(replace(call, before=before))], device, "h200", "cold")

    first, second = call(7, 9), call(8, 3)
    assert key(first, 7, 5) == key(second, 8, 4) != key(second, 3, 4)
    assert key(first, 7, 5) != key(first, 7) != question_key([movable(first)], device, "h200", "cold")


COLLECTIVE = """
import torch
import torch.distributed as dist
from torch.distributed._functional_collectives import all_reduce
from torch.testing._internal.distributed.fake_pg import FakeStore

library = torch.library.Library("tests_of_prices", "DEF")
library.define("op(Tensor x) -> Tensor")
library.impl("op", torch.empty_like, "CompositeExplicitAutograd")


def inputs():
    dist.init_process_group("fake", rank=0, world_size=8, store=FakeStore())
    return torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)


def step(x):
    return all_reduce(torch.ops.tests_of_prices.op(x), "sum", dist.group.WORLD) + 1
"""


def test_custom_operations_and_collectives_take_what_is_stated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a price they are named, with how to state it; 33.6 MB at 450 GB/s take 74.6 us; unused ones are told."""
    file = tmp_path / "shared.py"
    file.write_text(COLLECTIVE, encoding="utf-8")
    ask = ["profile", f"{file}:step", "--device", "h100"]
    assert main(ask) == 1
    assert "--price tests_of_prices::op=12us" in " ".join(capsys.readouterr().out.split())
    stated = ["--price", "all_reduce=450GB/s", "--price", "tests_of_prices::op=12us", "--price", "other=1us"]
    assert main([*ask, *stated, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    times = [row["time_s"] for row in answer["rows"] if row["source"] == "stated"]
    assert times == pytest.approx([12e-6, 2 * 4096**2 / 450e9])
    assert [note for note in answer["notes"] if "other=1us is not used" in note]
    assert main([*ask, "--price", "op=12"]) == 2
    assert "--price op=12: must be a time such as 12us" in capsys.readouterr().err


GATHERED = """
import torch
import torch.distributed as dist
from torch.distributed._functional_collectives import all_gather_tensor
from torch.testing._internal.distributed.fake_pg import FakeStore


def inputs():
    dist.init_process_group("fake", rank=0, world_size=4, store=FakeStore())
    return torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)


def step(x):
    dist.all_reduce(x)
    whole = all_gather_tensor(x, 0, dist.group.WORLD)
    dist.reduce_scatter_tensor(x, whole)
    dist.all_to_all_single(torch.empty_like(whole), whole)
    dist.broadcast(x, 0)
"""


def test_collectives_of_four_gpus_have_a_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """33.6 MB, four times gathered: the group's size is its process group's; no time is below what NVLink takes."""
    file = tmp_path / "gathered.py"
    file.write_text(GATHERED, encoding="utf-8")
    assert main(["profile", f"{file}:step", "--device", "h100", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    times = {row["kernel"]: row["time_s"] for row in answer["rows"] if row["source"] == "collective"}
    part = 2 * 4096**2 / 450e9
    least = {"all_reduce": 1.5, "all_gather": 3.0, "reduce_scatter": 3.0, "all_to_all": 3.0, "broadcast": 1.0}
    assert {name.removeprefix("nccl_") for name in times} == set(least)
    assert all(1.0 < times[f"nccl_{name}"] / (parts * part) < 3.0 for name, parts in least.items())
    assert all("of 4 GPUs by" in note for note in answer["notes"])


@pytest.mark.skipif(find_spec("transformers") is not None, reason="transformers is installed")
def test_a_config_without_transformers_says_what_to_install(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In one line."""
    config = tmp_path / "config.json"
    config.write_text('{"model_type": "llama"}', encoding="utf-8")
    assert main(["profile", f"hf:{config}", "--tokens", "128"]) == 2
    assert "transformers is not installed" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "give --tokens N for a forward pass, --batch B for one on images, or --decode BxHELD"),
        (["--tokens", "8", "--decode", "1x8"], "give --tokens N for a forward pass, --batch B for one on images, or"),
        (["--batch", "8", "--decode", "1x8"], "give --tokens N for a forward pass, --batch B for one on images, or"),
        (["--batch", "0"], "--batch = 0: must be an integer of 1 or more"),
        (["--decode", "8"], "--decode '8': must be sequences x tokens that each holds, e.g. 32x8192"),
        (["--tokens", "0"], "--tokens = 0: must be an integer of 1 or more"),
        (["--decode", "1x8", "--train"], "--train: not with --decode 1x8"),
    ],
)
def test_sizes_of_a_config_that_are_none_are_one_line(
    tmp_path: Path, options: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before a model is made."""
    config = tmp_path / "config.json"
    config.write_text("{}", encoding="utf-8")
    assert main(["profile", f"hf:{config}", *options]) == 2
    assert said in capsys.readouterr().err


def test_a_kernel_over_a_list_of_tensors_reads_and_writes_every_tensor() -> None:
    """A branch for each tensor: two reads and a write of 24 that do not fit in L2, and no time below HBM's."""
    kept, now = ([torch.empty(1 << 20, device="meta") for _ in range(24)] for _ in range(2))
    device = load_device("h100")
    move = lambda a, b: torch._foreach_lerp_(a, b, 0.5)  # noqa: E731
    report = tilesight.profile(move, kept, now, device=device, mode="compiled")
    (row,) = report.rows
    size = 24 * (4 << 20)
    assert row.kernel.hbm_read_bytes == pytest.approx(2 * size, rel=0.05)
    assert row.kernel.hbm_write_bytes == pytest.approx(size, rel=0.05)
    assert row.kernel.time_s > 0.95 * 3 * size / device.hbm_peak_bytes_per_s


UPSAMPLED = """
import torch


def inputs():
    with torch.device("cuda"):
        model = torch.nn.Sequential(torch.nn.Conv2d(8, 16, 1), torch.nn.Upsample(scale_factor=2.0), torch.nn.SiLU())
        return model, torch.empty(2, 8, 16, 16)


def step(model, x):
    return model(x)
"""


def test_places_that_a_compiled_kernel_has_computed_of_known_numbers_are_known(tmp_path: Path) -> None:
    """Nearest pixels of up-sampling in training: kept by the forward pass, read by the backward pass."""
    path = tmp_path / "upsampled.py"
    path.write_text(UPSAMPLED, encoding="utf-8")
    report = tilesight.profile(f"{path}:step", device="h100", mode="compiled", train=True)
    sources = {row.kernel.source for row in report.rows}
    assert "simulated" in sources and "refused" not in sources
