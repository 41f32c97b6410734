"""Prices of the Triton kernels of a step of PyTorch, from their machine code."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ..predicting import row_of
from ..simulator.device.device import Device
from ..simulator.emulator.storage import STORAGE_SHIFT
from ..simulator.launch.before import Before
from ..simulator.operations.cost_model import KernelCostModel, as_profiled_s, empty_kernel_s
from ..simulator.operations.priced import KernelEstimate
from ..simulator.prediction.kernel_row import KernelRow, fastest_first
from ..simulator.prediction.kernels import Request
from ..simulator.screening.static_time import static_times_s
from ..simulator.store.store import usual_store
from .answers import Progress, predict_all
from .tile_work import static_work

if TYPE_CHECKING:
    from ..kernels.compile.call import KernelLaunch, RefusedCall
    from ..kernels.pytorch.file import Recorded
    from ..simulator.operations.operation import Operation

WAITS_FOR = {
    "hbm": "HBM",
    "l2": "L2",
    "fabric": "L2",
    "tensor": "tensor cores",
    "wait": "latency",
    "tail": "latency",
    "launch": "latency",
}
"""Bottleneck of a launch -> what a row says that it waits for; all others are pipes of the SM: `instructions`."""
NEAR = 2.0
"""Configurations of a static time above this many times the least are not predicted: some are of millions of CTAs, or
spill all that they gather, and take a minute. Kind: assumed; it keeps the fastest of 41 of 42 shapes
(validate/lab/choice/screened.py)."""
MATTERS = 0.05
"""Share of the bytes that a launch asks for from which on estimated ones are noted."""


def simulated_kernels(
    step: "Recorded", before: Mapping[int, Before], target: Request, progress: Progress | None = None
) -> dict[int, KernelEstimate | str]:
    """The Triton kernels of a step, by number of the operation: as a tuner chooses them; or why none is predicted.

    Args:
        before: number of a Triton operation -> what ran before it; progress: as of `predict_all`.
    """
    operations = {number: step.step.operations[number] for number in before}
    chosen = _chosen(step, operations, target, progress)
    calls = [_following(step.calls[chosen[number]], before[number]) for number in operations]
    rows = predicted_rows(calls, target, progress)
    return {
        number: _priced(operation, row, target.device)
        for (number, operation), row in zip(operations.items(), rows, strict=True)
    }


def _chosen(
    step: "Recorded", operations: "Mapping[int, Operation]", target: Request, progress: Progress | None
) -> dict[int, int]:
    """The configuration that a tuner chooses for each operation, a number in `step.calls`.

    Tuners of torch and Triton flush L2 before each run: what the step has left there makes no choice. Only those are
    predicted whose static time is at most `NEAR` times the least.
    Source: `InductorBenchmarker.benchmark_gpu`, `triton.testing.do_bench`.
    """
    tuned = {number: operation.calls for number, operation in operations.items() if len(operation.calls) > 1}
    many = list(dict.fromkeys(place for calls in tuned.values() for place in calls))
    times_s = dict(zip(many, static_s([step.calls[place] for place in many], target.device), strict=True))
    near = {number: _near({place: times_s[place] for place in calls}) for number, calls in tuned.items()}
    looked_at = list(dict.fromkeys(place for places in near.values() if len(places) > 1 for place in places))
    made = predicted_rows([step.calls[place] for place in looked_at], target, progress)
    rows = dict(zip(looked_at, made, strict=True))
    first = {number: operation.calls[0] for number, operation in operations.items()}
    return first | {
        number: places[fastest_first([rows[it] for it in places])[0] if len(places) > 1 else 0]
        for number, places in near.items()
    }


def _near(times_s: Mapping[int, float]) -> list[int]:
    """Configurations that may be the fastest. Args: times_s: static ones, 0 where that is not known [s]."""
    least_s = min((time_s for time_s in times_s.values() if time_s), default=0.0)
    return [place for place, time_s in times_s.items() if time_s <= NEAR * least_s]


def static_s(calls: "Sequence[KernelLaunch | RefusedCall]", device: Device) -> list[float]:
    """Static times of launches: an empty kernel's, and of the busiest unit [s]; 0 where only a prediction can tell."""
    from ..kernels.compile.call import KernelLaunch

    times, empty_s = [], empty_kernel_s(device)
    for call in calls:
        work = static_work(call, device) if isinstance(call, KernelLaunch) else None
        busy_s = max(*static_times_s(work, device), KernelCostModel(device).dispatch_s(work.ctas)) if work else -empty_s
        times.append(empty_s + busy_s)
    return times


def _following(call: "KernelLaunch | RefusedCall", before: Before) -> "KernelLaunch | RefusedCall":
    """The launch, with what ran before it."""
    from ..kernels.compile.call import KernelLaunch

    return replace(call, before=before) if isinstance(call, KernelLaunch) else call


def predicted_rows(
    calls: "Sequence[KernelLaunch | RefusedCall]", target: Request, progress: Progress | None = None
) -> list[KernelRow]:
    """Launches by themselves, in order. Those that do the same are predicted once, wherever their tensors lie.

    At the clock of a single run: templates took as long in steps as alone (`validate/lab/torch_templates.py`).
    """
    from ..kernels.compile.call import KernelLaunch

    usable = [movable(call) for call in calls if isinstance(call, KernelLaunch)]
    rows = iter(predict_all(usable, target, store=usual_store(), workers=target.workers, progress=progress))
    return [next(rows) if isinstance(call, KernelLaunch) else row_of(call) for call in calls]


def times_s(calls: "Sequence[KernelLaunch | RefusedCall]", target: Request) -> list[float | None]:
    """What each launch takes [s]; None: it is not predicted."""
    rows = predicted_rows(calls, target)
    return [as_profiled_s(row.traffic.time_s, target.device) if row.prediction else None for row in rows]


def movable(call: "KernelLaunch") -> "KernelLaunch":
    """The launch with storages numbered from 0 on: its own in the order of its parameters, then what ran before."""
    numbers = {storage.number: place for place, storage in enumerate(call.storages)}
    every = dict(numbers)

    def number_of(storage: int) -> int:
        return every.setdefault(storage, len(every))

    pointers = {name for name, kind in call.job["signature"] if kind.startswith(("*", "tensordesc"))}

    def moved(name: str, value: float) -> float:
        if name not in pointers or not isinstance(value, int):
            return value
        number, offset_bytes = (value >> STORAGE_SHIFT) - 1, value & (1 << STORAGE_SHIFT) - 1
        return (numbers[number] + 1 << STORAGE_SHIFT) + offset_bytes if number in numbers else value

    return replace(
        call,
        arguments={name: moved(name, value) for name, value in call.arguments.items()},
        storages=tuple(replace(storage, number=numbers[storage.number]) for storage in call.storages),
        before=tuple(tuple(replace(use, number=number_of(use.number)) for use in kernel) for kernel in call.before),
    )


def _priced(operation: "Operation", row: KernelRow, device: Device) -> KernelEstimate | str:
    """What a Triton kernel takes; or why that is unknown, in one line. Args: row: of the chosen configuration."""
    launch = row.prediction
    if launch is None:
        return row.refused or "it is not predicted"
    traffic = launch.traffic
    guessed = row.estimated_bytes > MATTERS * row.requested_bytes
    doubts = [
        *(["a lower bound: waits of CTAs for each other are left out"] if row.lower_bound else []),
        *([f"addresses of {row.estimated_accesses} of {row.accesses} accesses are estimated"] if guessed else []),
        *(note.removeprefix(f"kernel {row.name}: ") for note in row.notes),
    ]
    return KernelEstimate(
        name=operation.name,
        source="simulated",
        time_s=as_profiled_s(traffic.time_s, device),
        bound_by=WAITS_FOR.get(launch.bottleneck, "instructions"),
        hbm_read_bytes=traffic.hbm_read_bytes,
        hbm_write_bytes=traffic.hbm_write_bytes,
        l2_bytes=traffic.l2_read_bytes + traffic.l2_write_bytes,
        note="; ".join(doubts),
    )
