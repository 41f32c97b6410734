"""A launch as the tracer is given it: machine code, arguments, memory; and the error of one that cannot be traced."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from math import prod

from ...emulator.global_memory import Memory
from ...emulator.storage import Storage
from ...emulator.thread_values import Array, Value
from ...emulator.threads import special_registers
from ...launch.code import NOWHERE, source_text
from ...launch.program import Resources
from ...sass.flow import Flow


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledKernel:
    """A compiled kernel and how it is launched: what is traced.

    Args:
        name: of the kernel; grid: CTAs along x, y, z; num_warps, num_stages: as the user asked for them;
        resources: of a CTA, with the machine code, whose constant bank holds the arguments;
        storages: memory that its pointers point to;
        notes: remarks, one line each;
        untold: integer argument of which the compiler knows no divisor -> where in the constant bank [B], value;
        first: where its first CTA stands in the grid of the launch, of which it may be a part.
    """

    name: str
    grid: tuple[int, int, int]
    num_warps: int
    num_stages: int
    resources: Resources
    storages: tuple[Storage, ...]
    notes: tuple[str, ...] = ()
    untold: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    first: tuple[int, int, int] = (0, 0, 0)

    @property
    def ctas(self) -> int:
        """CTAs of the grid."""
        return prod(self.grid)

    @property
    def code_digest(self) -> str:
        """Of its machine code and grid: equal where nothing but names of options differs; empty without code."""
        code = self.resources.code
        return sha256(f"{self.grid}{code.sass}".encode()).hexdigest()[:16] if code else ""

    @property
    def warps(self) -> int:
        """Warps of a CTA, those that the compiler added included."""
        return self.resources.warps_per_cta or self.num_warps

    def special_registers(self, ctas: Array) -> dict[str, Value]:
        """What threads of some CTAs know of themselves. Args: ctas: their numbers."""
        return special_registers(self.grid, ctas, self.warps, self.first, self.resources.threads)

    @property
    def is_specialised(self) -> bool:
        """Whether the compiler divided its warps into groups of different code."""
        return self.warps > self.num_warps

    def line_of(self, address: int) -> int:
        """The user's source line of an instruction; 0 where it is not known. Args: address: in the code [B]."""
        return self._place_of(address)[1]

    def text_of(self, address: int) -> str:
        """The text of the user's source line of an instruction; empty where it is not known. Args: address: [B]."""
        return source_text(self._place_of(address)).strip()

    def where(self, address: int) -> str:
        """Begin of a remark on an instruction, e.g. `line 12 ("x = tl.load(X)"): `. Args: address: in the code [B]."""
        line, text = self.line_of(address), self.text_of(address)
        quoted = f' ("{text}")' if text else ""
        return f"line {line}{quoted}: " if line else ""

    def _place_of(self, address: int) -> tuple[str, int]:
        return self.resources.code.source_of(address) if self.resources.code else NOWHERE


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedKernel:
    """A launch that is traced.

    Args:
        kernel: the launch; flow: its code as basic blocks; memory: what its pointers point to;
        constants: address in constant bank 0 [B] -> 32-bit word;
        unknown: places of instructions whose results are never known (see `knowable`);
        stored: places of the stores to shared memory that loads may read from (see `read_stores`); None: all.
    """

    kernel: CompiledKernel
    flow: Flow
    constants: Mapping[int, int]
    memory: Memory
    unknown: frozenset[int] = frozenset()
    stored: frozenset[int] | None = None

    def place_text(self, place: int) -> str:
        """Kernel and source line of an instruction, e.g. `kernel f: line 12`. Args: place: its index in the code."""
        return f"kernel {self.kernel.name}: {self.line_text(place)}"

    def line_text(self, place: int) -> str:
        """Source line of an instruction, e.g. `line 12`; its address in the code where the line is not known."""
        address = self.flow.instructions[place].address
        line = self.kernel.line_of(address)
        return f"line {line}" if line else f"address {address:#x}"

    def source_text(self, place: int) -> str:
        """Source line of an instruction as it is written; empty where it is not known. Args: place: as above."""
        return self.kernel.text_of(self.flow.instructions[place].address)
