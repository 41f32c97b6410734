"""Simulates launches on a device, whoever made them: cycles, bytes and time.

residency  CTAs that an SM holds     (residency)
costs      what a step takes an SM   (sm)
clock      how fast the SM ticks     (from what it executes)
run        cycles and bytes          (engine)
prediction every figure of each launch
laws       what no device can do is no answer (prediction.laws)
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial

from .arguments import USUAL, Settings, check_settings
from .device.device import Device
from .engine.clock import clocks_of
from .engine.continued import Marks
from .engine.costed import CostedLaunch
from .engine.engine import Attempt, LaunchRun, run_launches
from .jobs.stopping import OnProgress, Stage
from .launch.before import Before
from .launch.outline import is_outline
from .launch.program import Launch
from .launch.walk import tally
from .prediction.launch import pipe_cycles, predict_launch
from .prediction.laws import broken_law
from .prediction.notes import WAY_OUT, cost_notes, l2_notes
from .prediction.prediction import LaunchPrediction
from .residency.device_memory import peak_bytes
from .residency.residency import residency_of
from .sm.choose import costs_of
from .traffic import Traffic


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedLaunches:
    """What became of the launches of a pipeline.

    Args:
        launches: predictions, in order.
        runs: what the engine saw of each; where it recorded, with every CTA.
        numbers: which of those that were asked for each is: all, but for those that an attempt has ended.
        peak_memory_bytes: most device memory held at once [B].
        broken: the law of physics that each launch's figures break, in one line; empty where they keep all.
        cost_notes, l2_notes: remarks on where cycles come from, and on an L2 that overflows, one line each.
    """

    launches: tuple[LaunchPrediction, ...]
    runs: tuple[LaunchRun, ...]
    numbers: tuple[int, ...]
    peak_memory_bytes: int
    broken: tuple[str, ...]
    cost_notes: tuple[str, ...]
    l2_notes: tuple[str, ...]

    @property
    def total(self) -> Traffic:
        """Sum over the launches."""
        return sum((launch.traffic for launch in self.launches), Traffic())


def costed_launch(
    launch: Launch, device: Device, cost: str = "compiled", uncompiled: str = "", flop_per_matmul: int = 0
) -> CostedLaunch:
    """What a launch's steps take an SM, and at which clock. Args: as of `simulate_launches`.

    Raises:
        DoesNotFit: a CTA needs more than an SM has.
    """
    residency = residency_of(launch, device)
    costs = costs_of(launch, residency, device, cost)
    exact = tally(launch.program)
    return CostedLaunch(
        launch=launch,
        residency=residency,
        costs=costs.steps,
        origin=f"tiles: {uncompiled}" if uncompiled else costs.origin,
        tally=exact,
        clocks=clocks_of(launch, costs.steps, exact.executions, device),
        classes=costs.classes,
        flop_per_matmul=flop_per_matmul,
    )


def least_time_s(launches: Sequence[Launch], device: Device, cost: str = "compiled") -> float:
    """What the busiest pipe of all SMs takes, without the engine: no prediction of the same launches is shorter [s].

    Args:
        launches, cost: as of `simulate_launches`; 0 where a launch's code is still to be followed.

    Raises:
        DoesNotFit: a CTA needs more than an SM has.
    """
    if any(is_outline(launch) or launch.resources.code for launch in launches):
        return 0.0
    costed = [costed_launch(launch, device, cost) for launch in launches]
    return sum(
        float(pipe_cycles(launch.costs, launch.tally.executions).max()) / device.sms / launch.clocks.counted_hz
        for launch in costed
    )


def simulate_launches(
    launches: Sequence[Launch],
    device: Device,
    settings: Settings = USUAL,
    *,
    cost: str = "compiled",
    uncompiled: str = "",
    flop_per_matmul: int = 0,
    record: bool = False,
    on_progress: OnProgress | None = None,
) -> SimulatedLaunches:
    """Predict launches that follow each other on the same L2.

    Args:
        launches: with the resources that each takes of an SM.
        cost: as in `simulate`; uncompiled: why there is no machine code, where the caller knows, in one line.
        flop_per_matmul: useful operations of one matmul of these launches [FLOP]; 0 where unknown.
        record: whether to record when each CTA ran: in a run of its own that steps through every CTA, where figures
            extrapolate a steady state, so that they are the same with and without a record.
        on_progress: called when a launch comes to another phase.

    Raises:
        ValueError: a cost that is not allowed (one line).
        DoesNotFit: a CTA needs more than an SM has.
    """
    check_settings(cost=cost)

    @contextmanager
    def staged(number: int, phase: str = "simulate memory") -> Iterator[None]:
        if on_progress:
            on_progress(Stage(number=number + 1, total=len(launches), name=launches[number].name, phase=phase))
        yield

    costed = []
    for number, launch in enumerate(launches):
        with staged(number, "simulate an SM"):
            costed.append(costed_launch(launch, device, cost, uncompiled, flop_per_matmul))
    return simulate_costed(costed, device, settings, record=record, attempt=staged)


def simulate_costed(
    costed: Sequence[CostedLaunch],
    device: Device,
    settings: Settings = USUAL,
    *,
    before: Before = (),
    record: bool = False,
    attempt: Attempt = lambda number: nullcontext(),
    marks: Marks | None = None,
    marked: bool = False,
) -> SimulatedLaunches:
    """The same once it is known what steps take. Args: before, attempt, marks, marked: as in `run_launches`."""
    engine_run = partial(
        run_launches, costed, device, settings, before=before, attempt=attempt, marks=marks, marked=marked
    )
    recorded = engine_run(record=True) if record else None
    runs = recorded if recorded and not settings.steady_state else engine_run()
    ran = {number: seen for number, seen in enumerate(runs) if seen and (recorded is None or recorded[number])}
    kept = recorded or runs
    predicted: dict[int, LaunchPrediction] = {}
    for number, seen in ran.items():
        with attempt(number):
            predicted[number] = predict_launch(costed[number], seen, device, settings.overhead)
    broken = (
        broken_law(
            costed[number].launch,
            costed[number].tally.executions,
            prediction,
            device,
            cold=settings.l2 != "warm" and number == 0 and not before,
        )
        for number, prediction in predicted.items()
    )
    crowded = l2_notes(tuple(predicted.values()), device)
    return SimulatedLaunches(
        launches=tuple(predicted.values()),
        runs=tuple(run for run in map(kept.__getitem__, predicted) if run is not None),
        numbers=tuple(predicted),
        peak_memory_bytes=peak_bytes(tuple(launch.launch for launch in costed)),
        broken=tuple(broken),
        cost_notes=cost_notes(launch.origin for launch in costed),
        l2_notes=(*crowded, WAY_OUT) if crowded else (),
    )
