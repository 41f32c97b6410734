"""Rules on the grid as it is launched: what they say follows from CTAs, SMs and the causes of the time."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from support.made_code import coded_launch
from tilesight.simulator.advice.case import Case
from tilesight.simulator.advice.grid import fewer_launches, full_wave, longer_ctas, work_for_all
from tilesight.simulator.device.device import load_device
from tilesight.simulator.problems.attention import AttentionProblem
from tilesight.simulator.simulate import simulate

H100 = load_device("h100")
(PREDICTION,) = simulate(AttentionProblem(batch=1, heads=1, seqlen_q=128, seqlen_k=128, head_dim=64)).launches


def case_of(ctas: int, waves: float = 1.0, **causes: float) -> Case:
    """A launch of so many CTAs whose time goes to these causes."""
    shares = {"hbm": 0.0, "tail": 0.0, "launch": 0.0, "wait": 0.0} | causes
    return Case(
        launch=replace(coded_launch(), grid=(ctas, 1, 1)),
        traced=SimpleNamespace(),  # type: ignore[arg-type]
        prediction=replace(PREDICTION, grid=(ctas, 1, 1), waves=waves, causes=shares),
        device=H100,
    )


def test_sms_without_a_cta_are_counted_as_launched() -> None:
    """Not against what would fit: 20 CTAs leave 112 of 132 SMs, however many an SM could hold."""
    advice = work_for_all(case_of(20, tail=0.85, hbm=0.1))
    assert advice is not None and "20 CTAs leave 112 of 132 SMs without any" in advice.text
    assert advice.gain == pytest.approx(1 / 0.15)
    assert work_for_all(case_of(132)) is None


def test_a_bound_ends_where_the_busiest_resource_does() -> None:
    """More SMs bring no more bytes than HBM has, and take the launch's overhead none of its time."""
    advice = work_for_all(case_of(20, tail=0.85, hbm=0.4, launch=0.1))
    assert advice is not None and advice.gain == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("ctas", "waves", "words"),
    [(300, 1.14, "300 CTAs are 1.14 waves"), (200, 0.4, "200 CTAs on 132 SMs are not the same number")],
)
def test_a_last_wave_is_named_where_there_is_more_than_one(ctas: int, waves: float, words: str) -> None:
    """CTAs that all run at once may still be unevenly spread."""
    advice = full_wave(case_of(ctas, waves, tail=0.2))
    assert advice is not None and words in advice.text and advice.gain == pytest.approx(1.25)
    assert full_wave(case_of(20, tail=0.8)) is None


def test_launches_are_short_where_a_fifth_of_their_time_is_overhead() -> None:
    """Or most of it; else the figure stands beside what binds, and is no advice."""
    advice = fewer_launches(case_of(132, launch=0.25, hbm=0.7))
    assert advice is not None and advice.cause == "launch" and advice.gain == pytest.approx(4 / 3)
    assert fewer_launches(case_of(132, launch=0.1, hbm=0.8)) is None


def test_few_ctas_are_handed_out_in_no_time() -> None:
    """Nothing is simulated for them."""
    assert longer_ctas(case_of(132)) is None
