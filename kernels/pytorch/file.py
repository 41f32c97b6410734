"""A step of PyTorch in a user's file, recorded by a process of its own: torch is told of a GPU that is not there.

    FILE.py:FUNCTION        a function without parameters: all that it does on the GPU counts
    def inputs(): ...       in the same file: its tuple, dict or single value is what FUNCTION's parameters are given;
                            what it does (weights, random inputs) does not count; for `vit_loss` vit_loss_inputs or
                            vit_inputs comes before it, where the file has one

Tensors are made with `device="cuda"`, or by modules that are; they have shapes, and no data.
"""

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import time_ns
from typing import Any

from ...simulator.device.device import Device
from ...simulator.jobs.processes import WorkerProcess
from ...simulator.operations.operation import Mode, Operation, RecordedStep
from ...simulator.refusal import UserError
from ..capture.file import answer_of, file_and_function, values_in
from ..compile.cache import triton_cache
from ..compile.call import KernelLaunch, RefusedCall, from_plain, values_of
from ..kept.recordings import keep_recording, kept_recording, recording_key

WORKER = f"{__package__}.worker"
TIMEOUT_S = 600.0
"""What a step may take to be recorded, unless an option `timeout_s` says otherwise [s]."""
QUIET = {"TORCH_CPP_LOG_LEVEL": "ERROR", "TORCH_LOGS": "-all"}
"""Variables that keep torch from logging what notes say, or what is of no use for people."""
OPTIONS = ("indices", "timeout_s", "gpus", "rank")
Times = Callable[[Sequence[KernelLaunch | RefusedCall]], Sequence[float | None]]
"""Launches -> what each takes [s]; None: unknown."""
INDICES = ("", "uniform")


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """What a step does.

    Args:
        step: its operations.
        calls: launches of its Triton kernels; `Operation.calls` are places in it.
    """

    step: RecordedStep
    calls: tuple[KernelLaunch | RefusedCall, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenStep:
    """A step whose file is written for it. Args: text: of the file; function: that runs the step."""

    text: str
    function: str


def record_step(
    target: str | WrittenStep,
    device: Device,
    device_text: str,
    *,
    settings: Sequence[str] = (),
    mode: Mode = "auto",
    train: bool = False,
    options: Mapping[str, Any] | None = None,
    times: Times | None = None,
) -> Recorded:
    """Record what a function of a user's file launches; what it prints reaches stderr once it has ended.

    What was recorded once is kept, and taken while all files that it was made of are as they were.

    Args:
        target: `file.py:function` or `package.module:function`, or a step that is written for this.
        device: that is spoken of; device_text: its name, or path of its file; settings: what-ifs of it, `key=value`.
        mode: `auto`: `torch.compile` is honoured; `eager`: it is not; `compiled`: the whole function is compiled;
            `max-autotune`: and choices are tried.
        train: with the backward pass of what the function returns.
        options: `indices`: `uniform` gives random values below the indexed size to index tensors without values;
            `timeout_s`: what it may take [s]; `gpus`: that it runs on, of one host, `rank`: of the one that is meant.
        times: predicts Triton kernels that torch's compiler would time to choose among; None: it chooses without.

    Raises:
        UserError: there is no such file or function, it needs other arguments, or this torch lacks a hook.
        UserCodeFailed: it raised, died, took too long, or depends on data.
    """
    given = dict(options or {})
    if strange := [name for name in given if name not in OPTIONS]:
        raise UserError(f"option {strange[0]!r}: must be one of {', '.join(OPTIONS)}")
    if given.get("indices", "") not in INDICES:
        raise UserError(f"option indices = {given['indices']!r}: must be 'uniform', or left out")
    job = {
        "device": device_text or device.name,
        "settings": list(settings),
        "mode": mode,
        "train": train,
        "indices": given.get("indices", ""),
        "gpus": given.get("gpus", 0),
        "rank": given.get("rank", 0),
    }
    with _file_of(target) as (file, function, aside):
        name = target.text if isinstance(target, WrittenStep) else file
        key = recording_key(job | {"file": name, "function": function}, device)
        if kept := kept_recording(key):
            answer, printed = kept
            sys.stderr.write(printed)
            return recorded_of(answer)
        job |= {"file": file, "function": function, "aside": aside, "asked_ns": time_ns()}
        return _recorded_anew(job, float(given.get("timeout_s", TIMEOUT_S)), times, key)


@contextmanager
def _file_of(target: str | WrittenStep) -> Iterator[tuple[str, str, list[str]]]:
    """File or module, function, and folders that are only there meanwhile. Raises: UserError: there is no such."""
    if isinstance(target, WrittenStep):
        with TemporaryDirectory(prefix="tilesight-") as folder:
            written = Path(folder) / "step.py"
            written.write_text(target.text, encoding="utf-8")
            yield str(written), target.function, [folder]
        return
    yield *file_and_function(target), []


def _recorded_anew(job: Mapping[str, Any], limit_s: float, times: Times | None, key: str) -> Recorded:
    """Have a process record a step; it is kept under its key if it ran to its end and got all its answers."""
    noun = "user's code" if job["mode"] == "eager" else "user's code, or torch's compiler at work on it,"
    process = WorkerProcess(WORKER, noun, (), triton_cache() | QUIET | dict(os.environ))
    replies: list[dict[str, Any]] = []

    def reply(question: Mapping[str, Any]) -> dict[str, Any]:
        replies.append(reply_to(question, times))
        return replies[-1]

    answer = answer_of(process, job, limit_s, reply)
    recorded = recorded_of(answer)
    witnesses = answer.pop("witnesses")
    known = all(time_s is not None for made in replies for time_s in made["times_s"])
    if witnesses is not None and known and not recorded.step.ended:
        keep_recording(key, answer, witnesses, process.said)
    return recorded


def reply_to(question: Mapping[str, Any], times: Times | None) -> dict[str, Any]:
    """What the process is told that records a step: `times_s` of launches."""
    values = values_of(question["values"])
    calls = [from_plain(call, values) for call in question["calls"]]
    return {"times_s": list(times(calls)) if times else [None] * len(calls)}


def recorded_of(answer: Mapping[str, Any]) -> Recorded:
    """What the process tells that recorded a step. Raises: UserError, UserCodeFailed: as `record_step`."""
    values = values_in(answer)
    step = answer["step"]
    return Recorded(
        step=RecordedStep(
            operations=tuple(map(Operation.from_dict, step["operations"])),
            mode=step["mode"],
            peak_bytes=step["peak_bytes"],
            parameter_bytes=step["parameter_bytes"],
            notes=tuple(step["notes"]),
            graphed=step["graphed"],
            ended=step["ended"],
        ),
        calls=tuple(from_plain(call, values) for call in answer["calls"]),
    )
