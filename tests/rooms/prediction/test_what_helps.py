"""What would help a launch follows from what binds it, and from whether it reads anything twice."""

from dataclasses import replace

import pytest
from tilesight.simulator.prediction.what_helps import dominating_lines, help_text
from tilesight.simulator.problems.attention import AttentionProblem
from tilesight.simulator.simulate import simulate

(LAUNCH,) = simulate(AttentionProblem(batch=1, heads=1, seqlen_q=128, seqlen_k=128, head_dim=64)).launches


@pytest.mark.parametrize(
    ("from_l2_alone", "help_begins"),
    [(0.0, "fewer bytes"), (0.24, "fewer bytes"), (0.26, "larger tiles"), (0.9, "larger tiles")],
)
def test_larger_tiles_help_what_l2_gives_several_times(from_l2_alone: float, help_begins: str) -> None:
    """Tiles twice as large save half of what is read again: less than an eighth, where that is less than a quarter."""
    traffic = replace(LAUNCH.traffic, l2_read_bytes=1000, l2_hit_bytes=round(1000 * from_l2_alone))
    assert help_text(replace(LAUNCH, causes={"l2": 1.0}, traffic=traffic)).startswith(help_begins)


@pytest.mark.parametrize("cause", ["hbm", "l2", "smem", "tensor", "mufu", "fma", "issue", "tail", "launch", "wait"])
def test_every_cause_has_something_that_helps(cause: str) -> None:
    """In half a sentence."""
    assert help_text(replace(LAUNCH, causes={cause: 1.0})).strip()


def test_causes_that_take_a_twentieth_of_the_time_are_named() -> None:
    """The largest first; what takes less would have its reader look after nothing."""
    causes = {"hbm": 0.7, "l2": 0.051, "smem": 0.2, "issue": 0.049}
    longest, helps = dominating_lines(replace(LAUNCH, causes=causes), 2 * LAUNCH.traffic.time_s, 0)
    assert "50 % of all; bound by hbm 70 %" in longest
    assert longest.endswith("; then smem 20 %, l2 5.1 %")
    assert helps.startswith("Helps    fewer bytes")


def test_spills_are_named_beside_what_binds() -> None:
    """And only where there are any."""
    bound = replace(LAUNCH, causes={"hbm": 1.0})
    assert "24 B per thread go to local memory" in dominating_lines(bound, LAUNCH.traffic.time_s, 24)[-1]
    assert len(dominating_lines(bound, LAUNCH.traffic.time_s, 0)) == 2
