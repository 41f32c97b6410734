"""Where bytes, operations and cycles went: one frozen value that adds up over launches."""

from dataclasses import asdict, dataclass, fields
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """Bytes, operations and cycles of a launch; they add up over launches.

    Args:
        time_s: from the launch's start to its end, launch overhead included [s].
        cycles: SM cycles of the kernel itself.
        hbm_read_bytes, hbm_write_bytes: bytes arriving from, leaving to device memory [B].
        l2_read_bytes, l2_write_bytes: bytes that SMs read from and write to L2, after coalescing [B].
        l2_hit_bytes: of `l2_read_bytes`, those that no device memory read had to fetch [B].
        fabric_bytes: bytes between the L2 partitions [B].
        smem_fill_bytes: bytes arriving at SMs from L2 [B].
        l1_hit_bytes: bytes of loads that L1 served [B].
        smem_read_bytes, smem_write_bytes: bytes through shared memory inside the SMs,
            operand re-reads by the warps included [B].
        matmul_flop: useful operations of the matrix products, as in `problem.AttentionProblem`; of a user's kernel all
            that its matrix instructions execute, as which are useful is unknown [FLOP].
        executed_flop: what tiles execute of them: rows, keys and dimensions that pad a tile, and what a mask hides,
            included [FLOP].
        other_flop: other floating-point operations [FLOP].
        exp_count: exponentials and other MUFU operations.
    """

    time_s: float = 0.0
    cycles: float = 0.0
    hbm_read_bytes: int = 0
    hbm_write_bytes: int = 0
    l2_read_bytes: int = 0
    l2_write_bytes: int = 0
    l2_hit_bytes: int = 0
    fabric_bytes: int = 0
    smem_fill_bytes: int = 0
    l1_hit_bytes: int = 0
    smem_read_bytes: int = 0
    smem_write_bytes: int = 0
    matmul_flop: int = 0
    executed_flop: int = 0
    other_flop: int = 0
    exp_count: int = 0

    def __add__(self, other: "Traffic") -> "Traffic":
        return Traffic(**{f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(Traffic)})

    @property
    def l2_hit_fraction(self) -> float:
        """Share of L2 reads that device memory did not have to serve; 1 where nothing was read."""
        return self.l2_hit_bytes / self.l2_read_bytes if self.l2_read_bytes else 1.0

    @property
    def hbm_bytes(self) -> int:
        """Bytes read and written at device memory [B]."""
        return self.hbm_read_bytes + self.hbm_write_bytes

    @property
    def hbm_bytes_per_s(self) -> float:
        """Achieved device-memory bandwidth [B/s]."""
        return self.hbm_bytes / self.time_s if self.time_s else 0.0

    @property
    def matmul_flop_per_s(self) -> float:
        """Rate of useful operations [FLOP/s]."""
        return self.matmul_flop / self.time_s if self.time_s else 0.0

    def to_dict(self) -> dict[str, Any]:
        """As `simulate --json` has it."""
        names = ("l2_hit_fraction", "hbm_bytes_per_s", "matmul_flop_per_s")
        return asdict(self) | {name: getattr(self, name) for name in names}
