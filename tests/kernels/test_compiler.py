"""`compiler()` from Python gives what `--compiled` gives on the command line."""

import json

import pytest
from tilesight.kernels.launch.availability import missing_package
from tilesight.simulator.explore.explore import explore
from tilesight.simulator.problems.attention import AttentionProblem
from tilesight.simulator.schedules.config import Config
from tilesight.simulator.simulate import simulate

from tilesight.cli.main import main

if missing_package():
    pytest.skip(str(missing_package()), allow_module_level=True)

from tilesight.kernels.compile.made_by import triton_version
from tilesight.kernels.compile.worker import name_compiler_by_version

from tilesight.compiling import compiler

PROBLEM = AttentionProblem(batch=1, heads=2, seqlen_q=256, seqlen_k=256, head_dim=64)
SHAPE = ("--batch", "1", "--heads", "2", "--seqlen", "256", "--block-m", "64", "--block-n", "64", "--num-warps", "4")


@pytest.mark.parametrize("schedule", ["flash2", "flash1"])
def test_python_compiles_what_the_command_compiles(schedule: str, capsys: pytest.CaptureFixture[str]) -> None:
    """All kernels, with the same figures; flash1's warps share rows."""
    assert main(["explore", "--schedule", schedule, *SHAPE, "--num-stages", "2,3", "--compiled", "--json"]) == 0
    commanded = json.loads(capsys.readouterr().out)
    exploration = explore(
        PROBLEM,
        schedule=schedule,
        block_m=64,
        block_n=64,
        num_warps=4,
        num_stages=(2, 3),
        resources_of=compiler(PROBLEM, everything=True),
    )
    answer = json.loads(json.dumps(exploration.to_dict()))
    assert answer["configs"] == commanded["configs"]
    assert {row["resources"] for row in answer["configs"]} == {"compiled"}


def test_one_configuration_is_compiled_alike(capsys: pytest.CaptureFixture[str]) -> None:
    """By `simulate`, with a `Config` that names a part."""
    config = Config(block_m=64, block_n=64, num_warps=4)
    assert main(["simulate", *SHAPE, "--compiled", "--json"]) == 0
    commanded = json.loads(capsys.readouterr().out)
    seen = simulate(PROBLEM, config=config, resources_of=compiler(PROBLEM, everything=True))
    answer = json.loads(json.dumps(seen.to_dict()))
    assert (answer["config"], answer["launches"]) == (commanded["config"], commanded["launches"])


def test_compilers_do_not_read_all_of_triton_to_name_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its version is its name, as in the names of answers, and what these have of lines."""
    from triton.runtime import cache

    monkeypatch.setattr(cache, "triton_key", None)
    name_compiler_by_version()
    assert triton_version() != ""
    assert cache.triton_key() == f"{triton_version()}, lines of calls"


def test_what_the_library_holds_is_not_compiled() -> None:
    """Unless everything is asked for: then progress counts it."""
    compiled: list[int] = []

    def count(done: int, total: int) -> None:
        compiled.append(total)

    simulate(PROBLEM, resources_of=compiler(PROBLEM, progress=count))
    assert compiled == []
    simulate(PROBLEM, resources_of=compiler(PROBLEM, everything=True, progress=count))
    assert compiled == [1]
