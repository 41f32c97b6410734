"""Runs the laws in worker processes: an implementation that hangs or crashes costs its law, and no other."""

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from tempfile import TemporaryDirectory
from typing import Any

from ...simulator.jobs.processes import how_ended, telling_line
from .hunt import EXAMPLES, LAWS, find_law

WORKER = f"{__package__}.worker"
TIMEOUT_S = 30.0
FIRST_CALL_S = 60.0
"""A first call, on a plain input, may start a GPU and compile: what it may take by default."""
LOADING_S = 300.0
"""Importing torch, or a module that compiles as it is imported, takes its time."""
LAST_WORDS_BYTES = 4000
POLL_S = 0.5
LAST_WORDS_S = 30.0
"""What a dead process has said is there to be read; only a child that left its group can hold the pipes open longer."""


class Died(Exception):
    """A process ended, or was ended as it hung, without having said all; the text is the reason."""

    hung = False


class Process:
    """A process that is given one job, and says what comes of it.

    Args:
        module: run as `python -m module`; job: written to its stdin, as JSON.
        environment: variables to set or replace.
    """

    def __init__(self, module: str, job: Mapping[str, Any], environment: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, **environment},
            process_group=0,  # ctrl-C is for the process that asks, which then ends this one
        )
        self._job = json.dumps(job).encode()
        self._lines: queue.Queue[bytes] = queue.Queue()
        self._tail = b""
        self._listeners = [
            threading.Thread(target=listen, daemon=True) for listen in (self._hear_events, self._hear_words)
        ]
        for listener in self._listeners:
            listener.start()

    def begin(self) -> None:
        """Hand over the job. Raises: Died: there is nobody to take it."""
        assert self._process.stdin
        try:
            self._process.stdin.write(self._job)
            self._process.stdin.close()
        except BrokenPipeError:
            raise Died(self._reason()) from None

    def event(self, limit_s: float) -> dict[str, Any]:
        """What it says next.

        Args:
            limit_s: how long it may be silent [s].

        Raises:
            Died: it ended, or was silent for longer.
        """
        waited_s = 0.0
        while waited_s < limit_s:
            try:
                event: dict[str, Any] = json.loads(self._lines.get(timeout=POLL_S))
                return event
            except queue.Empty:
                waited_s += POLL_S
                if self._process.poll() is not None:
                    # What it said last may be on its way; its children would keep the pipe open for good.
                    self._end_group()
                    self._listeners[0].join(timeout=LAST_WORDS_S)
                    if self._lines.empty():
                        raise Died(self._reason()) from None
        death = Died(f"hung: no answer in {limit_s:g} s")
        death.hung = True
        raise death

    def end(self) -> None:
        """End it, and all that it has started."""
        self._end_group()
        self._process.wait()
        if self._process.stdin:
            self._process.stdin.close()
        for listener, stream in zip(self._listeners, (self._process.stdout, self._process.stderr), strict=True):
            listener.join(timeout=POLL_S)
            if stream and not listener.is_alive():
                stream.close()

    def _end_group(self) -> None:
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            self._process.kill()

    def _reason(self) -> str:
        status = self._process.wait()
        self._end_group()
        self._listeners[1].join(timeout=LAST_WORDS_S)
        said = telling_line(self._tail.decode(errors="replace"))
        return f"the process ended ({how_ended(status)})" + (f": {said}" if said else "")

    def _hear_events(self) -> None:
        assert self._process.stdout
        for line in self._process.stdout:
            if line.endswith(b"\n"):
                self._lines.put(line)

    def _hear_words(self) -> None:
        """Keep the end of what it prints, and let go of the rest, however much that is."""
        assert self._process.stderr
        while chunk := os.read(self._process.stderr.fileno(), 1 << 16):
            self._tail = (self._tail + chunk)[-LAST_WORDS_BYTES:]


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What to run.

    Args:
        target: as for `target.load`; given: declarations; laws: names, in order.
        examples: inputs for each law; seed: of what is drawn; timeout_s: what one input may take, the first, plain one
            included; where None, `FIRST_CALL_S` and then `TIMEOUT_S` [s].
    """

    target: str
    given: dict[str, Any] = field(default_factory=dict)
    laws: tuple[str, ...] = tuple(law.name for law in LAWS)
    examples: int = EXAMPLES
    seed: int = 0
    timeout_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LawResult:
    """What became of a law. Args: as `softmax_laws.Result`; inputs: the counter-example, name -> expression."""

    law: str
    outcome: str
    examples: int = 0
    reason: str = ""
    unless: str = ""
    inputs: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """All results. Args: declaration: as completed by trying, None where nothing could be tried; results: in order."""

    declaration: dict[str, Any] | None
    results: tuple[LawResult, ...]


def run(job: Job, progress: Callable[[int, int], None] | None = None) -> Checked:
    """Run all laws of a job, with a new worker after each that dies.

    Args:
        progress: called with (done, total) after each law.

    Raises:
        ValueError: the target cannot be found or imported, or does not work on a plain input, in time; one line.
    """
    # Hypothesis would leave a folder of notes wherever the user happens to be.
    with TemporaryDirectory(prefix="tilesight-laws-") as notes:
        return _run(job, notes, progress)


def _run(job: Job, notes: str, progress: Callable[[int, int], None] | None) -> Checked:
    results: list[LawResult] = []
    declaration: dict[str, Any] | None = None
    deadly: dict[str, str] = {}
    while len(results) < len(job.laws):
        law, trying = "", ""
        inputs: dict[str, str] = {}
        try:
            for event in _events(job, job.laws[len(results) :], list(deadly), notes):
                kind, value = next(iter(event.items()))
                if kind == "bad" and not deadly:
                    raise ValueError(value)
                if kind == "bad":
                    results += _all_dead(job, deadly, len(results))
                elif kind == "trying":
                    trying = value
                elif kind == "ready":
                    declaration = value
                elif kind == "law":
                    law, inputs = value, {}
                elif kind == "at":
                    inputs = value
                elif kind == "result":
                    results.append(LawResult(**value))
                    law = ""
                    if progress:
                        progress(len(results), len(job.laws))
        except Died as death:
            if law:
                results.append(
                    LawResult(law=law, outcome="failed", reason=str(death), unless=find_law(law).unless, inputs=inputs)
                )
            elif declaration is None and trying and death.hung:
                more = "--timeout gives it longer, --arrays names others"
                raise ValueError(f"{job.target!r}: {death}, on a plain input of {trying} arrays; {more}") from None
            elif declaration is None and trying:
                deadly[trying] = str(death)
            else:
                raise ValueError(f"{job.target!r}: importing it, {death}") from None
    return Checked(declaration=declaration, results=tuple(results))


def _all_dead(job: Job, deadly: dict[str, str], done: int) -> list[LawResult]:
    """Every law failed, as no kind of arrays could be given without the process dying of it."""
    reason = "; ".join(f"{kind}: {why}, on a plain input" for kind, why in deadly.items())
    return [LawResult(law=law, outcome="failed", reason=reason) for law in job.laws[done:]]


def _events(job: Job, laws: tuple[str, ...], skip: list[str], notes: str) -> Iterator[dict[str, Any]]:
    """What a new worker says. Raises: Died: it ended before it was done, or was silent for too long and was ended."""
    job_of_worker: dict[str, Any] = {"target": job.target, "given": job.given, "skip": skip, "laws": laws}
    job_of_worker |= {"examples": job.examples, "seed": job.seed}
    worker = Process(WORKER, job_of_worker, {"HYPOTHESIS_STORAGE_DIRECTORY": notes})
    try:
        worker.begin()
        limit_s = LOADING_S
        while "done" not in (event := worker.event(limit_s)):
            limit_s = job.timeout_s or (FIRST_CALL_S if "trying" in event else TIMEOUT_S)
            yield event
    finally:
        worker.end()
