"""When each kernel starts. In: times of a step's kernels, in order; out: starts, and how long the GPU runs none.

The host enqueues one operation after the other, and may run ahead; the GPU takes a kernel once it is enqueued and the
one before has ended. In a CUDA graph nothing is enqueued any more.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ..device.device import Device

Queue = Literal["stream", "graph"]
QUEUES: tuple[Queue, ...] = ("stream", "graph")
LAUNCH_BOUND = 0.1
"""Share of a step in which the GPU waits for the host, above which the step is bound by launches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamTimeline:
    """A step as its kernels follow each other.

    Args:
        starts_s: of each operation the starts of its kernels, from the step's begin on [s].
        end_s: of the last kernel [s].
        busy_s: in which a kernel runs [s].
        host_wait_s: in which the GPU has nothing to do, as the host has not enqueued anything [s].
    """

    starts_s: tuple[tuple[float, ...], ...]
    end_s: float
    busy_s: float
    host_wait_s: float

    @property
    def idle_s(self) -> float:
        """In which no kernel runs: the host's, and the gaps between kernels [s]."""
        return max(0.0, self.end_s - self.busy_s)

    @property
    def launch_bound(self) -> bool:
        """Whether the GPU waits for the host in more than `LAUNCH_BOUND` of the step."""
        return self.host_wait_s > LAUNCH_BOUND * self.end_s


def host_key(mode: str, which: str = "") -> str:
    """The number of what the host takes for an operation that launches [s].

    Args:
        mode: of the step, e.g. `eager`.
        which: `_least` or `_most` of the hosts that were measured; empty: the usual one.
    """
    return f"host.{'eager' if mode == 'eager' else 'compiled'}{which}_s"


def host_s(mode: str, device: Device) -> float:
    """That number's value."""
    return device.torch_kernels[host_key(mode)].value


def measured_hosts_s(mode: str, device: Device) -> tuple[float, float]:
    """The same of the fastest and of the slowest host that was measured [s]; one that a user states, twice."""
    key, numbers = host_key(mode), device.torch_kernels
    if numbers[key].origin.kind == "set":
        return (numbers[key].value,) * 2
    return numbers[host_key(mode, "_least")].value, numbers[host_key(mode, "_most")].value


def queued(
    operations_s: Sequence[Sequence[float]], *, host_s: float, gap_s: float, ahead_s: float = 0.0
) -> StreamTimeline:
    """Let the GPU work a step off.

    Args:
        operations_s: of each operation the times of its kernels, in order [s]; one that launches none costs nothing.
        host_s: that the host takes for each operation that launches, 0 in a CUDA graph; ahead_s: its lead [s].
        gap_s: from the end of a kernel to the start of the next, at least [s]: `launch_graph_s` of a device.
    """
    enqueued_s, ended_s, busy_s, host_wait_s = -ahead_s, 0.0, 0.0, 0.0
    starts: list[tuple[float, ...]] = []
    ran = False
    for times_s in operations_s:
        enqueued_s += host_s if times_s else 0.0
        own_starts: list[float] = []
        for time_s in times_s:
            ready_s = ended_s + (gap_s if ran else 0.0)
            start_s = max(ready_s, enqueued_s)
            host_wait_s += start_s - ready_s
            own_starts.append(start_s)
            ended_s, busy_s, ran = start_s + time_s, busy_s + time_s, True
        starts.append(tuple(own_starts))
    return StreamTimeline(starts_s=tuple(starts), end_s=ended_s, busy_s=busy_s, host_wait_s=host_wait_s)
