"""Problem, schedule, configuration and device in; prediction out. The whole flow, in order.

launches   what runs                 (schedule)
costs      what a step takes an SM   (costing)
clock      how fast the SM ticks     (from what it executes)
run        cycles and bytes          (engine)
prediction every figure, per launch and in total
"""

from collections.abc import Sequence

from .device.device import Device, device_name, load_device
from .engine.clock import clocks_of
from .engine.engine import LaunchRun, run_launches
from .launch.program import Launch, Resources
from .launch.walk import tally
from .prediction.launch import predict_launch
from .prediction.notes import WAY_OUT, l2_notes, tile_notes
from .prediction.prediction import Prediction
from .prediction.timeline import Timeline, timeline_of
from .problems.attention import DTYPE_BYTES, AttentionProblem
from .residency.device_memory import Allocator
from .residency.occupancy import DoesNotFit
from .resolve import ResourcesOf, asked_config, fitted, launches_of, with_kept
from .schedules.contract import Config
from .schedules.registry import find_schedule
from .sm.choose import COSTS, cost_notes, costs_of

__all__ = ["DoesNotFit", "Timeline", "launches_of", "peak_memory_bytes", "simulate", "simulate_with_timeline"]


def simulate(
    problem: AttentionProblem,
    *,
    schedule: str = "flash2",
    config: Config | None = None,
    device: Device | str = "h200",
    l2: str = "cold",
    resolution: str = "chunk",
    steady_state: bool = True,
    overhead: str = "stream",
    registers: int | None = None,
    smem_bytes: int | None = None,
    resources: Sequence[Resources] | None = None,
    resources_of: ResourcesOf | None = None,
    cost: str = "compiled",
) -> Prediction:
    """Predict bytes at every level, cycles and time of one attention forward pass.

    Args:
        problem: what to compute; schedule: name; config: choices; what it does not name is the schedule's default,
            made smaller until a CTA fits, and a note says so.
        device: a `Device`, a catalogue name or a path to a TOML file.
        l2: `cold` (empty) or `warm` (as the same pipeline left it).
        resolution: `chunk` (fast) or `line` (128-byte lines).
        steady_state: whether a large grid may be continued from a steady state (see `engine`).
        overhead: launches follow each other in a `stream` or in a replayed CUDA `graph`.
        registers, smem_bytes: replace the estimates per thread, and per CTA [B].
        resources: of each launch of exactly this configuration; where None, those of the library of compiled kernels
            (unless registers or smem_bytes is given), and estimates of what it does not hold.
        resources_of: asked for the resources before the library is, e.g. `tilesight.compiler()`.
        cost: of steps: `compiled` (simulated from machine code, where the resources bring it or the library holds it)
            or `tiles` (resources and costs estimated).

    Raises:
        ValueError: a name or value is not allowed, or the schedule cannot do the problem (one line).
        DoesNotFit: a CTA needs more than an SM has, or the compiler refuses a kernel.
    """
    given = registers, smem_bytes, resources, resources_of
    prediction, _ = _simulate(
        problem, schedule, config, device, l2, resolution, steady_state, overhead, given, cost, False
    )
    return prediction


def simulate_with_timeline(
    problem: AttentionProblem,
    *,
    schedule: str = "flash2",
    config: Config | None = None,
    device: Device | str = "h200",
    l2: str = "cold",
    resolution: str = "chunk",
    steady_state: bool = True,
    overhead: str = "stream",
    registers: int | None = None,
    smem_bytes: int | None = None,
    resources: Sequence[Resources] | None = None,
    resources_of: ResourcesOf | None = None,
    cost: str = "compiled",
) -> tuple[Prediction, Timeline]:
    """As `simulate`, and when each CTA ran where; every CTA is stepped through (`steady_state` has no effect)."""
    given = registers, smem_bytes, resources, resources_of
    prediction, runs = _simulate(
        problem, schedule, config, device, l2, resolution, steady_state, overhead, given, cost, True
    )
    gpu = load_device(device) if isinstance(device, str) else device
    chosen = find_schedule(schedule)
    launches = launches_of(problem, schedule, prediction.config, gpu)
    rows = "queries" if chosen.computes == "attention" else "rows"
    return prediction, timeline_of(launches, prediction.launches, runs, gpu.sms, problem.heads, rows)


def peak_memory_bytes(problem: AttentionProblem, schedule: str, config: Config | None, device: Device) -> int:
    """Most device memory held at once: inputs and outputs always, scratch from first to last use [B]."""
    return _peak_memory_bytes(launches_of(problem, schedule, config, device))


def _peak_memory_bytes(launches: tuple[Launch, ...]) -> int:
    """As `kernels` and `validate` allocate: inputs and outputs first, then each launch's scratch before it runs."""
    allocator = Allocator()
    every = [tensor for launch in launches for tensor in launch.program.tensors]
    kept = {tensor.name: tensor for tensor in every if tensor.role != "scratch"}
    blocks = {name: allocator.take(tensor.size_bytes) for name, tensor in kept.items()}
    for number, launch in enumerate(launches):
        for tensor in launch.program.tensors:
            if tensor.name not in blocks:
                blocks[tensor.name] = allocator.take(tensor.size_bytes)
        allocator.free(allocator.take(launch.workspace_bytes))
        later = {tensor.name for each in launches[number + 1 :] for tensor in each.program.tensors}
        for name in [name for name in blocks if name not in kept and name not in later]:
            allocator.free(blocks.pop(name))
    return allocator.peak_bytes


def _simulate(
    problem: AttentionProblem,
    schedule: str,
    config: Config | None,
    device: Device | str,
    l2: str,
    resolution: str,
    steady_state: bool,
    overhead: str,
    given: tuple[int | None, int | None, Sequence[Resources] | None, ResourcesOf | None],
    cost: str,
    record: bool,
) -> tuple[Prediction, list[LaunchRun]]:
    for name, value, allowed in (
        ("l2", l2, ("cold", "warm")),
        ("resolution", resolution, ("chunk", "line")),
        ("overhead", overhead, ("stream", "graph")),
        ("cost", cost, COSTS),
    ):
        if value not in allowed:
            raise ValueError(f"{name} = {value!r}: must be one of {', '.join(allowed)}")
    name = device_name(device) if isinstance(device, str) else device.name
    gpu = load_device(device) if isinstance(device, str) else device
    chosen = find_schedule(schedule)
    named, shrunk = config or Config(), ""
    registers, smem_bytes, resources, resources_of = given
    source = cost if registers is None and smem_bytes is None else "tiles"
    config = asked_config(chosen, named, source)
    if resources is None and (config != named or resources_of):
        config, resources, shrunk = fitted(
            problem,
            schedule,
            named,
            gpu,
            registers=registers,
            smem_bytes=smem_bytes,
            resources_of=resources_of,
            cost=source,
        )
    launches = launches_of(problem, schedule, config, gpu, registers, smem_bytes, resources)
    missing = ""
    if source == "compiled" and resources is None:
        launches, missing = with_kept(launches, gpu)
    element = DTYPE_BYTES[problem.dtype]
    costed = [costs_of(launch, gpu, element, cost) for launch in launches]
    if missing:
        costed = [(own, f"tiles: {missing}") for own, _ in costed]
    costs = [own for own, _ in costed]
    tallies = [tally(launch.program) for launch in launches]
    clocks = [
        clocks_of(launch, own, exact.executions, gpu)
        for launch, own, exact in zip(launches, costs, tallies, strict=True)
    ]
    runs = run_launches(
        launches,
        costs,
        clocks,
        gpu,
        warm=l2 == "warm",
        resolution=resolution,
        steady_state=steady_state,
        record=record,
    )
    peak = _peak_memory_bytes(launches)
    predicted = tuple(
        predict_launch(problem, *each, gpu, overhead)
        for each in zip(launches, costed, tallies, (each.counted_hz for each in clocks), runs, strict=True)
    )
    crowded = l2_notes(predicted, gpu)
    prediction = Prediction(
        device=name,
        schedule=schedule,
        problem=problem,
        config=config,
        options=chosen.options,
        launches=predicted,
        peak_memory_bytes=peak,
        fits=peak <= gpu.hbm_bytes,
        notes=(
            *([shrunk] if shrunk else ()),
            *cost_notes(origin for _, origin in costed),
            *tile_notes(problem, launches, gpu),
            *((*crowded, WAY_OUT) if crowded else ()),
        ),
    )
    return prediction, runs
