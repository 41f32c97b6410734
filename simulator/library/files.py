"""Files of the library: kernels of one kind and architecture, compressed.

A header in JSON says what made the kernels, and for each its key and resources, or why the compiler refuses it.
Behind it stand figures as integers, in units of 1 / `STEPS_OF_ONE`: differences from one condition to the next and
from one CTA more to the next, field by field, since most do not change; then slowdowns by
age, in units of 1 / `SLOWDOWN_STEPS_OF_ONE`.
"""

import json
import lzma
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..launch.program import Figures

FORMAT = 2
STEPS_OF_ONE = 16
"""Resolution of figures: a sixteenth of a cycle, less than anything that is measured."""
SLOWDOWN_STEPS_OF_ONE = 4096
LENGTH_BYTES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """A kernel that is kept.

    Args:
        resources: registers, shared memory, spills and warps, by the names of `program.Resources`; empty where the
            compiler refuses the kernel; reason: why, in one line.
        figures: costs of its steps; None where it does not fit an SM, or its code cannot be followed.
    """

    resources: Mapping[str, int]
    reason: str = ""
    figures: Figures | None = None


def pack(kernels: Mapping[str, Kernel], made_by: Mapping[str, str]) -> bytes:
    """A file of kernels. Args: kernels: key -> kernel; made_by: e.g. `triton` -> its version."""
    entries: list[dict[str, Any]] = []
    parts: list[np.ndarray] = []
    slowdowns: list[np.ndarray] = []
    for key, kernel in sorted(kernels.items()):
        entry: dict[str, Any] = {"key": key, "resources": dict(kernel.resources)}
        if kernel.reason:
            entry["reason"] = kernel.reason
        if figures := kernel.figures:
            entry |= {
                "steps": figures.steps,
                "conditions": figures.conditions.tolist(),
                "residents": figures.values.shape[1],
            }
            parts.append(_differences(np.rint(figures.values * STEPS_OF_ONE).astype(np.int32)))
            slowdowns.append(np.rint(figures.slowdown_by_age * SLOWDOWN_STEPS_OF_ONE).astype(np.int32).ravel())
        entries.append(entry)
    rows = [part.reshape(-1, part.shape[-1]) for part in parts]
    fields = rows[0].shape[1] if rows else 0
    header = json.dumps({"format": FORMAT, "made_by": dict(made_by), "fields": fields, "kernels": entries}).encode()
    table = np.concatenate(rows).T if rows else np.zeros((0, 0), dtype=np.int32)
    ages = np.concatenate(slowdowns) if slowdowns else np.zeros(0, dtype=np.int32)
    body = b"".join((len(header).to_bytes(LENGTH_BYTES, "little"), header, _planes(table), _planes(ages)))
    return lzma.compress(body, preset=9 | lzma.PRESET_EXTREME)


def unpack(data: bytes) -> tuple[dict[str, Kernel], dict[str, str]]:
    """Kernels of a file by key, and what made them.

    Raises:
        ValueError: the file is of another format.
    """
    body = lzma.decompress(data)
    start = LENGTH_BYTES + int.from_bytes(body[:LENGTH_BYTES], "little")
    header = json.loads(body[LENGTH_BYTES:start])
    if header["format"] != FORMAT:
        raise ValueError(f"format {header['format']}: must be {FORMAT}")
    shapes = [_shape(entry, header["fields"]) for entry in header["kernels"]]
    counts = [int(np.prod(shape[:3])) for shape in shapes]
    size = sum(counts) * header["fields"] * 4
    table = _numbers(body[start : start + size]).reshape(header["fields"], -1).T
    ages = _numbers(body[start + size :])
    kernels: dict[str, Kernel] = {}
    row = place = 0
    for entry, shape, count in zip(header["kernels"], shapes, counts, strict=True):
        figures = None
        if count:
            conditions, residents, steps, _ = shape
            spread = (conditions, residents, steps, residents)
            numbers = ages[place : place + count * residents].reshape(spread) / SLOWDOWN_STEPS_OF_ONE
            values = _summed(table[row : row + count].reshape(shape)) / STEPS_OF_ONE
            figures = Figures(
                steps=tuple(entry["steps"]),
                conditions=np.array(entry["conditions"]),
                values=values,
                slowdown_by_age=numbers,
            )
            row, place = row + count, place + count * residents
        kernels[entry["key"]] = Kernel(resources=entry["resources"], reason=entry.get("reason", ""), figures=figures)
    return kernels, header["made_by"]


def _shape(entry: Mapping[str, Any], fields: int) -> tuple[int, int, int, int]:
    if "steps" not in entry:
        return 0, 0, 0, fields
    return len(entry["conditions"]), entry["residents"], len(entry["steps"]), fields


def _differences(values: np.ndarray) -> np.ndarray:
    """From one condition to the next for one CTA, and from one CTA more to the next; shaped as `values`."""
    differences = np.diff(values, axis=1, prepend=np.zeros_like(values[:, :1]))
    differences[:, 0] = np.diff(values[:, 0], axis=0, prepend=np.zeros_like(values[:1, 0]))
    return differences


def _summed(differences: np.ndarray) -> np.ndarray:
    """The values of their differences."""
    values = differences.astype(np.int64)
    values[:, 0] = np.cumsum(values[:, 0], axis=0)
    return np.cumsum(values, axis=1)


def _planes(numbers: np.ndarray) -> bytes:
    """Integers byte by byte, all lowest bytes first: high bytes are alike, and so compress well."""
    return np.ascontiguousarray(numbers.astype("<i4").reshape(-1).view(np.uint8).reshape(-1, 4).T).tobytes()


def _numbers(planes: bytes) -> np.ndarray:
    raw = np.frombuffer(planes, dtype=np.uint8).reshape(4, -1).T
    return np.ascontiguousarray(raw).view("<i4").reshape(-1)
