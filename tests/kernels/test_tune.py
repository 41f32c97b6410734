"""Configurations of a user's own kernels, ranked without running them."""

import csv
import json
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from tilesight.kernels.launch.availability import missing_package
from tilesight.simulator.predict_kernels import predict_kernels
from users_file import DOUBLE, FILE

from tilesight.cli.main import main

if missing_package() is None:
    import torch
    import triton
    from tilesight.kernels.capture.user_function import user_function
    from tilesight.kernels.compile.made_by import call_key
    from tilesight.simulator.sm import instructions
    from zoo import rowwise

    import tilesight
    from tilesight.tuning import answers

pytestmark = pytest.mark.skipif(missing_package() is not None, reason=str(missing_package()))
SHAPED = (
    DOUBLE
    + """

@triton.heuristics({"EVEN": lambda given: given["n"] % given["BLOCK"] == 0})
@triton.jit
def even(X, Y, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if EVEN:
        tl.store(Y + i, tl.load(X + i))
    else:
        tl.store(Y + i, tl.load(X + i, mask=i < n), mask=i < n)


def run(n, scale=1):
    x = torch.empty(n * scale, device="cuda")
    double[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, torch.empty_like(x), x.numel(), BLOCK=128)


def fixed():
    x = torch.empty(1 << 16, device="cuda")
    double[(512,)](x, torch.empty_like(x), x.numel(), 128)


def by_heuristics():
    x = torch.empty(3 * 512, device="cuda")
    even[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, torch.empty_like(x), x.numel(), BLOCK=512)


def nothing_to_choose():
    run(1024)
"""
)


@pytest.fixture
def file(tmp_path: Path) -> str:
    """A user's file."""
    path = tmp_path / "mine.py"
    path.write_text(SHAPED, encoding="utf-8")
    return str(path)


def answer_of(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    """The JSON that a command prints."""
    assert main([*arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_an_autotuned_kernel_is_ranked_as_predict_has_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same times, and the fastest first."""
    path = tmp_path / "mine.py"
    path.write_text(FILE, encoding="utf-8")
    (launch,) = answer_of(capsys, "tune", f"{path}:tune", "--workers", "1")["launches"]
    assert launch["kernel"] == "tuned" and launch["key"] == {"n": 1 << 20} and launch["default"]["BLOCK"] == 256
    times = [entry["time_s"] for entry in launch["configurations"]]
    assert times == sorted(times)
    assert {entry["configuration"]["BLOCK"] for entry in launch["configurations"]} == {256, 1024}
    best = answer_of(capsys, "predict", f"{path}:tune", "--l2", "cold")["launches"][0]
    assert best["traffic"]["time_s"] == times[0]


def test_a_space_adds_to_a_kernel_that_is_not_autotuned_and_the_grid_follows(
    file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """All configurations move the same bytes, as a whole copy does; each combination once, the code's own with them."""
    shapes, space, table = tmp_path / "shapes", tmp_path / "space.toml", tmp_path / "rows.csv"
    shapes.write_text("n=1048576\nn=65536, scale=2\n")
    space.write_text("BLOCK = [128, 1024]\nnum_warps = [4, 8]\n")
    files = ("--shapes", str(shapes), "--space", str(space), "--csv", str(table))
    answer = answer_of(capsys, "tune", f"{file}:run", *files, "--workers", "1")
    assert [launch["shape"] for launch in answer["launches"]] == [{"n": 1 << 20}, {"n": 1 << 16, "scale": 2}]
    for launch, elements in zip(answer["launches"], (1 << 20, 1 << 17), strict=True):
        assert len(launch["configurations"]) == 4
        assert {entry["smem_fill_bytes"] for entry in launch["configurations"]} == {elements * 4}
        assert sum(entry["authors"] for entry in launch["configurations"]) == 1
    with table.open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == 8 and {row["scale"] for row in rows} == {"", "2"}


def test_predict_sweeps_the_same(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    """And what a grid of numbers does not follow is refused: half the block would be half the copy, and the fastest."""
    assert main(["predict", f"{file}:fixed", "--sweep", "num_warps=1,4"]) == 0
    text = capsys.readouterr().out
    assert "Configurations of double" in text and "num_warps: 1" in text and "its grid is given" not in text
    assert main(["tune", f"{file}:fixed", "--sweep", "double.BLOCK=64,128", "--workers", "1", "--json"]) == 1
    (launch,) = json.loads(capsys.readouterr().out)["launches"]
    assert launch["verdict"] == "nothing was compared: 1 of 2 configurations is refused"
    times = {entry["configuration"]["BLOCK"]: entry["time_s"] for entry in launch["configurations"]}
    assert times[64] is None and times[128]
    assert "its grid is given as numbers" in launch["configurations"][-1]["refused"]


def test_constants_of_heuristics_follow_a_space(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    """1,536 elements are whole blocks of 512, not of 1,024: masks make another code."""
    (launch,) = answer_of(capsys, "tune", f"{file}:by_heuristics", "--sweep", "BLOCK=512,1024", "--workers", "1")[
        "launches"
    ]
    assert {entry["smem_fill_bytes"] for entry in launch["configurations"]} == {1536 * 4}


@pytest.mark.parametrize(
    "arguments, line",
    [
        (["nothing_to_choose"], "double: no configurations to choose from: @triton.autotune names some"),
        (["fixed", "--sweep", "BLOK=64"], "the space names BLOK: no constexpr of double: must be one of BLOCK, "),
        (["run"], "run needs arguments (n): tune --shapes gives them, or name a function that takes none"),
        (["fixed", "--format", "triton-cache"], "--format triton-cache: writes files; name a folder for them by --to"),
        (["fixed", "--top", "0"], "--top = 0: must be an integer of 1 or more"),
    ],
)  # fmt: skip
def test_what_cannot_be_tuned_is_one_line(
    file: str, capsys: pytest.CaptureFixture[str], arguments: list[str], line: str
) -> None:
    """Exit code 2."""
    assert main(["tune", f"{file}:{arguments[0]}", *arguments[1:]]) == 2
    (said,) = capsys.readouterr().err.splitlines()
    assert line in said


def test_shapes_that_the_function_does_not_take_are_one_line(
    file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A strange name, and one that is missing."""
    shapes = tmp_path / "shapes"
    for text, line in (("m=1\n", "run takes no argument m: it takes n, scale"), ("scale=1\n", "needs arguments (n)")):
        shapes.write_text(text)
        assert main(["tune", f"{file}:run", "--sweep", "num_warps=1,4", "--shapes", str(shapes)]) == 2
        assert line in capsys.readouterr().err


def test_the_same_command_goes_on_from_its_store(
    file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is in it is not predicted again."""
    command = ("tune", f"{file}:fixed", "--sweep", "num_warps=1,4", "--workers", "1", "--store", str(tmp_path / "kept"))
    first = answer_of(capsys, *command)
    monkeypatch.setattr("tilesight.tuning.answers.answer", None)
    assert answer_of(capsys, *command) == first


def test_an_error_in_one_configuration_is_said_first_and_exits_with_1(
    file: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the others are ranked."""

    def predicted(launches: list[Any], *names: Any, **how: Any) -> Any:
        if launches[0].row.num_warps == 8:
            raise IndexError("no register")
        return predict_kernels(launches, *names, **how)

    monkeypatch.setattr("tilesight.simulator.predict_kernels.predict_kernels", predicted)
    monkeypatch.setenv("TILESIGHT_PREDICTIONS", "off")
    assert main(["tune", f"{file}:fixed", "--sweep", "num_warps=1,4,8", "--workers", "1"]) == 1
    text = capsys.readouterr().out
    assert text.startswith("Incomplete: 1 of 3 configurations are missing: ") and "1.00x" in text
    assert "Refused  num_warps 8: internal: IndexError" in text and "no register" in text


def test_what_a_rank_leaves_out_is_named_and_what_runs_untuned_is_predicted(
    file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One is asked for, the one that runs untuned is there as well; files have all."""
    table = tmp_path / "rows.csv"
    command = ("tune", f"{file}:run", "--sweep", "BLOCK=64,128,256", "--sweep", "num_warps=1,4", "--workers", "1")
    command += ("--shapes", str(tmp_path / "shapes"), "--screen", "1")
    (tmp_path / "shapes").write_text("n=65536\n")
    (launch,) = answer_of(capsys, *command, "--csv", str(table))["launches"]
    shown = [entry["configuration"] for entry in launch["configurations"]]
    assert launch["default"] in shown and 1 <= len(shown) <= 2
    assert len(shown) + len(launch["left_out"]) == 6 and not [item for item in launch["left_out"] if item in shown]
    with table.open(newline="") as stream:
        left_out = [row["left_out"] for row in csv.DictReader(stream)]
    assert left_out == ["False"] * len(shown) + ["True"] * len(launch["left_out"])
    assert main(list(command)) == 0
    text = capsys.readouterr().out
    assert f"6 configurations, {len(shown)} of them predicted" in text
    assert f"Screened {len(launch['left_out'])} of 6 are not predicted" in text
    (launch,) = answer_of(capsys, *command[:-1], "off")["launches"]
    assert len(launch["configurations"]) == 6 and launch["left_out"] == []


def test_what_is_made_of_code_alone_serves_all_of_its_shapes(
    file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Shapes of one code are answered after each other, and its instructions are translated once."""
    codes, translated = [], []
    answer, lower = answers.answer, instructions.lower_code

    def noted(job: answers.Job) -> Any:
        codes.append([call_key(call.job) for call in job.calls])
        return answer(job)

    monkeypatch.setattr(answers, "answer", noted)
    monkeypatch.setattr(instructions, "lower_code", lambda *args: (translated.append(args), lower(*args))[1])
    instructions.lowered_table.cache_clear()
    shapes = tmp_path / "shapes"
    shapes.write_text("n=65536\nn=131072\n")
    command = ("tune", f"{file}:run", "--sweep", "BLOCK=64,128", "--shapes", str(shapes), "--workers", "1")
    answer_of(capsys, *command, "--store", str(tmp_path / "kept"))
    ((first, second, third, last),) = codes
    assert first == second != third == last
    assert len(translated) == 2


def test_other_processes_answer_the_same(tmp_path: Path) -> None:
    """From Python, by an executor of the caller's."""
    with tilesight.capture("h100", space={"BLOCK": [256, 1024], "num_warps": [4, 8]}) as launches:
        x, y = torch.empty(1 << 16, device="cuda"), torch.empty(1 << 16, device="cuda")
        rowwise.add[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, x, y, x.numel(), BLOCK=256)
    alone = tilesight.tune(launches, "h100")
    context = get_context("spawn")
    with ProcessPoolExecutor(2, context) as executor:
        assert tilesight.tune(launches, "h100", executor=executor, store=tmp_path / "kept") == alone
    assert "triton.Config" in alone.to_triton_configs(1) and "vs best" in str(alone)
    assert len(alone.to_pandas()) == 4


def test_tritons_autotuner_reads_what_was_predicted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own code, told of a GPU that is not there, finds the file, and chooses the fastest without measuring."""
    path, cache = tmp_path / "mine.py", tmp_path / "cache"
    path.write_text(FILE, encoding="utf-8")
    files = ("--format", "triton-cache", "--to", str(cache))
    assert main(["tune", f"{path}:tune", "--device", "h100", *files, "--workers", "1", "--json"]) == 0
    output = capsys.readouterr()
    (launch,) = json.loads(output.out)["launches"]
    assert "Triton reads these files on every GPU of sm_90, whichever of them they are predicted for" in output.err
    user_function(path, "tune")
    tuner = sys.modules["mine"].tuned
    target = triton.backends.compiler.GPUTarget("cuda", 90, 32)
    monkeypatch.setenv("TRITON_CACHE_DIR", str(cache))

    def measured() -> None:
        raise AssertionError("nothing is measured")

    key = (1 << 20, "torch.float32", "torch.float32")
    with patch("triton.runtime.autotuner.driver") as driver:
        driver.active.get_current_target.return_value = target
        assert tuner.check_disk_cache(key, tuner.configs, measured)
    best = launch["configurations"][0]["configuration"]
    assert tuner.cache[key].kwargs == {"BLOCK": best["BLOCK"]} and os.listdir(cache)
