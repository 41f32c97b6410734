"""Which configurations are predicted: the best of a rank, all where they are few, none in silence."""

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest
from tilesight.simulator.device.device import load_device
from tilesight.simulator.screening.static_time import StaticWork

from tilesight.cli.main import main
from tilesight.tuning import screening
from tilesight.tuning.screening import ALL, SURE, USUAL, KeepFraction, Screening, least_s

DEVICE = load_device("h100-sxm")


def work_of(call: Any, _: object) -> StaticWork | None:
    """The slower the higher its number; what cannot be followed has none."""
    if call.number < 0:
        return None
    return StaticWork(
        ctas=1, resident=1, sm_cycles=1e6 * (1 + call.number), fill_bytes=1.0, hbm_bytes=1.0, flight_bytes=1.0
    )


def calls_of(*numbers: int) -> list[Any]:
    """Stand-ins for calls."""
    return [SimpleNamespace(number=number) for number in numbers]


def kept(portion: KeepFraction, *launches: Sequence[Any]) -> list[list[int]]:
    """Numbers of those that are predicted, of each launch."""
    with patch.object(screening, "static_work", work_of):
        kept = Screening(device=DEVICE, portion=portion).kept(launches)
    return [[call.number for call in calls] for calls in kept]


@pytest.mark.parametrize("count, predicted", [(1, 1), (16, 16), (17, 16), (48, 16), (60, 20), (1000, 334)])
def test_a_third_is_predicted_and_sixteen_at_least(count: int, predicted: int) -> None:
    """Where nobody says otherwise."""
    assert USUAL.of(count) == predicted


def test_the_best_of_each_launch_are_kept_the_best_first() -> None:
    """Each launch has a rank of its own."""
    assert kept(KeepFraction(share=0.5), calls_of(3, 0, 2, 1), calls_of(9, 8, 7)) == [[0, 1], [7, 8]]


def test_what_the_ir_does_not_tell_is_predicted() -> None:
    """However many these are: no rank would leave the slow ones out."""
    assert kept(KeepFraction(share=0.5), calls_of(3, -1, 0, 2)) == [[-1, 0]]
    assert kept(KeepFraction(share=0.5), calls_of(3, -1, -2, -3)) == [[-1, -2, -3]]


def test_what_the_rank_does_not_tell_apart_is_predicted() -> None:
    """Up to twice as many as else."""
    portion = KeepFraction(share=0.25, tied=2.0)
    assert kept(portion, calls_of(5, 1, 1, 1, 9, 8, 7, 6)) == [[1, 1, 1]]
    assert kept(portion, calls_of(1, 1, 1, 1, 1, 8, 7, 6)) == [[1, 1, 1, 1]]
    assert kept(portion, calls_of(0, 1, 2, 3, 4, 5, 6, 7)) == [[0, 1]]


def test_few_configurations_are_not_ranked() -> None:
    """Nor are any where all are predicted."""
    calls = calls_of(*range(40))
    with patch.object(screening, "static_work", side_effect=AssertionError("ranked")):
        assert Screening(device=DEVICE, portion=ALL).kept([calls]) == [calls]
        assert Screening(device=DEVICE, portion=USUAL).kept([calls[:16]]) == [calls[:16]]


def rounds_of(calls: Sequence[Any], time_s: Callable[[int], float | None], others: Sequence[Any] = ()) -> list[Any]:
    """Numbers of those that are asked for, a list for each round. Args: time_s: predicted; None: it is refused."""
    asked: list[list[int]] = []

    def predict(calls: Sequence[Any]) -> list[Any]:
        asked.append([call.number for call in calls])
        times = [time_s(call.number) for call in calls]
        return [SimpleNamespace(prediction=it is not None, traffic=SimpleNamespace(time_s=it)) for it in times]

    with patch.object(screening, "static_work", work_of):
        rows = Screening(device=DEVICE).predicted([calls], others, predict)
    assert len(rows) == sum(map(len, asked))
    return asked


def test_those_that_cannot_be_as_fast_as_the_first_are_not_predicted() -> None:
    """Nothing that is left comes within 3 % of the fastest of the first eight, even if it is a fifth faster."""
    first = [*range(8)]
    assert rounds_of(calls_of(*range(40)), lambda number: 1.0 + number) == [first]
    slow = calls_of(99)
    assert rounds_of(calls_of(*range(40)), lambda number: 1.0 + number, slow) == [[*first, 99]]


def test_those_that_can_be_as_fast_as_the_first_are_predicted_after_them() -> None:
    """All of them where predictions do not follow the rank, some where they do a little, all where one is refused."""
    calls, (first, later) = calls_of(*range(40)), ([*range(8)], [*range(8, 16)])
    assert rounds_of(calls, lambda number: 1.0) == [first, later]
    assert rounds_of(calls, lambda number: 2.0 - number / 8) == [first, later]
    assert rounds_of(calls, lambda number: 1.0 + 0.02 * number) == [first, [*range(8, 15)]]
    assert rounds_of(calls, lambda number: None) == [first, later]


def test_what_a_configuration_takes_at_least() -> None:
    """In proportion to the cheapest, or along the line of all: the lesser of both, and four fifths of that."""
    assert least_s(4.0, [(1.0, 1.0), (2.0, 2.0)]) == pytest.approx(4.0 * SURE)
    assert least_s(4.0, [(1.0, 5.0), (2.0, 6.0)]) == pytest.approx(8.0 * SURE)
    assert least_s(4.0, [(1.0, 1.0), (2.0, 4.0)]) == pytest.approx(4.0 * SURE)
    assert least_s(4.0, [(1.0, 3.0), (2.0, 2.0)]) == pytest.approx(2.0 * SURE)
    assert least_s(4.0, [(2.0, 3.0)]) == pytest.approx(3.0 * SURE)


@pytest.mark.parametrize("text", ["0", "-3", "0%", "101%", "some", "1.5"])
def test_a_portion_that_is_none_is_one_line(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    """It names the option, the value and what is allowed."""
    assert main(["tune", "mine.py:run", f"--screen={text}"]) == 2
    said = capsys.readouterr().err
    assert f"--screen '{text}': must be a share above 0%, such as 10%, a number of 1 or more, or off" in said
