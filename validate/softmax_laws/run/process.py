"""One process and what it says: a line of JSON an event, a watchdog between events, the last words of one that died."""

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from typing import Any

from ...simulator.jobs.processes import how_ended, telling_line

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
