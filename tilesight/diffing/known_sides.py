"""Predicted sides that are kept in the store of predictions: found by their code, or predicted and kept.

A side that is compared again, as the base of each pull request is, is predicted once.
"""

import json
from hashlib import sha256
from pathlib import Path

import msgspec

from ..simulator.store.keys import device_text, model
from ..simulator.store.store import Row, usual_store
from . import code, side, sides
from .side import LaunchSide, Side
from .sides import Compiled, Question, predicted, side_with

MADE_BY = (code, side, sides)
"""Modules that decide what a side holds, beside the model."""


def predicted_once(compiled: Compiled, question: Question) -> Side:
    """A side as `predicted` gives it. One that lacks something is not kept: asked again, it may be given."""
    store = usual_store() if compiled.code else None
    key = _key(compiled, question) if store else ""
    if store and (kept := store.answers([key], tuple[LaunchSide, ...]).get(key)):
        return side_with(kept, compiled, question, predicted=True)
    made, _ = predicted(compiled, question)
    if store and made.complete:
        kernels = " + ".join(dict.fromkeys(launch.row.name for launch in made.launches))
        answer = Row(key=key, device=made.device, kernel=kernels, time_s=made.time_s, answer=made.launches)
        store.put_all([answer])
    return made


def _key(compiled: Compiled, question: Question) -> str:
    """The name of what a side is predicted from: its code, launches and lines of source, and the device."""
    asked = [
        model(),
        [sha256(Path(module.__file__ or "").read_bytes()).hexdigest() for module in MADE_BY],
        [device_text(question.device), question.name, question.l2, question.timing],
        [compiled.code, compiled.codes, compiled.shapes, compiled.tilings],
        [[msgspec.to_builtins(launch.row), launch.tuned, launch.cooperative] for launch in compiled.launches],
        _sources(compiled),
    ]
    return sha256(json.dumps(asked, sort_keys=True, default=str).encode()).hexdigest()


def _sources(compiled: Compiled) -> list[object]:
    """Lines that the code comes from, by names of files, and what stands in these files."""
    codes = [launch.kernel.resources.code for launch in compiled.launches if launch.kernel]
    lines = [line for code in codes if code for line in code.lines]
    files = [Path(file) for file in sorted({file for _, file, _ in lines})]
    texts = [[file.name, sha256(file.read_bytes()).hexdigest() if file.is_file() else ""] for file in files]
    return [texts, [[address, Path(file).name, number] for address, file, number in lines]]
