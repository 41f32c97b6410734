"""How long an answer may take, and what is said meanwhile."""

from collections.abc import Callable
from itertools import count

import pytest
from tilesight.simulator.explore import explore as exploring
from tilesight.simulator.explore import trial
from tilesight.simulator.explore.explore import explore
from tilesight.simulator.explore.lengths import compare
from tilesight.simulator.jobs import working_clock
from tilesight.simulator.problems.attention import AttentionProblem

from tilesight.cli import limit
from tilesight.cli.limit import Stages
from tilesight.cli.main import main

SMALL = AttentionProblem(batch=1, heads=4, seqlen_q=256, seqlen_k=256, head_dim=64)
ASKED = ["--batch", "1", "--heads", "4", "--seqlen", "256"]


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is under way is shown after two seconds."""
    monkeypatch.setattr(limit, "SHOW_AFTER_S", 2.0)


@pytest.fixture
def _hurrying(monkeypatch: pytest.MonkeyPatch) -> Callable[[], float]:
    """A clock on which a second passes each time that somebody looks."""
    seconds = count()

    def looked_s() -> float:
        return float(next(seconds))

    for module in (working_clock, trial, exploring):
        for name in ("process_s", "thread_s"):
            monkeypatch.setattr(module, name, looked_s)
    return looked_s


@pytest.mark.usefixtures("shown")
def test_a_terminal_has_one_line_that_is_overwritten() -> None:
    """Nothing at first, and no longer than the terminal is wide."""
    stages = Stages(terminal=True, width=30)
    stages.now = "launch 2 of 4, _bwd: trace"
    assert [stages.due(since_s) for since_s in (0.5, 1.9)] == ["", ""]
    assert stages.rest == ""
    assert stages.due(2.0) == "\r\x1b[Ktilesight: launch 2 of 4, _bw\r"
    assert stages.rest == "\r\x1b[K"


@pytest.mark.usefixtures("shown")
def test_a_log_has_a_line_now_and_then() -> None:
    """More often where something else is under way."""
    stages = Stages(terminal=False)
    lines = []
    for since_s in range(80):
        stages.now = "first" if since_s < 20 else "second"
        lines += [stages.due(since_s)]
    assert [line for line in lines if line] == ["tilesight: first, 15 s\n", "tilesight: second, 30 s\n"]
    assert stages.rest == ""


@pytest.mark.usefixtures("_hurrying")
def test_a_simulation_that_takes_too_long_says_where_it_was(capsys: pytest.CaptureFixture[str]) -> None:
    """One line, and no answer."""
    assert main(["simulate", *ASKED, "--time-limit", "0.5"]) == 1
    out, err = capsys.readouterr()
    assert (out, err) == (
        "",
        "tilesight: no answer within 0.5 s (phase: launch 1 of 1, flash2: simulate memory); "
        "a longer --time-limit may give one\n",
    )


@pytest.mark.parametrize("command", ["simulate", "explore"])
def test_a_limit_leaves_some_time(capsys: pytest.CaptureFixture[str], command: str) -> None:
    """Nothing could be answered in none."""
    assert main([command, *ASKED, "--time-limit", "0"]) == 2
    assert "--time-limit = 0: must be more than 0 seconds" in capsys.readouterr().err


@pytest.mark.usefixtures("_hurrying")
def test_configurations_that_take_too_long_are_left_out_with_the_reason() -> None:
    """Of a ranking, and of a comparison over lengths."""
    fixed = {"block_m": 64, "num_warps": 4, "num_stages": 2}
    hurried = explore(SMALL, workers=1, each_limit_s=0.5, **fixed)
    assert not hurried.ranked
    assert all("no answer within 0.5 s (phase: launch 1 of 1, flash2: " in item.reason for item in hurried.candidates)
    points = compare(SMALL, [256], schedule="flash2", workers=1, time_limit_s=0.5, **fixed).points
    assert all("no answer within 0.5 s" in point.reason for point in points)
    assert explore(SMALL, workers=1, each_limit_s=1e6, **fixed).ranked


def test_what_all_may_take_together_goes_to_the_most_promising(
    _hurrying: Callable[[], float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that are simulated are the best of a ranking without a limit; the others say why they are not."""
    windowed = SMALL.but(window=128)  # which naive attention, whose own choice takes time too, cannot compute
    begin_s = _hurrying()
    every = explore(windowed, workers=1, num_stages=2, block_n=64, time_limit_s=1e6)
    took_s = _hurrying() - begin_s
    # At this length finding the promising ones takes as long as all of them: then there is time for half.
    monkeypatch.setattr(exploring, "takes_longer", lambda *_: True)
    some = explore(windowed, workers=1, num_stages=2, block_n=64, time_limit_s=1.3 * took_s)
    assert 0 < len(some.ranked) < len(every.ranked) == len(some.candidates)
    assert [item.config for item in some.ranked] == [item.config for item in every.ranked[: len(some.ranked)]]
    left = [item.reason for item in some.candidates if not item.fits]
    assert set(left) == {"no time was left: a longer --time-limit gives it some"}
