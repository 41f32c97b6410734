"""What a person learning FlashAttention is asked, predicted and measured side by side.

At what length does standard attention run out of memory here; how long may sequences get for the tiled kernel;
how much faster is it at 1024, 2048 and 4096; how do memory and time grow; and which resource binds it
over batch and length. Standard attention is the baseline of the pass, `naive` or `naive_backward`, the tiled kernel is
its default schedule, `flash2` or `flash_backward`; of a training step both passes are added up.

`predict` needs no GPU. `measure` asks a process on one (see `session.Ask`) and fills in what was measured.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from ...simulator import units
from ...simulator.device.device import Device
from ...simulator.explore.lengths import memory_limit
from ...simulator.jobs.pool import Progress
from ...simulator.prediction.bottleneck import WAIT, causes_of
from ...simulator.prediction.prediction import Prediction
from ...simulator.problems.attention import MAX_SEQLEN, AttentionProblem
from ...simulator.refusal import Refusal
from ...simulator.schedules.registry import baseline_of, default_schedule, find_schedule
from ...simulator.simulate import peak_memory_bytes
from ..compare.campaign import Compiler, predict_points
from ..compare.quantities import Compared
from ..measure.run_point import job_of
from ..measure.session import Ask
from ..measurement import OUT_OF_MEMORY, Timing, reason_in
from ..points.point import Point, default_point, runnable_config
from ..timing.timing import OVERHEAD
from .checkpoint_values import Checkpoint, Grown, Key

LENGTHS = tuple(1 << power for power in range(9, 17))
"""512 to 65,536: where memory and time are plotted."""
MAP_BATCHES, MAP_LENGTHS = (1, 4, 16), (512, 1024, 2048, 4096)
LONGEST_RUN_S = 0.3
"""A run that should take longer is not timed: the line is clear by then [s]."""
SIMULATED_BYTES = 40e9
"""A run that holds more device memory is not simulated, since that takes minutes; its memory is known [B]."""
LENGTH_STEPS = 2048
"""Where memory runs out is measured to this fraction of the length."""
FIRST_CTAS_PER_SM = 1
"""CTAs of each SM that run of the tiled kernel at its longest length; all of them would take minutes."""


def predict(
    problem: AttentionProblem,
    device: Device,
    *,
    compiler: Compiler | None = None,
    workers: int | None = None,
    progress: Progress | None = None,
) -> Checkpoint:
    """Everything that can be said without a GPU.

    Args:
        problem: shape and type; its lengths are replaced.
        device: to predict for.
        compiler: gives registers and shared memory of launches; they are estimated where None.
        workers, progress: as `simulator.explore`.

    Raises:
        ValueError: a schedule cannot do the problem.
    """
    baseline = baseline_of(type(problem))
    if baseline is None:
        raise ValueError(f"{problem.KIND}: has no schedule that stands for standard attention")
    names = baseline.name, default_schedule(type(problem))
    mapped = tuple((batch, length) for batch in MAP_BATCHES for length in MAP_LENGTHS)
    shapes = [[(problem.batch, length) for length in LENGTHS], mapped]
    keys = dict.fromkeys((name, *shape) for some in shapes for name in names for shape in some)
    points = {key: _point(key[0], replace(problem, batch=key[1]), key[2]) for key in keys}
    held = {key: _held(point, device) for key, point in points.items()}
    simulated = [points[key] for key, cell in held.items() if not cell.reason and not cell.unpredicted]
    predictions = predict_points(simulated, device, compiler=compiler, workers=workers, progress=progress)
    limits = {
        name: memory_limit(problem, find_schedule(name), runnable_config(name), device).longest_seqlen for name in names
    }
    return Checkpoint(
        problem=problem,
        standard=names[0],
        tiled=names[1],
        device=device,
        memory_bytes=Compared(predicted=device.hbm_bytes),
        longest={name: Compared(predicted=length) for name, length in limits.items()},
        cells={key: _grown(cell, predictions.get((points[key], OVERHEAD))) for key, cell in held.items()},
        plotted=LENGTHS,
        mapped=mapped,
    )


def measure(
    checkpoint: Checkpoint,
    named_device: Mapping[str, Any],
    ask: Ask,
    *,
    progress: Callable[[int, int], None] | None = None,
) -> Checkpoint:
    """Fill in what a GPU says.

    Args:
        checkpoint: what was predicted.
        named_device: as in jobs: `name`, and `set`.
        ask: has a process on a GPU answer a job (see `session.Ask`).
        progress: called with (shapes done, all).
    """
    # Limits first: later the process holds a buffer that flushes L2.
    memory = ask({"do": "memory"})
    longest, notes = {}, list(checkpoint.notes)
    for name, value in checkpoint.longest.items():
        longest[name], lost = _longest(name, value, checkpoint, named_device, ask)
        notes += [lost] if lost else []
    measured: dict[Key, Grown] = {}
    for key, cell in checkpoint.cells.items():
        measured[key] = _measured(cell, checkpoint, named_device, ask)
        if progress:
            progress(len(measured), len(checkpoint.cells))
    return replace(
        checkpoint,
        gpu=memory.get("gpu", ""),
        memory_bytes=replace(checkpoint.memory_bytes, measured=memory.get("free_bytes")),
        longest=longest,
        cells=measured,
        notes=tuple(notes),
    )


def longest_that_fits(fits: Callable[[int], bool], guess: int, step: int, most: int) -> int:
    """The longest multiple of a step that fits, found outwards from a guess; 0 where none does.

    Args:
        fits: whether a length fits; if one does, all shorter ones do.
        most: the longest that may be asked for, a multiple of the step.
    """
    low, high = 0, most + step  # low fits, high does not
    length, stride = min(most, max(step, guess // step * step)), step
    while high - low > step:
        if fits(length):
            low, aim = length, length + stride
        else:
            high, aim = length, length - stride
        length = aim if low < aim < high else (low + high) // 2 // step * step
        stride *= 2
    return low


def causes_in(measured_s: float, causes: Mapping[str, float], predicted_s: float) -> dict[str, float]:
    """What a measured time goes to: the predicted work, tail and launch overhead, and as wait what they leave of it.

    A timing does not say how busy a resource was, but its work is known: as much longer as the launch took, as much
    smaller is each share.

    Args:
        causes: shares of the predicted time, as `bottleneck.causes_of` divides it; both times are of the launch [s].
    """
    spent_s = {name: share * predicted_s for name, share in causes.items() if name != WAIT}
    return causes_of(spent_s, measured_s)


def _held(point: Point, device: Device) -> Grown:
    """A point, as far as memory goes."""
    problem = point.problem
    memory_bytes = peak_memory_bytes(problem, point.schedule, point.config, device)
    return Grown(
        schedule=point.schedule,
        batch=problem.batch,
        seqlen=problem.seqlen_q,
        time_s=Compared(),
        memory_bytes=Compared(predicted=memory_bytes),
        unpredicted=f"holds more than {units.traffic(SIMULATED_BYTES)}" if memory_bytes > SIMULATED_BYTES else "",
        reason=OUT_OF_MEMORY if memory_bytes > device.hbm_bytes else "",
    )


def _grown(held: Grown, prediction: Prediction | Refusal | None) -> Grown:
    if prediction is None:
        return held
    if isinstance(prediction, Refusal):
        return replace(held, reason=prediction.reason)
    grown = replace(held, time_s=Compared(predicted=prediction.time_s))
    return replace(grown, causes=prediction.launches[0].causes) if len(prediction.launches) == 1 else grown


def _measured(cell: Grown, checkpoint: Checkpoint, named_device: Mapping[str, Any], ask: Ask) -> Grown:
    if cell.reason:
        return cell
    predicted_s = cell.time_s.predicted or 0.0
    if predicted_s > LONGEST_RUN_S:
        return replace(cell, reason=f"should take more than {LONGEST_RUN_S:g} s")
    point = _point(cell.schedule, replace(checkpoint.problem, batch=cell.batch), cell.seqlen)
    answer = ask(job_of(point, named_device, do="time"))
    if "timing" not in answer:
        return replace(cell, reason=reason_in(answer))
    measured_s = Timing.from_dict(answer["timing"]).median_s
    return replace(
        cell,
        time_s=replace(cell.time_s, measured=measured_s),
        memory_bytes=replace(cell.memory_bytes, measured=answer["peak_memory_bytes"]),
        measured_causes=causes_in(measured_s, cell.causes, predicted_s) if cell.causes else {},
    )


def _longest(
    schedule: str, predicted: Compared, checkpoint: Checkpoint, named_device: Mapping[str, Any], ask: Ask
) -> tuple[Compared, str | None]:
    """The longest length that really fits; and why it is unknown, where it is."""
    problem, device = checkpoint.problem, checkpoint.device
    if schedule == checkpoint.tiled and len(default_point(schedule, problem).launches(device)) > 1:
        return predicted, f"the longest sequence of {schedule}: its launches would run for minutes"
    guess = int(predicted.predicted or 0)
    step = max(1, guess // LENGTH_STEPS)
    lost = []

    def fits(length: int) -> bool:
        job = job_of(_point(schedule, problem, length), named_device, do="fits")
        answer = ask({**job, "ctas": FIRST_CTAS_PER_SM * device.sms})
        if "lost" in answer and not answer.get("out_of_memory"):
            lost.append(f"{schedule} at N = {length:,}: {answer['lost']}")
        return "peak_memory_bytes" in answer

    length = longest_that_fits(fits, guess, step, MAX_SEQLEN // step * step)
    return (predicted, lost[0]) if lost else (replace(predicted, measured=length), None)


def both_passes(forward: Checkpoint, backward: Checkpoint) -> Checkpoint:
    """A training step: times of both passes added up, and the memory of the one that holds more.

    Args:
        forward, backward: of the same shapes on the same device.
    """
    names = {
        forward.standard: f"{forward.standard} + {backward.standard}",
        forward.tiled: f"{forward.tiled} + {backward.tiled}",
    }
    cells = {
        (names[a.schedule], a.batch, a.seqlen): replace(
            a,
            schedule=names[a.schedule],
            time_s=_joined(sum, a.time_s, b.time_s),
            memory_bytes=_joined(max, a.memory_bytes, b.memory_bytes),
            causes={},
            measured_causes={},
            unpredicted=a.unpredicted or b.unpredicted,
            reason=a.reason or b.reason,
        )
        for a, b in zip(forward.cells.values(), backward.cells.values(), strict=True)
    }
    longest = zip(forward.longest.items(), backward.longest.values(), strict=True)
    return replace(
        forward,
        standard=names[forward.standard],
        tiled=names[forward.tiled],
        passes="forward and backward",
        longest={names[name]: _joined(min, a, b) for (name, a), b in longest},
        cells=cells,
        notes=(*forward.notes, *backward.notes),
    )


def _joined(join: Callable[[list[float]], float], *figures: Compared) -> Compared:
    """Of figures one, e.g. their sum; None where one of them is missing."""

    def joined(values: list[float | None]) -> float | None:
        known = [value for value in values if value is not None]
        return join(known) if len(known) == len(values) else None

    return Compared(joined([figure.predicted for figure in figures]), joined([figure.measured for figure in figures]))


def _point(schedule: str, problem: AttentionProblem, length: int) -> Point:
    """A schedule at a length."""
    return default_point(schedule, replace(problem, seqlen_q=length, seqlen_k=length))
