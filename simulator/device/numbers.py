"""A number of a GPU in a TOML file: `key = { value = ..., kind = "...", source = "..." }`, its range and its origin."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import Field, dataclass, field, fields
from importlib import resources
from numbers import Real
from typing import Any

from ..arguments import shown
from ..names import unknown

KINDS = ("datasheet", "measured", "counted", "fitted", "fitted on public tables", "assumed")
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""Characters that would give orders to a terminal; lines and tabs are text."""


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where a number is from.

    Args:
        kind: datasheet, measured, counted (in machine code), fitted or assumed; or set, by a what-if.
        source: page, paper or measurement.
    """

    kind: str
    source: str


def number(low: float, high: float, doc: str, *, optional: bool = False, count: int = 0) -> Any:
    """A field with its allowed range.

    Args:
        doc: what `tilesight devices NAME` prints beside it.
        count: how many values the number is a list of; 0: a single one.
    """
    metadata = {"low": low, "high": high, "optional": optional, "count": count, "doc": doc}
    return field(default=0, metadata=metadata) if optional else field(metadata=metadata)


def numbers_of(kind: type) -> list[Field[Any]]:
    """The numeric fields of a class, in order; `metadata` holds the arguments of `number`."""
    return [item for item in fields(kind) if "doc" in item.metadata]


def is_whole(item: Field[Any]) -> bool:
    """Whether a number, or each of a list, is a whole one."""
    return item.type in (int, tuple[int, ...])


def check_number(item: Field[Any], value: object) -> None:
    """Refuse what no GPU can have. Raises: ValueError: the text names field, value and range."""
    count = item.metadata["count"]
    if not count:
        check_value(item.name, item, value)
    elif not isinstance(value, tuple) or len(value) != count:
        raise ValueError(f"{item.name} = {value!r}: must be a list of {count} numbers")
    else:
        for place, single in enumerate(value):
            check_value(f"{item.name}[{place}]", item, single)


def check_value(name: str, item: Field[Any], value: object) -> None:
    """The same of a single value. Args: name: for the text; item: whose range counts."""
    low, high = item.metadata["low"], item.metadata["high"]
    if isinstance(value, bool) or not isinstance(value, Real) or not low <= value <= high:
        raise ValueError(f"{name} = {shown(value)}: must be a number from {low:g} to {high:g}")
    if is_whole(item) and value % 1:
        raise ValueError(f"{name} = {value!r}: must be a whole number from {low:g} to {high:g}")


def read_entry(key: str, entry: object, more: Sequence[str] = ()) -> tuple[Any, Provenance]:
    """Value and origin of one line of a file. Args: more: other keys it may have. Raises: ValueError: it has others."""
    if not isinstance(entry, dict) or set(entry).difference(more) != {"value", "kind", "source"}:
        raise ValueError(f"{key}: must be {{ value = ..., kind = ..., source = ... }}")
    if entry["kind"] not in KINDS:
        raise ValueError(f"{key}: kind = {entry['kind']!r}: must be one of {', '.join(KINDS)}")
    if not isinstance(entry["source"], str) or not entry["source"].strip():
        raise ValueError(f"{key}: source is empty; say where the number is from")
    return entry["value"], Provenance(entry["kind"], plain(f"{key}: source", entry["source"]))


def check_keys(table: Mapping[str, object], known: Mapping[str, object], where: str) -> None:
    """Refuse unknown keys. Raises: ValueError: the text names the nearest that is read."""
    for key in table:
        if key not in known:
            raise ValueError(f"key {unknown(key, known, where)}")


def names_in(folder: str) -> list[str]:
    """Names of the TOML files of a folder beside this module, sorted."""
    files = (resources.files(__package__) / folder).iterdir()
    return sorted(file.name.removesuffix(".toml") for file in files if file.name.endswith(".toml"))


def text_in(folder: str, name: str) -> str:
    """The text of one of these files."""
    return (resources.files(__package__) / folder / f"{name}.toml").read_text("utf-8")


def plain(what: str, text: str) -> str:
    """A text of a file, for people to read. Raises: ValueError: it holds what only a terminal understands."""
    if control := CONTROL.search(text):
        raise ValueError(f"{what} holds the control character {control[0]!r}: must be plain text")
    return text
