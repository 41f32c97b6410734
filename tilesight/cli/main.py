"""The `tilesight` command: exit 0 answered, 1 failed, 2 bad input, 130 interrupted, 141 left by its reader."""

import os
import sys
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from typing import Annotated, Any

import typer

from .. import __version__
from ..simulator.refusal import BrokenLaw
from .line.listing import Commands
from .output import BadInput, Failed, ReaderLeft, one_line, open_streams, show

INTERRUPTED, READER_LEFT = 130, 141
"""What a shell reports of a program that ends by SIGINT, and by SIGPIPE as in `| head -1`."""
OPTIONAL = ("hypothesis",)
"""Packages that one command alone needs, which an extra of pyproject.toml installs."""

SCHEDULES, CODE, GPU = "For schedules", "For your code", "On a GPU"
LISTED = {
    "explore": (SCHEDULES, "Rank block sizes and other options; say which is best and why."),
    "simulate": (SCHEDULES, "Predict one configuration in detail."),
    "compare": (SCHEDULES, "Compare schedules over sequence lengths."),
    "model": (SCHEDULES, "Say what attention of a model costs, prefill and decode; or list the models."),
    "predict": (CODE, "Predict the kernels that a function of yours launches."),
    "profile": (CODE, "Say what a step of PyTorch takes, kernel by kernel."),
    "diff": (CODE, "Say what a change does to your kernels, without running them."),
    "tune": (CODE, "Choose the fastest configuration of your kernels, without running them."),
    "explain": (CODE, "Show where cycles go, by source line: of your kernels, or of a configuration."),
    "check-softmax": (CODE, "Test a softmax or attention function of yours against the laws of online softmax."),
    "devices": (GPU, "List the GPUs, or show the numbers of one."),
    "doctor": (GPU, "Check what validate and calibrate need."),
    "calibrate": (GPU, "Measure this GPU with microbenchmarks; write its device file."),
    "validate": (GPU, "Run the kernels on this GPU; print predicted beside measured."),
}
"""Command -> the list that it is in, and what it does; each has a file in `commands`, loaded when it is asked for."""


@cache
def _load(name: str) -> Any:
    """A command, as typer makes it of its function."""
    from .given import Command

    word = name.replace("-", "_")
    alone = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    alone.command(cls=Command, short_help=LISTED[name][1], context_settings={"max_content_width": 110})(
        getattr(import_module(f".commands.{word}", __package__), word)
    )
    return typer.main.get_command(alone)


class _Tilesight(Commands):
    listed, load = LISTED, staticmethod(_load)


app = typer.Typer(
    cls=_Tilesight,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Predict where every byte and cycle of a GPU kernel goes, without a GPU.",
    epilog="Data goes to stdout, remarks to stderr. Exit codes: 0 success, 1 failure, 2 bad input.",
)


def _print_version(wanted: bool) -> None:
    if wanted:
        sys.stdout.write(f"tilesight {__version__}\n")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _tilesight(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        show(context.get_help())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line. Args: arguments: those of the process where None. Returns: the exit code."""
    try:
        open_streams()
        command = typer.main.get_command(app)
        code = command.main(
            args=None if arguments is None else list(arguments), prog_name="tilesight", standalone_mode=False
        )
        sys.stdout.flush()
        if code == INTERRUPTED:  # typer catches ctrl-C itself
            raise KeyboardInterrupt
        return code if isinstance(code, int) else 0
    except (KeyboardInterrupt, typer.Abort):
        return _failed(INTERRUPTED, "interrupted")
    except (BrokenPipeError, ReaderLeft):
        return _left_alone()
    except SystemExit as error:
        if isinstance(error.__context__, BrokenPipeError):  # what typer makes of a reader that leaves its help
            return _left_alone()
        raise
    except BadInput as error:
        return _failed(2, str(error))
    except (Failed, BrokenLaw) as error:
        return _failed(1, str(error))
    except OSError as error:
        return _failed(1, f"{error.filename or 'output'}: {error.strerror or error}")
    except Exception as error:
        # typer's own usage errors; looked at by shape, as their class has moved between versions of typer.
        if getattr(error, "exit_code", None) == 2 and hasattr(error, "format_message"):
            return _failed(2, _usage(error))
        if os.environ.get("TILESIGHT_DEBUG"):
            raise
        if isinstance(error, ImportError) and (lack := _lack(error)):
            return _failed(2, lack)
        return _failed(1, f"internal error: {type(error).__name__}: {error} (TILESIGHT_DEBUG=1 shows the traceback)")


def _left_alone() -> int:
    """Whoever read has left. What is still buffered must not raise once more when the interpreter ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return READER_LEFT


def _lack(error: ImportError) -> str:
    """What to say of a package that is missing, or of another version than is supported; empty of other errors."""
    if error.name in OPTIONAL:
        return f"{error.name} is not installed: {sys.executable} -m pip install {error.name}"
    return str(error) if error.name == "numba" else ""


def _usage(error: Any) -> str:
    """What to say of a usage error of typer's."""
    text, near = error.format_message().rstrip("."), getattr(error, "possibilities", None)
    if others := _commands_with(error):
        return f"No such option: {error.option_name}: one of {', '.join(others)}, not of {error.ctx.info_name}"
    if near and hasattr(error, "option_name"):
        return f"No such option: {error.option_name}: did you mean {', '.join(sorted(near))}?"
    return f"{text} (tilesight --help shows what there is)"


def _commands_with(error: Any) -> list[str]:
    """Commands that have an option which the one that was asked lacks; none of any other error."""
    if not error.ctx or not hasattr(error, "option_name"):
        return []
    commands = ((name, _load(name)) for name in LISTED)
    return [name for name, command in commands if any(error.option_name in param.opts for param in command.params)]


def _failed(code: int, text: str) -> int:
    try:
        print(f"tilesight: {one_line(text)}", file=sys.stderr, flush=True)
    except OSError:
        return code
    return code
