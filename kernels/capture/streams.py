"""Streams and events of recorded code: on which stream each operation runs, and for which others it waits.

Stand-ins for those of `torch.cuda` follow what the code does with them. An operation is known by its number in the
recording; what a stream has to wait for is kept until its next operation, which takes it along.
"""

from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import replace
from math import nan
from types import SimpleNamespace, TracebackType
from typing import Any
from weakref import WeakSet

import torch

from ...simulator.operations.operation import Operation
from ...simulator.operations.stated import TRANSFERS
from .on_gpu import NO_DATA

GRAPHS = "CUDA graphs are not recorded: name a function that makes its launches itself"
NOTHING_DONE = (
    "set_device", "init", "_lazy_init", "_lazy_call", "manual_seed", "manual_seed_all", "seed", "seed_all",
    "empty_cache", "ipc_collect", "reset_peak_memory_stats",
)  # fmt: skip
NO_BYTES = ("memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved")
SENDS = ("send", "isend")
"""Transfers that write nothing here: what they send may be read meanwhile."""


class StreamOrder:
    """What runs where, and after what. `current`: the stream that the code enqueues on."""

    def __init__(self, notes: dict[str, None]) -> None:
        self.notes = notes
        self.streams: WeakSet[Stream] = WeakSet()
        self.steps = self._made = 0
        self.default = self.current = Stream(self)
        self._collectives: dict[str, Stream] = {}
        self._under_way: dict[int, int] = {}

    def begin_step(self) -> None:
        """Operations are numbered anew, and nothing is under way."""
        self.steps += 1
        self._under_way.clear()
        for stream in self.streams:
            stream.last, stream.awaited = -1, set()

    def name(self) -> str:
        """Of a new stream; the first one is the default stream, whose name is empty."""
        self._made += 1
        return f"stream {self._made - 1}" if self._made > 1 else ""

    def placed(self, operation: Operation, number: int, group: str = "") -> Operation:
        """An operation with its stream and what it waits for.

        Args:
            number: that it will have; group: of an asynchronous collective, which has a stream of its own.
        """
        storages = {operand.storage for operand in (*operation.inputs, *operation.outputs)}
        done = {self._under_way.pop(storage) for storage in storages if storage in self._under_way}
        self.current.awaited |= done  # what it uses is there by now, or the code would be wrong
        stream = self.current
        if group:
            way = operation.name.rpartition("::")[2].strip("_")
            label = f"NCCL, {group}" + (f", {way}" if way in TRANSFERS else "")  # both ways go on at a time
            stream = self._collectives.setdefault(label, Stream(self, label))
            stream.awaited |= self.current.reached()
            written = operation.outputs or (() if way in SENDS else operation.inputs)
            self._under_way |= {operand.storage: number for operand in written}
        waits = tuple(sorted(stream.awaited - {stream.last}))
        stream.last, stream.awaited = number, set()
        return replace(operation, stream=stream.name, waits=waits)

    def wait(self, numbers: Iterable[int]) -> None:
        """The current stream waits for operations."""
        self.current.awaited |= set(numbers)

    def host_waits(self, numbers: Iterable[int]) -> None:
        """The host waits for operations, so that all that follows runs after them."""
        for stream in self.streams:
            stream.awaited |= set(numbers)


class Stream:
    """In place of `torch.cuda.Stream`. `name`: empty for the default stream."""

    cuda_stream = stream_id = device_index = priority = 0
    device = torch.device("cuda", 0)

    def __init__(self, order: StreamOrder, name: str | None = None) -> None:
        self.order = order
        self.name = order.name() if name is None else name
        self.last, self.awaited = -1, set[int]()
        self._before: list[Stream] = []
        order.streams.add(self)

    def __enter__(self) -> "Stream":
        """Enqueue here."""
        self._before.append(self.order.current)
        self.order.current = self
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Enqueue where it was before."""
        self.order.current = self._before.pop()

    def reached(self) -> set[int]:
        """Operations after which all that is enqueued here is done."""
        return self.awaited | ({self.last} if self.last >= 0 else set())

    def wait_stream(self, other: "Stream") -> None:
        """What follows here waits for what is enqueued there."""
        self.awaited |= other.reached()

    def wait_event(self, event: "Event") -> None:
        """What follows here waits for what was enqueued before an event."""
        self.awaited |= event.reached()

    def record_event(self, event: "Event | None" = None) -> "Event":
        """An event after what is enqueued here."""
        made = event or Event(self.order)
        made.record(self)
        return made

    def synchronize(self) -> None:
        """The host waits."""
        self.order.host_waits(self.reached())

    def query(self) -> bool:
        """All is done: whether it is cannot be known."""
        return True

    def is_capturing(self) -> bool:
        """No graph is made of it."""
        return False


class Event:
    """In place of `torch.cuda.Event`: no time passes, so none is measured."""

    cuda_event = 0

    def __init__(self, order: StreamOrder) -> None:
        self._order, self._after, self._step = order, set[int](), order.steps

    def reached(self) -> set[int]:
        """Operations that were enqueued before it; of an earlier step all are done."""
        return self._after if self._step == self._order.steps else set()

    def record(self, stream: Stream | None = None) -> None:
        """It comes after what is enqueued."""
        self._after, self._step = (stream or self._order.current).reached(), self._order.steps

    def wait(self, stream: Stream | None = None) -> None:
        """What follows on a stream waits for it."""
        (stream or self._order.current).wait_event(self)

    def synchronize(self) -> None:
        """The host waits."""
        self._order.host_waits(self.reached())

    def query(self) -> bool:
        """It has happened: whether it has cannot be known."""
        return True

    def elapsed_time(self, _: Any) -> float:
        """No time is known [ms]."""
        self._order.notes[NO_DATA] = None
        return nan


class Graph:
    """In place of `torch.cuda.CUDAGraph`, which code may name but not make."""

    def __init__(self, *_: Any, **__: Any) -> None:
        raise RuntimeError(GRAPHS)


class _Device(nullcontext[None]):
    """A `with` block on one of the GPUs, of which there is one."""

    idx = 0

    def __init__(self, *_: Any) -> None:
        super().__init__()


class Generator(torch.Generator):
    """The GPU's own: its state is a seed and an offset of Philox, 8 bytes each, which libraries hand to kernels."""

    offset = 0

    def get_state(self) -> torch.Tensor:
        """Seed and offset as bytes."""
        return torch.tensor([self.initial_seed(), self.offset], device="cpu").view(torch.uint8)

    def set_state(self, state: torch.Tensor) -> torch.Generator:
        """Begin from another one."""
        seed, self.offset = state.view(torch.int64).tolist()
        return self.manual_seed(seed)


def stand_ins(order: StreamOrder) -> dict[str, Any]:
    """What stands for parts of `torch.cuda` that code around launches calls."""

    class OfCuda(Stream):
        """A stream that the code makes."""

        def __init__(self, *_: Any, **__: Any) -> None:
            super().__init__(order)

    class EventOfCuda(Event):
        """An event that the code makes."""

        def __init__(self, *_: Any, **__: Any) -> None:
            super().__init__(order)

    def set_stream(stream: Stream) -> None:
        order.current = stream

    def synchronize(*_: Any) -> None:
        order.host_waits({number for stream in order.streams for number in stream.reached()})

    answers: dict[str, Any] = {
        "Stream": OfCuda,
        "Event": EventOfCuda,
        "current_stream": lambda *_: order.current,
        "default_stream": lambda *_: order.default,
        "stream": lambda stream=None: stream or order.current,
        "set_stream": set_stream,
        "synchronize": synchronize,
        "device": _Device,
        "device_of": _Device,
        "_DeviceGuard": _Device,
        "default_generators": (Generator(),),
        "CUDAGraph": Graph,
        "graph": lambda *_, **__: Graph(),
        "nvtx": SimpleNamespace(
            **{name: _answering(None) for name in ("range_push", "range_pop", "mark")}, range=_answering(nullcontext())
        ),
    }
    order.default.__class__ = OfCuda  # for code that asks what a stream is
    # An answer of its own for each: torch's compiler refuses to load where two names have one function.
    return answers | {name: _answering(None) for name in NOTHING_DONE} | {name: _answering(0) for name in NO_BYTES}


def _answering(answer: Any) -> Callable[..., Any]:
    return lambda *_, **__: answer
