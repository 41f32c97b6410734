"""Names of questions: equal where code, arguments, values, device and this program are equal."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import cache
from hashlib import sha256
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import TYPE_CHECKING, Any

from ..simulator.device.device import Device

if TYPE_CHECKING:
    from ..kernels.compile.call import KernelCall

ANSWERED_BY = ("simulator", "kernels", "store")
"""Packages whose code decides what is answered."""
CODE = (".py", ".toml")


def question_key(calls: "Sequence[KernelCall]", device: Device, name: str, l2: str, advice: bool = False) -> str:
    """The name of a prediction: of launches that follow each other, on a device.

    Args:
        name: of the device, for people; advice: whether what would help is asked for, too.
    """
    launches = [_plain(call) for call in calls]
    asked = [model(), _device(device), name, l2, launches, *(["advice"] if advice else [])]
    text = json.dumps(asked, sort_keys=True, default=str)
    return sha256(text.encode()).hexdigest()


@cache
def model() -> str:
    """A digest of the code that predicts: answers of another version are none of this one's."""
    digest = sha256()
    for package in ANSWERED_BY:
        for path, file in sorted(_files(files(f"tilesight.{package}"), package)):
            digest.update(path.encode())
            digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def _files(folder: Traversable, path: str) -> list[tuple[str, Traversable]]:
    listed: list[tuple[str, Traversable]] = []
    for entry in folder.iterdir():
        below = f"{path}/{entry.name}"
        if entry.is_dir() and entry.name != "__pycache__":
            listed += _files(entry, below)
        elif entry.name.endswith(CODE):
            listed.append((below, entry))
    return listed


@cache
def _device(device: Device) -> str:
    return json.dumps(asdict(device), sort_keys=True, default=str)


def _plain(call: "KernelCall") -> Mapping[str, Any]:
    """All of a call that its prediction depends on."""
    from ..kernels.compile.made_by import call_key

    return {
        "code": call_key(call.job),
        "name": call.name,
        "grid": call.grid,
        "stages": call.num_stages,
        "arguments": dict(call.arguments),
        "cooperative": call.cooperative,
        "tuned": [call.tuned, dict(call.configuration)],
        "storages": [
            [
                storage.number,
                storage.size_bytes,
                storage.name,
                storage.whole,
                storage.origin,
                None if storage.values is None else sha256(storage.values).hexdigest(),
            ]
            for storage in call.storages
        ],
    }
