"""A step as a timeline, in JSON that chrome://tracing, Perfetto and torch's Inductor read.

Perfetto shows tracks of modules, operations and kernels. Inductor's `ProfileData` (torch/_inductor/fx_passes/
profile_guided_estimation.py, torch 2.13) takes from such a file what operations of given shapes take: it looks for
events of `cat` `cpu_op` with `Input Dims`, `Input Strides` and `Input type`, and adds up the `dur` of the events of
`cat` `kernel` that have the same `External id`.
"""

import json
from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any

from .groups import operation_text
from .operation import Operation
from .profile import Profile, ProfileRow

GPU, HOST = 1, 2
"""Numbers of the processes; Perfetto takes process 0 for the idle one of Linux."""
KERNELS, MODULES, REFUSED = 7, 8, 9
"""Threads of the GPU: torch's profiler calls the default stream 7."""
OPERATIONS = 1
"""The thread of the host."""
TYPES: Mapping[str, str] = {
    "uint8": "unsigned char",
    "int8": "signed char",
    "int32": "int",
    "int64": "long int",
    "float16": "c10::Half",
    "bfloat16": "c10::BFloat16",
    "float32": "float",
    "float64": "double",
    "complex32": "c10::complex<c10::Half>",
    "complex64": "c10::complex<float>",
    "complex128": "c10::complex<double>",
    "float8_e4m3fn": "c10::Float8_e4m3fn",
    "float8_e5m2": "c10::Float8_e5m2",
}
"""torch's names of element types -> as its profiler has them, where it has another."""


def chrome_trace(profile: Profile) -> str:
    """The timeline, as JSON. Times are in microseconds, from the begin of the step on."""
    events = [*_tracks(profile), *_operations(profile), *_kernels(profile), *_modules(profile)]
    head = {"subject": profile.subject, "device": profile.device, "mode": profile.mode, "queue": profile.queue}
    lines = ",\n".join(json.dumps(event, separators=(",", ":")) for event in events)
    return f'{{"displayTimeUnit": "ns", "otherData": {json.dumps(head)}, "traceEvents": [\n{lines}\n]}}\n'


def _tracks(profile: Profile) -> Iterator[dict[str, Any]]:
    """Names of the tracks."""
    yield _name(GPU, 0, "process_name", f"{profile.device} (predicted)")
    for thread, name in ((KERNELS, "kernels"), (MODULES, "modules"), (REFUSED, "refused: no price")):
        yield _name(GPU, thread, "thread_name", name)
    for name, thread in _threads(profile).items():
        if name:
            yield _name(GPU, thread, "thread_name", name)
    yield _name(HOST, 0, "process_name", "operations")
    yield _name(HOST, OPERATIONS, "thread_name", profile.mode)


def _threads(profile: Profile) -> dict[str, int]:
    """Streams, and their threads: that of the default stream is `KERNELS`."""
    others = [name for name in dict.fromkeys(row.operation.stream for row in profile.rows) if name]
    return {"": KERNELS} | {name: REFUSED + 1 + place for place, name in enumerate(others)}


def _name(process: int, thread: int, kind: str, name: str) -> dict[str, Any]:
    return {"ph": "M", "pid": process, "tid": thread, "name": kind, "args": {"name": name}}


def _kernels(profile: Profile) -> Iterator[dict[str, Any]]:
    """A slice for each kernel with a price, a mark for each without."""
    threads = _threads(profile)
    for row in profile.rows:
        kernel = row.kernel
        args = {
            "External id": row.number,
            "module": row.operation.module,
            "operation": operation_text(row.operation),
            "source": kernel.source,
            "bound by": kernel.bound_by,
            "HBM read bytes": kernel.hbm_read_bytes,
            "HBM write bytes": kernel.hbm_write_bytes,
            "L2 bytes": kernel.l2_bytes,
        }
        if kernel.source == "refused":
            mark = {"ph": "i", "s": "t", "cat": "refused", "name": kernel.name, "args": {"reason": kernel.reason}}
            yield mark | {"pid": GPU, "tid": REFUSED, "ts": _us(row.start_s)}
        else:
            yield _slice("kernel", kernel.name, threads[row.operation.stream], row.start_s, row.end_s - row.start_s) | {
                "args": args
            }


def _operations(profile: Profile) -> Iterator[dict[str, Any]]:
    """A slice for each operation, with the shapes of what it reads."""
    for number, members in groupby(profile.rows, key=lambda row: row.number):
        rows = list(members)
        operation = rows[0].operation
        args = {
            "External id": number,
            "Input Dims": [list(operand.shape) for operand in operation.inputs],
            "Input Strides": [list(operand.strides) for operand in operation.inputs],
            "Input type": [TYPES.get(operand.dtype, operand.dtype) for operand in operation.inputs],
            "module": operation.module,
            "where": operation.where,
        }
        event = _slice("cpu_op", _name_of(operation), OPERATIONS, rows[0].start_s, _end_s(rows) - rows[0].start_s)
        yield event | {"pid": HOST, "args": args}


def _name_of(operation: Operation) -> str:
    """The name that torch's profiler gives an operation; one of another namespace has it in its name."""
    is_aten = operation.kind == "torch" and "::" not in operation.name
    return f"aten::{operation.name}" if is_aten else operation.name


def _modules(profile: Profile) -> Iterator[dict[str, Any]]:
    """A slice for each run of kernels of one module."""
    for module, members in groupby(profile.rows, key=lambda row: row.operation.module):
        rows = list(members)
        if module:
            yield _slice("module", module, MODULES, rows[0].start_s, _end_s(rows) - rows[0].start_s)


def _end_s(rows: list[ProfileRow]) -> float:
    return max(row.end_s for row in rows)


def _slice(kind: str, name: str, thread: int, start_s: float, time_s: float) -> dict[str, Any]:
    event = {"ph": "X", "cat": kind, "name": name, "pid": GPU, "tid": thread}
    return event | {"ts": _us(start_s), "dur": _us(time_s)}


def _us(time_s: float) -> float:
    """Microseconds, to a millionth: what a reader adds up again is the time of the rows."""
    return round(time_s * 1e6, 6)
