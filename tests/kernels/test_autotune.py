"""`tilesight.autotune` and `tilesight.prune` choose by prediction, and leave all to Triton where they cannot."""

import inspect
import itertools
import json
import os
import re
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tilesight.kernels.launch.availability import missing_package

from tilesight.cli.main import main

if missing_package():
    pytest.skip(str(missing_package()), allow_module_level=True)

import torch
import triton
import users_tuned
from tilesight.kernels.compile.call import KernelLaunch
from triton.runtime.jit import JITFunction
from users_tuned import CONFIGS, boxes, copy_boxes, double, doubled, even_double, gather, gathered, grid, set_blocks

import tilesight
from tilesight.autotuning import chooser
from tilesight.autotuning.chooser import Chooser, NoChoice, calls_of, gpu_of

BLOCKS = [{"BLOCK": size} for size in (16, 128, 32)]
FILE = """

tuned = triton.autotune(CONFIGS, key=["n"])(double)


def run():
    tuned[grid](*doubled("cuda"))
"""


@pytest.fixture(autouse=True)
def launched(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Keywords of the launches that a GPU would run."""
    launches: list[dict[str, Any]] = []

    def run(function: Any, *args: Any, **kwargs: Any) -> None:
        launches.append(kwargs)

    monkeypatch.setattr(JITFunction, "run", run)
    return launches


def configs(*values: dict[str, Any], **options: Any) -> list[triton.Config]:
    """Configurations."""
    return [triton.Config(value, **options) for value in values or BLOCKS]


def never(*args: Any, **kwargs: Any) -> Any:
    """A benchmark that is not to be called."""
    raise AssertionError("measured")


def counted() -> tuple[list[None], Callable[..., list[float]]]:
    """A benchmark that is told apart by how often it was called, and what it was called for."""
    calls: list[None] = []

    def bench(launch: Callable[[], None], quantiles: Any) -> list[float]:
        calls.append(None)
        launch()
        return [1.0 / len(calls)] * 3

    return calls, bench


@pytest.fixture
def raised() -> Iterator[list[warnings.WarningMessage]]:
    """Warnings, each time that there is one."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield caught


def test_what_runs_is_what_tune_names_first_and_nothing_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], launched: list[dict[str, Any]]
) -> None:
    """Launched once, on the first call and on the second."""
    kernel = tilesight.autotune(CONFIGS, key=["n"], device="h100-sxm", do_bench=never)(double)
    for _ in range(2):
        kernel[grid](*doubled())
    assert [given["BLOCK"] for given in launched] == [kernel.best_config.kwargs["BLOCK"]] * 2
    monkeypatch.undo()
    monkeypatch.setenv("TILESIGHT_PREDICTIONS", "off")
    (tmp_path / "tuned.py").write_text(Path(users_tuned.__file__).read_text("utf-8") + FILE, "utf-8")
    assert main(["tune", f"{tmp_path}/tuned.py:run", "--device", "h100-sxm", "--json"]) == 0
    first = json.loads(capsys.readouterr().out)["launches"][0]["configurations"][0]["configuration"]
    assert first == {name: value for name, value in kernel.best_config.all_kwargs().items() if name in first}
    assert first["BLOCK"] == kernel.best_config.kwargs["BLOCK"] != CONFIGS[0].kwargs["BLOCK"]


def test_as_many_as_are_kept_are_measured(launched: list[dict[str, Any]]) -> None:
    """By Triton's own autotuner as well, by the hook; the first is what alone would be chosen."""
    calls, bench = counted()
    ours = tilesight.autotune(CONFIGS, key=["n"], keep=2, device="h200", do_bench=bench)(double)
    ours[grid](*doubled())
    assert len(calls) == 2 and len(launched) == 3
    hook = tilesight.prune(double, keep=2, device="h200")
    theirs = triton.autotune(CONFIGS, key=["n"], prune_configs_by={"early_config_prune": hook}, do_bench=bench)(double)
    theirs[grid](*doubled())
    assert len(calls) == 4
    assert launched[3]["BLOCK"] == launched[0]["BLOCK"]
    (alone,) = tilesight.prune(double, keep=1, device="h200")(
        CONFIGS, dict(zip("XYn", doubled(), strict=True)), grid=grid
    )
    assert alone.kwargs["BLOCK"] == launched[0]["BLOCK"]


def _with(monkeypatch: pytest.MonkeyPatch, what: str) -> dict[str, Any]:
    """Settings under which nothing can be chosen."""
    if what == "captured":
        monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
        monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    elif what == "broken":
        monkeypatch.setattr(chooser, "predict_all", never)
    return {
        "no GPU": {"device": None},
        "late": {"budget_s": 1e-9},
        "values": {"values": {"X": torch.zeros(1)}},
    }.get(what, {})


@pytest.mark.parametrize(
    ("what", "reason"),
    [
        ("captured", "a CUDA graph is being captured: call it once before"),
        ("broken", "AssertionError: measured"),
        ("no GPU", "no tensor is on a GPU (meta): pass device="),
        ("late", "0 of 3 are predicted after budget_s = 1e-09 s"),
        ("values", "ValueError: values name X: must be one of none: there is no such"),
    ],
)
def test_where_nothing_can_be_chosen_all_are_measured_with_one_warning(
    monkeypatch: pytest.MonkeyPatch, raised: list[warnings.WarningMessage], what: str, reason: str
) -> None:
    """For each shape that is called; the reason is given once, and names the kernel."""
    calls, bench = counted()
    settings = {"device": "h200", **_with(monkeypatch, what)}
    kernel = tilesight.autotune(CONFIGS, key=["n"], do_bench=bench, **settings)(double)
    x, y, n = doubled()
    kernel[grid](x, y, n)
    kernel[grid](x, y, n - 1)
    assert len(calls) == 2 * len(CONFIGS)
    (warning,) = raised
    assert str(warning.message).startswith(f"kernel double: all 3 configurations are measured: {reason}")
    assert warning.filename == __file__


def test_where_more_than_half_are_refused_all_are_measured(raised: list[warnings.WarningMessage]) -> None:
    """Refused by the compiler, or as clusters are; the same list, never an empty one."""
    asked = dict(zip("XYn", doubled(), strict=True))
    several = [*configs({"BLOCK": 64}), *configs({"BLOCK": 64}, {"BLOCK": 128}, num_ctas=2)]
    hook = tilesight.prune(double, keep=1, device="h200")
    assert hook(several, asked, grid=grid) == several
    assert "2 of 3 are not predicted, the first: kernel double: num_ctas = 2" in str(raised[0].message)
    del several[-1]
    assert hook(several, asked, grid=grid) == several[:1]


def test_a_gpu_is_found_by_its_name_and_an_unknown_one_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the driver reports it."""
    tensor: Any = SimpleNamespace(device=torch.device("cuda", 0))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda place: "NVIDIA H100 80GB HBM3")
    device, name = gpu_of({"X": tensor})
    assert name == "h100-sxm" and device.compute_capability == "9.0"
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda place: "Quadro NVS")
    with pytest.raises(NoChoice, match="GPU 'Quadro NVS' is not in the catalogue: pass device="):
        gpu_of({"X": tensor})


def test_a_budget_ends_between_predictions(raised: list[warnings.WarningMessage]) -> None:
    """And None gives as much time as it takes."""
    several = [*configs(*({"BLOCK": size} for size in (32, 64, 128, 256, 512)))]
    asked = dict(zip("XYn", doubled(), strict=True))
    device = (tilesight.load_device("h200"), "h200")
    ticks = itertools.chain([0.0, 0.0], itertools.repeat(9.0))
    late = Chooser(double, keep=1, device=device, values=None, budget_s=5.0, clock=lambda: next(ticks))
    assert late(several, asked, grid=grid) == several
    assert "4 of 5 are predicted after budget_s = 5 s" in str(raised[0].message)
    slow = Chooser(double, keep=1, device=device, values=None, budget_s=None, clock=lambda: next(ticks))
    assert len(slow(several, asked, grid=grid)) == 1


def test_heuristics_see_each_configuration(launched: list[dict[str, Any]]) -> None:
    """Below the autotuner as above it; what they compute goes to the compiler."""
    even = triton.heuristics({"EVEN": lambda given: given["n"] % given["BLOCK"] == 0})(even_double)
    asked = {**dict(zip("XYn", doubled(), strict=True)), "n": users_tuned.N - 64}
    calls = list(calls_of(even, CONFIGS, grid, asked, None, 90))
    texts = [str(call.job["ttir"]) for call in calls if isinstance(call, KernelLaunch)]
    masked = [re.search(r"tt\.load %\w+ :", text) is None for text in texts]
    assert masked == [False, True, True]
    kernel = tilesight.autotune(CONFIGS, key=["n"], device="h200", do_bench=never)(even)
    kernel[grid](*doubled())
    assert launched[0]["EVEN"] is True


def test_hooks_of_configurations_get_copies() -> None:
    """The user's descriptors and data stay as they are, and the blocks that the hook sets are what is predicted."""
    x, y = boxes()
    several = configs(pre_hook=set_blocks)
    calls = list(calls_of(copy_boxes, several, grid, {"X": x, "Y": y}, None, 90))
    kinds = [dict(call.job["signature"])["X"] for call in calls if isinstance(call, KernelLaunch)]
    assert kinds == [f"tensordesc<fp16[{size}, 64]>" for size in (16, 128, 32)]
    hook = tilesight.prune(copy_boxes, keep=1, device="h200")
    assert len(hook(several, {"X": x, "Y": y}, grid=grid)) == 1
    assert x.block_shape == y.block_shape == [8, 64] and bool((y.base == 1).all())


def test_ranks_with_other_index_values_choose_the_same() -> None:
    """What is asked is equal, byte for byte; told to, the values of each rank are asked with."""
    ranks = [dict(zip(("X", "IDS", "Y"), gathered(seed), strict=True)) | {"D": 64} for seed in (1, 2)]

    def asked(values: Any) -> list[Any]:
        return [
            [(call.job, call.arguments, call.storages) for call in calls_of(gather, configs(), grid, rank, values, 90)]  # type: ignore[union-attr]
            for rank in ranks
        ]

    first, second = asked(None)
    assert first == second
    first, second = asked(True)
    assert first != second
    values = {storage.name: storage.values for storage in first[0][2]}
    assert values["IDS"] == ranks[0]["IDS"].numpy().tobytes() and values["X"] is None
    hook = tilesight.prune(gather, keep=1, device="h200")
    assert hook(configs(), ranks[0], grid=grid) == hook(configs(), ranks[1], grid=grid) != configs()


def test_a_canonical_content_rises_over_all_rows() -> None:
    """Of the largest tensor that is read; a count is that of the longest tensor; users may say other."""
    x, ids, y = gathered(1)
    asked = {"X": x, "IDS": ids, "Y": y, "D": 64}

    def held(arguments: dict[str, Any], values: Any) -> list[int]:
        (call,) = calls_of(gather, configs({"BLOCK": 16}), grid, arguments, values, 90)
        assert isinstance(call, KernelLaunch)
        content = next(storage.values for storage in call.storages if storage.name == "IDS")
        return torch.frombuffer(bytearray(content or b""), dtype=torch.int32).tolist()

    assert held(asked, None) == [i * 1023 // 2047 for i in range(2048)]
    assert held({**asked, "IDS": ids[:1].clone()}, None) == [1024]
    assert held(asked, {"IDS": lambda given: torch.full((1,), given["X"].shape[0] - 1)}) == [1023] * 2048
    view = ids[4:8]
    assert held({**asked, "IDS": view}, None) == [0] * 4 + [0, 341, 682, 1023] + [0] * 2040


@pytest.mark.parametrize("beside", [0, 4])
def test_code_is_predicted_for_the_alignment_that_pointers_have(beside: int) -> None:
    """As Triton compiles it: an address of no multiple of 16 bytes is told apart, wherever its storage begins."""
    x = torch.frombuffer(bytearray(4 * 1024 + 64), dtype=torch.float32)
    first = (-x.data_ptr() // 4) % 4
    y = x[first + beside // 4 :][:1000]
    (call,) = calls_of(double, configs({"BLOCK": 64}), grid, {"X": y, "Y": y, "n": 1000}, None, 90)
    assert isinstance(call, KernelLaunch)
    assert call.arguments["X"] % 16 == y.data_ptr() % 16 == beside
    assert ("tt.divisibility = 16" in call.job["ttir"].split("%Y")[0]) == (beside == 0)


def test_what_was_answered_once_is_found_by_another_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It chooses the same, and predicts nothing."""
    program = """
import sys, users_tuned, tilesight, tilesight.tuning.answers as answers
from triton.runtime.jit import JITFunction
JITFunction.run = lambda *args, **kwargs: None
answers.answer = lambda job: sys.exit("predicted")
kernel = tilesight.autotune(users_tuned.CONFIGS, key=["n"], device="h200", do_bench=lambda *_: sys.exit("measured"))
kernel = kernel(users_tuned.double)
kernel[users_tuned.grid](*users_tuned.doubled())
print(kernel.best_config)
"""
    monkeypatch.setenv("TILESIGHT_PREDICTIONS", str(tmp_path / "kept.sqlite"))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(Path(users_tuned.__file__).parent), *filter(None, sys.path)]))
    kernel = tilesight.autotune(CONFIGS, key=["n"], device="h200", do_bench=never)(double)
    kernel[grid](*doubled())
    other = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (other.returncode, other.stdout.strip()) == (0, str(kernel.best_config)), other.stderr


def test_a_recording_has_all_configurations() -> None:
    """`tilesight predict` and `tune` look at kernels that are decorated so as well."""
    kernel = tilesight.autotune(CONFIGS, key=["n"], device="h200")(double)
    with tilesight.capture() as launches:
        kernel[grid](*doubled())
    assert [launch.configuration["BLOCK"] for launch in launches] == [64, 4096, 1024]


def test_a_recording_has_all_configurations_that_a_pruning_yields() -> None:
    """One by one, as a generator; what leaves none is noted."""

    def large(configs: Any, named_args: Any, **kwargs: Any) -> Any:
        yield from (config for config in configs if config.kwargs["BLOCK"] > 100)

    pruning = {"early_config_prune": large}
    kernel = triton.autotune(CONFIGS, key=["n"], prune_configs_by=pruning)(double)
    with tilesight.capture() as launches:
        kernel[grid](*doubled())
    assert [launch.configuration["BLOCK"] for launch in launches] == [4096, 1024]

    none = triton.autotune(CONFIGS, key=["n"], prune_configs_by={"early_config_prune": lambda *_, **__: iter(())})
    with tilesight.capture() as launches:
        none(double)[grid](*doubled())
    assert not launches
    assert list(launches.notes) == ["kernel double: its early_config_prune leaves no configuration"]


def test_a_pruning_of_the_users_comes_first(launched: list[dict[str, Any]]) -> None:
    """The choice is among what it leaves."""
    pruning = {"early_config_prune": lambda configs, named_args, **kwargs: configs[:1]}
    kernel = tilesight.autotune(CONFIGS, ["n"], pruning, device="h200", do_bench=never)(double)
    kernel[grid](*doubled())
    assert launched[0]["BLOCK"] == 64


def test_it_takes_what_tritons_autotune_takes() -> None:
    """Every parameter, by name; what neither knows is Triton's error."""
    names = list(inspect.signature(triton.autotune).parameters)
    given = dict.fromkeys(names) | {"configs": CONFIGS, "key": ["n"], "cache_results": False, "use_cuda_graph": False}
    assert isinstance(tilesight.autotune(**given)(double), triton.runtime.Autotuner)
    with pytest.raises(TypeError, match="no_such"):
        tilesight.autotune(CONFIGS, key=["n"], no_such=1)(double)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"keep": 0}, "keep = 0: must be an integer of 1 or more"),
        ({"device": "h1000"}, "h1000"),
        ({"values": "own"}, "values = 'own': must be None, True, or a table of parameter -> tensor or function"),
        ({"budget_s": 0}, "budget_s = 0: must be a number of seconds above 0, or None"),
    ],
)
def test_a_setting_that_is_not_allowed_is_one_line(settings: dict[str, Any], said: str) -> None:
    """When the kernel is decorated."""
    with pytest.raises(ValueError) as error:
        tilesight.autotune(CONFIGS, key=["n"], **settings)
    assert said in str(error.value) and "\n" not in str(error.value)
