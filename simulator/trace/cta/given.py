"""What is traced: a launch's machine code and what it was called with; and how to say that it cannot be."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod

from ...launch.program import Resources
from ...sass.flow import Flow
from ..memory import Memory, Storage

LIBRARIES = ("/triton/language/", "/triton/experimental/")
"""Files whose lines say nothing to a user."""
KERNELS_KEPT = 64
"""Kernels whose lines are kept in order."""


class Refused(ValueError):
    """A launch that cannot be traced; the text is one line that names kernel and source line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Called:
    """A launch of a compiled kernel, as it is given to the tracer.

    Args:
        name: of the kernel; grid: CTAs along x, y, z; num_warps, num_stages: asked for.
        resources: of a CTA, with the code in them, whose constants hold the arguments.
        storages: memory that its pointers lead to.
        lines: (address in the code [B], file, line) where another line of the source begins.
    """

    name: str
    grid: tuple[int, int, int]
    num_warps: int
    num_stages: int
    resources: Resources
    storages: tuple[Storage, ...]
    lines: Sequence[tuple[int, str, int]] = ()

    @property
    def ctas(self) -> int:
        """CTAs of the grid."""
        return prod(self.grid)

    @property
    def warps(self) -> int:
        """Warps of a CTA, those that the compiler added included."""
        return self.resources.warps_per_cta or self.num_warps

    @property
    def user_lines(self) -> list[tuple[int, str, int]]:
        """Where another line of the user's begins, by address; what Triton adds counts as the line before."""
        return list(_user_lines(tuple(self.lines)))

    def line_of(self, address: int) -> int:
        """The user's line that an instruction comes from; 0 where that is not known. Args: address: in the code [B]."""
        before = [line for at, _, line in _user_lines(tuple(self.lines)) if at <= address]
        return before[-1] if before else 0


@lru_cache(maxsize=KERNELS_KEPT)
def _user_lines(lines: tuple[tuple[int, str, int], ...]) -> tuple[tuple[int, str, int], ...]:
    return tuple(sorted(place for place in lines if not any(part in place[1] for part in LIBRARIES)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A launch under the tracer.

    Args:
        called: the launch; flow: its code; constants: bank 0; memory: what it reads;
        unknown: places of instructions whose results are never known (see `knowable`).
    """

    called: Called
    flow: Flow
    constants: Mapping[int, int]
    memory: Memory
    unknown: frozenset[int] = frozenset()

    def place_text(self, place: int) -> str:
        """Where an instruction comes from: kernel and line, e.g. `kernel f: line 12`."""
        return f"kernel {self.called.name}: {self.line_text(place)}"

    def line_text(self, place: int) -> str:
        """The line that an instruction comes from, e.g. `line 12`; its address in the code where that is not known."""
        address = self.flow.instructions[place].address
        line = self.called.line_of(address)
        return f"line {line}" if line else f"address {address:#x}"
