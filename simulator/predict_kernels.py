"""Launches of compiled kernels in, predictions out: traced, the best of autotuned configurations chosen, simulated."""

from collections.abc import Sequence, Set
from dataclasses import dataclass, replace
from math import prod

from .device.device import Device
from .launch.program import Launch, Resources
from .prediction.kernel_row import KernelRow
from .prediction.kernels import KernelsPrediction
from .prediction.timeline import Timeline, joined, programs_of, timeline_of
from .refusal import DoesNotFit
from .residency.residency import residency_of_ctas
from .simulate_launches import SimulatedLaunches, simulate_launches
from .trace.cta.given import Called, Refused
from .trace.program.launch import Traced, launches_of, trace

L2 = ("pipeline", "cold", "warm")
"""What a launch finds in the caches: what those before left, nothing, or what itself left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledLaunch:
    """A launch whose kernel was compiled, or refused.

    Args:
        row: what is known of it; its `refused` says why there is no code; called: with the code, None if refused.
        tuned: number of the autotuned launch that it is one configuration of; -1: it is none.
    """

    row: KernelRow
    called: Called | None
    tuned: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedKernels:
    """What became of them.

    Args:
        prediction: a row for each launch, of an autotuned one for the fastest configuration.
        asked: names of all that were asked for; numbers: which of these each row is.
        compiled, launches: of each row, None where it was refused; timeline: where it was asked for.
    """

    prediction: KernelsPrediction
    asked: tuple[str, ...]
    numbers: tuple[int, ...]
    compiled: tuple[Called | None, ...]
    launches: tuple[Launch | None, ...]
    timeline: Timeline | None


def predict_kernels(
    asked: Sequence[CompiledLaunch], device: Device, name: str, *, l2: str, record: bool = False
) -> SimulatedKernels:
    """Predict launches that follow each other.

    Args:
        asked: in the order of their calls; name: of the device, for people; l2: one of `L2`;
        record: whether to record when each CTA ran (steps through every CTA).

    Raises:
        ValueError: l2 is none of them (one line).
    """
    if l2 not in L2:
        raise ValueError(f"l2 = {l2!r}: must be one of {', '.join(L2)}")
    traced: list[tuple[KernelRow, Traced | None]] = []
    for launch in asked:
        earlier = [
            kernel
            for other, (_, kernel) in zip(asked, traced, strict=False)
            if other.tuned < 0 or other.tuned != launch.tuned
        ]
        stored = {number for kernel in earlier if kernel is not None for number in kernel.stored}
        traced.append(_traced(launch, device, stored))
    rows = [row for row, _ in traced]
    followed = [kernel for _, kernel in traced]
    chosen, configurations = _choose(rows, followed, [launch.tuned for launch in asked], device)
    kept = [number for number in chosen if followed[number] is not None]
    runs = _simulate([kernel for number in kept if (kernel := followed[number]) is not None], device, l2, record)
    by_number = dict(zip(kept, runs.simulated, strict=True))
    places = {number: place for place, number in enumerate(chosen)}
    return SimulatedKernels(
        prediction=KernelsPrediction(
            device=name,
            l2=l2,
            rows=tuple(_with(rows[number], by_number.get(number)) for number in chosen),
            configurations=tuple((places[best], every) for best, every in configurations),
        ),
        asked=tuple(launch.row.name for launch in asked),
        numbers=tuple(chosen),
        compiled=tuple(asked[number].called if number in by_number else None for number in chosen),
        launches=tuple(by_number[number].launch if number in by_number else None for number in chosen),
        timeline=runs.timeline,
    )


def room_of(resources: Resources, grid: tuple[int, int, int], device: Device) -> float:
    """What L1 has for each of the CTAs of a launch that share an SM [B]."""
    residency = residency_of_ctas(resources, resources.warps_per_cta, prod(grid), device)
    return residency.l1_bytes / residency.ctas_per_busy_sm


def _traced(asked: CompiledLaunch, device: Device, stored: Set[int]) -> tuple[KernelRow, Traced | None]:
    """A launch that was followed, or refused. Args: stored: numbers of the storages that those before it write."""
    if asked.called is None:
        return asked.row, None
    try:
        followed = trace(asked.called, room_of(asked.called.resources, asked.row.grid, device))
    except Refused as error:
        return replace(asked.row, refused=str(error)), None
    except DoesNotFit as error:
        return replace(asked.row, refused=f"kernel {asked.row.name}: {error}"), None
    read = (
        [f"kernel {asked.row.name}: values of {', '.join(followed.read.values())} were used"] if followed.read else []
    )
    stale = [name for number, name in followed.read.items() if number in stored]
    if stale:
        read.append(
            f"kernel {asked.row.name}: an earlier launch writes {', '.join(stale)}, but does not run: "
            "the values that were passed are used"
        )
    row = replace(
        asked.row,
        executed_instructions=followed.instructions,
        known_accesses=followed.known,
        accesses=followed.accesses,
        notes=(*asked.row.notes, *followed.notes, *read),
    )
    return row, followed


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """A launch that was simulated. Args: simulated: it, and those that ran with it; number: which of these it is."""

    simulated: SimulatedLaunches
    launch: Launch
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Runs:
    simulated: list[_Run]
    timeline: Timeline | None


def _simulate(traced: Sequence[Traced], device: Device, l2: str, record: bool = False) -> _Runs:
    """Launches with what those before left, or each by itself."""
    groups = [list(traced)] if l2 == "pipeline" and traced else [[single] for single in traced]
    simulated: list[_Run] = []
    timelines: list[tuple[Timeline, float]] = []
    for group in groups:
        launches = launches_of(group)
        outcome = simulate_launches(
            launches, device, l2="warm" if l2 == "warm" else "cold", overhead="graph", record=record
        )
        simulated += [_Run(simulated=outcome, launch=launch, number=number) for number, launch in enumerate(launches)]
        if record:
            recorded = timeline_of(tuple(launches), outcome.launches, outcome.runs, device.sms, programs_of)
            timelines.append((recorded, outcome.total.time_s))
    return _Runs(simulated=simulated, timeline=joined(timelines) if timelines else None)


def _with(row: KernelRow, run: _Run | None) -> KernelRow:
    if run is None:
        return row
    prediction = run.simulated.launches[run.number]
    estimated = prediction.cost.removeprefix("tiles: ")
    doubt = (
        (f"kernel {row.name}: cycles estimated from tile sizes: {estimated}",) if prediction.cost != "compiled" else ()
    )
    return replace(row, prediction=prediction, notes=(*row.notes, *doubt))


def _choose(
    rows: list[KernelRow], traced: list[Traced | None], groups: list[int], device: Device
) -> tuple[list[int], list[tuple[int, tuple[KernelRow, ...]]]]:
    """Of the configurations of each autotuned launch the fastest by itself; which row, and all that were predicted."""
    chosen: list[int] = []
    configurations: list[tuple[int, tuple[KernelRow, ...]]] = []
    for number, group in enumerate(groups):
        if group >= 0 and group in groups[:number]:
            continue
        alike = [other for other, other_group in enumerate(groups) if other_group == group] if group >= 0 else [number]
        if len(alike) == 1:
            chosen.append(number)
            continue
        ready = [other for other in alike if traced[other] is not None]
        alone = _simulate([kernel for other in ready if (kernel := traced[other]) is not None], device, "cold")
        tried = {other: _with(rows[other], run) for other, run in zip(ready, alone.simulated, strict=True)}
        best = min(ready, key=lambda other: tried[other].traffic.time_s, default=number)
        configurations.append((best, tuple(tried.get(other, rows[other]) for other in alike)))
        note = f"kernel {rows[best].name}: fastest of {len(alike)} configurations: {rows[best].label}"
        rows[best] = replace(rows[best], notes=(*rows[best].notes, note))
        chosen.append(best)
    return chosen, configurations
