"""Machine code of a launch, as a value."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Code:
    """Machine code of a launch, and what it finds in its constants.

    Args:
        sass: listing of the kernel, with the encoding of every instruction.
        constants: address in constant bank 0 [B] -> 32-bit word, for all that is known before the launch.
    """

    sass: str
    constants: Mapping[int, int] = field(repr=False)
