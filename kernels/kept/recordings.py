"""Recorded steps on disk: looked for before a process is started that records, and kept as it answers.

A name holds all that is asked, and the code that answers; what is kept says which files and folders it was made of.
Of a step that prints, what it prints is kept, too; one that did not run to its end is not kept.
"""

import json
import os
import sys
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from ...simulator.device.device import Device
from ...simulator.store.keys import device_text, model
from ...simulator.store.store import usual_store
from ..compile.made_by import triton_version
from .witnesses import FileFingerprint, unchanged

OF_A_TERMINAL = frozenset(
    {
        *("_", "PWD", "OLDPWD", "SHLVL", "COLUMNS", "LINES", "COLORTERM", "LS_COLORS", "PS1", "WINDOWID"),
    }
)
SESSIONS = ("TERM", "SSH_", "TMUX", "VTE_", "XDG_SESSION_", "DBUS_SESSION_")
"""Variables, and begins of their names, that say which terminal a command is given in: all others may matter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """What a process answered that recorded a step.

    Args:
        witnesses: files and folders that it was made of; printed: what the process wrote on stderr.
        answer: JSON, compressed by zlib.
    """

    witnesses: Sequence[FileFingerprint]
    printed: str
    answer: bytes


def recording_key(job: Mapping[str, Any], device: Device) -> str:
    """The name of a step.

    Args:
        job: what the process is told, with the text of a file that is written for it in the place of its path.
    """
    variables = {
        name: value for name, value in os.environ.items() if name not in OF_A_TERMINAL and not name.startswith(SESSIONS)
    }
    asked = [
        *(model(), device_text(device), dict(job), variables, os.getcwd()),
        *(sys.version, sys.executable, _torch_version(), triton_version()),
    ]
    return sha256(json.dumps(asked, sort_keys=True, default=str).encode(errors="surrogateescape")).hexdigest()


def _torch_version() -> str:
    try:
        return version("torch")
    except PackageNotFoundError:  # built from source: its files tell
        return ""


def kept_recording(key: str) -> tuple[dict[str, Any], str] | None:
    """What a process answered, and what it printed; None: nothing is kept, or a file has changed since."""
    store = usual_store()
    recording = store.recordings([key], Recording).get(key) if store else None
    if recording is None or not unchanged(recording.witnesses):
        return None
    answer: dict[str, Any] = json.loads(zlib.decompress(recording.answer))
    return answer, recording.printed


def keep_recording(key: str, answer: Mapping[str, Any], witnesses: Sequence[Mapping[str, Any]], printed: str) -> None:
    """Keep an answer in the place of what is kept. Args: witnesses: as the process tells them."""
    if store := usual_store():
        recording = Recording(
            witnesses=[FileFingerprint(**witness) for witness in witnesses],
            printed=printed,
            answer=zlib.compress(json.dumps(answer).encode(), 1),
        )
        store.put_recording(key, recording)
