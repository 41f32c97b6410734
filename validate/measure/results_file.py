"""The results file: a line of JSON a point, appended so that a run killed at any moment loses none and repeats none.

The first line says where and with what was measured (the header), every other one is a row.
A row is written by one `write` at the end of the file and synced to the disk before the next point begins;
a half line that a dying machine left at the end is cut off when the file is opened again.
"""

import fcntl
import json
import lzma
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from ...simulator.launch.program import Resources
from ..measurement import Machine, Outcome, outcome_from_dict
from ..points.point import Point

SCHEMA = "tilesight.validate/1"
COMPRESSED = ".xz"


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """What holds for all rows of a file. Args: machine; device: name or file that predictions were first made for."""

    machine: Machine
    device: str

    def to_dict(self) -> dict[str, Any]:
        """The header's object in JSON."""
        return {"schema": SCHEMA, "machine": self.machine.to_dict(), "device": self.device}

    @classmethod
    def from_dict(cls, entry: dict[str, Any]) -> "Header":
        """The header of a JSON object. Raises: KeyError, TypeError, ValueError: it is none."""
        if entry["schema"] != SCHEMA:
            raise ValueError(f"schema = {entry['schema']!r}: must be {SCHEMA!r}")
        return cls(machine=Machine.from_dict(entry["machine"]), device=entry["device"])

    def same_setting(self, other: "Header") -> bool:
        """Whether rows under both headers may stand in one file: measured by the same means, on whatever day."""
        return replace(self.machine, date="") == replace(other.machine, date="")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One point and what became of it.

    Args:
        resources: of each launch, as the compiler said before anything ran; empty where it did not compile.
        outcome: the measurement, or why there is none.
    """

    point: Point
    resources: tuple[Resources, ...]
    outcome: Outcome

    def to_dict(self) -> dict[str, Any]:
        """The row's object in JSON."""
        resources = [taken.to_dict() for taken in self.resources]
        return {"point": self.point.to_dict(), "resources": resources, "outcome": self.outcome.to_dict()}

    @classmethod
    def from_dict(cls, entry: dict[str, Any]) -> "Row":
        """The row of a JSON object. Raises: KeyError, TypeError, ValueError: it is none."""
        return cls(
            point=Point.from_dict(entry["point"]),
            resources=tuple(Resources(**taken) for taken in entry["resources"]),
            outcome=outcome_from_dict(entry["outcome"]),
        )


def read_results(path: Path) -> tuple[Header | None, list[Row]]:
    """Header and rows of a file, which may be compressed (.xz); no header where it is empty or only a half line.

    Raises:
        ValueError: a whole line is not what it should be; the text names file, line and what is wrong.
        OSError: the file cannot be read.
    """
    whole, _, _ = _content(path).rpartition(b"\n")
    header: Header | None = None
    rows: list[Row] = []
    for number, line in enumerate(whole.splitlines(), 1):
        try:
            entry = json.loads(line)
            if number == 1:
                header = Header.from_dict(entry)
            else:
                rows.append(Row.from_dict(entry))
        except (KeyError, TypeError, ValueError) as error:
            # A KeyError's text is the key alone.
            what = f"{type(error).__name__}: {error}" if isinstance(error, KeyError) else str(error)
            raise ValueError(f"{path}: line {number} is no result of `tilesight validate`: {what}") from None
    return header, rows


def cut_line(path: Path) -> int | None:
    """The number of a last line that has no end, which `read_results` leaves out; None: there is none."""
    whole, _, rest = _content(path).rpartition(b"\n")
    return len(whole.splitlines()) + 1 if rest else None


def _content(path: Path) -> bytes:
    """What a file holds, decompressed. Raises: ValueError: it is not compressed; OSError: it cannot be read."""
    stored = path.read_bytes()
    try:
        return lzma.decompress(stored) if path.suffix == COMPRESSED else stored
    except lzma.LZMAError as error:
        raise ValueError(f"{path}: is no xz file ({error})") from None


@contextmanager
def appending(path: Path, header: Header) -> Iterator[tuple[list[Row], Callable[[Row], None]]]:
    """Open a results file to continue it, locked until it is closed.

    Args:
        header: of this run; written where the file is new.

    Yields:
        The rows that are there already, and a function that appends one and returns once it is on the disk.

    Raises:
        ValueError: another run has the file open, it was measured elsewhere, or it is no results file; one line.
        OSError: it cannot be read or written.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ValueError(f"{path}: another run is writing to it") from None
        written, rows = read_results(path)
        if written and not header.same_setting(written):
            raise ValueError(f"{path}: {_difference(written, header)}; name another file")
        os.ftruncate(descriptor, _whole_bytes(path))
        if not written:
            _append(descriptor, header.to_dict())
            _sync_folder(path)
        yield rows, lambda row: _append(descriptor, row.to_dict())
    finally:
        os.close(descriptor)


def _append(descriptor: int, value: dict[str, Any]) -> None:
    line = json.dumps(value, separators=(",", ":"), allow_nan=False).encode() + b"\n"
    while line:  # a disk that is nearly full takes a part; the rest then says so
        line = line[os.write(descriptor, line) :]
    os.fsync(descriptor)


def _whole_bytes(path: Path) -> int:
    """Length of a file up to the end of its last whole line [B]."""
    return path.read_bytes().rfind(b"\n") + 1


def _sync_folder(path: Path) -> None:
    """A new file's name is on the disk once its folder is."""
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _difference(written: Header, header: Header) -> str:
    there, here = asdict(written.machine), asdict(header.machine)
    name = next(name for name in there if name != "date" and there[name] != here[name])
    return f"was measured with {name} {there[name] or 'unknown'}, this is {here[name] or 'unknown'}"
