"""How long a run takes, cold or warm: samples from a track become a `Timing`.

A *run* is one pass through all launches of a pipeline. A `Track` takes samples of it on a GPU (see `track`);
here is decided how many, how they are corrected, and what they amount to.

What a pair of events adds to a lone launch (the `tare`, some microseconds) is measured with launches that do nothing
and taken off every sample, so that a time is the kernel and the gap to the next one, as in a replayed CUDA graph.
The host's own launch overhead never enters: the GPU has all its work before it begins (see `track`).
So times are to be held against predictions with `overhead="graph"`.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, comb
from statistics import median
from typing import Literal, Protocol

from ..measurement import Timing

OVERHEAD = "graph"
"""How predictions must treat launch overhead to be comparable."""
WARM_UP_S = 0.1
"""Work before the first sample: clocks rise from idle within some ten milliseconds, and power settles [s]."""
LEAST_SAMPLE_S = 200e-6
"""A warm sample repeats the run until it lasts so long: events tick in steps of up to half a microsecond [s]."""
QUEUE_LAUNCHES = 400
"""Launches handed to the GPU in advance; the driver holds about a thousand before it makes the host wait."""
FLUSH_LAUNCHES = 2
MOST_SAMPLES = 400
CAP_S = 1.0
"""Time for the samples of one point, beyond the fewest that give an interval [s]."""
TARE_SAMPLES, TARE_REPEATS = 50, 100
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Lap:
    """Samples taken in one go.

    Args:
        samples_s: time between the two events of each sample [s].
        cycles, span_s: SM cycles, and time, from before the first sample to after the last; 0 where unknown.
        host_late: whether the GPU had to wait for the host, so that the samples hold some of the host's time.
    """

    samples_s: tuple[float, ...]
    cycles: float = 0.0
    span_s: float = 0.0
    host_late: bool = False


class Track(Protocol):
    """Where runs are timed."""

    def lap(self, run: Callable[[], object], *, samples: int, repeats: int, cold: bool) -> Lap:
        """Time a run.

        Args:
            run: enqueues all launches once.
            samples: how many.
            repeats: runs of a sample, back to back.
            cold: whether L2 is flushed before each sample.
        """

    def nothing(self) -> None:
        """Launch a kernel that does nothing."""


def tare_s(track: Track, now: Callable[[], float] = time.monotonic) -> float:
    """What a pair of events adds to the launches between them, from launches that do nothing [s].

    One launch between two events takes tare + launch, and a hundred take tare + 100 launches.
    """
    begin = now()
    while now() - begin < WARM_UP_S:
        track.lap(track.nothing, samples=1, repeats=1, cold=True)  # the flushes are the work that warms up
    single = median(track.lap(track.nothing, samples=TARE_SAMPLES, repeats=1, cold=False).samples_s)
    samples = max(1, QUEUE_LAUNCHES // TARE_REPEATS)
    many = median(track.lap(track.nothing, samples=samples, repeats=TARE_REPEATS, cold=False).samples_s)
    return max(0.0, single - (many - single) / (TARE_REPEATS - 1))


def time_run(
    track: Track,
    run: Callable[[], object],
    *,
    l2: Literal["cold", "warm"],
    launches: int = 1,
    tare: float = 0.0,
    cap_s: float = CAP_S,
    now: Callable[[], float] = time.monotonic,
) -> Timing:
    """Time a run until the median is known to 1 %, or `cap_s` is spent.

    Args:
        run: enqueues all launches once, and waits for nothing.
        l2: `cold`: L2 is flushed before every sample; `warm`: runs follow each other.
        launches: kernel launches of a run, roughly.
        tare: what `tare_s` said [s].
    """
    cold = l2 == "cold"
    begin = now()
    laps = [track.lap(run, samples=1, repeats=1, cold=cold)]
    while now() - begin < WARM_UP_S:
        laps = [track.lap(run, samples=1, repeats=1, cold=cold)]
    once_s = max(laps[0].samples_s[0] - tare, 1e-7)
    fit = max(1, QUEUE_LAUNCHES // max(1, launches))
    repeats = 1 if cold else min(fit, ceil(LEAST_SAMPLE_S / once_s))
    laps.clear()

    def batch(wanted: int) -> list[float]:
        samples = max(1, min(wanted, QUEUE_LAUNCHES // (repeats * launches + FLUSH_LAUNCHES * cold)))
        laps.append(track.lap(run, samples=samples, repeats=repeats, cold=cold))
        return [max(sample - tare, 0.0) / repeats for sample in laps[-1].samples_s]

    samples_s = sample_until_narrow(batch, most=MOST_SAMPLES, cap_s=cap_s, now=now)
    middle = median_of(samples_s)
    span_s = sum(lap.span_s for lap in laps)
    clock_hz = sum(lap.cycles for lap in laps) / span_s if span_s else 0.0
    return Timing(
        l2=l2,
        median_s=middle.value_s,
        low_s=middle.low_s,
        high_s=middle.high_s,
        confidence=CONFIDENCE,
        samples=len(samples_s),
        fastest_s=min(samples_s),
        slowest_s=max(samples_s),
        clock_hz=clock_hz,
        cycles=middle.value_s * clock_hz,
        noise="unstable" if any(lap.host_late for lap in laps) else noise_of(samples_s),
    )


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
