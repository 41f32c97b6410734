"""Launches and a device in; cycles, bytes and time out, whoever made the launches.

residency  CTAs that an SM holds     (residency)
costs      what a step takes an SM   (sm)
clock      how fast the SM ticks     (from what it executes)
run        cycles and bytes          (engine)
prediction every figure of each launch
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from .arguments import shown
from .device.device import Device
from .engine.clock import clocks_of
from .engine.engine import LaunchRun, run_launches
from .launch.program import Launch
from .launch.walk import tally
from .prediction.launch import predict_launch
from .prediction.notes import WAY_OUT, l2_notes
from .prediction.prediction import LaunchPrediction
from .residency.device_memory import peak_bytes
from .residency.residency import residency_of
from .sm.choose import COSTS, cost_notes, costs_of
from .traffic import Traffic

SETTINGS = {"l2": ("cold", "warm"), "resolution": ("chunk", "line"), "overhead": ("stream", "graph"), "cost": COSTS}


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedLaunches:
    """What became of the launches of a pipeline.

    Args:
        launches: predictions, in order; runs: what the engine saw of each; where it recorded, with every CTA.
        peak_memory_bytes: most device memory held at once [B].
        cost_notes, l2_notes: remarks on where cycles come from, and on an L2 that overflows, one line each.
    """

    launches: tuple[LaunchPrediction, ...]
    runs: tuple[LaunchRun, ...]
    peak_memory_bytes: int
    cost_notes: tuple[str, ...]
    l2_notes: tuple[str, ...]

    @property
    def total(self) -> Traffic:
        """Sum over the launches."""
        return sum((launch.traffic for launch in self.launches), Traffic())


def check_settings(**settings: str) -> None:
    """Raises: ValueError: a setting has a value that is not allowed; one line."""
    for name, value in settings.items():
        if not isinstance(value, str) or value not in SETTINGS[name]:
            raise ValueError(f"{name} = {shown(value)}: must be one of {', '.join(SETTINGS[name])}")


def simulate_launches(
    launches: Sequence[Launch],
    device: Device,
    *,
    l2: str = "cold",
    resolution: str = "chunk",
    steady_state: bool = True,
    overhead: str = "stream",
    cost: str = "compiled",
    uncompiled: str = "",
    flop_per_matmul: int = 0,
    record: bool = False,
) -> SimulatedLaunches:
    """Predict launches that follow each other on the same L2.

    Args:
        launches: with the resources that each takes of an SM.
        l2, resolution, steady_state, overhead, cost: as in `simulate`.
        uncompiled: why there is no machine code, where the caller knows, in one line.
        flop_per_matmul: useful operations of one matmul of these launches [FLOP]; 0 where nobody knows.
        record: whether to record when each CTA ran: in a run of its own that steps through every CTA, where figures
            extrapolate a steady state, so that they are the same with and without a record.

    Raises:
        ValueError: a setting that is not allowed (one line).
        DoesNotFit: a CTA needs more than an SM has.
    """
    check_settings(l2=l2, resolution=resolution, overhead=overhead, cost=cost)
    pipeline = tuple(launches)
    residencies = [residency_of(launch, device) for launch in pipeline]
    costed = [
        costs_of(launch, residency, device, cost) for launch, residency in zip(pipeline, residencies, strict=True)
    ]
    if uncompiled:
        costed = [(costs, f"tiles: {uncompiled}") for costs, _ in costed]
    tallies = [tally(launch.program) for launch in pipeline]
    clocks = [
        clocks_of(launch, costs, exact.executions, device)
        for launch, (costs, _), exact in zip(pipeline, costed, tallies, strict=True)
    ]
    run = partial(
        run_launches,
        pipeline,
        [costs for costs, _ in costed],
        clocks,
        residencies,
        device,
        warm=l2 == "warm",
        resolution=resolution,
    )
    recorded = run(steady_state=False, record=True) if record else None
    runs = recorded if recorded and not steady_state else run(steady_state=steady_state)
    predicted = tuple(
        predict_launch(
            flop_per_matmul,
            launch,
            costed[number],
            tallies[number],
            clocks[number].counted_hz,
            runs[number],
            residencies[number],
            device,
            overhead,
        )
        for number, launch in enumerate(pipeline)
    )
    crowded = l2_notes(predicted, device)
    return SimulatedLaunches(
        launches=predicted,
        runs=tuple(recorded or runs),
        peak_memory_bytes=peak_bytes(pipeline),
        cost_notes=cost_notes(origin for _, origin in costed),
        l2_notes=(*crowded, WAY_OUT) if crowded else (),
    )
