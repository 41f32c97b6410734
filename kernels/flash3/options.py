"""How the kernel divides and orders its work."""

from dataclasses import dataclass

GROUP_ROWS = 64
"""Rows of a consumer group: those of a product of a warp group."""
SMEM_BYTES = 227 * 1024
"""Of a CTA on Hopper [A]."""
BARRIER_BYTES = 1024
REGISTERS = {2: 240, 3: 160}
"""Groups -> registers of each of their threads: 64 K an SM, less those of the producer."""
WORKING_REGISTERS = 48
"""Beside O, S and P: addresses, maxima, sums. What has more than these leave spills."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Tiles, buffers and order of the kernel.

    Args:
        block_m: query rows of a CTA's tile, 128 or 192: 64 for each group of warps that multiplies.
        block_n: keys of a tile, 64 or 128.
        stages: buffers of K, and of V.
        pingpong: whether the groups issue their products in turn, by barriers.
        overlap: whether a group's softmax runs while its P V does.
        persistent: whether each SM has one CTA that goes through many tiles, or each tile a CTA.
        balanced: whether a tile goes to the CTA that is free first, the longest first; else in the order of the heads.
        pack: query heads of a KV head that share a tile: a power of two that divides them; 0: as many as save tiles.

    Raises:
        ValueError: a value that the kernel does not have; one line.
    """

    block_m: int = 128
    block_n: int = 128
    stages: int = 2
    pingpong: bool = True
    overlap: bool = True
    persistent: bool = True
    balanced: bool = True
    pack: int = 0

    def __post_init__(self) -> None:
        allowed = {
            "block_m": (128, 192),
            "block_n": (64, 128),
            "stages": (2, 3, 4),
            "pack": (0, 1, 2, 4, 8, 16, 32, 64),
        }
        for name, values in allowed.items():
            value = getattr(self, name)
            if value not in values:
                raise ValueError(f"{name} = {value}: must be one of {', '.join(map(str, values))}")

    @property
    def groups(self) -> int:
        """Groups of warps that multiply."""
        return self.block_m // GROUP_ROWS


@dataclass(frozen=True, slots=True)
class Shared:
    """What of Q and O a CTA keeps in shared memory. Args: q_slots: tiles of Q; direct: whether O is stored without."""

    q_slots: int
    direct: bool


def shared_of(head_dim: int) -> Shared:
    """Where two tiles of Q and one of O leave no room for K and V, one of Q is kept."""
    return Shared(1, True) if head_dim > 128 else Shared(2, False)


def usual(head_dim: int, element_bytes: int, causal: bool) -> Options:
    """The options of the fastest kernel measured (docs/kernel-speed.md)."""
    if head_dim == 256:
        return Options(block_n=64, pingpong=False)
    if head_dim == 64 and element_bytes == 2:
        return Options(block_m=128 if causal else 192, pingpong=not causal)
    if element_bytes == 1:
        return Options(stages=4 if head_dim <= 128 else 2, pingpong=head_dim == 128)
    return Options()


def check_fits(options: Options, head_dim: int, out_dim: int, element_bytes: int) -> None:
    """See that a CTA's tiles have room.

    Raises:
        ValueError: they need more shared memory or registers than there are; one line.
    """
    kept = shared_of(head_dim)
    q_bytes = kept.q_slots * options.block_m * head_dim * element_bytes
    kv_bytes = options.stages * options.block_n * (head_dim + out_dim) * element_bytes
    o_bytes = 0 if kept.direct else options.block_m * out_dim * 2
    smem_bytes = q_bytes + kv_bytes + o_bytes + BARRIER_BYTES
    tiles = f"block_m = {options.block_m}, block_n = {options.block_n}"
    if smem_bytes > SMEM_BYTES:
        raise ValueError(
            f"{tiles}, stages = {options.stages} need {smem_bytes} B of shared memory at D = {head_dim}: must be at"
            f" most {SMEM_BYTES}: try fewer stages or block_n = 64"
        )
    # A thread of a group has half a column of a tile of 64 rows: O and S in fp32, and P.
    registers = (out_dim + options.block_n) // 2 + options.block_n // (2 if element_bytes == 1 else 4)
    most = REGISTERS[options.groups] - (WORKING_REGISTERS if options.groups == 2 else 32)
    if registers > most:
        raise ValueError(
            f"{tiles} need {registers} registers a thread for O, S and P at D = {head_dim}: must be at most {most}:"
            " try block_m = 128 or block_n = 64"
        )
