"""`tilesight.profile(function)`: what a function of PyTorch takes on a GPU, kernel by kernel; torch and triton, no GPU.

record     operations of torch and launches of Triton kernels, in a process of their own (kernels.pytorch.file)
predict    every launch by itself, from its machine code                                 (tuning.answers)
price      kernels of torch and of vendors' libraries                                    (simulator.operations.price)
profile    rows, gaps, memory, and what is unlucky                                       (simulator.operations.profile)
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from .compiling import why_not
from .predicting import refused_row
from .simulator.arguments import optional_whole, shown
from .simulator.device.device import Device, found_device
from .simulator.emulator.storage import STORAGE_SHIFT
from .simulator.jobs.stopping import LIMIT_S
from .simulator.operations.gaps import QUEUES, Queue
from .simulator.operations.gpu import as_profiled_s
from .simulator.operations.priced import PricedKernel
from .simulator.operations.profile import Profile, profile_of
from .simulator.operations.stated import StatedPrice, parse_prices, unused_notes
from .simulator.prediction.kernel_row import KernelRow, fastest_first
from .simulator.store.store import usual_store

if TYPE_CHECKING:
    from torch.fx import Node

    from .kernels.compile.call import KernelCall
    from .kernels.pytorch.file import Recorded
    from .simulator.operations.operation import Operation, RecordedStep

Mode = Literal["auto", "eager", "compiled"]
MODES: tuple[Mode, ...] = ("auto", "eager", "compiled")
INDICES = ("", "uniform")
WAITS_FOR = {
    "hbm": "HBM",
    "l2": "L2",
    "tensor": "tensor cores",
    "wait": "latency",
    "tail": "latency",
    "launch": "latency",
}
"""Bottleneck of a launch -> what a row says that it waits for; all others are pipes of the SM: `instructions`."""
MATTERS = 0.05
"""Share of the bytes that a launch asks for from which on estimated ones are noted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Predicting:
    """How launches of Triton kernels are predicted.

    Args:
        limit_s, compile_limit_s: that each prediction, and the compiler for each launch may take, None: as long as
            they like [s].
        workers: processes; progress: called with (launches answered, launches in all).
    """

    limit_s: float | None = LIMIT_S
    compile_limit_s: float | None = None
    workers: int | None = 1
    progress: Callable[[int, int], None] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """How a step runs.

    Args:
        mode: `auto`, as the code has it, or `eager` or `compiled`; train: whether forward, backward and optimizer run.
        queue: `stream` or `graph`; settings: what-ifs of the device, `key=value`; options: of the recording.
        prices: that are stated of operations.
    """

    mode: Mode = "auto"
    train: bool = False
    queue: Queue = "stream"
    settings: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    prices: Sequence[StatedPrice] = ()


def profile(
    function: str | Callable[..., Any],
    *arguments: Any,
    device: Device | str = "h200",
    mode: Mode = "auto",
    train: bool = False,
    queue: Queue = "stream",
    indices: str = "",
    prices: Mapping[str, str] | None = None,
    workers: int | None = 1,
    time_limit_s: float | None = LIMIT_S,
) -> Profile:
    """Say what a function of PyTorch takes on a GPU, kernel by kernel.

    Args:
        function: a function or module, or `file.py:function` or `package.module:function`, as the command has it.
        arguments: that a function or module is called with: tensors without data, such as those of `device="meta"`.
        device: a name, a path to a TOML file, or, for a function or module, the device itself.
        mode: `auto`: as the code has it; `eager`, or `compiled` by torch.compile.
        train: whether the backward pass of what it returns, and its optimizer, run too.
        queue: whether kernels are enqueued in a `stream`, or replayed in a CUDA `graph`.
        indices: `uniform` draws indices whose values nobody gives; else Triton kernels that follow them are refused.
        prices: of operations that have none, by their names: a time, `{"mylib::op": "12us"}`, or a bandwidth at which
            their bytes move, `{"all_reduce": "450GB/s"}`; they go before other prices.
        workers: processes that predict Triton kernels; 1: this one; None: one per core.
        time_limit_s: that the prediction of each may take once it is compiled; None: as long as it likes [s].

    Returns:
        A row for each kernel, in the order in which they run.

    Raises:
        RuntimeError: torch or triton is missing, or the function raised, died or did not end (one line).
        ValueError: there is no such function or device, or a setting is not allowed (one line).
    """
    gpu, name = found_device(device)
    optional_whole("workers", workers)
    for what, given, allowed in (("mode", mode, MODES), ("queue", queue, QUEUES), ("indices", indices, INDICES)):
        if given not in allowed:
            raise ValueError(f"{what} = {shown(given)}: must be one of {', '.join(filter(None, allowed))}")
    if reason := why_not():
        raise RuntimeError(reason)
    subject = function if isinstance(function, str) else _name(function)
    if isinstance(function, str):
        if arguments:
            raise ValueError(f"{function}: takes no arguments here: `inputs()` of its file makes what it is given")
        if isinstance(device, Device):
            raise ValueError(f"device = {shown(device)}: name it, or its file, for a function that is in a file")
    stated = parse_prices(_texts(prices or {}))
    asked = Asked(mode=mode, train=train, queue=queue, options={"indices": indices}, prices=stated)
    step = recorded(function, gpu, name, asked) if isinstance(function, str) else live(function, arguments, gpu, asked)
    return profiled(step, gpu, name, asked, Predicting(limit_s=time_limit_s, workers=workers), subject)


def _texts(prices: Mapping[str, str]) -> Mapping[str, str]:
    """The prices. Raises: ValueError: a name or a price is no text (one line)."""
    for name, price in prices.items():
        if not (isinstance(name, str) and isinstance(price, str)):
            raise ValueError(f"prices = {{{name!r}: {price!r}}}: must be texts, e.g. {{'mylib::op': '12us'}}")
    return prices


def _name(function: Callable[..., Any]) -> str:
    """What people call a function or a module."""
    return str(getattr(function, "__qualname__", type(function).__name__))


def runtime_estimation(device: Device | str = "h200") -> "Callable[[Node, int | None], float | None]":
    """What estimates how long operations take on a device, as passes of torch's compiler ask for it.

    Args:
        device: a name, a path to a TOML file, or the device itself.

    Returns:
        A function of a node of a graph, and of a size that is to be assumed: its time without the launch [ms]; None,
        so that torch estimates itself, where there is no price: collectives, other sizes, code that is not torch's.

    Raises:
        RuntimeError: torch or triton is missing (one line).
        ValueError: unknown device (one line).
    """
    gpu, _ = found_device(device)
    if reason := why_not():
        raise RuntimeError(reason)
    from .kernels.pytorch.estimation import estimation

    return estimation(gpu)


def live(function: Callable[..., Any], arguments: Sequence[Any], device: Device, asked: Asked) -> "Recorded":
    """What a function or module does that is loaded here. Raises: as `kernels.pytorch.live`."""
    from .kernels.pytorch.live import record_live

    return record_live(function, arguments, device=device, mode=asked.mode, train=asked.train, options=asked.options)


def recorded(target: str, device: Device, name: str, asked: Asked) -> "Recorded":
    """What a step does. Args: target: `file.py:function`. Raises: as `kernels.capture.file`."""
    from .kernels.pytorch.file import record_step

    return record_step(
        *(target, device, name),
        settings=asked.settings,
        mode=asked.mode,
        train=asked.train,
        options=asked.options,
    )


def profiled(
    step: "Recorded", device: Device, name: str, asked: Asked, predicting: Predicting, subject: str = "step"
) -> Profile:
    """Price a recorded step. Args: device, name: that it was recorded for; subject: its name, for people."""
    simulated = simulated_kernels(step, device, name, predicting)
    priced = prices(step.step, device, simulated, asked.prices)
    noted = replace(step.step, notes=(*step.step.notes, *unused_notes(asked.prices, step.step)))
    return profile_of(noted, priced, device, name, subject=subject, queue=asked.queue)


def prices(
    step: "RecordedStep",
    device: Device,
    simulated: Mapping[int, PricedKernel | str],
    stated: Sequence[StatedPrice] = (),
) -> tuple[tuple[PricedKernel, ...], ...]:
    """Of each operation its kernels, in order.

    Args:
        simulated: Triton kernels by number of the operation; stated: prices that go before.
    """
    from .simulator.operations.price import price_step

    return price_step(step, device, simulated, stated)


def simulated_kernels(
    step: "Recorded", device: Device, name: str, predicting: Predicting
) -> dict[int, PricedKernel | str]:
    """The Triton kernels of a step, by number of the operation: the fastest configuration; or why none is predicted.

    Launches that do the same are predicted once, wherever their tensors lie.
    """
    from .kernels.compile.call import KernelCall
    from .tuning.answers import predict_all
    from .tuning.workers import TargetDevice

    operations = {number: made for number, made in enumerate(step.step.operations) if made.kind == "triton"}
    launches = {place: step.calls[place] for made in operations.values() for place in made.calls}
    usable = {place: movable(call) for place, call in launches.items() if isinstance(call, KernelCall)}
    target = TargetDevice(
        device=device, name=name, compile_limit_s=predicting.compile_limit_s, limit_s=predicting.limit_s
    )
    answers = predict_all(
        list(usable.values()),
        target,
        store=usual_store(),
        workers=predicting.workers,
        progress=predicting.progress,
    )
    rows = dict(zip(usable, answers, strict=True))
    rows |= {place: refused_row(call) for place, call in launches.items() if not isinstance(call, KernelCall)}
    return {
        number: _fastest(made, [rows[place] for place in made.calls], device) for number, made in operations.items()
    }


def movable(call: "KernelCall") -> "KernelCall":
    """The launch with its storages numbered from 0 on, in the order of its parameters."""
    numbers = {storage.number: place for place, storage in enumerate(call.storages)}
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
    )


def _fastest(operation: "Operation", rows: Sequence[KernelRow], device: Device) -> PricedKernel | str:
    """What a Triton kernel takes; or why nobody knows, in one line. Args: rows: of its configurations."""
    row = rows[fastest_first(rows)[0]]
    launch = row.prediction
    if launch is None:
        return row.refused or "it is not predicted"
    traffic = launch.traffic
    guessed = row.estimated_bytes > MATTERS * row.requested_bytes
    doubts = [
        *(["a lower bound: waits of CTAs for each other are left out"] if row.lower_bound else []),
        *([f"addresses of {row.estimated_accesses} of {row.accesses} accesses are estimated"] if guessed else []),
    ]
    return PricedKernel(
        name=operation.name,
        source="simulated",
        time_s=as_profiled_s(traffic.time_s, device),
        bound_by=WAITS_FOR.get(launch.bottleneck, "instructions"),
        hbm_read_bytes=traffic.hbm_read_bytes,
        hbm_write_bytes=traffic.hbm_write_bytes,
        l2_bytes=traffic.l2_read_bytes + traffic.l2_write_bytes,
        note="; ".join(doubts),
    )
