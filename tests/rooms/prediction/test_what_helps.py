"""What would help a launch follows from what binds it, from whether it reads anything twice, and from advice on it."""

from dataclasses import replace

import pytest
from tilesight.simulator.prediction.what_helps import Advice, binding_advice, dominating_lines, help_text
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
    """In half a sentence, under the name of the cause, and with no gain: nobody has simulated any change."""
    advice = binding_advice(replace(LAUNCH, causes={cause: 1.0}))
    assert advice.text.strip() and advice.cause == cause and advice.gain is None


def test_stages_are_for_loops_that_run_ahead() -> None:
    """A kernel without such a loop is told of warps, elements and CTAs alone."""
    waiting = replace(LAUNCH, causes={"wait": 1.0})
    assert "num_stages" in help_text(waiting, pipelined=True)
    assert "num_stages" not in help_text(waiting)


def test_causes_that_take_a_twentieth_of_the_time_are_named() -> None:
    """The largest first; what takes less would have its reader look after nothing."""
    causes = {"hbm": 0.7, "l2": 0.051, "smem": 0.2, "issue": 0.049}
    longest, helps = dominating_lines(replace(LAUNCH, causes=causes), 2 * LAUNCH.traffic.time_s, ())
    assert "50 % of all; bound by hbm 70 %" in longest
    assert longest.endswith("; then smem 20 %, l2 5.1 %")
    assert helps.startswith("Helps    fewer bytes")


def test_advice_stands_in_its_order_in_place_of_what_binds() -> None:
    """A line for each, with the gain where there is one; in JSON the same three values."""
    helps = (Advice(cause="spills", text="no spills", gain=1.5), Advice(cause="hbm", text="fewer bytes"))
    lines = dominating_lines(replace(LAUNCH, causes={"hbm": 1.0}), LAUNCH.traffic.time_s, helps)
    assert lines[1:] == ["Helps    no spills: up to 1.50x", "Helps    fewer bytes"]
    assert helps[0].to_dict() == {"cause": "spills", "text": "no spills", "gain": 1.5}


@pytest.mark.parametrize(("gain", "text"), [(1.094, "1.09x"), (1.996, "2.0x"), (3.75, "3.8x"), (21.7, "22x")])
def test_gains_have_three_digits_where_that_matters(gain: float, text: str) -> None:
    """Nobody needs a hundredth of twenty times."""
    assert Advice(cause="tail", text="work", gain=gain).line.endswith(f"work: up to {text}")
