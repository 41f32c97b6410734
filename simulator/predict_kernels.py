"""Predicts launches of compiled kernels: traces them, chooses among autotuned configurations, simulates.

A launch that fails on the way, or takes longer than it may, is refused; the others keep their answers.
"""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from math import prod

from .advice.advise import advise
from .advice.case import Case
from .device.device import Device
from .explain import source_times
from .jobs.attempts import Attempts
from .launch.before import Before
from .launch.program import Launch, Resources
from .prediction.kernel_row import KernelRow, fastest_first, same_code
from .prediction.kernels import KernelsPrediction, Request
from .prediction.timeline import Timeline
from .refusal import DoesNotFit, Refused
from .residency.l1_room import kept_of
from .residency.residency import residency_of_ctas
from .sass.local_memory import spilled_bytes
from .trace.cta.traced_kernel import CompiledKernel
from .trace.program.launch import Traced
from .trace.program.whole_grid import trace_grid
from .traced_runs import TracedRun, TracedSimulation


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledLaunch:
    """A launch whose kernel was compiled, or refused.

    Args:
        row: what is known of it; its `refused` says why there is no code; kernel: with the code, None if refused.
        tuned: number of the autotuned launch that it is one configuration of; -1: it is none.
        cooperative: whether all of its CTAs have to be resident at once.
    """

    row: KernelRow
    kernel: CompiledKernel | None
    tuned: int = -1
    cooperative: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedKernels:
    """What became of them.

    Args:
        prediction: a row for each launch, of an autotuned one for the fastest configuration.
        asked: names of all that were asked for; numbers: which of these each row is.
        launches: with their code, None where a row was refused; timeline: where it was asked for.
        advised: whether all advice was looked for, and time was left for it.
    """

    prediction: KernelsPrediction
    asked: tuple[str, ...]
    numbers: tuple[int, ...]
    launches: tuple[Launch | None, ...]
    timeline: Timeline | None
    advised: bool = False


def predict_kernels(
    asked: Sequence[CompiledLaunch],
    request: Request,
    *,
    before: Before = (),
    record: bool = False,
    do_bench: bool = True,
    advice: bool = False,
) -> SimulatedKernels:
    """Predict launches that follow each other.

    Args:
        asked: in the order of their calls;
        before: kernels that ran before the first launch, and before each where launches do not follow each other;
        record: whether to record when each CTA ran, as `simulate_launches`;
        do_bench: whether to predict what `do_bench` would show, too;
        advice: whether to simulate what would make the longest launch faster, and say at which lines time goes.
    """
    device, l2 = request.device, request.l2
    attempts = Attempts([launch.row.name for launch in asked], request.limit_s, request.on_progress)
    rows: list[KernelRow] = [launch.row for launch in asked]
    followed: dict[int, Traced] = {}
    for number, launch in enumerate(asked):
        earlier = [followed[other] for other in followed if launch.tuned < 0 or asked[other].tuned != launch.tuned]
        stored = {storage for kernel in earlier for storage in kernel.stored}
        with attempts.at(number, "trace"):
            rows[number], kernel = _traced(launch, device, stored)
            if kernel is not None:
                followed[number] = kernel
    simulation = TracedSimulation(device, attempts)
    chosen, configurations = _choose(rows, followed, [launch.tuned for launch in asked], simulation)
    kept = {number: followed[number] for number in chosen if number in followed}
    by_number, timeline = simulation.run(kept, l2, record, do_bench, before)
    sound = {number for number, run in by_number.items() if not run.broken}
    places = {number: place for place, number in enumerate(chosen)}
    rows = [simulation.with_reason(number, row) for number, row in enumerate(rows)]
    prediction = KernelsPrediction(
        device=request.name,
        l2=l2,
        rows=tuple(_with(rows[number], by_number.get(number)) for number in chosen),
        configurations=tuple((places[best], every) for best, every in configurations),
    )
    advised = False
    if advice:
        dominant = [(place, by_number.get(chosen[place])) for place in prediction.dominant]
        sources = ((place, source_times(run.launch, run.classes)) for place, run in dominant if run)
        prediction = replace(prediction, sources=tuple((place, lines) for place, lines in sources if lines))
    if advice and sound:
        longest = max(sound, key=lambda number: (by_number[number].prediction.traffic.time_s, -number))
        case = _case(longest, rows[longest], kept, by_number[longest], device, l2)
        prediction, advised = _advised(prediction, longest, case, attempts, request.limit_s)
    return SimulatedKernels(
        prediction=prediction,
        advised=advised,
        asked=tuple(launch.row.name for launch in asked),
        numbers=tuple(chosen),
        launches=tuple(by_number[number].launch if number in sound else None for number in chosen),
        timeline=timeline,
    )


def _advised(
    prediction: KernelsPrediction, number: int, case: Case, attempts: Attempts, limit_s: float | None
) -> tuple[KernelsPrediction, bool]:
    """A prediction with what would make its longest launch faster; and whether there was time for all advice."""
    with attempts.spare() as lost, attempts.at(number, "advice"):
        helps, late = advise(case)
        prediction = replace(prediction, helps=helps)
    if lost:
        return replace(prediction, notes=(f"no advice: {lost[number]}",)), False
    if late:
        note = f"advice is incomplete: {limit_s or 0.0:g} s were over before these were tried: {', '.join(late)}"
        return replace(prediction, notes=(f"{note}; a longer --time-limit may do",)), False
    return prediction, True


def too_many_to_wait_for(asked: CompiledLaunch, device: Device) -> str | None:
    """Why a device takes no cooperative launch; None: it would, or the launch is none. Raises: DoesNotFit.

    Source: cudaErrorCooperativeLaunchTooLarge (CUDA runtime API, cudaLaunchCooperativeKernel).
    """
    if not asked.cooperative or asked.kernel is None:
        return None
    kernel, ctas = asked.kernel, prod(asked.row.grid)
    residency = residency_of_ctas(kernel.resources, kernel.warps, ctas, device)
    if residency.concurrent_ctas >= ctas:
        return None
    return (
        f"kernel {asked.row.name}: launch_cooperative_grid = True: {ctas:,} CTAs have to be resident at once, and "
        f"{device.sms} SMs hold {residency.concurrent_ctas:,} ({residency.ctas_per_sm} each): launch no more than that"
    )


def _spilled_bytes(resources: Resources) -> int:
    """Registers that a thread spills [B]."""
    frame_bytes = resources.spilled_bytes_per_thread
    return spilled_bytes(resources.code.sass, frame_bytes) if resources.code else frame_bytes


def _traced(asked: CompiledLaunch, device: Device, stored: Set[int]) -> tuple[KernelRow, Traced | None]:
    """A launch that was followed, or refused. Args: stored: numbers of the storages that those before it write."""
    if asked.kernel is None:
        return asked.row, None
    try:
        if reason := too_many_to_wait_for(asked, device):
            return replace(asked.row, refused=reason), None
        followed = trace_grid(asked.kernel, kept_of(asked.kernel.resources, asked.row.grid, device))
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
        estimated_accesses=len(followed.estimated),
        requested_bytes=sum(followed.requested),
        estimated_bytes=followed.requested.estimated_bytes,
        spilled_bytes_per_thread=_spilled_bytes(asked.kernel.resources),
        lower_bound=followed.lower_bound,
        notes=(*asked.row.notes, *followed.notes, *read),
    )
    return row, followed


def _case(number: int, row: KernelRow, traced: Mapping[int, Traced], run: TracedRun, device: Device, l2: str) -> Case:
    """A launch to give advice on. Args: number, row: of it; traced: all that were simulated; run: its simulation."""
    return Case(
        launch=run.launch,
        traced=traced[number],
        prediction=run.prediction,
        device=device,
        spilled_bytes=row.spilled_bytes_per_thread,
        known=run.classes,
        marks=None if l2 == "warm" else run.marks,
        l2="warm" if l2 == "warm" else "cold",
        alone=l2 != "pipeline" or number == min(traced),
    )


def _with(row: KernelRow, run: TracedRun | None) -> KernelRow:
    if run is None:
        return row
    if run.broken:
        return replace(row, refused=run.broken, failed=True)
    prediction = run.prediction
    answered = replace(row, prediction=prediction, ceiling=run.ceiling, do_bench=run.do_bench)
    doubt = (answered.cost_doubt,) if answered.cost_doubt else ()
    return replace(answered, notes=(*row.notes, *doubt, *run.notes))


def _choose(
    rows: list[KernelRow], traced: Mapping[int, Traced], groups: list[int], simulation: TracedSimulation
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
        runs, _ = simulation.run({other: traced[other] for other in alike if other in traced}, "cold")
        tried = tuple(_with(simulation.with_reason(other, rows[other]), runs.get(other)) for other in alike)
        fastest = fastest_first(tried)[0]
        best = alike[fastest]
        configurations.append((best, tried))
        if alike_code := same_code([(row.label, row) for row in tried]):
            rows[best] = replace(rows[best], notes=(*rows[best].notes, f"kernel {rows[best].name}: {alike_code}"))
        if tried[fastest].prediction:
            note = f"kernel {rows[best].name}: fastest of {len(alike)} configurations: {rows[best].label}"
            rows[best] = replace(rows[best], notes=(*rows[best].notes, note))
        chosen.append(best)
    return chosen, configurations
