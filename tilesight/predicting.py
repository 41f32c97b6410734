"""`tilesight.predict(launches)`: recorded launches in, bytes and time out; torch and triton, but no GPU.

capture    what a user's code launches      (kernels.capture)
compile    machine code of every launch     (kernels.compile)
trace      what its CTAs do                 (simulator.trace)
simulate   costs, clock, engine, prediction (simulator.simulate_launches)
"""

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING

from .compiling import why_not
from .simulator.device.device import Device, load_device
from .simulator.launch.program import Launch, Resources
from .simulator.prediction.kernels import KernelRow, KernelsPrediction
from .simulator.residency.residency import residency_of_ctas
from .simulator.simulate_launches import SimulatedLaunches, simulate_launches
from .simulator.trace.cta.given import Called, Refused
from .simulator.trace.program.launch import Traced, launches_of, trace

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from .kernels.capture.recorded import Capture
    from .kernels.compile.call import KernelCall

L2 = ("pipeline", "cold", "warm")
"""What a launch finds in the caches: what those before left, nothing, or what itself left."""


def capture(device: Device | str = "h200") -> "AbstractContextManager[list[Capture]]":
    """Record the launches of Triton kernels in a `with` block, instead of running them; tensors need no data.

    Args:
        device: what code that asks for properties of its GPU is told.

    Returns:
        A context manager; what it gives is the list that launches are added to, in the order of their calls.

    Raises:
        RuntimeError: torch or triton is missing (one line).
        ValueError: unknown device; or, in the block, a launch that cannot be recorded.
    """
    if reason := why_not():
        raise RuntimeError(reason)
    from .kernels.capture.recording import capture as recorded

    return recorded(device)


def predict(
    launches: "Sequence[Capture]", device: Device | str = "h200", *, l2: str = "pipeline", workers: int | None = None
) -> KernelsPrediction:
    """Predict launches that `capture` has recorded.

    Args:
        device: a name, a path to a TOML file, or the device itself; l2: one of `L2`.
        workers: compiler processes at most; one per core where None.

    Returns:
        A row for each launch, in the order of the calls; one that cannot be predicted says why.

    Raises:
        RuntimeError: torch or triton is missing (one line).
        ValueError: unknown device, or another setting that is not allowed.
    """
    reason = why_not()
    if reason:
        raise RuntimeError(reason)
    from .kernels.capture.lowering import LoweringError, lower

    name = device if isinstance(device, str) else device.name
    gpu = load_device(device) if isinstance(device, str) else device
    capability = int(gpu.compute_capability.replace(".", ""))
    calls: list[KernelCall | KernelRow] = []
    for launch in launches:
        try:
            calls.append(lower(launch, capability))
        except LoweringError as error:
            calls.append(KernelRow(name=launch.name, grid=launch.grid, num_warps=0, num_stages=0, refused=str(error)))
    return predict_calls(calls, gpu, name, l2=l2, workers=workers)


def predict_calls(
    calls: "Sequence[KernelCall | KernelRow]", device: Device, name: str, *, l2: str, workers: int | None = None
) -> KernelsPrediction:
    """The same for launches in plain values. Args: calls: rows stand for launches that are refused already."""
    if l2 not in L2:
        raise ValueError(f"l2 = {l2!r}: must be one of {', '.join(L2)}")
    from .kernels.compile.calls import CompiledCall, compile_calls

    compiled = iter(compile_calls([call for call in calls if not isinstance(call, KernelRow)], device, workers=workers))
    rows: list[KernelRow] = []
    traced: list[Traced | None] = []
    groups: list[int] = []
    for call in calls:
        if isinstance(call, KernelRow):
            rows.append(call)
            traced.append(None)
            groups.append(-1)
            continue
        outcome = next(compiled)
        row = KernelRow(
            name=call.name, grid=call.grid, num_warps=call.num_warps, num_stages=call.num_stages, label=call.label
        )
        groups.append(call.tuned)
        try:
            if not isinstance(outcome, CompiledCall):
                raise Refused(outcome.reason)
            one = trace(_called(outcome), room_of(outcome.resources, row.grid, device))
            traced.append(one)
            rows.append(_described(row, one))
        except Refused as error:
            traced.append(None)
            rows.append(replace(row, refused=str(error)))
    return _predicted(rows, traced, groups, device, name, l2)


def _called(outcome: "object") -> Called:
    call = outcome.call  # type: ignore[attr-defined]
    return Called(
        name=call.name,
        grid=call.grid,
        num_warps=call.num_warps,
        num_stages=call.num_stages,
        resources=outcome.resources,  # type: ignore[attr-defined]
        storages=call.storages,
        lines=outcome.lines,  # type: ignore[attr-defined]
    )


def room_of(resources: Resources, grid: tuple[int, int, int], device: Device) -> float:
    """What L1 has for each of the CTAs of a launch that share an SM [B]."""
    one = residency_of_ctas(resources, resources.warps_per_cta, prod(grid), device)
    return one.l1_bytes / one.ctas_per_busy_sm


def _described(row: KernelRow, one: Traced) -> KernelRow:
    read = (f"kernel {row.name}: values of {', '.join(one.read)} were used",) if one.read else ()
    return replace(
        row,
        executed_instructions=one.instructions,
        known_accesses=one.known,
        accesses=one.accesses,
        notes=(*one.notes, *read),
    )


def _predicted(
    rows: list[KernelRow], traced: list[Traced | None], groups: list[int], device: Device, name: str, l2: str
) -> KernelsPrediction:
    chosen, configurations = _choose(rows, traced, groups, device)
    kept = [number for number in chosen if traced[number] is not None]
    ready = [one for number in kept if (one := traced[number]) is not None]
    found = dict(zip(kept, _simulate(ready, device, l2), strict=True))
    final = [_with(rows[number], found.get(number)) for number in chosen]
    places = {number: place for place, number in enumerate(chosen)}
    return KernelsPrediction(
        device=name,
        l2=l2,
        rows=tuple(final),
        configurations=tuple((places[best], own) for best, own in configurations),
    )


def _simulate(traced: list[Traced], device: Device, l2: str) -> list[tuple[SimulatedLaunches, int]]:
    """Each launch's simulation, and which of its launches it is."""
    if not traced:
        return []
    if l2 == "pipeline":
        whole = _run(launches_of(traced), device, "cold")
        return [(whole, number) for number in range(len(traced))]
    return [(_run(launches_of([one]), device, l2), 0) for one in traced]


def _run(launches: Sequence[Launch], device: Device, l2: str) -> SimulatedLaunches:
    return simulate_launches(launches, device, l2=l2, overhead="graph")


def _with(row: KernelRow, found: tuple[SimulatedLaunches, int] | None) -> KernelRow:
    if found is None:
        return row
    simulated, number = found
    one = simulated.launches[number]
    estimated = one.cost.removeprefix("tiles: ")
    doubt = (f"kernel {row.name}: cycles estimated from tile sizes: {estimated}",) if one.cost != "compiled" else ()
    return replace(row, prediction=one, notes=(*row.notes, *doubt))


def _choose(
    rows: list[KernelRow], traced: list[Traced | None], groups: list[int], device: Device
) -> tuple[list[int], list[tuple[int, tuple[KernelRow, ...]]]]:
    """Of the configurations of each autotuned launch the fastest by itself; which row, and all that were predicted."""
    chosen: list[int] = []
    configurations: list[tuple[int, tuple[KernelRow, ...]]] = []
    for number, group in enumerate(groups):
        if group < 0:
            chosen.append(number)
            continue
        if group in groups[:number]:
            continue
        own = [other for other, one in enumerate(groups) if one == group]
        if len(own) == 1:
            chosen.append(number)
            continue
        ready = [other for other in own if traced[other] is not None]
        alone = _simulate([one for other in ready if (one := traced[other]) is not None], device, "cold")
        times = {other: _with(rows[other], found) for other, found in zip(ready, alone, strict=True)}
        best = min(ready, key=lambda other: times[other].traffic.time_s, default=own[0])
        rows[best] = replace(
            rows[best],
            notes=(
                *rows[best].notes,
                f"kernel {rows[best].name}: fastest of {len(own)} configurations: {rows[best].label}",
            ),
        )
        chosen.append(best)
        configurations.append((best, tuple(times.get(other, rows[other]) for other in own)))
    return chosen, configurations
