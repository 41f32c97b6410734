"""What a person learning FlashAttention is asked, predicted and measured side by side.

At what length does standard attention run out of memory here; how long may sequences get for the tiled kernel;
how much faster is it at 1024, 2048 and 4096; how do memory and time grow; and which resource binds it
over batch and length. Standard attention is the baseline of the pass, `naive` or `naive_backward`, the tiled kernel is
its default schedule, `flash2` or `flash_backward`; of a training step both passes are added up.

`predict` needs no GPU. `measure` asks a process on one (see `session.Ask`) and fills in what was measured.
"""

from collections.abc import Callable, Mapping, Sequence
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
from ...simulator.simulate import launches_of, peak_memory_bytes
from ..compare.campaign import Compiler
from ..measure.run_point import job_of
from ..measure.session import Ask
from ..measurement import OUT_OF_MEMORY, Timing, reason_in
from ..points.point import Point, runnable_config
from ..timing.timing import OVERHEAD
from .checkpoint_values import Beside, Checkpoint, Grown
from .predict_defaults import predict_defaults

LENGTHS = tuple(1 << power for power in range(9, 17))
"""512 to 65,536: where memory and time are plotted."""
MAP_BATCHES, MAP_LENGTHS = (1, 4, 16), (512, 1024, 2048, 4096)
LONGEST_RUN_S = 0.3
"""A run that should take longer is not timed: the line is clear by then [s]."""
SIMULATED_BYTES = 40e9
"""A run that holds more device memory is not simulated, since that takes minutes; its memory is known [B]."""
LENGTH_STEPS = 2048
"""Where memory runs out is measured to one part in so many."""
FIRST_CTAS_PER_SM = 1
"""Of the tiled kernel at its longest length so many CTAs of each SM run; all of them would take minutes."""


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
        compiler: gives registers and shared memory of launches; they are estimated where None.
        workers, progress: as `simulator.explore`.

    Raises:
        ValueError: a schedule cannot do the problem.
    """
    baseline = baseline_of(type(problem))
    if baseline is None:
        raise ValueError(f"{problem.KIND}: has no schedule that stands for standard attention")
    standard, tiled = baseline.name, default_schedule(type(problem))
    shapes = [(problem.batch, length) for length in LENGTHS]
    shapes += [(batch, length) for batch in MAP_BATCHES for length in MAP_LENGTHS if (batch, length) not in shapes]
    posed = {}
    for schedule in (standard, tiled):
        for batch, length in shapes:
            shape = replace(problem, batch=batch, seqlen_q=length, seqlen_k=length)
            posed[schedule, batch, length] = shape, _held(schedule, shape, device)
    wanted = [
        (key[0], shape, OVERHEAD) for key, (shape, held) in posed.items() if not held.reason and not held.unpredicted
    ]
    predictions = iter(predict_defaults(wanted, device, compiler=compiler, workers=workers, progress=progress))
    grown = {
        key: held if held.reason or held.unpredicted else _grown(held, next(predictions))
        for key, (_, held) in posed.items()
    }
    limits = {
        schedule: memory_limit(problem, find_schedule(schedule), runnable_config(schedule), device).longest_seqlen
        for schedule in (standard, tiled)
    }
    return Checkpoint(
        problem=problem,
        standard=standard,
        tiled=tiled,
        device=device,
        memory_bytes=Beside(predicted=device.hbm_bytes),
        longest={schedule: Beside(predicted=length) for schedule, length in limits.items()},
        lengths=tuple(grown[name, problem.batch, length] for name in (standard, tiled) for length in LENGTHS),
        cells=tuple(
            grown[name, batch, length] for name in (standard, tiled) for batch in MAP_BATCHES for length in MAP_LENGTHS
        ),
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
        named_device: as in jobs: `name`, and `set`; ask: has a process on a GPU answer a job (see `session.Ask`).
    """
    # Limits first: later the process holds a buffer that flushes L2.
    memory = ask({"do": "memory"})
    longest, notes = {}, list(checkpoint.notes)
    for name, value in checkpoint.longest.items():
        longest[name], lost = _longest(name, value, checkpoint, named_device, ask)
        notes += [lost] if lost else []
    wanted = {cell.key: cell for cell in (*checkpoint.lengths, *checkpoint.cells)}
    measured: dict[tuple[str, int, int], Grown] = {}
    for key, cell in wanted.items():
        measured[key] = _measured(cell, checkpoint, named_device, ask)
        if progress:
            progress(len(measured), len(wanted))
    return replace(
        checkpoint,
        gpu=memory.get("gpu", ""),
        memory_bytes=replace(checkpoint.memory_bytes, measured=memory.get("free_bytes")),
        longest=longest,
        lengths=tuple(measured[cell.key] for cell in checkpoint.lengths),
        cells=tuple(measured[cell.key] for cell in checkpoint.cells),
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


def _held(schedule: str, problem: AttentionProblem, device: Device) -> Grown:
    """A schedule at a shape, as far as memory goes."""
    memory_bytes = peak_memory_bytes(problem, schedule, runnable_config(schedule), device)
    return Grown(
        schedule=schedule,
        batch=problem.batch,
        seqlen=problem.seqlen_q,
        time_s=Beside(),
        memory_bytes=Beside(predicted=memory_bytes),
        unpredicted=f"holds more than {units.traffic(SIMULATED_BYTES)}" if memory_bytes > SIMULATED_BYTES else "",
        reason=OUT_OF_MEMORY if memory_bytes > device.hbm_bytes else "",
    )


def _grown(held: Grown, prediction: Prediction | Refusal) -> Grown:
    if isinstance(prediction, Refusal):
        return replace(held, reason=prediction.reason)
    grown = replace(held, time_s=Beside(predicted=prediction.time_s))
    if len(prediction.launches) > 1:
        return grown
    return replace(grown, causes=prediction.launches[0].causes)


def _measured(cell: Grown, checkpoint: Checkpoint, named_device: Mapping[str, Any], ask: Ask) -> Grown:
    if cell.reason:
        return cell
    predicted_s = cell.time_s.predicted or 0.0
    if predicted_s > LONGEST_RUN_S:
        return replace(cell, reason=f"should take more than {LONGEST_RUN_S:g} s")
    answer = ask(_job("time", cell.schedule, replace(checkpoint.problem, batch=cell.batch), cell.seqlen, named_device))
    if "timing" not in answer:
        return replace(cell, reason=reason_in(answer))
    measured_s = Timing.from_dict(answer["timing"]).median_s
    cell = replace(
        cell,
        time_s=replace(cell.time_s, measured=measured_s),
        memory_bytes=replace(cell.memory_bytes, measured=answer["peak_memory_bytes"]),
    )
    return replace(cell, measured_causes=causes_in(measured_s, cell.causes, predicted_s)) if cell.causes else cell


def _longest(
    schedule: str, predicted: Beside, checkpoint: Checkpoint, named_device: Mapping[str, Any], ask: Ask
) -> tuple[Beside, str | None]:
    """The longest length that really fits; and why it is unknown, where it is."""
    if schedule == checkpoint.tiled and _launch_count(checkpoint) > 1:
        return predicted, f"the longest sequence of {schedule}: its launches would run for minutes"
    guess = int(predicted.predicted or 0)
    step = max(1, guess // LENGTH_STEPS)
    lost = []

    def fits(length: int) -> bool:
        job = _job("fits", schedule, checkpoint.problem, length, named_device)
        answer = ask({**job, "ctas": FIRST_CTAS_PER_SM * checkpoint.device.sms})
        if "lost" in answer and not answer.get("out_of_memory"):
            lost.append(f"{schedule} at N = {length:,}: {answer['lost']}")
        return "peak_memory_bytes" in answer

    length = longest_that_fits(fits, guess, step, MAX_SEQLEN // step * step)
    return (predicted, lost[0]) if lost else (replace(predicted, measured=length), None)


def _launch_count(checkpoint: Checkpoint) -> int:
    """Launches of the tiled schedule."""
    config = runnable_config(checkpoint.tiled)
    return len(launches_of(checkpoint.problem, checkpoint.tiled, config, checkpoint.device))


def both_passes(forward: Checkpoint, backward: Checkpoint) -> Checkpoint:
    """A training step: times of both passes added up, and the memory of the one that holds more.

    Args:
        forward, backward: of the same shapes on the same device.
    """
    names = {
        forward.standard: f"{forward.standard} + {backward.standard}",
        forward.tiled: f"{forward.tiled} + {backward.tiled}",
    }

    def cells(first: Sequence[Grown], second: Sequence[Grown]) -> tuple[Grown, ...]:
        return tuple(
            replace(
                a,
                schedule=names[a.schedule],
                time_s=a.time_s.with_other(b.time_s, sum),
                memory_bytes=a.memory_bytes.with_other(b.memory_bytes, max),
                causes={},
                measured_causes={},
                unpredicted=a.unpredicted or b.unpredicted,
                reason=a.reason or b.reason,
            )
            for a, b in zip(first, second, strict=True)
        )

    longest = zip(forward.longest.items(), backward.longest.values(), strict=True)
    return replace(
        forward,
        standard=names[forward.standard],
        tiled=names[forward.tiled],
        passes="forward and backward",
        longest={names[name]: a.with_other(b, min) for (name, a), b in longest},
        lengths=cells(forward.lengths, backward.lengths),
        cells=cells(forward.cells, backward.cells),
        notes=(*forward.notes, *backward.notes),
    )


def _job(
    do: str, schedule: str, problem: AttentionProblem, length: int, named_device: Mapping[str, Any]
) -> dict[str, Any]:
    shape = replace(problem, seqlen_q=length, seqlen_k=length)
    point = Point(schedule=schedule, problem=shape, config=runnable_config(schedule), l2="warm")
    return job_of(point, named_device, do=do)
