"""What would help a launch follows from what binds it, and from whether it reads anything twice."""

from dataclasses import replace

import pytest
from tilesight.simulator.prediction.what_helps import help_text
from tilesight.simulator.problems.attention import AttentionProblem
from tilesight.simulator.simulate import simulate

(LAUNCH,) = simulate(AttentionProblem(batch=1, heads=1, seqlen_q=128, seqlen_k=128, head_dim=64)).launches


@pytest.mark.parametrize(
    ("from_l2_alone", "help_begins"), [(0.0, "fewer bytes"), (0.2, "fewer bytes"), (0.9, "larger tiles")]
)
def test_larger_tiles_help_what_l2_gives_several_times(from_l2_alone: float, help_begins: str) -> None:
    """What comes through L2 from HBM once is not saved by them."""
    traffic = replace(LAUNCH.traffic, l2_read_bytes=1000, l2_hit_bytes=round(1000 * from_l2_alone))
    assert help_text(replace(LAUNCH, causes={"l2": 1.0}, traffic=traffic)).startswith(help_begins)


@pytest.mark.parametrize("cause", ["hbm", "l2", "smem", "tensor", "mufu", "fma", "issue", "tail", "launch", "wait"])
def test_every_cause_has_something_that_helps(cause: str) -> None:
    """In half a sentence."""
    assert help_text(replace(LAUNCH, causes={cause: 1.0})).strip()
