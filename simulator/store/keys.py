"""What names of questions are made of: the code that predicts, the device, and what runs of a schedule.

Equal names mean equal answers: all that a prediction depends on is in them, by content.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from functools import lru_cache
from hashlib import sha256
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

from ..arguments import Settings
from ..device.device import Device
from ..device.numbers import Provenance
from ..launch.program import Figures, Launch, Resources
from ..resolve import Resolved

ANSWERED_BY = ("simulator", "kernels")
"""Packages whose code decides what is answered."""
ASKED_FROM = ("simulator/explore", "simulator/report")
"""Folders of these that ask for answers and show them, which no other part of them imports: they decide none."""
CODE = (".py", ".toml")
Origins = tuple[tuple[str, Provenance], ...]


@lru_cache
def model() -> str:
    """A digest of the code that predicts: answers of another version are none of this one's."""
    return digest_of({package: files(f"tilesight.{package}") for package in ANSWERED_BY})


def digest_of(packages: Mapping[str, Traversable]) -> str:
    """A digest of what decides in the code of packages. Args: packages: name -> folder."""
    digest = sha256()
    for package, folder in packages.items():
        for path, file in sorted(_files(folder, package)):
            digest.update(path.encode())
            digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def _files(folder: Traversable, path: str) -> list[tuple[str, Traversable]]:
    listed: list[tuple[str, Traversable]] = []
    for entry in folder.iterdir():
        below = f"{path}/{entry.name}"
        if entry.name.endswith(CODE):
            listed.append((below, entry))
        elif entry.name != "__pycache__" and below not in ASKED_FROM and entry.is_dir():
            listed += _files(entry, below)
    return listed


def device_text(device: Device) -> str:
    """All numbers of a device and where they come from: those that a what-if has set may count for more."""
    return _device_text(device, tuple(device.provenance.items()), tuple(device.sm.provenance.items()))


@lru_cache(maxsize=64)
def _device_text(device: Device, origins: Origins, sm_origins: Origins) -> str:
    """The same. Args: origins, sm_origins: that equal devices may differ in."""
    return json.dumps(asdict(device), sort_keys=True, default=str)


def pipeline_key(resolved: Resolved, device: Device, settings: Settings) -> str:
    """The name of a prediction of what runs.

    Of the library it names the kernels that stand for these launches, not the others that it holds.
    """
    asked = [
        model(),
        device_text(device),
        asdict(settings),
        [resolved.problem.KIND, resolved.problem.to_dict()],
        [resolved.schedule.name, resolved.config.named()],
        [resolved.cost, resolved.shrunk, resolved.uncompiled],
        [_launch(launch) for launch in resolved.launches],
    ]
    return sha256(json.dumps(asked, default=str).encode()).hexdigest()


def _launch(launch: Launch) -> Sequence[Any]:
    """A launch of a schedule, but for `items`, which follows from problem, schedule and configuration."""
    program = launch.program
    return [
        [launch.name, launch.grid, launch.num_warps, launch.num_stages, launch.consumer_warps],
        [launch.dtype, launch.warp_split, dict(launch.constants), dict(launch.arguments)],
        [program.variables, program.item_count, program.period_items, program.sweep_items],
        repr((program.tensors, program.body)),
        [sha256(tensor.values).hexdigest() for tensor in program.tensors if tensor.values is not None],
        _resources(launch.resources),
    ]


def _resources(taken: Resources) -> Sequence[Any]:
    """What a CTA takes, with its code or the figures kept of it."""
    code = taken.code and [taken.code.sass, list(taken.code.constants.items()), list(taken.code.lines)]
    return [taken.to_dict(), code, taken.figures and _figures(taken.figures)]


def _figures(figures: Figures) -> Sequence[Any]:
    arrays = (getattr(figures, item.name) for item in fields(figures) if item.name != "steps")
    return [figures.steps, *([array.shape, array.dtype.str, sha256(array.tobytes()).hexdigest()] for array in arrays)]
