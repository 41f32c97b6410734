"""`tilesight explain` and `--cost` on the command line, with recorded code in the place of a compiler."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from support.made_code import CODE_RESOURCES
from tilesight.simulator.launch.program import Launch, Resources

from tilesight.cli.main import main

CHOSEN = ("--batch", "1", "--heads", "4", "--seqlen", "1024")
CHOSEN += ("--block-m", "64", "--block-n", "64", "--num-warps", "4", "--num-stages", "3")


@pytest.fixture(autouse=True)
def _recorded_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every launch gets the recorded code of flash2."""

    def resources_of(pipelines: Sequence[tuple[Launch, ...]]) -> list[tuple[Resources, ...]]:
        return [(CODE_RESOURCES,) * len(launches) for launches in pipelines]

    def compiler_for(*_: Any, **__: Any) -> tuple[Any, str]:
        return resources_of, "compiled by nobody"

    for room in ("commands.explain", "compiled"):
        monkeypatch.setattr(f"tilesight.cli.{room}.compiler_for", compiler_for)
    monkeypatch.setattr("tilesight.simulator.engine.engine.is_compiled", lambda: True)


def _printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    assert main([*arguments, *CHOSEN, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_explain_prints_words(capsys: pytest.CaptureFixture[str]) -> None:
    """On stdout, and nothing on stderr; a thousand lines of code, which would hide the tables, on request alone."""
    printed = []
    for options in ((), ("--sass",)):
        assert main(["explain", *CHOSEN, *options]) == 0
        printed.append(capsys.readouterr())
    assert all(output.out.startswith("flash2 on h200") and output.err == "" for output in printed)
    assert "Note     compiled by nobody" in printed[0].out
    assert ["HGMMA.64x64x16.F32" in output.out for output in printed] == [False, True]


def test_explain_prints_one_object(capsys: pytest.CaptureFixture[str]) -> None:
    """With the device as the user named it, and what was changed of it."""
    document = _printed(capsys, "explain", "--set", "boost_clock_hz=1.9e9")
    assert (document["schema"], document["device"]) == ("tilesight.explain/1", "h200")
    assert document["notes"][0] == "device changed by --set boost_clock_hz=1.9e9"


def test_code_gives_the_cycles_unless_tiles_are_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    """`--compiled` would bring code along and not use it, or nobody could see the estimate."""
    times = {}
    for options in (("--compiled",), ("--cost", "compiled"), ("--cost", "tiles"), ()):
        document = _printed(capsys, "simulate", *options)
        times[options] = document["launches"][0]["cost"], document["total"]["time_s"]
    assert [cost for cost, _ in times.values()] == ["compiled", "compiled", "tiles", "compiled"]
    recorded, kept, tiles, default = (time_s for _, time_s in times.values())
    assert kept == default
    assert len({recorded, kept, tiles}) == 3, "the recorded code is of another length and mask than the library's"


def test_simulate_says_in_words_where_cycles_come_from(capsys: pytest.CaptureFixture[str]) -> None:
    """Both kinds would look the same."""
    assert main(["simulate", "--compiled", *CHOSEN]) == 0
    assert "Cost         cycles simulated from its machine code" in capsys.readouterr().out
    assert main(["simulate", "--cost", "tiles", *CHOSEN]) == 0
    assert "Cost         cycles estimated from tile sizes" in capsys.readouterr().out


def test_explore_shows_a_band_where_cycles_come_from_code(capsys: pytest.CaptureFixture[str]) -> None:
    """Times would look surer than they are."""
    (entry,) = _printed(
        capsys, "explore", "--compiled", "--workers", "1", "--cta-order", "m-fast", "--kv-order", "forward"
    )["configs"]
    assert entry["cost"] == "compiled"
    assert entry["time_low_s"] < entry["time_s"] < entry["time_high_s"]
    assert entry["like_best"] is True


def test_explore_shows_a_wider_band_for_estimates(capsys: pytest.CaptureFixture[str]) -> None:
    """The error of the other cost would be told of this one."""
    widths = []
    for cost in ("tiles", "compiled"):
        (entry, *_) = _printed(capsys, "explore", "--cost", cost, "--workers", "1")["configs"]
        assert entry["cost"] == cost
        widths.append((entry["time_high_s"] - entry["time_low_s"]) / entry["time_s"])
    assert widths[0] > 2 * widths[1]


def test_processes_pass_code_on(capsys: pytest.CaptureFixture[str]) -> None:
    """More than one process would estimate what one simulates."""
    documents = [
        _printed(capsys, "explore", "--compiled", "--workers", workers, "--cta-order", "m-fast,head-fast")
        for workers in ("1", "2")
    ]
    assert documents[0] == documents[1]
