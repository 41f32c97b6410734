"""`tilesight.profile(function)`: what a function of PyTorch takes on a GPU, kernel by kernel; torch and triton, no GPU.

record     operations of torch and launches of Triton kernels, in a process of their own (kernels.pytorch.file)
predict    every launch by itself, from its machine code                                 (tuning.step_kernels)
price      kernels of torch and of vendors' libraries                                    (simulator.operations.price)
profile    rows, gaps, memory, and what is unlucky                                       (simulator.operations.profile)
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from .compiling import why_not
from .simulator.arguments import optional_whole, shown
from .simulator.device.device import Device, found_device
from .simulator.jobs.stopping import LIMIT_S
from .simulator.operations.gaps import QUEUES, Queue
from .simulator.operations.operation import MODES, Mode
from .simulator.operations.price import L2, price_around_triton
from .simulator.operations.profile import Profile, profile_of
from .simulator.operations.stated import UserEstimate, parse_prices, unused_notes
from .simulator.operations.step_clock import slowdown, slowdown_notes, slowed
from .simulator.prediction.kernels import Request
from .tuning.answers import Progress
from .tuning.step_kernels import simulated_kernels, times_s

if TYPE_CHECKING:
    from torch.fx import Node

    from .kernels.pytorch.file import Recorded, WrittenStep

INDICES = ("", "uniform")


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """How a step runs.

    Args:
        mode: `auto`, as the code has it, or `eager`, `compiled` or `max-autotune`; train: whether forward, backward and
            optimizer run.
        queue: `stream` or `graph`; settings: what-ifs of the device, `key=value`; options: of the recording.
        prices: that are stated of operations.
        l2: what the step finds there, `warm` or `cold`; timing: how time is measured, `single` or `do_bench`.
    """

    mode: Mode = "auto"
    train: bool = False
    queue: Queue = "stream"
    settings: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    prices: Sequence[UserEstimate] = ()
    l2: L2 = "warm"
    timing: str = "single"


def profile(
    function: str | Callable[..., Any],
    *arguments: Any,
    device: Device | str = "h200",
    mode: Mode = "auto",
    train: bool = False,
    queue: Queue = "stream",
    indices: str = "",
    prices: Mapping[str, str] | None = None,
    l2: L2 = "warm",
    timing: str = "single",
    gpus: int | None = None,
    rank: int = 0,
    workers: int | None = 1,
    time_limit_s: float | None = LIMIT_S,
) -> Profile:
    """Say what a function of PyTorch takes on a GPU, kernel by kernel.

    Args:
        function: a function or module, or `file.py:function` or `package.module:function`, as the command has it.
        arguments: that a function or module is called with: tensors without data, such as those of `device="meta"`.
        device: a name, a path to a TOML file, or, for a function or module, the device itself.
        mode: `auto`: as the code has it; `eager`, or `compiled` by torch.compile, or by its `max-autotune`.
        train: whether the backward pass of what it returns, and its optimizer, run too.
        queue: whether kernels are enqueued in a `stream`, or replayed in a CUDA `graph`, as they are where
            torch.compile makes one.
        indices: `uniform` draws indices whose values are not given; else Triton kernels that follow them are refused.
        prices: of operations that have none, by their names: a time, `{"mylib::op": "12us"}`, or a bandwidth at which
            their bytes move, `{"all_reduce": "450GB/s"}`; they go before other prices.
        l2: what the step finds there: `warm`, what itself has left, or `cold`, zeros that are yet to be written back.
        timing: how time is measured: a `single` run, or as `do_bench` shows it, on a cold L2.
        gpus: that the step runs on, of one host: also of the groups of `torch.distributed`; rank: which one is meant.
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
    optional_whole("gpus", gpus)
    if rank not in range(gpus or 1):
        raise ValueError(f"rank = {shown(rank)}: must be an integer from 0 to {(gpus or 1) - 1}, below gpus")
    options = {"indices": indices, "gpus": gpus or 0, "rank": rank}
    asked = Asked(mode=mode, train=train, queue=queue, options=options, l2=l2, timing=timing)
    _check(asked)
    if reason := why_not():
        raise RuntimeError(reason)
    subject = _subject(function, arguments, device)
    asked = replace(asked, prices=parse_prices(_texts(prices or {})))
    target = Request(device=gpu, name=name, limit_s=time_limit_s, workers=workers)
    if isinstance(function, str):
        step = recorded(function, asked, target)
    else:
        step = live(function, arguments, asked, target)
    return profiled(step, asked, target, subject)


def _check(asked: Asked) -> None:
    """Raise ValueError for what is not one of few (one line)."""
    few: dict[str, tuple[str, tuple[str, ...]]] = {"mode": (asked.mode, MODES), "queue": (asked.queue, QUEUES)}
    few |= {"indices": (asked.options["indices"], INDICES), "l2": (asked.l2, ("warm", "cold"))}
    few |= {"timing": (asked.timing, ("single", "do_bench"))}
    for what, (given, allowed) in few.items():
        if given not in allowed:
            raise ValueError(f"{what} = {shown(given)}: must be one of {', '.join(filter(None, allowed))}")


def _subject(function: str | Callable[..., Any], arguments: Sequence[Any], device: Device | str) -> str:
    """What is profiled, for people. Raises: ValueError: a function in a file, with what only a loaded one takes."""
    if not isinstance(function, str):
        return str(getattr(function, "__qualname__", type(function).__name__))
    if arguments:
        raise ValueError(f"{function}: takes no arguments here: `inputs()` of its file makes what it is given")
    if isinstance(device, Device):
        raise ValueError(f"device = {shown(device)}: name it, or its file, for a function that is in a file")
    return function


def _texts(prices: Mapping[str, str]) -> Mapping[str, str]:
    """The prices. Raises: ValueError: a name or a price is no text (one line)."""
    for name, price in prices.items():
        if not (isinstance(name, str) and isinstance(price, str)):
            raise ValueError(f"prices = {{{name!r}: {price!r}}}: must be texts, e.g. {{'mylib::op': '12us'}}")
    return prices


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
    from .kernels.pytorch.choosing.estimation import estimation

    return estimation(gpu)


def live(function: Callable[..., Any], arguments: Sequence[Any], asked: Asked, target: Request) -> "Recorded":
    """What a function or module does that is loaded here. Raises: as `kernels.pytorch.live`."""
    from .kernels.pytorch.live import record_live

    return record_live(
        *(function, arguments),
        device=target.device,
        mode=asked.mode,
        train=asked.train,
        options=asked.options,
        times=partial(times_s, target=target),
    )


def recorded(step: "str | WrittenStep", asked: Asked, target: Request) -> "Recorded":
    """What a step does. Args: step: as `record_step` has it; target: of what torch's compiler chooses among.

    Raises:
        As `kernels.capture.file`.
    """
    from .kernels.pytorch.file import record_step

    return record_step(
        *(step, target.device, target.name),
        settings=asked.settings,
        mode=asked.mode,
        train=asked.train,
        options=asked.options,
        times=partial(times_s, target=target),
    )


def profiled(
    step: "Recorded", asked: Asked, target: Request, subject: str = "step", progress: Progress | None = None
) -> Profile:
    """Price a recorded step.

    Args:
        target: that it was recorded for; subject: its name, for people; progress: of its Triton kernels.
    """
    device, l2 = target.device, "cold" if asked.timing == "do_bench" else asked.l2
    around = price_around_triton(step.step, device, asked.prices, l2)
    priced = around.with_triton(simulated_kernels(step, around.before, target, progress))
    slower = 1.0 if asked.timing == "do_bench" else slowdown(priced, device)  # do_bench is a burst
    notes = (*step.step.notes, *unused_notes(asked.prices, step.step), *slowdown_notes(slower))
    noted = replace(step.step, notes=notes)
    queue: Queue = "graph" if step.step.graphed else asked.queue
    return profile_of(
        noted, slowed(priced, slower), device, target.name, subject=subject, queue=queue, timing=asked.timing
    )
