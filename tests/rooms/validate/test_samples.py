"""Statistics of samples: the median's interval, the verdict on noise, and when sampling stops."""

import random
from collections.abc import Callable, Sequence
from itertools import count

import pytest
from tilesight.validate.timing.timing import LEAST_SAMPLES, NARROW_FRACTION, median_of, noise_of, sample_until_narrow


def ticking(step_s: float) -> Callable[[], float]:
    """A clock that is read and moves on by a step each time."""
    ticks = count()
    return lambda: next(ticks) * step_s


RANKS = {6: 1, 8: 1, 9: 2, 10: 2, 15: 4, 20: 6, 25: 8, 30: 10, 50: 18, 100: 40}
"""Sample size -> rank of the lower end of the median's 95 % interval, as tables of the sign test print it."""


@pytest.mark.parametrize(("size", "rank"), RANKS.items())
def test_the_interval_ends_at_the_ranks_of_the_sign_test(size: int, rank: int) -> None:
    """The ends are the innermost order statistics that still miss the median with 5 % or less."""
    middle = median_of([float(value) for value in range(1, size + 1)])
    assert (middle.low_s, middle.high_s) == (rank, size + 1 - rank)


def test_the_interval_holds_the_true_median_as_often_as_promised() -> None:
    """Of 2,000 draws from a skewed distribution at least 95 % of the intervals hold its median."""
    draw = random.Random(1)
    true_median = 2.0**0.5
    hits = 0
    for _ in range(2000):
        middle = median_of([draw.paretovariate(2.0) for _ in range(25)])
        hits += middle.low_s <= true_median <= middle.high_s
    assert hits / 2000 >= 0.95


def test_five_samples_give_no_interval() -> None:
    """The extremes of five samples miss the median with 6 %, which is more than promised."""
    with pytest.raises(ValueError, match=r"samples = 5: too few for an interval of confidence 0.95"):
        median_of([1.0] * 5)


def test_six_samples_give_their_extremes() -> None:
    """The interval of the smallest sample that has one runs from the fastest to the slowest."""
    middle = median_of([3.0, 1.0, 2.0, 6.0, 4.0, 5.0])
    assert (middle.low_s, middle.value_s, middle.high_s) == (1.0, 3.5, 6.0)


def test_equal_samples_are_quiet() -> None:
    """Samples without any spread have an interval without width."""
    assert noise_of([1e-3] * 10) == "quiet"


def test_one_late_sample_does_not_make_noise() -> None:
    """An interrupt that doubles one of twenty samples changes neither the median nor the verdict."""
    assert noise_of([1e-3] * 19 + [2e-3]) == "quiet"


def test_a_wide_interval_is_noisy() -> None:
    """A median that is known to 3 % only is noisy, though no sample lies far off."""
    assert noise_of([1e-3 * (1 + 0.01 * step) for step in range(-3, 4)]) == "noisy"


def test_samples_that_scatter_by_a_tenth_are_unstable() -> None:
    """Two clocks in turn, a quarter apart, have no median worth telling."""
    assert noise_of([1.0e-3, 1.25e-3] * 10) == "unstable"


def test_sampling_stops_once_the_median_is_known() -> None:
    """Samples within the aim are taken once, and no more of them."""
    taken: list[int] = []

    def batch(wanted: int) -> Sequence[float]:
        taken.append(wanted)
        return [1e-3 * (1 + 0.1 * NARROW_FRACTION * (place % 2)) for place in range(wanted)]

    assert len(sample_until_narrow(batch, most=1000, cap_s=1e9, now=ticking(1.0))) == LEAST_SAMPLES
    assert taken == [LEAST_SAMPLES]


def test_noisy_samples_are_taken_until_they_average_out() -> None:
    """Sampling goes on, doubling, while the interval is wider than the aim, and ends with a narrow one."""
    draw = random.Random(2)
    samples = sample_until_narrow(
        lambda wanted: [draw.gauss(1e-3, 2e-5) for _ in range(wanted)], most=10_000, cap_s=1e9, now=ticking(1.0)
    )
    assert LEAST_SAMPLES < len(samples) < 10_000
    assert median_of(samples).width_fraction <= NARROW_FRACTION


def test_sampling_ends_when_its_time_is_spent() -> None:
    """Hopeless noise costs the time that was set, and still gives an interval."""
    draw = random.Random(3)
    samples = sample_until_narrow(
        lambda wanted: [draw.uniform(1e-3, 2e-3) for _ in range(wanted)], most=10**6, cap_s=3.5, now=ticking(1.0)
    )
    assert len(samples) == LEAST_SAMPLES * 2**3


def test_sampling_never_exceeds_its_most() -> None:
    """The last batch is cut to what may still be taken."""
    draw = random.Random(4)
    samples = sample_until_narrow(
        lambda wanted: [draw.uniform(1e-3, 2e-3) for _ in range(wanted)], most=50, cap_s=1e9, now=ticking(1.0)
    )
    assert len(samples) == 50


def test_small_batches_add_up_to_an_interval() -> None:
    """A source that gives one sample at a time, as for runs of a second, is asked until there are enough."""
    samples = sample_until_narrow(lambda wanted: [1.0], most=100, cap_s=0.0, now=ticking(1.0))
    assert len(samples) == LEAST_SAMPLES
