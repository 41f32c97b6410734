"""Predictions stay what they were, unless somebody says that they move."""

from itertools import product

import pytest
from support.frozen import DEVICES, FIGURES, WHAT_TO_DO, cases, frozen, label, moves, predicted
from tilesight.simulator.schedules.registry import written_schedules


def test_no_prediction_moves_in_silence() -> None:
    """A table says which points moved, by how much, and what to do."""
    every = list(cases())
    table = moves(frozen(), [predicted(case) for case in every], [label(case) for case in every])
    if table:
        pytest.fail(table, pytrace=False)


def test_all_that_predictions_depend_on_is_among_the_frozen_points() -> None:
    """Every schedule, device, source of cost and state of the L2; refusals are the smaller part."""
    asked = [case["given"] for case in cases()]
    assert {given["schedule"] for given in asked} == set(written_schedules())
    assert {given["device"] for given in asked} == set(DEVICES)
    assert {(given["cost"], given["l2"]) for given in asked} == set(product(("compiled", "tiles"), ("cold", "warm")))
    assert 0 < sum("refused" in kept for kept in frozen()) < len(asked) / 3


POINT: dict[str, object] = {"time_s": 1e-3, "hbm_read_bytes": 100, "bottleneck": "hbm"}


def test_a_move_is_told_with_its_figures_and_what_to_do() -> None:
    """Each figure that moved, before and after; a mean over points that moved; the largest first."""
    slower, other = POINT | {"time_s": 1.1e-3}, POINT | {"time_s": 0.7e-3, "hbm_read_bytes": 50, "bottleneck": "l2"}
    lines = moves([POINT] * 3, [slower, POINT, other], ["a", "b", "c"]).splitlines()
    assert lines[0] == ("2 of 3 frozen predictions moved: time by -10.00% in the mean of these, by -30.00% at most.")
    assert [line.split() for line in lines[2:-1]] == [
        ["time_s", "0.001", "0.0007", "-30.00%", "c"],
        ["hbm_read_bytes", "100", "50", "-50.00%", "c"],
        ["bottleneck", "hbm", "l2", "c"],
        ["time_s", "0.001", "0.0011", "+10.00%", "a"],
    ]
    assert lines[-1] == WHAT_TO_DO


def test_a_refusal_that_comes_or_goes_is_a_move() -> None:
    """And floating point of another processor is none."""
    assert "too large" in moves([POINT], [{"refused": "too large"}], ["a"])
    assert moves([POINT], [POINT | {"time_s": 1e-3 * (1 + 1e-12)}], ["a"]) == ""
    assert "time_s" in FIGURES
