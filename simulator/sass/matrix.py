"""Matmuls that an opcode names: their size, and how long they keep a tensor core.

Shapes of those that a warp makes are printed as digits, 16816 for m16n8k16 (of FP64 also 16x8x16), those of a
warpgroup as 64x128x16; those in tensor memory (tcgen05) have theirs in a descriptor (`sass.idesc`).
Source of the warpgroup's times: one H200, CUDA 13.0, 2026-11-20, `tilesight calibrate`: 32.06, 64.06, 128.06 cycles for
n64, n128, n256; with A from shared memory 20.05 and 24.05 for n16 and n32, from registers 16.05 for n32; fp16, bf16,
tf32 and e4m3 alike, each at its own k.
Tensor memory: 128 rows take the same N / 2 cycles at the 8192 FLOP of 16 bits per cycle and SM of Zadouri et al. 2026,
arXiv:2603.05451, who also count operands as here: 128 x 128 x 128 of FP16 takes 512 cycles, and its operands as many of
shared memory, half of that where A is in tensor memory. That 64 rows take as long as 128 is an assumption: their sums
fill half of the lanes of tensor memory.
"""

import re
from dataclasses import dataclass
from functools import lru_cache

from ..limits import WARPGROUP_WARPS
from .decode import Instruction
from .idesc import extents_of, names_tf32
from .operands import Address, Operand
from .registers import KEPT

WARP = frozenset({"HMMA", "IMMA", "QMMA", "OMMA", "DMMA"})
WARPGROUP = frozenset({"HGMMA", "QGMMA", "IGMMA", "BGMMA"})
TENSOR_MEMORY = frozenset({"UTCHMMA", "UTCQMMA", "UTCIMMA", "UTCOMMA"})
WARP_SHAPE = re.compile(r"^(16|8)x?(8)x?(\d+)$")
WARPGROUP_SHAPE = re.compile(r"^(\d+)x(\d+)x(\d+)$")
ROW_BITS = 256
"""A row of A in a matmul of the usual size: 16 x 16 bits, 32 x 8 bits."""
TENSOR_MEMORY_ROWS = 128
"""Rows of a matmul that fills tensor memory."""
BITS = {"TF32": 32, "F64": 64, "U4": 4, "S4": 4, "U8": 8, "S8": 8, "E4M3": 8, "E5M2": 8, "BF16": 16}
FAMILY_BITS = {"IMMA": 8, "IGMMA": 8, "QMMA": 8, "QGMMA": 8, "OMMA": 4, "BGMMA": 1, "DMMA": 64} | {
    "UTCQMMA": 8,
    "UTCIMMA": 8,
    "UTCOMMA": 4,
}
KINDS = {("H", 16): "fp16", ("H", 32): "tf32", ("Q", 8): "fp8", ("I", 8): "int8", ("D", 64): "fp64", ("O", 4): "mxfp4"}
"""First letter of an instruction's family, and bits of its operands -> `MatmulShape.kind`."""
FAMILY_KIND = re.compile("(?:UTC)?(.)G?MMA")


@dataclass(frozen=True, slots=True, kw_only=True)
class MatmulShape:
    """C[m, n] += A[m, k] B[k, n].

    Args:
        m, n, k: extents; bits: of an element of A.
        instruction: `mma`: of a warp; `wgmma`: of the four warps of a warpgroup together; `tcgen05`: of the SM, issued
            by one warp.
        a_in_smem: whether A, too, comes from shared memory.
        kind: its types, as device files name their rates: fp16 (or bf16), tf32, fp8, int8, fp64; with `mx` in front,
            blocks of the operands have scales; with `_acc16` behind, sums are of 16 bits; empty: no file names it.
    """

    m: int
    n: int
    k: int
    bits: int
    instruction: str
    a_in_smem: bool
    kind: str

    @property
    def warps(self) -> int:
        """Warps that issue it together."""
        return WARPGROUP_WARPS if self.instruction == "wgmma" else 1

    @property
    def flop(self) -> int:
        """Multiplications and additions, of all its warps [FLOP]."""
        return 2 * self.m * self.n * self.k

    @property
    def smem_bytes(self) -> int:
        """Operands that come from shared memory, for all its warps [B]."""
        if self.instruction == "mma":
            return 0
        return (self.n + (self.m if self.a_in_smem else 0)) * self.k * self.bits // 8


@lru_cache(maxsize=KEPT)
def matmul_shape_of(instruction: Instruction) -> MatmulShape | None:
    """The matmul that an instruction makes; None where it makes none, or its opcode does not tell the size."""
    family, modifiers = instruction.family, instruction.modifiers
    if family in TENSOR_MEMORY:
        return _in_tensor_memory(instruction)
    if family not in WARP | WARPGROUP:
        return None
    pattern = WARP_SHAPE if family in WARP else WARPGROUP_SHAPE
    shape = next((match for modifier in modifiers if (match := pattern.match(modifier))), None)
    if shape is None:
        return None
    known = [BITS[modifier] for modifier in modifiers if modifier in BITS]
    bits = known[0] if known else FAMILY_BITS.get(family, 16)
    narrow = modifiers[modifiers.index(shape[0]) + 1 :][:1] == ("F16",)
    return MatmulShape(
        m=int(shape[1]),
        n=int(shape[2]),
        k=int(shape[3]),
        bits=bits,
        instruction="mma" if family in WARP else "wgmma",
        a_in_smem=family in WARPGROUP and _in_shared_memory(instruction.operands[1]),
        kind=_kind(family, bits, scaled="SF" in modifiers, narrow=narrow),
    )


def _kind(family: str, bits: int, *, scaled: bool = False, narrow: bool = False) -> str:
    letter = FAMILY_KIND.fullmatch(family)
    kind = KINDS.get((letter[1], bits), "") if letter else ""
    if scaled and kind == "fp8":
        return f"mx{kind}"
    return f"{kind}_acc16" if narrow and kind in ("fp16", "fp8") else kind


def _in_tensor_memory(instruction: Instruction) -> MatmulShape | None:
    """The same of a matmul in tensor memory, whose rows of A are always as long; its sums count as wide."""
    if instruction.idesc is None:
        return None
    m, n = extents_of(instruction.idesc)
    family = instruction.family
    bits = FAMILY_BITS[family] if family in FAMILY_BITS else 32 if names_tf32(instruction.idesc) else 16
    return MatmulShape(
        m=m,
        n=n,
        k=ROW_BITS // bits,
        bits=bits,
        instruction="tcgen05",
        a_in_smem=_in_shared_memory(instruction.operands[0]),
        kind=_kind(family, bits),
    )


def _in_shared_memory(operand: Operand) -> bool:
    return isinstance(operand, Address) and operand.space == "gdesc"


def tensor_cycles(matmul: MatmulShape, interval_cycles: float) -> float:
    """How long a matmul keeps the tensor core of each sub-core that takes part, or all of them together [cycles].

    Args:
        interval_cycles: of a warp's matmul m16n8k16 of 16 bits (or one as large), from the table of opcodes.
    """
    if matmul.instruction == "mma":
        return interval_cycles * matmul.m / 16 * matmul.n / 8 * matmul.k * matmul.bits / ROW_BITS
    if matmul.instruction == "tcgen05":
        return matmul.n / 2
    # The four tensor cores share B; where A comes from shared memory, too, it takes its turn at reading.
    return max(matmul.n / 2, matmul.n / 4 + 16 if matmul.a_in_smem else 0.0)
