"""Processes that answer jobs, and are replaced when one dies or hangs: one line of JSON each way.

A process may ask back before it answers (`serve_asking`): a line with `asks` alone, and one with what it is told.

Work that can kill a process (a compiler, a kernel on a GPU) is done in a process of its own,
so that the one that asked loses an answer and learns why.
"""

import gc
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

TELLING = re.compile(r"error:|fatal|Assertion|LLVM ERROR", re.IGNORECASE)
"""Lines of a process's output that say why it stopped."""
LONGEST_REASON = 300
ASKS = "asks"
UNCOLLECTED = (
    "import gc, runpy, sys; gc.disable(); runpy.run_module(sys.argv.pop(1), run_name='__main__', alter_sys=True)"
)
"""Runs a module as `-m` does, its imports without Python's garbage collector: a sixth of what importing torch takes."""
LEAST_WINDOW_S = 0.5
"""What a process computes is looked at over so long at least: clocks of CPU time tick at 10 ms."""
IDLE_FRACTION = 0.01
"""A process that computes a smaller share of the time waits for something; what lacks so little of its time had it."""
Ask = Callable[[Mapping[str, Any]], dict[str, Any]]
"""What a process asks whoever gave it the job, and what it is told: plain values."""


class WorkerDied(Exception):
    """A process ended, or had to be ended, without an answer; the text is the reason, in one line."""


class WorkerProcess:
    """One process that answers one job at a time; started when first asked, and again after each death.

    Args:
        module: run as `python -m module` would; reads jobs on stdin and answers on stdout, a line of JSON each.
        noun: what the process is, for reasons, e.g. `compiler`.
        arguments: of the module; environment: variables to set or replace; python: that runs it, empty: this one.
    """

    def __init__(
        self,
        module: str,
        noun: str,
        arguments: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        python: str = "",
    ) -> None:
        self._command = [python or sys.executable, "-P", "-c", UNCOLLECTED, module, *arguments]
        self._noun = noun
        self._environment = {**os.environ, **(environment or {})}
        self._process: subprocess.Popen[bytes] | None = None
        self._errors: IO[bytes] | None = None
        self._said = ""

    def ask(self, job: Mapping[str, Any], timeout_s: float, replies: Ask | None = None) -> dict[str, Any]:
        """Send a job and wait for its answer.

        Args:
            timeout_s: after so long without an answer, or a question, the process is killed [s]: CPU time of it and of
                what it has started, or any time where it computes nothing.
            replies: answers what the process asks back.

        Raises:
            Died: the process ended without an answer; the next job finds a new one.
        """
        if self._process:
            self._forget_what_was_printed()
        process = self._process or self._start()
        answer = self._exchanged(process, job, timeout_s)
        while replies is not None and ASKS in answer:
            try:
                reply = replies(answer[ASKS])
            except BaseException:
                self.stop()
                raise
            answer = self._exchanged(process, reply, timeout_s)
        return answer

    def _exchanged(
        self, process: "subprocess.Popen[bytes]", message: Mapping[str, Any], timeout_s: float
    ) -> dict[str, Any]:
        """Send a line and wait for one. Raises: Died."""
        late, done = threading.Event(), threading.Event()
        used_s, timers = [cpu_s(process.pid)], list[threading.Timer]()

        def look(window_s: float) -> None:
            if done.is_set():
                return
            used_s.append(cpu_s(process.pid))
            left_s = timeout_s - (used_s[-1] - used_s[0])
            if used_s[-1] - used_s[-2] > IDLE_FRACTION * window_s and left_s > IDLE_FRACTION * timeout_s:
                wait(max(left_s, min(LEAST_WINDOW_S, timeout_s)))  # others have the cores, too
                return
            late.set()
            self.kill()

        def wait(window_s: float) -> None:
            timers.append(threading.Timer(window_s, look, (window_s,)))
            timers[-1].daemon = True
            timers[-1].start()

        wait(timeout_s)
        try:
            return _exchange(process, message)
        except (EOFError, OSError, ValueError) as error:
            if late.is_set() and used_s[-1] - used_s[-2] > IDLE_FRACTION * timers[-1].interval:
                reason = (
                    f"the {self._noun} was still at work after {timeout_s:g} s of computing; a longer limit may do"
                    " (--time-limit, or timeout_s)"
                )
            elif late.is_set():
                reason = f"hang: the {self._noun} gave no answer in {timeout_s:g} s"
            elif isinstance(error, ValueError):
                reason = f"the {self._noun} gave an answer that is no JSON"
            else:
                reason = self._last_words(process)
            self.stop()
            raise WorkerDied(reason) from None
        except BaseException:
            self.stop()
            raise
        finally:
            done.set()
            timers[-1].cancel()

    @property
    def said(self) -> str:
        """What the process has written on stderr, and what it has printed, up to its end where it has ended."""
        if self._errors is not None and not self._errors.closed:
            size = os.fstat(self._errors.fileno()).st_size
            self._said = os.pread(self._errors.fileno(), size, 0).decode(errors="replace")
        return self._said

    def kill(self) -> None:
        """Let the process not finish what it is at: whoever waits for it sees it die."""
        process = self._process
        if process and process.poll() is None:
            # The whole group: what the process has started must not live on.
            os.killpg(process.pid, signal.SIGKILL)

    def stop(self) -> None:
        """End the process, and let go of its pipes."""
        process, self._process = self._process, None
        if process is None:
            return
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        _ = self.said  # what is asked for later
        for pipe in (process.stdin, process.stdout, self._errors):
            if pipe:
                try:
                    pipe.close()
                except OSError:  # what was still to be written has nobody to read it
                    continue

    def abandon(self) -> None:
        """In a forked child: let go of the pipes of a process that is the parent's, so that it sees the parent end."""
        process, self._process = self._process, None
        if process is None:
            return
        process.returncode = 0  # no child of this process: nothing to wait for
        for pipe in (process.stdin, process.stdout):
            if pipe:
                pipe.raw.close()  # type: ignore[attr-defined]  # without writing what the parent has begun

    def _forget_what_was_printed(self) -> None:
        """The next job is not blamed for what was printed before; a process that lives long prints much."""
        assert self._errors
        os.lseek(self._errors.fileno(), 0, os.SEEK_SET)
        os.ftruncate(self._errors.fileno(), 0)

    def _start(self) -> "subprocess.Popen[bytes]":
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115
        self._process = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=self._environment,
            process_group=0,  # ctrl-C is for the process that asks, which then ends this one
        )
        return self._process

    def _last_words(self, process: "subprocess.Popen[bytes]") -> str:
        assert self._errors
        status = process.wait()
        self._errors.seek(0)
        said = telling_line(self._errors.read().decode(errors="replace"))
        return f"the {self._noun} died ({how_ended(status)})" + (f": {said}" if said else "")


def _exchange(process: "subprocess.Popen[bytes]", job: Mapping[str, Any]) -> dict[str, Any]:
    assert process.stdin and process.stdout
    process.stdin.write(json.dumps(job).encode() + b"\n")
    process.stdin.flush()
    line = process.stdout.readline()
    if not line.endswith(b"\n"):
        raise EOFError
    answer = json.loads(line)
    if not isinstance(answer, dict):
        raise ValueError("no object")
    return answer


def cpu_s(group: int) -> float:
    """CPU time of the processes of a group, and of children that have ended [s]; 0 where the system does not tell."""
    total = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:  # it has just ended
            continue
        total += sum(map(int, fields[11:15])) if int(fields[2]) == group else 0
    return total / os.sysconf("SC_CLK_TCK")


def how_ended(status: int) -> str:
    """What a process's exit status means, e.g. `signal 11, SIGSEGV`."""
    if status >= 0:
        return f"status {status}"
    try:
        return f"signal {-status}, {signal.Signals(-status).name}"
    except ValueError:
        return f"signal {-status}"


def telling_line(text: str) -> str:
    """The line of a process's output that says why it stopped; empty where it said nothing."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    telling = [line for line in lines if TELLING.search(line)] or lines[-1:]
    return telling[0][:LONGEST_REASON] if telling else ""


def serve(answer: Any) -> None:
    """Answer jobs with `answer(job)` until stdin ends; what libraries print on stdout goes to stderr instead."""
    serve_asking(lambda job, _: answer(job))


def serve_asking(answer: Callable[[Any, Ask], Mapping[str, Any]]) -> None:
    """The same with `answer(job, ask)`, where `ask` asks whoever gave the job."""
    jobs, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    gc.freeze()  # what is imported stays
    gc.enable()

    def on_progress(message: Mapping[str, Any]) -> None:
        sys.stdout.flush()
        answers.write(json.dumps(message).encode() + b"\n")
        answers.flush()

    def ask(question: Mapping[str, Any]) -> dict[str, Any]:
        on_progress({ASKS: question})
        reply: dict[str, Any] = json.loads(jobs.readline())
        return reply

    for line in iter(jobs.readline, b""):
        on_progress(answer(json.loads(line), ask))
