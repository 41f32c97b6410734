"""How the commands speak: data on stdout, remarks on stderr, files whole or not at all, bad input in one line."""

import codecs
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, Protocol

from ..simulator.display.files import write_whole

if TYPE_CHECKING:
    from ..simulator.prediction.timeline import Timeline

SHOW_PROGRESS_AFTER_S = 1.0
SAY_PROGRESS_EVERY_S = 15.0
"""Where stderr is no terminal, a line so often: a log is read later."""
WORTH_SAYING_S = 5.0
"""What ends sooner needs no more lines."""
PLAIN = {"█": "#", "░": ".", "×": "x", "−": "-", "–": "-", "…": "...", "µ": "u"} | dict.fromkeys("─━╴╶╺╸", "-")
"""What stands for a character where the encoding of a stream has none for it."""
PLAIN_TEXT = "tilesight.plain"
"""Name of that, as an error handler of encodings."""


class BadInput(Exception):
    """What the user gave cannot be used. The text is one line: option, key or file; value; what is allowed."""


class Failed(Exception):
    """What was asked for was tried, and failed. The text is one line."""


def open_streams() -> None:
    """Make stdout and stderr ready: any text can be printed in any encoding, and a closed stderr swallows remarks.

    Raises:
        Failed: stdout is closed.
    """

    def plain(error: UnicodeError) -> tuple[str, int]:
        if not isinstance(error, UnicodeEncodeError):
            raise error
        lost = error.object[error.start : error.end]
        return "".join(PLAIN.get(char) or ascii(char)[1:-1] for char in lost), error.end

    codecs.register_error(PLAIN_TEXT, plain)
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors=PLAIN_TEXT)
    if sys.stdout is None:
        raise Failed("standard output is closed: nothing can be printed; send it to a file or to /dev/null")


def say(text: str) -> None:
    """A remark for the user, on stderr."""
    print(f"tilesight: {one_line(text)}", file=sys.stderr, flush=True)


def one_line(text: str) -> str:
    """The text on one line, with control characters spelt out."""
    words = " ".join(text.split())
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in words)


class ReaderLeft(Exception):
    """Whoever read stdout, such as `head`, has left."""


@contextmanager
def bad_input(*options: str, before: str = "") -> Iterator[None]:
    """Turn a ValueError about a field into bad input about the option of that name.

    Args:
        options: fields that are options here, e.g. `block_m` for `--block-m`.
        before: what the text begins with.
    """
    try:
        yield
    except (ValueError, OverflowError) as error:
        text = str(error)
        named = re.match(r"([a-z]\w*)(?= = |:)", text)
        if named and named[1] in options:
            text = f"--{named[1].replace('_', '-')}{text[named.end() :]}"
        raise BadInput(f"{before}{text}") from None


def write_file(path: Path, content: str | bytes, hint: str = "") -> None:
    """Write a file whole or not at all, and say so.

    Args:
        hint: what to do with it, said as well.

    Raises:
        OSError: it cannot be written; what was there before is still there.
    """
    write_whole(path, content)
    say(f"wrote {path}{f'; {hint}' if hint else ''}")


def show(text: str) -> None:
    """Data, on stdout. Raises: ReaderLeft, Failed: it cannot be written."""
    try:
        sys.stdout.write(text if text.endswith("\n") else f"{text}\n")
        sys.stdout.flush()
    except BrokenPipeError:
        raise ReaderLeft from None
    except OSError as error:
        raise Failed(f"standard output: cannot be written ({error.strerror or error})") from None


class Asked(Protocol):
    """The options of a command that prints an answer; of a file that it writes, the path by the option's name."""

    @property
    def json(self) -> bool:
        """Whether JSON is printed in place of text."""


def answer(asked: Asked, text: Callable[[], str], value: Callable[[], Any], **files: Callable[[], Any] | None) -> None:
    """Print an answer, then write its files; where one of these cannot be written, the others still are.

    Args:
        asked: the options of the command.
        text: for people.
        value: what is printed as JSON in its place where that is asked for.
        files: option -> what makes its content, of `csv` its rows; None: there is none to write. Where a command has
            `--json-file`, its file gets the JSON.

    Raises:
        ReaderLeft, Failed: stdout, or a file, cannot be written; the text names it.
    """
    from ..simulator.display import render

    if hasattr(asked, "json_file"):
        files["json_file"] = lambda: render.to_json(value())
    shown = render.to_json(value()) if asked.json else text()
    unread: Exception | None = None
    try:
        if shown:
            show(shown)
    except (ReaderLeft, Failed) as error:
        unread = error
    lost = []
    for name, make in files.items():
        path = getattr(asked, name)
        if path is None or make is None:
            continue
        try:
            write_file(path, render.to_csv(make()) if name == "csv" else make(), HINTS.get(name, ""))
        except OSError as error:
            option = f"--{name.replace('_', '-')}"
            lost.append(f"{option} {str(path)!r}: cannot be written ({error.strerror or error})")
    if lost and unread is None:
        raise Failed(f"{'; '.join(lost)}; the answer is printed all the same")
    for line in lost:
        say(line)
    if unread is not None:
        raise unread


TIMELINE = "Write a timeline of CTAs on SMs for https://ui.perfetto.dev; compressed if FILE ends in .gz."
PAGE = "Write a report for the browser; it opens offline."
"""What the help says of `--trace`, and of `--html`."""


HINTS = {"trace": "open it at https://ui.perfetto.dev"}
"""Option -> what to do with its file."""


def trace_bytes(path: Path, timeline: "Timeline", sms: int | None = None) -> bytes:
    """The content of `--trace`.

    Args:
        path: of the file, whose name says whether it is compressed.
        timeline: what it shows.
        sms: show the CTAs of so many; None: as many as keep it small.
    """
    import gzip

    from ..simulator.report.perfetto import trace_of

    trace = trace_of(timeline, sms)
    if sms is None and trace.shown < trace.sms:
        shown = f"{trace.shown} of {trace.sms} SMs"
        say(f"the trace shows CTAs of {shown}, to stay below 20 MB; simulate --trace-sms asks for more")
    text = trace.text.encode()
    return gzip.compress(text, mtime=0) if path.suffix == ".gz" else text


def text_width() -> int:
    """Columns for tables: those of the terminal; where stdout is none, the environment variable COLUMNS, or 120."""
    if sys.stdout.isatty():
        return max(60, min(os.get_terminal_size(sys.stdout.fileno()).columns or 120, 160))
    given = os.environ.get("COLUMNS", "")
    return max(40, int(given)) if given.isdecimal() else 120


def text_color() -> bool:
    """Whether stdout is a terminal that wants bold headings."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def announce_compiler() -> None:
    """Say so when numba has to compile the engine first."""
    from ..simulator.engine import engine

    if engine.keeps_code() and not engine.is_compiled():
        say("compiling the engine, once, up to a minute ...")


@contextmanager
def progress(what: str) -> Iterator[Callable[[int, int], None]]:
    """A progress bar on stderr, once the work takes long; where stderr is no terminal, a line now and then.

    Args:
        what: plural noun of the things counted.

    Yields:
        A function of (done, all) to call on the way.
    """
    if not sys.stderr.isatty():
        yield _plain_progress(what)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (BarColumn(), MofNCompleteColumn(), TextColumn(what), TimeRemainingColumn())
    display = Progress(*columns, console=Console(stderr=True), transient=True)
    task = display.add_task(what, total=None)
    begin = monotonic()

    def tick(done: int, total: int) -> None:
        display.update(task, completed=done, total=total)
        # A bar that has not begun leaves the terminal to that of an earlier part of the work.
        if monotonic() - begin > SHOW_PROGRESS_AFTER_S:
            display.start()

    try:
        yield tick
    finally:
        if display.live.is_started:
            display.stop()


def _plain_progress(what: str) -> Callable[[int, int], None]:
    """Lines now and then. The first thing to end may have compiled code for all: the others' pace says what is left."""
    last = monotonic()
    first_s, first_done = last, 0

    def tick(done: int, total: int) -> None:
        nonlocal last, first_s, first_done
        now = monotonic()
        if not first_done:
            first_s, first_done = now, done
        since = done - first_done
        left_s = (now - first_s) / since * (total - done) if since else float("inf")
        if now - last >= SAY_PROGRESS_EVERY_S and left_s > WORTH_SAYING_S and done < total:
            last = now
            say(f"{done} of {total} {what}" + (f", about {_minutes(left_s)} left" if since else ""))

    return tick


def _minutes(time_s: float) -> str:
    return f"{time_s / 60:.0f} min" if time_s >= 90 else f"{time_s:.0f} s"
