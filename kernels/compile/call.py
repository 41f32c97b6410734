"""A recorded launch as it goes to the compiler and to the tracer: plain values, which other processes can be told.

Pointers are addresses in the address space of `simulator.emulator.storage`.
"""

import base64
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from typing import Any, ClassVar

from ...simulator.emulator.storage import Storage
from ...simulator.launch.before import Before
from ..configurations.space import label_of


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelLaunch:
    """A launch, in plain values.

    Args:
        name: of the kernel; file, line: where it is defined.
        grid: CTAs along x, y, z.
        num_warps, num_stages, num_ctas: asked for.
        job: what a compiler process needs (`compile.ttir`).
        arguments: run-time argument -> its value; of a pointer its address.
        storages: memory that pointers lead to.
        before: kernels that ran before it.
        tuned, configuration: as in `RecordedLaunch`; cooperative: whether all CTAs have to be resident at once.
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
    before: Before = ()
    tuned: int = -1
    configuration: Mapping[str, Any] = field(default_factory=dict)
    cooperative: bool = False

    @property
    def label(self) -> str:
        """The configuration in a line."""
        return label_of(self.configuration)


ValueTexts = dict[str, str]
"""Values of storages as texts, by their digest: many launches share them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedCall:
    """A launch that does not come as far as the compiler.

    Args:
        reason: why, in one line; the rest as `KernelLaunch`.
    """

    name: str
    grid: tuple[int, int, int]
    reason: str
    tuned: int = -1
    configuration: Mapping[str, Any] = field(default_factory=dict)
    num_warps: ClassVar[int] = 0
    num_stages: ClassVar[int] = 0

    @property
    def label(self) -> str:
        """The configuration in a line."""
        return label_of(self.configuration)


def to_plain(call: KernelLaunch | RefusedCall, values: ValueTexts) -> dict[str, Any]:
    """A call as JSON can hold it, without what ran before. Args: values: of storages, those of this call are added."""
    if isinstance(call, RefusedCall):
        return asdict(call)
    plain = {name: getattr(call, name) for name in KernelLaunch.__slots__ if name != "before"}
    storages = []
    for storage in call.storages:
        entry = {name: getattr(storage, name) for name in Storage.__slots__}
        if storage.values is not None:
            entry["values"] = sha256(storage.values).hexdigest()
            if entry["values"] not in values:
                values[entry["values"]] = base64.b64encode(zlib.compress(storage.values, 1)).decode()
        entry["fill"] = storage.fill.hex()
        storages.append(entry)
    maps = {name: dict(plain[name]) for name in ("job", "arguments", "configuration")}
    return plain | maps | {"storages": storages}


def from_plain(plain: Mapping[str, Any], values: Mapping[str, bytes]) -> KernelLaunch | RefusedCall:
    """The call that `to_plain` made a dictionary of. Args: values: of storages, by digest."""
    if "reason" in plain:
        return RefusedCall(**{**plain, "grid": tuple(plain["grid"])})
    storages = tuple(
        Storage(
            **{
                **storage,
                "values": None if storage["values"] is None else values[storage["values"]],
                "fill": bytes.fromhex(storage.get("fill", "")),
            }
        )
        for storage in plain["storages"]
    )
    return KernelLaunch(**{**plain, "grid": tuple(plain["grid"]), "storages": storages})


def values_of(texts: Mapping[str, str]) -> dict[str, bytes]:
    """Values of storages, by digest, from the texts that `to_plain` made."""
    return {digest: zlib.decompress(base64.b64decode(text)) for digest, text in texts.items()}
