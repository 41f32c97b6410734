"""Timing on a made-up GPU: what is repeated, what is taken off, what clock is named."""

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from math import isclose

import pytest
from tilesight.validate.timing.timing import LEAST_SAMPLE_S, LEAST_SAMPLES, QUEUE_LAUNCHES, Lap, tare_s, time_run


@dataclass
class MadeUpTrack:
    """A GPU whose launches take `launch_s`, cold ones `cold_s` more, between events that add `pair_s`."""

    launch_s: float
    nothing_s: float = 1e-6
    cold_s: float = 0.0
    pair_s: float = 0.0
    clock_hz: float = 0.0
    host_late: bool = False
    noise: Callable[[], float] = lambda: 0.0
    laps: list[tuple[int, int, bool]] = field(default_factory=list)
    now_s: float = 0.0

    def nothing(self) -> None:
        """Does nothing, as its name says."""

    def lap(self, run: Callable[[], object], *, samples: int, repeats: int, cold: bool) -> Lap:
        """Samples that take exactly what this GPU takes."""
        self.laps.append((samples, repeats, cold))
        once_s = self.nothing_s if run == self.nothing else self.launch_s + self.cold_s * cold
        taken = tuple(self.pair_s + repeats * once_s * (1 + self.noise()) for _ in range(samples))
        self.now_s += sum(taken)
        return Lap(samples_s=taken, cycles=self.clock_hz * sum(taken), span_s=sum(taken), host_late=self.host_late)

    def now(self) -> float:
        """Time that laps have taken, and a little for looking."""
        self.now_s += 1e-6
        return self.now_s


def test_the_tare_is_what_a_pair_of_events_adds() -> None:
    """Launches that do nothing tell their own time and the events' apart."""
    track = MadeUpTrack(launch_s=0.0, nothing_s=0.9e-6, pair_s=3.2e-6)
    assert tare_s(track, now=track.now) == pytest.approx(3.2e-6)


def test_the_gpu_is_warmed_up_before_the_tare_is_taken() -> None:
    """At the idle clock everything takes longer; flushes keep the GPU busy until it has risen."""
    track = MadeUpTrack(launch_s=0.0, nothing_s=1e-6, pair_s=1e-3)
    tare_s(track, now=track.now)
    assert sum(cold for _, _, cold in track.laps) >= 99
    assert not any(cold for _, _, cold in track.laps[-2:])


def test_a_tare_is_never_negative() -> None:
    """Noise that makes one launch look shorter than a hundredth of a hundred does not lengthen samples."""
    track = MadeUpTrack(launch_s=0.0, nothing_s=1e-6, pair_s=-5e-7)
    assert tare_s(track, now=track.now) == 0.0


@pytest.mark.parametrize("l2", ["cold", "warm"])
def test_what_events_add_is_taken_off(l2: str) -> None:
    """Both cold and warm times are those of the kernel, whatever the events cost."""
    track = MadeUpTrack(launch_s=20e-6, pair_s=4e-6)
    timing = time_run(track, lambda: None, l2=l2, tare=4e-6, now=track.now)  # type: ignore[arg-type]
    assert timing.median_s == pytest.approx(20e-6)
    assert timing.l2 == l2


def test_a_cold_sample_is_one_run_after_a_flush() -> None:
    """A second run without a flush would find the data of the first."""
    track = MadeUpTrack(launch_s=5e-6, cold_s=7e-6)
    timing = time_run(track, lambda: None, l2="cold", now=track.now)
    assert {(repeats, cold) for _, repeats, cold in track.laps} == {(1, True)}
    assert timing.median_s == pytest.approx(12e-6)


def test_short_warm_runs_are_repeated_until_events_can_tell_them() -> None:
    """A warm sample of a 5 us run holds 40 of them, one after the other."""
    track = MadeUpTrack(launch_s=5e-6)
    timing = time_run(track, lambda: None, l2="warm", now=track.now)
    _, repeats, cold = track.laps[-1]
    assert (repeats, cold) == (LEAST_SAMPLE_S / 5e-6, False)
    assert timing.median_s == pytest.approx(5e-6)


def test_long_warm_runs_are_not_repeated() -> None:
    """A run of a millisecond is long enough by itself."""
    track = MadeUpTrack(launch_s=1e-3)
    time_run(track, lambda: None, l2="warm", now=track.now)
    assert track.laps[-1][1] == 1


@pytest.mark.parametrize("launches", [1, 3, 6])
def test_no_lap_fills_the_launch_queue(launches: int) -> None:
    """More launches than the driver holds would make the host wait for the GPU, and the gate for the host."""
    draw = count()
    track = MadeUpTrack(launch_s=1e-6 * launches, noise=lambda: 0.05 * (next(draw) % 7))
    time_run(track, lambda: None, l2="warm", launches=launches, now=track.now)
    assert all(samples * repeats * launches <= QUEUE_LAUNCHES for samples, repeats, _ in track.laps)


def test_the_gpu_is_warmed_up_before_samples_count() -> None:
    """The first tenth of a second of work, when clocks still rise, is thrown away."""
    track = MadeUpTrack(launch_s=10e-3)
    timing = time_run(track, lambda: None, l2="warm", now=track.now)
    assert timing.samples == LEAST_SAMPLES
    assert sum(samples for samples, _, _ in track.laps) - timing.samples >= 9


def test_cycles_are_the_median_times_the_clock_of_the_samples() -> None:
    """Cycles and seconds come from the same run, so they can be compared separately with a prediction."""
    track = MadeUpTrack(launch_s=1e-3, clock_hz=1.755e9)
    timing = time_run(track, lambda: None, l2="warm", now=track.now)
    assert isclose(timing.clock_hz, 1.755e9)
    assert isclose(timing.cycles, 1.755e6)


def test_an_unknown_clock_gives_no_cycles() -> None:
    """A clock of 0 says so, and is not taken for one."""
    track = MadeUpTrack(launch_s=1e-3)
    timing = time_run(track, lambda: None, l2="warm", now=track.now)
    assert (timing.clock_hz, timing.cycles) == (0.0, 0.0)


def test_samples_that_hold_the_hosts_time_are_unstable() -> None:
    """However equal they are: it was not the GPU that was timed."""
    track = MadeUpTrack(launch_s=1e-3, host_late=True)
    assert time_run(track, lambda: None, l2="warm", now=track.now).noise == "unstable"


def test_the_ends_of_the_samples_are_told() -> None:
    """The interval lies within the fastest and the slowest sample, and the median in it."""
    draw = count()
    track = MadeUpTrack(launch_s=1e-3, noise=lambda: 0.01 * (next(draw) % 5))
    timing = time_run(track, lambda: None, l2="warm", now=track.now)
    assert timing.fastest_s <= timing.low_s <= timing.median_s <= timing.high_s <= timing.slowest_s
