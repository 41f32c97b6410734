"""When each kernel of a step with several streams starts and ends, and what kernels beside each other cost.

A kernel starts once it is enqueued, the one before it on its stream has ended, and all that its operation waits for.
A collective's CTAs find no room beside a kernel that began before: it starts when that operation ends. Kernels beside
each other slow down: those that compute share the SMs; a kernel beside a collective loses a part of its pace, or, where
memory binds it, the collective does; and collectives share their links, of which each has two directions. A GPU that
sends and receives at once does both at less than the pace of either.
"""

from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf

from .groups import time_of
from .operation import Operation
from .priced import KernelEstimate
from .stated import is_collective

LINKS: Mapping[str, str] = {"send": "o", "recv": "i", "irecv": "i", "isend": "o"}
"""Transfers, and which direction of the links they take; a collective takes both."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Enqueued:
    """An operation as the host enqueues it.

    Args:
        times_s: of its kernels, each alone [s].
        stream: that they run on; waits: numbers of operations that end before.
        links: directions of links that its kernels take, `o` out and `i` in; empty: they compute.
        is_memory: HBM or L2 binds them.
    """

    times_s: Sequence[float]
    stream: str = ""
    waits: Sequence[int] = ()
    links: str = ""
    is_memory: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Paces:
    """Of kernels beside each other, where alone it is 1.

    Args:
        lost: by a kernel beside a collective, unless memory binds it.
        beside_memory: of a collective beside a kernel that memory binds.
        duplex: of a transfer beside one the other way.
    """

    lost: float = 0.0
    beside_memory: float = 1.0
    duplex: float = 1.0


@dataclass(slots=True)
class _Running:
    """A kernel that runs. Args: operation: its number; began_s: when; left_s: what is left of it, alone [s]."""

    operation: int
    began_s: float
    left_s: float
    links: str
    is_memory: bool


@dataclass(slots=True)
class _Stream:
    """What is to run on a stream.

    Args:
        ahead: operations, and their kernels; free_s: since when it runs none [s].
        has_run: any kernel; is_midway: in an operation.
    """

    ahead: deque[tuple[int, deque[float]]] = field(default_factory=deque)
    free_s: float = 0.0
    has_run: bool = False
    is_midway: bool = False
    running: _Running | None = None


Interval = tuple[float, float, str]
"""A kernel's start and end, and the links that it takes."""


def enqueued(operations: Sequence[Operation], priced: Sequence[Sequence[KernelEstimate]]) -> list[Enqueued]:
    """Operations and their kernels, as the host enqueues them."""
    return [
        Enqueued(
            times_s=[time_of(kernel) for kernel in kernels],
            stream=operation.stream,
            waits=operation.waits,
            is_memory=_is_memory(kernels),
            links=LINKS.get(operation.name.rpartition("::")[2].strip("_"), "io") if is_collective(operation) else "",
        )
        for operation, kernels in zip(operations, priced, strict=True)
    ]


def _is_memory(kernels: Sequence[KernelEstimate]) -> bool:
    """Whether most of the time of an operation is of kernels in many small CTAs that HBM or L2 binds."""
    memory_s = sum(
        time_of(kernel) for kernel in kernels if kernel.source == "bytes" and kernel.bound_by in ("HBM", "L2")
    )
    return memory_s > sum(map(time_of, kernels)) / 2


def run(
    operations: Sequence[Enqueued], *, host_s: float, gap_s: float, ahead_s: float, beside: Paces
) -> Iterator[tuple[int, Interval]]:
    """Simulate how the GPU works through what is enqueued.

    Args:
        operations: in the order in which they are enqueued; host_s: that the host takes for each that launches [s].
        gap_s: from the end of a kernel to the start of one that waited for it, at least [s]; ahead_s: the host's
            lead [s].
        beside: what kernels beside each other keep of their pace.

    Yields:
        Of each kernel its operation's number, and when it runs.

    Raises:
        ValueError: operations wait for each other (one line).
    """
    streams: dict[str, _Stream] = {}
    enqueued_s, clock_s = -ahead_s, -ahead_s
    ready_s: list[float] = []
    for number, operation in enumerate(operations):
        enqueued_s += host_s if operation.times_s else 0.0
        ready_s.append(enqueued_s)
        streams.setdefault(operation.stream, _Stream()).ahead.append((number, deque(operation.times_s)))
    done_s: list[float | None] = [None] * len(operations)
    while True:
        starts = _starts_s(streams, operations, ready_s, done_s, gap_s)
        running = [stream.running for stream in streams.values() if stream.running is not None]
        linked = {name for name, stream in streams.items() if stream.ahead and operations[stream.ahead[0][0]].links}
        if any(stream.is_midway for name, stream in streams.items() if name not in linked):
            starts |= dict.fromkeys(linked, inf)
        paces = [_pace(kernel, running, beside) for kernel in running]
        ends_s = [clock_s + kernel.left_s / pace for kernel, pace in zip(running, paces, strict=True)]
        first = min(starts, key=lambda name: (starts[name], name in linked), default="")
        next_s = min([*ends_s, starts.get(first, inf)], default=inf)
        if next_s == inf:
            break
        for kernel, pace, end_s in zip(running, paces, ends_s, strict=True):
            kernel.left_s = 0.0 if end_s <= next_s else kernel.left_s - max(next_s - clock_s, 0.0) * pace
        clock_s = max(next_s, clock_s)
        for stream in streams.values():
            if stream.running is not None and stream.running.left_s <= 0.0:
                kernel, stream.running, stream.free_s = stream.running, None, clock_s
                yield kernel.operation, (kernel.began_s, clock_s, kernel.links)
                _finish(stream, done_s)
        if starts.get(first, inf) <= next_s:
            number, times_s = streams[first].ahead[0]
            time_s = times_s.popleft()
            operation = operations[number]
            streams[first].running = _Running(number, clock_s, time_s, operation.links, operation.is_memory)
            streams[first].has_run = streams[first].is_midway = True
    if any(stream.ahead for stream in streams.values()):
        raise ValueError("operations of the step wait for each other: none can begin")


def _starts_s(
    streams: Mapping[str, _Stream],
    operations: Sequence[Enqueued],
    ready_s: Sequence[float],
    done_s: list[float | None],
    gap_s: float,
) -> dict[str, float]:
    """Of each stream, again where an operation without kernels ended meanwhile, for which others may have waited."""
    while True:
        ahead = sum(len(stream.ahead) for stream in streams.values())
        starts = {name: _start_s(stream, operations, ready_s, done_s, gap_s) for name, stream in streams.items()}
        if ahead == sum(len(stream.ahead) for stream in streams.values()):
            return starts


def _start_s(
    stream: _Stream,
    operations: Sequence[Enqueued],
    ready_s: Sequence[float],
    done_s: list[float | None],
    gap_s: float,
) -> float:
    """When the next kernel of a stream can start; infinite: not before another ends, or there is none [s]."""
    while stream.running is None and stream.ahead:
        number, times_s = stream.ahead[0]
        waits_s = [done_s[other] for other in operations[number].waits]
        ended_s = [wait_s for wait_s in waits_s if wait_s is not None]
        if len(ended_s) < len(waits_s):
            return inf
        last_s = max([*ended_s, stream.free_s])
        if times_s:
            return max(last_s + (gap_s if stream.has_run or ended_s else 0.0), ready_s[number])
        stream.free_s = last_s
        _finish(stream, done_s)
    return inf


def _finish(stream: _Stream, done_s: list[float | None]) -> None:
    """Go on to the next operation where this one has no kernel left."""
    number, times_s = stream.ahead[0]
    if not times_s:
        stream.is_midway = False
        stream.ahead.popleft()
        done_s[number] = stream.free_s


def _pace(kernel: _Running, running: Sequence[_Running], beside: Paces) -> float:
    """Of a kernel among those that run."""
    computing = [other for other in running if not other.links]
    if not kernel.links:
        lost = beside.lost if len(computing) < len(running) and not kernel.is_memory else 0.0
        return (1.0 - lost) / len(computing)
    taken = Counter("".join(other.links for other in running))
    pace = 1.0 / max(taken[way] for way in kernel.links)
    pace *= beside.duplex if len(kernel.links) == 1 and len(taken) > 1 else 1.0
    return pace * (beside.beside_memory if any(other.is_memory for other in computing) else 1.0)


def covered_s(intervals: Sequence[Interval]) -> float:
    """How long at least one runs [s]."""
    total_s, end_s = 0.0, -inf
    for start_s, stop_s, _ in sorted(intervals):
        total_s += max(0.0, stop_s - max(start_s, end_s))
        end_s = max(end_s, stop_s)
    return total_s
