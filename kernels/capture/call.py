"""A recorded launch as it goes to the compiler and to the tracer: plain values, which other processes can be told.

Pointers are addresses in an address space of its own: storage k begins at (k + 1) 2^40, so that an address names it.
"""

import base64
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

STORAGE_SHIFT = 40
"""Storages are so far apart (log2 of bytes)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CalledStorage:
    """Memory that a launch was given.

    Args:
        number: in the recording; size_bytes: of all of it [B]; name: parameter that it was first passed for.
        values: its bytes, where they are given and whole numbers, which addresses may be computed from.
    """

    number: int
    size_bytes: int
    name: str
    values: bytes | None = field(default=None, repr=False)

    @property
    def address(self) -> int:
        """Where it begins."""
        return self.number + 1 << STORAGE_SHIFT


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelCall:
    """A launch, in plain values.

    Args:
        name: of the kernel; file, line: where it is defined.
        grid: CTAs along x, y, z.
        num_warps, num_stages, num_ctas: asked for.
        job: what a compiler process needs (`compile.ttir`).
        arguments: run-time argument -> its value; of a pointer its address.
        storages: memory that pointers lead to.
        tuned, label: as in `Capture`.
    """

    name: str
    file: str
    line: int
    grid: tuple[int, int, int]
    num_warps: int
    num_stages: int
    num_ctas: int
    job: Mapping[str, Any] = field(repr=False)
    arguments: Mapping[str, int | float]
    storages: tuple[CalledStorage, ...]
    tuned: int = -1
    label: str = ""


def to_plain(call: KernelCall) -> dict[str, Any]:
    """A call as JSON can hold it."""
    plain = {name: getattr(call, name) for name in KernelCall.__slots__}
    plain["storages"] = [
        {
            "number": one.number,
            "size_bytes": one.size_bytes,
            "name": one.name,
            "values": None if one.values is None else base64.b64encode(zlib.compress(one.values, 1)).decode(),
        }
        for one in call.storages
    ]
    return plain | {"job": dict(call.job), "arguments": dict(call.arguments)}


def from_plain(plain: Mapping[str, Any]) -> KernelCall:
    """The call that `to_plain` made a dictionary of."""
    storages = tuple(
        CalledStorage(
            **{**one, "values": None if one["values"] is None else zlib.decompress(base64.b64decode(one["values"]))}
        )
        for one in plain["storages"]
    )
    return KernelCall(**{**plain, "grid": tuple(plain["grid"]), "storages": storages})
