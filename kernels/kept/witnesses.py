"""Files and folders that a step was recorded from, as they were: what is recorded again where one of them differs.

content     of a user's file
stat        time and size of a file of an installed package, or of one too large to be read for this
importable  names in a folder that Python looks for modules in: a new one may hide another
names       all names in a folder that the code itself lists
"""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from importlib.machinery import all_suffixes
from typing import Literal

Kind = Literal["content", "stat", "importable", "names"]
ABSENT = ""
MOST_READ_BYTES = 64 << 20
"""Files that are larger go by time and size [B]."""
CACHE = "__pycache__"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFingerprint:
    """A file or folder. Args: kind: what is looked at; path: absolute; state: that it was in, `ABSENT`: not there."""

    kind: Kind
    path: str
    state: str


def unchanged(witnesses: Iterable[FileFingerprint]) -> bool:
    """Whether all are as they were."""
    return all(state_of(witness.kind, witness.path) == witness.state for witness in witnesses)


def state_of(kind: Kind, path: str) -> str:
    """The state of a file or folder now."""
    try:
        if kind in ("importable", "names"):
            return _listed(path, importable=kind == "importable")
        status = os.stat(path)
        if kind == "content" and status.st_size <= MOST_READ_BYTES:
            with open(path, "rb") as file:
                return sha256(file.read()).hexdigest()
        return f"{status.st_mtime_ns} {status.st_size}"
    except OSError:
        return ABSENT


def _listed(path: str, importable: bool) -> str:
    endings = tuple(all_suffixes())
    with os.scandir(path) as entries:
        names = [
            entry.name
            for entry in entries
            if entry.name != CACHE and (not importable or entry.name.endswith(endings) or entry.is_dir())
        ]
    return sha256("\0".join(sorted(names)).encode(errors="surrogateescape")).hexdigest()
