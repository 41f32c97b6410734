"""What a step of PyTorch takes on a GPU: a row for each kernel, its groups, memory and advice.

`to_dict` gives the object that `tilesight profile --json` prints, `str` the text that it prints for people.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from .. import units
from ..device.device import Device
from ..display.columns import frame
from ..display.files import written_by
from ..display.render import percent
from ..prediction.timing import EVENTS_S, ZEROED_BYTES
from ..prediction.what_helps import Advice
from .cost_model import KernelCostModel
from .gaps import QUEUES, Queue, StreamTimeline, host_s, paces, queued
from .groups import Group, Key, bound_by, grouped, time_of
from .operation import Operation, RecordedStep
from .price import price
from .priced import KernelEstimate
from .streams import enqueued
from .unlucky.checklist import hints_of
from .unlucky.hint import listed
from .workspaces import peak_bytes

if TYPE_CHECKING:
    from pandas import DataFrame

SCHEMA = "tilesight.profile/1"
WIDTH = 120
READ_OFF = ("matmul", "attention", "bytes")
"""Sources of prices that were read off GPUs of compute capability 9.0."""
CARRIED = "prices of torch's and vendors' kernels were read off an H100 and an H200: here by clocks, SMs, bandwidths"
BACK_ENDS = {f"_scaled_dot_product_{kind}_attention": kind for kind in ("cudnn", "flash", "efficient")}
MATTERS = 0.1
"""Share of attention in the time from which on its back ends are told beside each other."""
TOP = 20
"""Lines of a table by default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileRow:
    """A kernel of the step.

    Args:
        operation: that launches it; number: of the operation in the step, from 0 on.
        kernel: what it takes; start_s, end_s: from the begin of the step on, beside others on other streams [s].
    """

    operation: Operation
    number: int
    kernel: KernelEstimate
    start_s: float
    end_s: float

    @property
    def time_s(self) -> float:
        """What it takes alone, and adds to the total: nothing, where it has no price [s]."""
        return time_of(self.kernel)

    @property
    def hbm_bytes(self) -> float:
        """Read and written [B]."""
        return self.kernel.hbm_read_bytes + self.kernel.hbm_write_bytes

    def to_dict(self) -> dict[str, Any]:
        """Its object in `profile --json`; one without a price has `at_least_s` in place of a time."""
        kernel, operation = self.kernel, self.operation
        refused = kernel.source == "refused"
        return {
            "number": self.number,
            "module": operation.module,
            "operation": operation.name,
            "parts": list(operation.parts),
            "where": operation.where,
            "phase": operation.phase,
            "kernel": kernel.name,
            "source": kernel.source,
            "stream": operation.stream,
            "start_s": self.start_s,
            "end_s": self.end_s,
            "time_s": None if refused else kernel.time_s,
            "at_least_s": kernel.time_s if refused else None,
            "bound_by": kernel.bound_by,
            "hbm_read_bytes": kernel.hbm_read_bytes,
            "hbm_write_bytes": kernel.hbm_write_bytes,
            "l2_bytes": kernel.l2_bytes,
            "reason": kernel.reason,
            "note": kernel.note,
            "one_shape": list(kernel.one_shape),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """A step on a device.

    Args:
        rows: a kernel each, in the order in which they run.
        subject: the step's name, for people; device: its name; mode: `eager` or `compiled`.
        stream, graph: how its kernels follow each other, enqueued one by one or in a CUDA graph; queue: which of both
            the rows' starts are of.
        peak_bytes: most memory that tensors take at a time, copies of convolutions and workspaces of products;
            parameter_bytes: of these parameters and buffers; hbm_bytes: that the device has [B].
        notes: of the recording, one line each; hints: what is unlucky, what costs most first.
        timing: how time is measured: `single` or `do_bench`.
        ended: what the step raised after its last kernel, in one line; empty: it ran to its end.
    """

    rows: tuple[ProfileRow, ...]
    subject: str
    device: str
    mode: str
    stream: StreamTimeline
    graph: StreamTimeline
    queue: Queue
    peak_bytes: int
    parameter_bytes: int
    hbm_bytes: int
    notes: tuple[str, ...] = ()
    hints: tuple[Advice, ...] = ()
    timing: str = "single"
    ended: str = ""

    @property
    def time_s(self) -> float:
        """Of all kernels that have a price [s]."""
        return sum(row.time_s for row in self.rows)

    @property
    def queued(self) -> StreamTimeline:
        """How the kernels follow each other in what was asked for."""
        return self.graph if self.queue == "graph" else self.stream

    @property
    def idle_s(self) -> float:
        """In which the GPU runs no kernel of the step [s]."""
        return self.queued.idle_s

    @property
    def step_s(self) -> float:
        """From the begin of the step to the end of its last kernel, or between events around them [s]."""
        return self.queued.end_s + (EVENTS_S if self.timing == "do_bench" else 0.0)

    @property
    def refused(self) -> tuple[ProfileRow, ...]:
        """Kernels that have no price, and are missing from the time."""
        return tuple(row for row in self.rows if row.kernel.source == "refused")

    @property
    def complete(self) -> bool:
        """Whether the step ran to its end, and every kernel has a price."""
        return not (self.refused or self.ended)

    @property
    def bound_by(self) -> str:
        """What binds most of the time; empty where no kernel has a price."""
        return bound_by(self.rows)

    @property
    def fits(self) -> bool:
        """Whether the tensors fit into the device's memory."""
        return self.peak_bytes <= self.hbm_bytes

    def by(self, key: Key) -> tuple[Group, ...]:
        """The kernels in groups, the longest first; layers that do the same count as one.

        Args:
            key: `module`, `op`, `kernel`, `source` or `phase`.

        Raises:
            ValueError: it is none of them (one line).
        """
        return grouped(self.rows, key)

    def to_dict(self) -> dict[str, Any]:
        """The object that `tilesight profile --json` prints."""
        return {
            "schema": SCHEMA,
            "subject": self.subject,
            "device": self.device,
            "mode": self.mode,
            "timing": self.timing,
            "complete": self.complete,
            "ended": self.ended or None,
            "kernels": len(self.rows),
            "refused": len(self.refused),
            "time_s": self.time_s,
            "queue": self.queue,
            "queues": {name: _queue_dict(queue) for name, queue in zip(QUEUES, (self.stream, self.graph), strict=True)},
            "idle_s": self.idle_s,
            "step_s": self.step_s,
            "bound_by": self.bound_by or None,
            "peak_bytes": self.peak_bytes,
            "parameter_bytes": self.parameter_bytes,
            "hbm_bytes": self.hbm_bytes,
            "fits": self.fits,
            "sources": [group.to_dict() for group in self.by("source")],
            "rows": [row.to_dict() for row in self.rows],
            "hints": [_hint_dict(hint) for hint in self.hints],
            "notes": list(self.notes),
        }

    def flat_rows(self) -> list[dict[str, Any]]:
        """A flat object for each kernel, as rows of a CSV."""
        head = {"device": self.device, "mode": self.mode}
        return [head | row.to_dict() | {"parts": " + ".join(row.operation.parts)} for row in self.rows]

    def to_pandas(self) -> "DataFrame":
        """A data frame: a row per kernel. Raises: ImportError: pandas is not installed."""
        return frame(self.flat_rows())

    def text(self, width: int = WIDTH, color: bool = False, *, by: Key | None = None, top: int = TOP) -> str:
        """What is printed for people.

        Args:
            width: characters at most; color: whether the header is bold.
            by: what a line of the table is, None: kernels that are alike; top: lines at most, the longest first.
        """
        text: str = written_by("operations.text", "profile_text")(self, width, color, by, top)
        return text

    def __str__(self) -> str:
        """What is printed for people."""
        return self.text()

    def __repr__(self) -> str:
        """One line."""
        kernels = f"{len(self.rows)} kernels" + (f", {len(self.refused)} refused" if self.refused else "")
        return f"<Profile: {self.subject} on {self.device}, {self.mode}: {units.duration(self.time_s)} in {kernels}>"


def _hint_dict(hint: Advice) -> dict[str, Any]:
    return {"name": hint.cause} | {name: getattr(hint, name) for name in ("text", "cure", "time_s", "share")}


def _queue_dict(queue: StreamTimeline) -> dict[str, Any]:
    names = ("idle_s", "host_wait_s", "launch_bound", "communication_s", "exposed_s")
    return {"step_s": queue.end_s} | {name: getattr(queue, name) for name in names}


def _assumed(step: RecordedStep, every: Sequence[KernelEstimate], device: Device) -> Iterator[str]:
    """Whose kernels prices were read off, and which back end attention has, and what others would take."""
    if device.compute_capability != "9.0" and any(kernel.source in READ_OFF for kernel in every):
        yield CARRIED
    half = [it for it in step.operations if it.name in BACK_ENDS and len(it.inputs) == 3 and "16" in it.inputs[0].dtype]
    attention_s = sum(kernel.time_s for kernel in every if kernel.source == "attention")
    if half and attention_s > MATTERS * sum(map(time_of, every)):
        alone = {
            name: [it for work in half for it in price(replace(work, name=name), KernelCostModel(device))]
            for name in BACK_ENDS
        }
        texts = [f"{BACK_ENDS[name]} {units.duration(sum(map(time_of, kernels)))}" for name, kernels in alone.items()]
        taken = " and ".join(dict.fromkeys(BACK_ENDS[it.name] for it in half))
        yield f"attention is {taken}'s, as torch 2.11 to 2.13 with cuDNN 9.15 or newer do; alone {', '.join(texts)}"


def _read_off_one_shape(kernels: Sequence[KernelEstimate]) -> Iterator[str]:
    """How much of the time rests on numbers that were read off one shape each, and which of them count most."""
    times_s: dict[str, float] = defaultdict(float)
    for kernel in kernels:
        for key in kernel.one_shape:
            times_s[key] += time_of(kernel)
    if named := sorted(times_s, key=lambda key: -times_s[key]):
        share = sum(time_of(kernel) for kernel in kernels if kernel.one_shape) / sum(map(time_of, kernels))
        yield f"{percent(share)} of the time rests on numbers that were read off one shape each: {listed(named)}"


def profile_of(
    step: RecordedStep,
    priced: Sequence[Sequence[KernelEstimate]],
    device: Device,
    name: str,
    *,
    subject: str,
    queue: Queue = "stream",
    timing: str = "single",
) -> Profile:
    """Put a step and its prices together.

    Args:
        priced: of each operation its kernels, in order.
        device, name: that the prices are for; subject: the step's name; queue: that starts are told of.
        timing: `do_bench`: the host enqueues the step while zeros are written to L2.

    Raises:
        ValueError: there are not as many prices as operations.
    """
    works = enqueued(step.operations, priced)
    beside, gap_s = paces(device), device.launch_graph_s
    ahead_s = ZEROED_BYTES / device.hbm_write_bytes_per_s if timing == "do_bench" else 0.0
    streamed = queued(works, host_s=host_s(step.mode, device), ahead_s=ahead_s, gap_s=gap_s, beside=beside)
    graphed = queued(works, host_s=0.0, gap_s=gap_s, beside=beside)
    ran = graphed if queue == "graph" else streamed
    rows = tuple(
        ProfileRow(operation=operation, number=number, kernel=kernel, start_s=start_s, end_s=end_s)
        for number, (operation, kernels) in enumerate(zip(step.operations, priced, strict=True))
        for kernel, start_s, end_s in zip(kernels, ran.starts_s[number], ran.ends_s[number], strict=True)
    )
    every = [kernel for kernels in priced for kernel in kernels]
    made = Profile(
        rows=rows,
        subject=subject,
        device=name,
        mode=step.mode,
        stream=streamed,
        graph=graphed,
        queue=queue,
        peak_bytes=peak_bytes(step, priced, device),
        parameter_bytes=step.parameter_bytes,
        hbm_bytes=device.hbm_bytes,
        notes=(*step.notes, *_assumed(step, every, device), *_read_off_one_shape(every)),
        timing=timing,
        ended=step.ended,
    )
    return replace(made, hints=hints_of(step, priced, device, streamed, graphed))
