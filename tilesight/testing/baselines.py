"""Baselines of tests: files of `predict --save` in a folder of the user's repository, by name."""

import os
import re
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

import pytest

from ..diffing.saved import OtherModel, side_of
from ..diffing.side import Side
from ..diffing.sides import Question
from ..simulator.display.files import write_whole
from ..simulator.refusal import UserError

NAME = re.compile(r"\w[\w.,=+-]*", re.ASCII)
UNSAFE = re.compile(r"[^\w.,=+-]+", re.ASCII)
"""What no file is named by."""
LONGEST = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Baselines:
    """A folder of them. Args: root: of the repository; folder: below it; how: the command that writes a test's."""

    root: Path
    folder: Path
    how: str

    def path(self, name: str) -> Path:
        """The file of a name."""
        return self.folder / f"{name}.json"

    def shown(self, name: str) -> str:
        """That file, as people are told of it."""
        return os.path.relpath(self.path(name), self.root)

    def need(self, name: str) -> None:
        """See that there is one. Raises: ValueError: there is none; the line says what writes it."""
        if not self.path(name).exists():
            raise ValueError(f"{self.shown(name)}: there is no such baseline yet; write it: {self.how}")

    def read(self, name: str, question: Question) -> tuple[Side, str]:
        """What a baseline holds; predicted anew, with a note, where another version of the model has predicted it.

        Returns:
            It, and that note; empty where there is none.

        Raises:
            ValueError: it is none, or answers another question (one line).
        """
        path, note = self.path(name), ""
        try:
            try:
                side = side_of(path, question, repredict=False)
            except OtherModel as error:
                side = side_of(path, question, repredict=True)
                note = f"{self.shown(name)}: is of {error.version}: is predicted anew; to keep that: {self.how}"
        except UserError as error:
            raise ValueError(f"{error}: {self.how}") from None
        return replace(side, name=self.shown(name), notes=(*side.notes, *([note] if note else []))), note

    def write(self, name: str, text: str) -> bool:
        """Write a baseline, whole or not at all. Returns: whether another one stood there, or none."""
        path = self.path(name)
        data = text.encode()
        if path.exists() and path.read_bytes() == data:
            return False
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, data)
        return True


def given_name(name: object) -> str:
    """A name that the user gives. Raises: ValueError: no file can be named so."""
    if not isinstance(name, str) or not NAME.fullmatch(name) or len(name) > LONGEST:
        raise ValueError(f"baseline = {name!r}: must be a name of letters, digits and . , = + - _ (at most {LONGEST})")
    return name


def name_of(item: pytest.Item, root: Path) -> str:
    """The baseline of a test that names none: file, classes and name, `tests/test_norm/TestRows.test_fast-1024`."""
    file = item.path.with_suffix("")
    folder = file.relative_to(root).as_posix() if file.is_relative_to(root) else file.name
    classes = [node.name for node in item.listchain() if isinstance(node, pytest.Class)]
    return f"{folder}/{_safe('.'.join([*classes, item.name]))}"


def _safe(name: str) -> str:
    """A test's name, as a file may be named; what had to change leaves a digest, so that no two become the same."""
    plain = name.replace("[", "-", 1).removesuffix("]")
    safe = UNSAFE.sub("-", plain)[:LONGEST]
    return safe if safe == plain else f"{safe}-{sha256(name.encode()).hexdigest()[:8]}"
