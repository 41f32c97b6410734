"""Problem, schedule, configuration and device in; prediction out. The whole flow, in order.

resolve            what runs: launches that fit an SM, with their resources  (problem, schedule, configuration)
simulate_launches  costs, clock, engine, figures of each launch
prediction         all of it, with what only a problem can say
"""

from collections.abc import Sequence

from .device.device import Device, device_name, load_device
from .engine.engine import LaunchRun
from .launch.program import Launch, Resources
from .prediction.notes import tile_notes
from .prediction.prediction import Prediction
from .prediction.timeline import Timeline, timeline_of, work_of_ctas
from .problems.problem import Problem
from .residency.device_memory import peak_bytes
from .residency.occupancy import DoesNotFit
from .resolve import ResourcesOf, asked_config, fitted, launches_of, with_kept
from .schedules.config import Config
from .schedules.registry import find_schedule
from .simulate_launches import check_settings, simulate_launches

__all__ = ["DoesNotFit", "Timeline", "launches_of", "peak_memory_bytes", "simulate", "simulate_with_timeline"]


def simulate(
    problem: Problem,
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
    """Predict bytes at every level, cycles and time of a problem, e.g. one attention forward pass.

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
    prediction, _, _ = _simulate(
        problem, schedule, config, device, l2, resolution, steady_state, overhead, given, cost, False
    )
    return prediction


def simulate_with_timeline(
    problem: Problem,
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
    prediction, launches, runs = _simulate(
        problem, schedule, config, device, l2, resolution, steady_state, overhead, given, cost, True
    )
    gpu = load_device(device) if isinstance(device, str) else device

    def work_of(launch: Launch) -> tuple[str, ...]:
        return work_of_ctas(launch, prediction.problem.part_text)

    return prediction, timeline_of(launches, prediction.launches, runs, gpu.sms, work_of)


def peak_memory_bytes(problem: Problem, schedule: str, config: Config | None, device: Device) -> int:
    """Most device memory held at once: inputs and outputs always, scratch from first to last use [B]."""
    return peak_bytes(launches_of(problem, schedule, config, device))


def _simulate(
    problem: Problem,
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
) -> tuple[Prediction, tuple[Launch, ...], tuple[LaunchRun, ...]]:
    check_settings(l2=l2, resolution=resolution, overhead=overhead, cost=cost)
    name = device_name(device) if isinstance(device, str) else device.name
    gpu = load_device(device) if isinstance(device, str) else device
    chosen = find_schedule(schedule)
    if reason := chosen.why_not(problem):
        raise ValueError(f"schedule {schedule}: {reason}")
    problem, named, shrunk = chosen.problem.of(problem), config or Config(), ""
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
    uncompiled = ""
    if source == "compiled" and resources is None:
        launches, uncompiled = with_kept(launches, gpu)
    simulated = simulate_launches(
        launches,
        gpu,
        l2=l2,
        resolution=resolution,
        steady_state=steady_state,
        overhead=overhead,
        cost=cost,
        uncompiled=uncompiled,
        product_flop=problem.product_flop,
        record=record,
    )
    prediction = Prediction(
        device=name,
        schedule=schedule,
        problem=problem,
        config=config,
        options=tuple(chosen.options),
        launches=simulated.launches,
        peak_memory_bytes=simulated.peak_memory_bytes,
        fits=simulated.peak_memory_bytes <= gpu.hbm_bytes,
        notes=(
            *([shrunk] if shrunk else ()),
            *simulated.cost_notes,
            *tile_notes(launches, gpu),
            *simulated.l2_notes,
        ),
    )
    return prediction, launches, simulated.runs
