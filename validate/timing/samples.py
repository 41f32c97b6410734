"""From single times to a median with its confidence interval, a verdict on noise, and when samples are enough.

Plain numbers; nothing here runs a kernel.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import comb
from statistics import median
from typing import Literal

CONFIDENCE = 0.95
NARROW_FRACTION = 0.01
"""Width of the confidence interval, relative to the median, that sampling aims for; wider is `noisy`."""
SCATTER_FRACTION = 0.10
"""Scatter of the samples, relative to the median, from which on a result is `unstable`: the threshold of pyperf."""
NORMAL_PER_MAD = 1.4826
"""Standard deviations that a median absolute deviation stands for, where samples are normally distributed."""
LEAST_SAMPLES = 6
"""The fewest samples whose extremes enclose the median with 95 % confidence: 1 - 2 / 2^6 = 96.9 %."""

Noise = Literal["quiet", "noisy", "unstable"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Median:
    """A median and the ends of its confidence interval [s]."""

    value_s: float
    low_s: float
    high_s: float

    @property
    def width_fraction(self) -> float:
        """Width of the interval, relative to the median."""
        return (self.high_s - self.low_s) / self.value_s if self.value_s > 0 else float("inf")


def median_of(samples_s: Sequence[float], confidence: float = CONFIDENCE) -> Median:
    """The median of samples, and an interval that holds the true one with at least the given confidence.

    The interval ends at two order statistics, so it assumes nothing of the distribution:
    the k-th smallest and k-th largest of n samples miss the true median with probability 2 P(Binomial(n, 1/2) < k).

    Raises:
        ValueError: too few samples for that confidence.

    Source: Hahn and Meeker, Statistical Intervals (1991), chapter 5 (distribution-free intervals).
    """
    ordered = sorted(samples_s)
    count, k, missed = len(ordered), 0, 0.0
    while 2 * k < count:
        missed += 2 * comb(count, k) / 2**count
        if missed > 1.0 - confidence:
            break
        k += 1
    if k == 0:
        raise ValueError(f"samples = {count}: too few for an interval of confidence {confidence:g}")
    return Median(value_s=median(ordered), low_s=ordered[k - 1], high_s=ordered[count - k])


def noise_of(samples_s: Sequence[float], confidence: float = CONFIDENCE) -> Noise:
    """How far samples can be trusted.

    `quiet`: the median is known within `NARROW_FRACTION`; `noisy`: it is not;
    `unstable`: single samples scatter by `SCATTER_FRACTION` or more, so the median depends on when one looks.
    Scatter is the median absolute deviation, scaled as for a normal distribution: one late sample does not count.

    Source: pyperf's warning (standard deviation of 10 % of the mean) and nvbench's convergence test (relative spread).
    """
    middle = median_of(samples_s, confidence)
    scatter_s = NORMAL_PER_MAD * median(abs(sample - middle.value_s) for sample in samples_s)
    if scatter_s >= SCATTER_FRACTION * middle.value_s:
        return "unstable"
    return "quiet" if middle.width_fraction <= NARROW_FRACTION else "noisy"


def sample_until_narrow(
    batch: Callable[[int], Sequence[float]],
    *,
    most: int,
    cap_s: float,
    confidence: float = CONFIDENCE,
    now: Callable[[], float] = time.monotonic,
) -> tuple[float, ...]:
    """Take batches of samples, each as large as all before it, until the median is known well enough.

    Args:
        batch: takes a number of samples [s]; it may return fewer, but not none.
        most: samples at most.
        cap_s: time after which no further batch begins [s].

    Returns:
        At least `LEAST_SAMPLES`, whatever they take.
    """
    begin = now()
    samples: list[float] = []
    while len(samples) < LEAST_SAMPLES:
        samples += batch(LEAST_SAMPLES - len(samples))
    while len(samples) < most and now() - begin < cap_s:
        if median_of(samples, confidence).width_fraction <= NARROW_FRACTION:
            break
        samples += batch(min(len(samples), most - len(samples)))
    return tuple(samples)
