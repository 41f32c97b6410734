"""Machine code of a launch, as a value."""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from linecache import checkcache, getline

NOWHERE = ("", 0)
"""Place in the source of an instruction that comes from no line that is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Code:
    """Machine code of a launch, what it finds in its constants, and the source that it comes from.

    Args:
        sass: listing of the kernel, with the encoding of every instruction.
        constants: place in constant banks [B] -> 32-bit word, for all that is known before the launch; in bank 0 a
            place is the address, the others follow (`sass.constants.place_of`).
        threads: of a CTA along x, y, z; empty: all that its warps have, along x.
        lines: (address in the code [B], file, line), by address, where another line of the kernel's source begins.
    """

    sass: str
    constants: Mapping[int, int] = field(repr=False)
    lines: Sequence[tuple[int, str, int]] = field(default=(), repr=False)
    threads: tuple[int, ...] = ()

    def source_of(self, address: int) -> tuple[str, int]:
        """File and line of an instruction, or `NOWHERE`. Args: address: in the code [B]."""
        before = bisect_right(self.lines, address, key=lambda line: line[0])
        return self.lines[before - 1][1:] if before else NOWHERE


def source_text(place: tuple[str, int]) -> str:
    """What stands at a place in the source now; empty where unknown."""
    file, number = place
    checkcache(file)  # it may have been edited since this process has read it
    return getline(file, number).rstrip() if file else ""
