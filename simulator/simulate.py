"""Simulates a problem by a schedule on a device. The whole flow, in order.

resolve            what runs: launches that fit an SM, with their resources; or a refusal
store              the answer, where it is known
simulate_launches  costs, clock, engine, figures of each launch
prediction         all of it, with what only a problem can say
"""

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from .arguments import USUAL, Settings, instance, optional_whole, several
from .device.device import Device, found_device
from .jobs.stopping import OnProgress
from .launch.program import Launch, Resources
from .outlines import Followed, follow
from .prediction.notes import mask_notes, tile_notes, warm_notes
from .prediction.prediction import Prediction
from .prediction.timeline import Timeline, timeline_of, work_of_ctas
from .problems.problem import EXAMPLE, Problem
from .refusal import BrokenLaw, DoesNotFit, granted
from .residency.device_memory import peak_bytes
from .resolve import Resolved, ResourcesOf, Sources, launches_of, resolve
from .schedules.config import Config
from .schedules.registry import DEFAULT_SCHEDULE
from .store.keys import pipeline_key
from .store.pipelines import Figures, Least, answers

if TYPE_CHECKING:
    from .engine.engine import LaunchRun

__all__ = [
    "DoesNotFit",
    "Timeline",
    "launches_of",
    "peak_memory_bytes",
    "predict",
    "predict_with_timeline",
    "simulate",
    "simulate_with_timeline",
]


def simulate(
    problem: Problem,
    *,
    schedule: str = DEFAULT_SCHEDULE,
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
        BrokenLaw: no device can do what was predicted; one line, to report.
    """
    settings = Settings(l2=l2, resolution=resolution, steady_state=steady_state, overhead=overhead)
    replaced: dict[str, Any] = {"registers": registers, "smem_bytes": smem_bytes}
    asked = (problem, schedule, config, device, resources)
    resolved, gpu, name = _resolved(*asked, **replaced, resources_of=resources_of, cost=cost)
    return replace(predict(resolved, gpu, settings), device=name)


def simulate_with_timeline(problem: Problem, **options: Any) -> tuple[Prediction, Timeline]:
    """As `simulate`, with the same prediction, and when each CTA ran where: the timeline steps through every CTA."""
    settings = Settings(**{item.name: options.pop(item.name) for item in fields(Settings) if item.name in options})
    resolved, gpu, name = _resolved(problem, **options)
    prediction, timeline = predict_with_timeline(resolved, gpu, settings)
    return replace(prediction, device=name), timeline


def predict(
    resolved: Resolved, device: Device, settings: Settings = USUAL, on_progress: OnProgress | None = None
) -> Prediction:
    """The prediction of what runs, from the store where it is known.

    Args:
        resolved: for this device; on_progress: called when a launch comes to another phase.

    Raises:
        BrokenLaw: no device can keep what was predicted.
    """
    with answers() as known:
        figures = known.of(
            pipeline_key(resolved, device, settings),
            Figures,
            resolved.schedule.name,
            device.name,
            lambda: _simulated(resolved, device, settings, record=False, on_progress=on_progress)[1],
        )
    return _prediction(resolved, device, figures)


def is_known(resolved: Resolved, device: Device, settings: Settings = USUAL) -> bool:
    """Whether the store holds what `predict` would say."""
    with answers() as known:
        return known.known(pipeline_key(resolved, device, settings), Figures) is not None


def least_time_s(resolved: Resolved, device: Device) -> float:
    """What no prediction of what runs is shorter than, from the store where it is known; 0: only a simulation tells."""

    def made() -> Least:
        # The compiled loops take most of a second to load, as for `_simulated`.
        from .simulate_launches import least_time_s as simulated_least_s

        return Least(time_s=simulated_least_s(resolved.launches, device, resolved.cost))

    key = f"{pipeline_key(resolved, device, USUAL)} least"
    with answers() as known:
        return known.of(key, Least, resolved.schedule.name, device.name, made).time_s


def predict_with_timeline(
    resolved: Resolved, device: Device, settings: Settings = USUAL, on_progress: OnProgress | None = None
) -> tuple[Prediction, Timeline]:
    """As `predict`, with the same prediction, and when each CTA ran where: the timeline steps through every CTA."""
    followed, figures, runs = _simulated(resolved, device, settings, record=True, on_progress=on_progress)
    prediction = _prediction(resolved, device, figures)

    def work_of(launch: Launch) -> tuple[str, ...]:
        return work_of_ctas(launch, prediction.problem.part_text)

    return prediction, timeline_of(followed.launches, prediction.launches, runs, device.sms, work_of)


def peak_memory_bytes(problem: Problem, schedule: str, config: Config | None, device: Device) -> int:
    """Most device memory held at once: inputs and outputs always, scratch from first to last use [B]."""
    return peak_bytes(launches_of(problem, schedule, config, device))


def _resolved(
    problem: Problem,
    schedule: str = DEFAULT_SCHEDULE,
    config: Config | None = None,
    device: Device | str = "h200",
    resources: Sequence[Resources] | None = None,
    **others: Any,
) -> tuple[Resolved, Device, str]:
    """What runs, the device and its name. Raises: ValueError, DoesNotFit: nothing runs, or an argument is wrong."""
    gpu, name = found_device(device)
    instance("problem", problem, Problem, EXAMPLE)
    named = Config() if config is None else instance("config", config, Config, "Config(block_m=64, num_warps=4)")
    if resources is not None:
        given = several("resources", resources, "Resources, one for each launch")
        resources = [instance("resources", taken, Resources, "those of a Launch") for taken in given]
    sources = Sources(resources=resources, **others)
    checked = replace(
        sources,
        registers=optional_whole("registers", sources.registers),
        smem_bytes=optional_whole("smem_bytes", sources.smem_bytes, 0),
    )
    return granted(resolve(problem, schedule, named, gpu, checked)), gpu, name


def _simulated(
    resolved: Resolved,
    device: Device,
    settings: Settings,
    *,
    record: bool,
    on_progress: OnProgress | None,
) -> "tuple[Followed, Figures, tuple[LaunchRun, ...]]":
    """What runs with the programs of its launches, figures of it, and what the engine saw."""
    # The compiled loops take most of a second to load, which an answer from the store does not need.
    from .prediction.launch import with_useful
    from .simulate_launches import simulate_launches

    followed = follow(resolved.launches, device)
    simulated = simulate_launches(
        followed.launches,
        device,
        settings,
        cost=resolved.cost,
        uncompiled=resolved.uncompiled,
        flop_per_matmul=0 if resolved.schedule.outlined else resolved.problem.flop_per_matmul,
        record=record,
        on_progress=on_progress,
    )
    if broken := next(filter(None, simulated.broken), ""):
        raise BrokenLaw(broken)
    launches = simulated.launches
    if resolved.schedule.outlined:
        launches = with_useful(launches, resolved.problem.matmul_flop)
    figures = Figures(
        launches=launches,
        peak_memory_bytes=simulated.peak_memory_bytes,
        fits=simulated.peak_memory_bytes <= device.hbm_bytes,
        notes=(
            *([resolved.shrunk] if resolved.shrunk else ()),
            *simulated.cost_notes,
            *tile_notes(followed.launches, device, resolved.problem),
            *mask_notes(launches, resolved.problem),
            *warm_notes(settings.l2, launches),
            *simulated.l2_notes,
            *followed.notes,
        ),
        lower_bound=followed.lower_bound,
    )
    return followed, figures, simulated.runs


def _prediction(resolved: Resolved, device: Device, figures: Figures) -> Prediction:
    return Prediction(
        device=device.name,
        schedule=resolved.schedule.name,
        problem=resolved.problem,
        config=resolved.config,
        options=tuple(resolved.schedule.options),
        launches=figures.launches,
        peak_memory_bytes=figures.peak_memory_bytes,
        fits=figures.fits,
        notes=figures.notes,
        lower_bound=figures.lower_bound,
    )
