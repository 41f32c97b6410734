"""What binds: the time divided into causes, and the largest of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tilesight.simulator.prediction.bottleneck import causes_of, largest

shares = st.floats(0, 1)


def test_wait_is_what_the_busiest_resource_tail_and_launch_leave() -> None:
    """Other resources are busy at the same time as the busiest."""
    causes = causes_of({"issue": 0.4, "tensor": 0.3, "tail": 0.2, "launch": 0.1}, 2.0)
    assert causes == pytest.approx({"issue": 0.2, "tensor": 0.15, "tail": 0.1, "launch": 0.05, "wait": 0.65})
    assert largest(causes) == "wait"


def test_hbm_that_few_sms_keep_busy_binds_all_the_same() -> None:
    """Idle SMs are no loss where more of them would wait for the same bytes."""
    causes = causes_of({"hbm": 0.9, "tail": 0.75, "launch": 0.05}, 1.0)
    assert causes["wait"] == 0.0
    assert largest(causes) == "hbm"


@pytest.mark.parametrize("cause", ["issue", "tail", "launch"])
def test_the_largest_cause_binds_whatever_it_is(cause: str) -> None:
    """There is no threshold below which it would not count."""
    causes = causes_of({"issue": 0.2, "tail": 0.2, "launch": 0.2} | {cause: 0.35}, 1.0)
    assert largest(causes) == cause


@given(busy=shares, other=shares, tail=shares, launch=shares)
def test_the_causes_account_for_all_of_the_time(busy: float, other: float, tail: float, launch: float) -> None:
    """The busiest resource, tail, launch and wait make up the whole, or more."""
    causes = causes_of({"issue": busy, "hbm": other, "tail": tail, "launch": launch}, 1.0)
    assert all(0 <= share <= 1 for share in causes.values())
    assert max(busy, other) + causes["tail"] + causes["launch"] + causes["wait"] >= 1 - 1e-12
