"""How the commands speak: data on stdout, remarks on stderr, files whole or not at all, bad input in one line."""

import os
import re
import secrets
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic

SHOW_PROGRESS_AFTER_S = 1.0
SAY_PROGRESS_EVERY_S = 15.0
"""Where stderr is no terminal, a line so often: a log is read later."""
WORTH_SAYING_S = 5.0
"""What ends sooner needs no more lines."""


class BadInput(Exception):
    """What the user gave cannot be used. The text is one line: option, key or file; value; what is allowed."""


class Failed(Exception):
    """What was asked for was tried, and failed. The text is one line."""


def say(text: str) -> None:
    """A remark for the user, on stderr."""
    print(f"tilesight: {one_line(text)}", file=sys.stderr, flush=True)


def one_line(text: str) -> str:
    """The text on one line, with control characters spelt out."""
    words = " ".join(text.split())
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in words)


@contextmanager
def bad_input(*options: str) -> Iterator[None]:
    """Turn a ValueError about a field into bad input about the option of that name.

    Args:
        options: fields that are options here, e.g. `block_m` for `--block-m`.
    """
    try:
        yield
    except (ValueError, OverflowError) as error:
        text = str(error)
        named = re.match(r"([a-z]\w*)(?= = |:)", text)
        if named and named[1] in options:
            text = f"--{named[1].replace('_', '-')}{text[named.end() :]}"
        raise BadInput(text) from None


def check_outputs(**files: Path | None) -> None:
    """See that every output file can be written, before any work is done.

    Args:
        files: option name without dashes -> file, or None where the user asked for none.

    Raises:
        BadInput: a folder does not exist, a file cannot be written, or two options name one file.
    """
    seen: dict[str, str] = {}
    for option, path in files.items():
        if path is None:
            continue
        try:
            target = os.path.realpath(path)
            if target in seen:
                raise BadInput(f"--{option} {str(path)!r}: is the file of --{seen[target]} already; name two files")
            seen[target] = option
            if os.path.isdir(target):
                raise BadInput(f"--{option} {str(path)!r}: is a folder; name a file")
            if os.path.exists(target) and not os.access(target, os.W_OK):
                raise BadInput(f"--{option} {str(path)!r}: cannot be written (no permission)")
            if not os.path.exists(target) or os.path.isfile(target):
                os.stat(os.path.dirname(target))
                probe = _beside(target)
                probe.touch(exist_ok=False)
                probe.unlink()
                # The name itself may be too long; a missing file is what we hope for.
                with suppress(FileNotFoundError):
                    os.stat(target)
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            raise BadInput(f"--{option} {str(path)!r}: cannot be written ({why})") from None


def _beside(target: str) -> Path:
    return Path(target).with_name(f".tilesight-{os.getpid()}-{secrets.token_hex(4)}.tmp")


def write_file(path: Path, content: str | bytes, hint: str = "") -> None:
    """Write a file whole or not at all, and say so; what is no ordinary file (a pipe, a terminal) is written in place.

    Args:
        hint: what to do with it, said as well.

    Raises:
        OSError: it cannot be written; what was there before is still there.
    """
    message = f"wrote {path}{f'; {hint}' if hint else ''}"
    data = content.encode() if isinstance(content, str) else content
    target = os.path.realpath(path)
    if os.path.exists(target) and not os.path.isfile(target):
        with open(target, "wb") as stream:
            stream.write(data)
        say(message)
        return
    temporary = _beside(target)
    try:
        with open(temporary, "xb") as stream:
            stream.write(data)
        if os.path.exists(target):
            os.chmod(temporary, os.stat(target).st_mode & 0o7777)
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    say(message)


def show(text: str) -> None:
    """Data, on stdout."""
    sys.stdout.write(text if text.endswith("\n") else f"{text}\n")
    sys.stdout.flush()


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
