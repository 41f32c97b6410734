"""Memory that a launch is given, as plain values: storages in an address space of their own; numpy is not needed.

Storage k begins at (k + 1) 2^40, so that an address names its storage.
"""

from dataclasses import dataclass, field

STORAGE_SHIFT = 40
"""Storages are so far apart (log2 of bytes)."""
MOST_VALUES_BYTES = 1 << 28
"""Storages above this are data, not what addresses are computed from: their values are not looked at [B]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    """Memory that a launch was given.

    Args:
        number: in the recording; size_bytes: of all of it [B]; name: parameter that it was first passed for.
        whole: whether its elements are whole numbers, which addresses and branches may depend on.
        values: its bytes, where they are given; fill: else bytes that repeat in all of it, where it holds one value;
        origin: else what left it without, for people, where that is known; cure: how to give them, else as a tensor.
    """

    number: int
    size_bytes: int
    name: str
    whole: bool = False
    values: bytes | None = field(default=None, repr=False)
    fill: bytes = b""
    origin: str = ""
    cure: str = ""

    @property
    def is_known(self) -> bool:
        """Whether its values are."""
        return self.values is not None or bool(self.fill)

    @property
    def address(self) -> int:
        """Where it begins."""
        return self.number + 1 << STORAGE_SHIFT
