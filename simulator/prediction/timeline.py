"""The timeline of a run, from the engine's record: when and where each CTA ran, what it computed, bytes moved."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from .. import units
from ..display.words import plural
from ..launch.program import Affine, Launch
from ..launch.walk import steps
from .prediction import LaunchPrediction

if TYPE_CHECKING:
    from ..engine.engine import LaunchRun

PartText = Callable[[int, int, int], str]
"""Names rows of a slab: number of the slab, first row, last row."""
WorkOf = Callable[[Launch], tuple[str, ...]]
"""What each CTA of a launch computes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchTimeline:
    """The timeline of one launch. Times count from the start of the first launch.

    Args:
        name: of the kernel.
        begin_s, end_s: of the launch, without launch overhead [s].
        work: what each CTA computes, e.g. `head 3, queries 128-255`.
        cta, sm, slot: int64 (CTAs,), number of each CTA, its SM, and its slot there.
        cta_start_s, cta_end_s: float64 (CTAs,) [s].
        sample_s: float64 (samples,), from the begin of the launch to its end [s].
        hbm_bytes, l2_bytes: float64 (samples,), read and written at HBM, and at L2 by SMs, until then [B].
    """

    name: str
    begin_s: float
    end_s: float
    work: tuple[str, ...]
    cta: np.ndarray
    sm: np.ndarray
    slot: np.ndarray
    cta_start_s: np.ndarray
    cta_end_s: np.ndarray
    sample_s: np.ndarray
    hbm_bytes: np.ndarray
    l2_bytes: np.ndarray

    def __repr__(self) -> str:
        """One line: the kernel, when it ran, and how many CTAs."""
        return (
            f"<LaunchTimeline: {self.name}, {units.duration(self.begin_s)} to {units.duration(self.end_s)},"
            f" {plural(len(self.cta), 'CTA')}>"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """The launches of a pipeline, in order. Args: sms: SMs of the device."""

    sms: int
    launches: tuple[LaunchTimeline, ...]

    @property
    def end_s(self) -> float:
        """When the last launch ends, without launch overhead [s]."""
        return self.launches[-1].end_s

    def __repr__(self) -> str:
        """One line: how many kernels, on how many SMs."""
        return f"<Timeline: {plural(len(self.launches), 'kernel')} on {plural(self.sms, 'SM')}>"


def timeline_of(
    launches: tuple[Launch, ...],
    predicted: tuple[LaunchPrediction, ...],
    runs: "Sequence[LaunchRun]",
    sms: int,
    work_of: WorkOf,
) -> Timeline:
    """The timeline of recorded runs.

    Args:
        predicted, runs: of each launch.
        sms: of the device.
        work_of: what the CTAs of a launch compute, e.g. `work_of_ctas` or `programs_of`.
    """
    entries = []
    begin_s, begin_cycles = 0.0, float(runs[0].timeline[0, 2])  # a warm run begins after the one that warmed it
    for launch, prediction, run in zip(launches, predicted, runs, strict=True):
        sm, slot, start, end = run.timeline.T
        start_s, end_s = ((cycles - begin_cycles) / prediction.clock_hz + begin_s for cycles in (start, end))
        entries.append(
            LaunchTimeline(
                name=launch.name,
                begin_s=begin_s,
                end_s=begin_s + run.cycles / prediction.clock_hz,
                work=work_of(launch),
                cta=np.arange(len(sm)),
                sm=sm.astype(np.int64),
                slot=slot.astype(np.int64) // sms,
                cta_start_s=start_s,
                cta_end_s=end_s,
                sample_s=run.samples[:, 0] / prediction.clock_hz + begin_s,
                hbm_bytes=run.samples[:, 1],
                l2_bytes=run.samples[:, 2],
            )
        )
        # Stepped through, a launch may take longer than what is extrapolated of it.
        begin_s += max(prediction.traffic.time_s, run.cycles / prediction.clock_hz + prediction.overhead_s)
        begin_cycles += run.cycles
    return Timeline(sms=sms, launches=tuple(entries))


def joined(parts: Sequence[tuple[Timeline, float]]) -> Timeline:
    """Launches that were simulated by themselves, one after the other. Args: parts: each with its time [s]."""
    entries: list[LaunchTimeline] = []
    begin_s = 0.0
    for part, time_s in parts:
        entries += [
            replace(
                launch,
                begin_s=launch.begin_s + begin_s,
                end_s=launch.end_s + begin_s,
                cta_start_s=launch.cta_start_s + begin_s,
                cta_end_s=launch.cta_end_s + begin_s,
                sample_s=launch.sample_s + begin_s,
            )
            for launch in part.launches
        ]
        begin_s += time_s
    return Timeline(sms=parts[0][0].sms, launches=tuple(entries))


def programs_of(launch: Launch) -> tuple[str, ...]:
    """CTAs by what Triton calls them, e.g. `program 3, 0`: `tl.program_id` of the axes up to the last with several."""
    sizes = launch.grid
    axes = max((axis + 1 for axis, size in enumerate(sizes) if size > 1), default=1)
    numbers = np.unravel_index(np.arange(launch.cta_count), sizes[::-1])[::-1][:axes]
    return tuple(
        f"program {', '.join(map(str, cta))}" for cta in zip(*(axis.tolist() for axis in numbers), strict=True)
    )


def work_of_ctas(launch: Launch, part_text: PartText) -> tuple[str, ...]:
    """What each CTA computes, by the tile that its last step stores.

    Args:
        part_text: names rows of a slab, as `Problem.part_text`.
    """
    program = launch.program
    tile = [tile for step, _ in steps(program.body) for tile in step.stores[:1]][-1]
    tensor = program.tensor(tile.tensor)
    items = program.items(np.arange(launch.cta_count, dtype=np.int64))
    columns = {name: items[:, column] for column, name in enumerate(program.variables)}

    def first(terms: Affine) -> np.ndarray:
        parts = [columns[name] * coefficient for name, coefficient in terms if name in columns]
        return np.sum(parts, axis=0) if parts else np.zeros(len(items), dtype=np.int64)

    # A tile whose rows a loop counts goes over all of them.
    sweeps = any(name not in columns for name, _ in tile.row)
    tops = first(tile.row)
    bottoms = np.full(len(items), tensor.rows) if sweeps else np.minimum(tops + tile.rows, tensor.rows)
    lefts = first(tile.col)
    texts = []
    for cta, row in enumerate(np.stack((columns[tile.slab], tops, bottoms, lefts), axis=1).tolist()):
        slab, top, bottom, left = row
        words = [part_text(slab, top, bottom - 1)]
        words += [f"keys from {left}"] if lefts.any() else []
        more = (program.item_count - 1 - cta) // launch.cta_count  # of a persistent grid
        texts.append(", ".join(words) + (f" and {more} more" if more else ""))
    return tuple(texts)
