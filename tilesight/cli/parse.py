"""Options of typer: how their values are read, and what a shell completes them by."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import typer

from .output import BadInput

Value = TypeVar("Value")


def whole(text: str) -> int:
    """A whole number, for typer."""
    try:
        return int(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is no whole number") from None


def number(text: str) -> float:
    """A number, for typer."""
    try:
        return float(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is no number") from None


def read_option(name: str, file: Path, read: Callable[[Path], Value]) -> Value:
    """What the file of an option holds. Raises: BadInput: it cannot be read, or `read` raises ValueError."""
    try:
        return read(file)
    except OSError as error:
        raise BadInput(f"{name} {str(file)!r}: cannot be read ({error.strerror})") from None
    except ValueError as error:
        raise BadInput(f"{name} {str(file)!r}: {error}") from None


def one_of(*allowed: str) -> Callable[[str], str]:
    """One of a few words, for typer."""

    def parse(text: str) -> str:
        if text not in allowed:
            raise typer.BadParameter(f"{text!r} must be one of {', '.join(allowed)}")
        return text

    return parse


def each_once(name: str, text: str, values: Sequence[Value]) -> tuple[Value, ...]:
    """The values of a list. Args: name: of the option; text: as typed. Raises: BadInput: one is there twice."""
    for place, value in enumerate(values):
        if value in values[:place]:
            raise BadInput(f"{name} {text!r}: has {value} twice; give it once")
    return tuple(values)


def option(
    name: str,
    doc: str,
    metavar: str = "INT",
    parser: Callable[[str], Any] | None = None,
    words: Callable[[], Iterable[str]] | None = None,
) -> Any:
    """A typer option; a whole number where nothing else is said. Args: words: what a shell completes it by."""

    def completed(incomplete: str) -> list[str]:
        return [word for word in words() if word.startswith(incomplete)] if words else []

    reader = parser or (whole if metavar == "INT" else None)
    return typer.Option(name, help=doc, metavar=metavar, parser=reader, autocompletion=completed if words else None)


def flag(name: str, doc: str) -> Any:
    """A typer flag."""
    return typer.Option(name, help=doc)
