"""When each kernel of a step with several streams starts and ends, and what kernels beside each other cost.

A kernel starts once it is enqueued, the one before it on its stream has ended, and all that its operation waits for.
Kernels beside each other slow down: those that compute share the SMs; a collective takes a part of the pace of each
kernel beside it, and collectives share their links, of which each has two directions.
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
    """

    times_s: Sequence[float]
    stream: str = ""
    waits: Sequence[int] = ()
    links: str = ""


@dataclass(slots=True)
class _Running:
    """A kernel that runs. Args: operation: its number; began_s: when; left_s: what is left of it, alone [s]."""

    operation: int
    began_s: float
    left_s: float
    links: str


@dataclass(slots=True)
class _Stream:
    """What is to run on a stream. Args: ahead: operations, and their kernels; free_s: since when it runs none [s]."""

    ahead: deque[tuple[int, deque[float]]] = field(default_factory=deque)
    free_s: float = 0.0
    has_run: bool = False
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
            links=LINKS.get(operation.name.rpartition("::")[2].strip("_"), "io") if is_collective(operation) else "",
        )
        for operation, kernels in zip(operations, priced, strict=True)
    ]


def run(
    operations: Sequence[Enqueued], *, host_s: float, gap_s: float, ahead_s: float, lost: float
) -> Iterator[tuple[int, Interval]]:
    """Let the GPU work a step off.

    Args:
        operations: in the order in which they are enqueued; host_s: that the host takes for each that launches [s].
        gap_s: from the end of a kernel to the start of one that waited for it, at least [s]; ahead_s: the host's
            lead [s].
        lost: share of its pace that a kernel loses beside a collective, 0 to 1.

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
        starts = {name: _start_s(stream, operations, ready_s, done_s, gap_s) for name, stream in streams.items()}
        running = [stream.running for stream in streams.values() if stream.running is not None]
        paces = [_pace(kernel, running, lost) for kernel in running]
        ends_s = [clock_s + kernel.left_s / pace for kernel, pace in zip(running, paces, strict=True)]
        first = min(starts, key=lambda name: starts[name], default="")
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
            streams[first].running = _Running(number, next_s, time_s, operations[number].links)
            streams[first].has_run = True
    if any(stream.ahead for stream in streams.values()):
        raise ValueError("operations of the step wait for each other: none can begin")


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
        stream.ahead.popleft()
        done_s[number] = stream.free_s


def _pace(kernel: _Running, running: Sequence[_Running], lost: float) -> float:
    """Of a kernel among those that run, where alone it is 1."""
    if kernel.links:
        taken = Counter("".join(other.links for other in running))
        return 1.0 / max(taken[way] for way in kernel.links)
    computing = sum(not other.links for other in running)
    return (1.0 - (lost if computing < len(running) else 0.0)) / computing


def covered_s(intervals: Sequence[Interval]) -> float:
    """How long at least one runs [s]."""
    total_s, end_s = 0.0, -inf
    for start_s, stop_s, _ in sorted(intervals):
        total_s += max(0.0, stop_s - max(start_s, end_s))
        end_s = max(end_s, stop_s)
    return total_s
