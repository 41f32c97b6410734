"""`tilesight explain` and `--cost` with code compiled here: every launch of a pipeline, and specialised warps."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from tilesight.kernels.launch.availability import missing_package

from tilesight.cli.main import main

if missing_package():
    pytest.skip(str(missing_package()), allow_module_level=True)

SHAPE = ("--batch", "1", "--heads", "4", "--seqlen", "512")


@pytest.fixture(autouse=True, scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A cache of this run's own: what is tested is compiled."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TILESIGHT_CACHE_DIR", str(tmp_path_factory.mktemp("compiled")))
        yield


def answer_of(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    assert main([*arguments, *SHAPE, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_every_launch_of_a_pipeline_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    """Each has code of its own; what all warps execute is known before it runs."""
    launches = answer_of(capsys, "explain", "--schedule", "naive")["launches"]
    assert [launch["name"] for launch in launches] == ["scores", "softmax", "output"]
    for launch in launches:
        assert launch["cost"] == "compiled"
        assert launch["executed_instructions"] == sum(loop["executed"] for loop in launch["loops"]) > 0
        assert sum(step["cycles_fraction"] for step in launch["steps"]) < 1.01


def test_simulate_takes_cycles_from_code_by_default(capsys: pytest.CaptureFixture[str]) -> None:
    """`--cost tiles` is the estimate."""
    code, tiles = (
        answer_of(capsys, "simulate", "--schedule", "naive", *options)
        for options in (["--compiled"], ["--cost", "tiles"])
    )
    assert {launch["cost"] for launch in code["launches"]} == {"compiled"}
    assert {launch["cost"] for launch in tiles["launches"]} == {"tiles"}
    assert code["total"]["time_s"] != tiles["total"]["time_s"]


def test_specialised_warps_say_where_their_cycles_come_from(capsys: pytest.CaptureFixture[str]) -> None:
    """From their code, or from tiles with a note; never in silence."""
    chosen = ("--schedule", "flash2_tma", "--warp-specialize", "1", "--num-warps", "4", "--num-stages", "2")
    explained = answer_of(capsys, "explain", *chosen)
    (launch,) = explained["launches"]
    assert (launch["cost"] == "compiled") is (len(explained["notes"]) == 1)
    if launch["cost"] == "compiled":  # Triton 3.9 divides warps by branches that are not followed
        assert launch["executed_instructions"] > 0
    assert main(["explain", *SHAPE, *chosen]) == 0
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 120


def test_what_does_not_fit_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """As `simulate` says it."""
    assert (
        main(["explain", *SHAPE, "--block-m", "128", "--block-n", "256", "--num-warps", "8", "--num-stages", "4"]) == 2
    )
    answer = capsys.readouterr()
    assert (answer.out, answer.err.count("\n")) == ("", 1)
    assert "does not fit: shared memory: a CTA needs" in answer.err
