"""When each kernel of a step starts, and how long the GPU runs none.

The host enqueues one operation after the other, and may run ahead; the GPU takes a kernel once it is enqueued and the
one before has ended. In a CUDA graph nothing is enqueued any more. Steps of several streams go by `streams`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ..device.device import Device
from .streams import Enqueued, Interval, Paces, covered_s, run

Queue = Literal["stream", "graph"]
QUEUES: tuple[Queue, ...] = ("stream", "graph")
LAUNCH_BOUND = 0.1
"""Share of a step in which the GPU waits for the host, above which the step is bound by launches."""


BESIDE = "collective.beside_lost"
"""The number of the share of its pace that a kernel loses beside a collective."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamTimeline:
    """A step as its kernels follow each other.

    Args:
        starts_s, ends_s: of each operation those of its kernels, from the step's begin on [s].
        end_s: of the last kernel [s].
        busy_s: in which a kernel runs [s].
        host_wait_s: in which the GPU has nothing to do, as the host has not enqueued anything [s].
        communication_s: in which a collective runs; exposed_s: in which nothing else does [s].
    """

    starts_s: tuple[tuple[float, ...], ...]
    ends_s: tuple[tuple[float, ...], ...]
    end_s: float
    busy_s: float
    host_wait_s: float
    communication_s: float
    exposed_s: float

    @property
    def idle_s(self) -> float:
        """In which no kernel runs: the host's, and the gaps between kernels [s]."""
        return max(0.0, self.end_s - self.busy_s)

    @property
    def launch_bound(self) -> bool:
        """Whether the GPU waits for the host in more than `LAUNCH_BOUND` of the step."""
        return self.host_wait_s > LAUNCH_BOUND * self.end_s


def paces(device: Device) -> Paces:
    """What kernels beside each other keep of their pace on a device."""
    numbers = device.torch_kernels
    duplex = numbers["collective.pairs_simple_fraction"].value / numbers["collective.simple_fraction"].value
    return Paces(
        lost=numbers[BESIDE].value,
        beside_memory=numbers["collective.beside_memory_pace"].value,
        duplex=min(1.0, duplex),
    )


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
    operations: Sequence[Enqueued], *, host_s: float, gap_s: float, ahead_s: float = 0.0, beside: Paces | None = None
) -> StreamTimeline:
    """Simulate how the GPU works through what is enqueued.

    Args:
        operations: in the order in which they are enqueued; one that launches no kernel costs nothing.
        host_s: that the host takes for each operation that launches, 0 in a CUDA graph; ahead_s: its lead [s].
        gap_s: from the end of a kernel to the start of the next, at least [s]: `launch_graph_s` of a device.
        beside: what kernels beside each other keep of their pace; nothing is lost without.
    """
    ran: list[list[Interval]] = [[] for _ in operations]
    for number, interval in run(operations, host_s=host_s, gap_s=gap_s, ahead_s=ahead_s, beside=beside or Paces()):
        ran[number].append(interval)
    every = sorted(interval for intervals in ran for interval in intervals)
    transfers = [interval for interval in every if interval[2]]
    busy_s, working_s = covered_s(every), covered_s([interval for interval in every if not interval[2]])
    end_s = max((interval[1] for interval in every), default=0.0)
    return StreamTimeline(
        starts_s=tuple(tuple(start_s for start_s, _, _ in intervals) for intervals in ran),
        ends_s=tuple(tuple(stop_s for _, stop_s, _ in intervals) for intervals in ran),
        end_s=end_s,
        busy_s=busy_s,
        host_wait_s=max(0.0, end_s - busy_s - gap_s * max(len(every) - 1, 0)),
        communication_s=covered_s(transfers),
        exposed_s=busy_s - working_s,
    )
