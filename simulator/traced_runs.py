"""Simulates traced launches: as they follow each other on the GPU, or each by itself, and under do_bench.

Each launch stands for itself: one that fails, or takes longer than it may, is left out, and its reason is kept.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from .arguments import Settings
from .device.device import Device
from .engine.continued import Marks
from .engine.costed import CostedLaunch
from .jobs.attempts import Attempts
from .launch.before import Before
from .launch.program import Launch
from .prediction.ceiling import Ceiling, ceiling_of
from .prediction.kernel_row import KernelRow
from .prediction.launch import activity_of
from .prediction.notes import few_lines_notes, not_modelled_notes
from .prediction.prediction import LaunchPrediction
from .prediction.timeline import Timeline, joined, programs_of, timeline_of
from .prediction.timing import at_do_bench_clock
from .simulate_launches import SimulatedLaunches, costed_launch, simulate_costed
from .sm.from_code import CompiledCost
from .trace.program.launch import Layout, Traced


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedRun:
    """A launch that was simulated.

    Args:
        prediction: of it; ceiling: what bounds it; launch: its program, whose costs come from `classes`, if of code;
        broken: the law that it breaks;
        do_bench: as do_bench sees it; notes: remarks on that, one line each;
        marks: by which it can be simulated again on empty caches; None: there are none.
    """

    prediction: LaunchPrediction
    ceiling: Ceiling
    launch: Launch
    broken: str
    classes: tuple[CompiledCost, ...] = ()
    do_bench: LaunchPrediction | None = None
    notes: tuple[str, ...] = ()
    marks: Marks | None = None


class TracedSimulation:
    """Simulates launches that have been traced, by their numbers. Args: attempts: what may fail of them."""

    def __init__(self, device: Device, attempts: Attempts) -> None:
        self._device, self._attempts = device, attempts

    def with_reason(self, number: int, row: KernelRow) -> KernelRow:
        """The row of a launch, with the reason where it has failed."""
        refused = self._attempts.refused.get(number)
        return replace(row, refused=refused, failed=True) if refused else row

    def run(
        self,
        traced: Mapping[int, Traced],
        l2: str,
        record: bool = False,
        do_bench: bool = False,
        before: Before = (),
    ) -> tuple[dict[int, TracedRun], Timeline | None]:
        """Launches with what those before left, or each by itself; those that fail are left out.

        Args:
            before: kernels that ran before the first of those that follow each other.
        """
        groups = [dict(traced)] if l2 == "pipeline" else [{number: kernel} for number, kernel in traced.items()]
        runs: dict[int, TracedRun] = {}
        timelines: list[tuple[Timeline, float]] = []
        for group in groups:
            costed = self._costed(group)
            if not costed:
                continue
            numbers, launches = list(costed), [launch.launch for launch in costed.values()]
            outcome = self._simulated(costed, "cold" if l2 == "pipeline" else l2, record, before)
            if outcome is None:
                continue
            seen = zip(outcome.numbers, outcome.launches, outcome.broken, outcome.runs, strict=True)
            for place, prediction, broken, engine_run in seen:
                runs[numbers[place]] = TracedRun(
                    prediction=prediction,
                    ceiling=ceiling_of(launches[place], costed[numbers[place]].tally, prediction, self._device),
                    launch=launches[place],
                    broken=broken,
                    classes=costed[numbers[place]].classes,
                    notes=(
                        *not_modelled_notes(launches[place], prediction, self._device),
                        *few_lines_notes(launches[place], prediction, self._device),
                    ),
                    marks=engine_run.marks,
                )
            if do_bench:
                runs |= self._as_do_bench({number: costed[number] for number in costed if number in runs}, runs)
            if record and outcome.numbers:
                ran = tuple(launches[place] for place in outcome.numbers)
                recorded = timeline_of(ran, outcome.launches, outcome.runs, self._device.sms, programs_of)
                timelines.append((recorded, max(outcome.total.time_s, recorded.end_s)))
        return runs, joined(timelines) if timelines else None

    def _as_do_bench(self, costed: Mapping[int, CostedLaunch], runs: Mapping[int, TracedRun]) -> dict[int, TracedRun]:
        """Runs with what do_bench would see of them; with a remark where that cannot be told."""
        numbers = list(costed)
        with self._attempts.spare() as lost:
            marks = runs[numbers[0]].marks if costed else None
            zeroed = self._simulated(costed, "dirty", record=False, marks=marks) if costed else None
        ran = dict(zip(zeroed.numbers, zeroed.launches, strict=True)) if zeroed else {}
        if zeroed:
            lost |= {numbers[place]: why for place, why in zip(zeroed.numbers, zeroed.broken, strict=True) if why}
        activities = [
            activity_of(prediction.traffic, costed[numbers[place]].launch, prediction.clock_hz, self._device)
            for place, prediction in ran.items()
        ]
        timed = at_do_bench_clock(list(ran.values()), activities, self._device)
        seen = {numbers[place]: prediction for place, prediction in zip(ran, timed, strict=True)}
        return {
            number: replace(runs[number], notes=(*runs[number].notes, f"no time as do_bench shows it: {lost[number]}"))
            if number in lost
            else replace(runs[number], do_bench=seen.get(number))
            for number in costed
        }

    def _simulated(
        self, costed: Mapping[int, CostedLaunch], l2: str, record: bool, before: Before = (), marks: Marks | None = None
    ) -> SimulatedLaunches | None:
        """Launches that follow each other on L2. Args: l2, before, marks: as of `simulate_costed`."""
        numbers = list(costed)
        with self._attempts.all_of(numbers, "simulate memory"):
            return simulate_costed(
                list(costed.values()),
                self._device,
                Settings(l2=l2, overhead="graph"),
                before=before,
                record=record,
                attempt=lambda place: self._attempts.at(numbers[place], "simulate memory"),
                marks=marks,
                marked=True,
            )
        return None

    def _costed(self, group: Mapping[int, Traced]) -> dict[int, CostedLaunch]:
        """Programs of launches that share memory, and what their steps take an SM."""
        layout: Layout | None = None
        with self._attempts.all_of(list(group), "trace"):
            layout = Layout(list(group.values()))
        costed: dict[int, CostedLaunch] = {}
        if layout is None:
            return costed
        for number, kernel in group.items():
            launch: Launch | None = None
            with self._attempts.at(number, "trace"):
                launch = layout.launch_of(kernel)
            if launch is not None:
                with self._attempts.at(number, "simulate an SM"):
                    costed[number] = costed_launch(launch, self._device)
        return costed
