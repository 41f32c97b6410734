"""`--compiled` on the command line: compiled resources in tables and JSON, and one line for what is missing."""

import json

import pytest
from tilesight.kernels.launch.availability import missing_package
from tilesight.simulator.device.device import load_device
from tilesight.simulator.problems.attention import AttentionProblem
from tilesight.simulator.schedules.registry import find_schedule

from tilesight.cli.main import main

if missing_package():
    pytest.skip(str(missing_package()), allow_module_level=True)

import triton
from support.compiling import compile_launch
from tilesight.kernels.compile.outcomes import Compiled

pytestmark = pytest.mark.usefixtures("own_cache")

SHAPE = ("--batch", "1", "--heads", "2", "--seqlen", "256")
PROBLEM = AttentionProblem(batch=1, heads=2, seqlen_q=256, seqlen_k=256, head_dim=64)
REMARK = f"registers, shared memory and cycles come from code compiled here: Triton {triton.__version__} for sm_90"


def error(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line that bad input gives."""
    assert main(arguments) == 2
    printed = capsys.readouterr()
    assert (printed.out, printed.err.count("\n")) == ("", 1)
    return printed.err


def test_explore_ranks_with_compiled_resources(capsys: pytest.CaptureFixture[str]) -> None:
    """Those of the compiler, row by row; what does not fit is a row with its reason; the result says who compiled."""
    pinned = ("--block-m", "128", "--block-n", "64,256", "--num-warps", "8", "--num-stages", "4")
    assert main(["explore", *SHAPE, *pinned, "--compiled", "--json", "--workers", "2"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["notes"] == [REMARK]
    assert answer["baseline"]["resources"] == "compiled"
    compiled_config, other = answer["configs"]
    config = find_schedule("flash2").config(block_m=128, block_n=64, num_warps=8, num_stages=4)
    (launch,) = find_schedule("flash2").launches(PROBLEM, config, load_device("h200"))
    compiled = compile_launch(launch, load_device("h200"))
    assert isinstance(compiled, Compiled)
    for name in ("registers_per_thread", "spilled_bytes_per_thread", "smem_bytes_per_cta"):
        assert compiled_config[name] == getattr(compiled.resources, name)
    assert (compiled_config["resources"], compiled_config["config"]["warp_split"]) == ("compiled", "q")
    assert compiled.resources != launch.resources
    assert (other["fits"], other["resources"]) == (False, None)
    assert other["reason"].startswith("shared memory: a CTA needs 278528 B")


def test_simulate_says_that_resources_are_compiled(capsys: pytest.CaptureFixture[str]) -> None:
    """By whom and for what; each launch as well. Warps split rows, though this schedule's default is keys."""
    assert main(["simulate", *SHAPE, "--schedule", "flash1", "--compiled"]) == 0
    printed = capsys.readouterr()
    assert f"Note         {REMARK}" in printed.out
    assert "of shared memory per CTA (compiled)" in printed.out
    assert "warp split q" in printed.out
    assert printed.err == ""


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            ("--block-m", "128", "--block-n", "256", "--num-warps", "8", "--num-stages", "4"),
            "--block-m 128 --block-n 256 --num-stages 4: does not fit: shared memory: a CTA needs 278528 B",
        ),
        (
            ("--warp-split", "k"),
            "schedule flash2: cannot be compiled: warp_split = 'k': Triton splits the rows of a tile among warps",
        ),
        (("--registers", "99"), "--compiled and --registers 99: each replaces the estimate; give one"),
    ],
)
def test_simulate_answers_what_cannot_be_compiled_in_one_line(
    options: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """It does not fit, Triton cannot do it, or it contradicts itself."""
    assert said in error(capsys, "simulate", *SHAPE, "--compiled", *options)


def test_an_interpreting_process_says_why_it_cannot_compile(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With what to do about it."""
    monkeypatch.setattr("tilesight.kernels.launch.availability.interprets", lambda: True)
    for command in ("explore", "simulate"):
        assert "--compiled: TRITON_INTERPRET is set" in error(capsys, command, *SHAPE, "--compiled")
