"""`tilesight.predict(launches)`: recorded launches in, bytes and time out; torch and triton, but no GPU.

capture    what a user's code launches      (kernels.capture)
compile    machine code of every launch     (kernels.compile)
trace      what its CTAs do                 (simulator.trace)
simulate   costs, clock, engine, prediction (simulator.predict_kernels)
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from .compiling import why_not
from .simulator.arguments import optional_whole, several, shown
from .simulator.device.device import Device, found_device
from .simulator.jobs.stopping import LIMIT_S, Stage
from .simulator.prediction.kernel_row import KernelRow
from .simulator.prediction.kernels import L2, KernelsPrediction, Request
from .simulator.prediction.timing import one_of_timings

if TYPE_CHECKING:  # what simulates loads where something is simulated: an answer that is kept needs none of it
    from contextlib import AbstractContextManager

    from .kernels.capture.file import RecordedFunction
    from .kernels.capture.recorded import RecordedLaunch, Recording
    from .kernels.compile.call import KernelLaunch, RefusedCall
    from .kernels.given.launch import Launch
    from .kernels.interpreter import Interpreter
    from .simulator.predict_kernels import CompiledLaunch, SimulatedKernels

__all__ = ["L2", "KernelsPrediction", "capture", "predict", "simulate_calls"]


def capture(
    device: Device | str = "h200", *, space: Mapping[str, Any] | None = None
) -> "AbstractContextManager[Recording]":
    """Record the launches of Triton kernels in a `with` block, instead of running them; tensors need no data.

    Args:
        device: what code that asks for properties of its GPU is told.
        space: values of kernels' parameters to record beside the code's own, as `tune --space` has them, e.g.
            `{"num_warps": [4, 8], "matmul": {"BLOCK_M": [64, 128]}}`.

    Returns:
        A context manager; what it gives is the list that launches are added to, in the order of their calls.

    Raises:
        RuntimeError: torch or triton is missing (one line).
        ValueError: unknown device, or a space that is none; or, in the block, a launch that cannot be recorded.
    """
    gpu, _ = found_device(device)
    if reason := why_not():
        raise RuntimeError(reason)
    from .kernels.capture.recording import capture as recorded
    from .kernels.configurations.space import space_of

    return recorded(gpu, space_of(space or {}))


def predict(
    launches: "Sequence[RecordedLaunch | Launch]",
    device: Device | str = "h200",
    *,
    l2: str = "pipeline",
    timing: str = "single",
    workers: int | None = None,
    time_limit_s: float | None = LIMIT_S,
) -> KernelsPrediction:
    """Predict launches that `capture` has recorded, or launches of cubins.

    Args:
        launches: in the order in which they run, all of one kind.
        device: a name, a path to a TOML file, or the device itself; l2: one of `L2`.
        timing: how time is measured: `single` (one run), `do_bench`, `sustained` (repeated without a pause) or `graph`
            (launches of a replayed CUDA graph).
        workers: compiler processes at most; one per core where None.
        time_limit_s: that each launch may take once it is compiled; None: as long as it likes [s].

    Returns:
        A row for each launch, in the order of the calls; one that cannot be predicted says why.

    Raises:
        RuntimeError: torch or triton is missing (one line).
        ValueError: unknown device, or another setting that is not allowed.
    """
    gpu, name = found_device(device)
    what = "recorded launches, such as `with tilesight.capture() as launches:` makes them, or tilesight.Launch(...)"
    several("launches", launches, what)
    optional_whole("workers", workers)
    request = Request(device=gpu, name=name, l2=l2, workers=workers, limit_s=time_limit_s)
    one_of_timings(timing)
    from .kernels.given.launch import Launch, calls_of

    if reason := why_not():
        raise RuntimeError(reason)
    capability = gpu.capability
    given = [launch for launch in launches if isinstance(launch, Launch)]
    numbers = getattr(launches, "numbers", None)  # of a recording
    if given and len(given) == len(launches) and numbers is None:
        return predict_calls(calls_of(given, capability), request).measured_as(timing)
    from .kernels.capture.lowering import lower_all
    from .kernels.capture.recorded import RecordedLaunch, Recording

    for launch in launches:
        if not isinstance(launch, RecordedLaunch) and (numbers is None or not isinstance(launch, Launch)):
            raise ValueError(f"launches: hold {shown(launch)}: must be {what}, all of one kind")
    calls = lower_all(launches, capability, numbers or {})
    prediction = predict_calls(calls, request).measured_as(timing)
    return with_recording(prediction, launches) if isinstance(launches, Recording) else prediction


def with_recording(prediction: KernelsPrediction, recorded: "Recording | RecordedFunction") -> KernelsPrediction:
    """A prediction of launches, with what else is to be said of the code that made them."""
    return replace(
        prediction,
        notes=(*recorded.notes, *prediction.notes),
        torch_operations=recorded.operations,
        ended=recorded.ended,
    )


def predict_calls(calls: "Sequence[KernelLaunch | RefusedCall]", request: Request) -> KernelsPrediction:
    """Predict launches in plain values, or find on disk what was predicted of the same."""
    from .kernels.compile.call import KernelLaunch
    from .kernels.compile.question import question_key
    from .simulator.store.store import usual_store

    kernels = [call for call in calls if isinstance(call, KernelLaunch)]
    store = usual_store() if len(kernels) == len(calls) else None  # what is refused is not kept
    key = question_key(kernels, request.device, request.name, request.l2, advice=True) if store else ""
    if store and (kept := store.get([key])):
        return kept[key]
    simulated = simulate_calls(calls, request, advice=True)
    if store and simulated.advised and "do_bench" in simulated.prediction.times:  # what lacked time is asked for again
        store.put(key, simulated.prediction)
    return simulated.prediction


def simulate_calls(
    calls: "Sequence[KernelLaunch | RefusedCall]", request: Request, *, record: bool = False, advice: bool = False
) -> "SimulatedKernels":
    """The same for launches in plain values. Args: record, advice: as `predict_kernels`."""
    from .simulator.predict_kernels import predict_kernels

    return predict_kernels(compiled_launches(calls, request), request, record=record, advice=advice)


def compiled_launches(
    calls: "Sequence[KernelLaunch | RefusedCall]", request: Request, interpreter: "Interpreter | None" = None
) -> "list[CompiledLaunch]":
    """Launches with their machine code. Args: interpreter: as `compile_calls`."""
    from .kernels.compile.call import KernelLaunch
    from .kernels.compile.calls import compile_calls
    from .simulator.predict_kernels import CompiledLaunch
    from .simulator.trace.cta.traced_kernel import CompiledKernel

    numbers = [number for number, call in enumerate(calls, 1) if isinstance(call, KernelLaunch)]

    def compiling(place: int) -> None:
        if request.on_progress:
            number = numbers[place]
            request.on_progress(Stage(number=number, total=len(calls), name=calls[number - 1].name, phase="compile"))

    kernels = [call for call in calls if isinstance(call, KernelLaunch)]
    outcomes = iter(
        compile_calls(
            kernels,
            request.device,
            workers=request.workers,
            limit_s=request.compile_limit_s,
            on_progress=compiling,
            interpreter=interpreter,
        )
    )
    asked: list[CompiledLaunch] = []
    for call in calls:
        if not isinstance(call, KernelLaunch):
            asked.append(CompiledLaunch(row=row_of(call), kernel=None, tuned=call.tuned))
            continue
        outcome = next(outcomes)
        kernel = outcome if isinstance(outcome, CompiledKernel) else None
        if isinstance(outcome, CompiledKernel):
            row = row_of(call, notes=outcome.notes, code=outcome.code_digest)
        else:
            row = row_of(call, refused=outcome.reason)
        asked.append(CompiledLaunch(row=row, kernel=kernel, tuned=call.tuned, cooperative=call.cooperative))
    return asked


def row_of(call: "KernelLaunch | RefusedCall", **figures: Any) -> KernelRow:
    """A launch as a row, with its reason where it was refused. Args: figures: other fields of the row."""
    return KernelRow(
        name=call.name,
        grid=call.grid,
        num_warps=call.num_warps,
        num_stages=call.num_stages,
        label=call.label,
        **{"refused": getattr(call, "reason", None), **figures},
    )
