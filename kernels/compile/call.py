"""A recorded launch as it goes to the compiler and to the tracer: plain values, which other processes can be told.

Pointers are addresses in the address space of `simulator.trace.memory`.
"""

import base64
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from ...simulator.trace.memory import Storage


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
    storages: tuple[Storage, ...]
    tuned: int = -1
    label: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedCall:
    """A launch that does not come as far as the compiler. Args: reason: why, in one line; the rest as `KernelCall`."""

    name: str
    grid: tuple[int, int, int]
    reason: str
    tuned: int = -1
    label: str = ""


def to_plain(call: KernelCall | RefusedCall) -> dict[str, Any]:
    """A call as JSON can hold it."""
    if isinstance(call, RefusedCall):
        return asdict(call)
    plain = {name: getattr(call, name) for name in KernelCall.__slots__}
    plain["storages"] = [
        {
            "number": storage.number,
            "size_bytes": storage.size_bytes,
            "name": storage.name,
            "whole": storage.whole,
            "values": None if storage.values is None else base64.b64encode(zlib.compress(storage.values, 1)).decode(),
        }
        for storage in call.storages
    ]
    return plain | {"job": dict(call.job), "arguments": dict(call.arguments)}


def from_plain(plain: Mapping[str, Any]) -> KernelCall | RefusedCall:
    """The call that `to_plain` made a dictionary of."""
    if "reason" in plain:
        return RefusedCall(**{**plain, "grid": tuple(plain["grid"])})
    storages = tuple(
        Storage(
            **{
                **storage,
                "values": None if storage["values"] is None else zlib.decompress(base64.b64decode(storage["values"])),
            }
        )
        for storage in plain["storages"]
    )
    return KernelCall(**{**plain, "grid": tuple(plain["grid"]), "storages": storages})
