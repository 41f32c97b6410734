"""Sectors that an access touches, from where it begins."""

from collections.abc import Iterable

from tilesight.simulator.launch.program import Launch, Tensor
from tilesight.simulator.launch.walk import Access, begin_alike


def sector_bytes(tensor: Tensor, access: Access) -> int:
    """Row by row, where rows do not follow each other without a gap [B]."""
    first = (access.slab * tensor.rows + access.row) * tensor.pitch_bytes + access.col * tensor.element_bytes
    count, width = access.rows, access.cols * tensor.element_bytes
    if access.cols == tensor.cols and tensor.pitch_bytes == tensor.row_bytes:
        count, width = 1, count * width
    begins = [first + number * tensor.pitch_bytes for number in range(count)]
    return sum(32 * ((begin + width - 1) // 32 - begin // 32 + 1) for begin in begins)


def tolerated_bytes(tensor: Tensor, accesses: list[Access]) -> int:
    """How far a count may be off: rows that begin elsewhere within sectors each time count in the mean [B]."""
    return 0 if tensor.pitch_bytes % 32 == 0 else 32 * sum(access.rows for access in accesses)


def rounds_up_to(counted: int, formula: int, launches: Iterable[Launch]) -> bool:
    """Whether bytes are those of a formula that rounds rows up; a row that begins within a sector has one more."""
    alike = all(begin_alike(launch.program) for launch in launches)
    return counted == formula if alike else formula <= counted <= 2 * formula
