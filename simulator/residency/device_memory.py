"""What tensors take of device memory: torch's caching allocator hands out blocks, not bytes.

In: sizes of tensors, in the order in which they are allocated and freed, beginning with nothing held;
out: the bytes of their blocks, as `torch.cuda.memory_allocated` counts them.
A small tensor's block is as large as it is. A larger one is cut from the smallest free block that has room for it,
else from a new segment; what is left of that is free, or stays with the block where it is small itself.

Source: PyTorch 2.11, c10/cuda/CUDACachingAllocator (round_size, get_allocation_size, get_free_block, should_split).
"""

from collections.abc import Iterable, Sequence

from ..integers import cdiv
from ..launch.program import Launch

BLOCK_BYTES = 512
"""Blocks are multiples of this [B]."""
SMALL_BYTES = 1 << 20
"""Blocks of up to this size take no more than they need; of a larger one, a rest of up to this stays with it [B]."""
LARGE_BYTES, LARGE_SEGMENT_BYTES = 10 << 20, 20 << 20
"""Blocks below the first size share new segments of the second [B]; others get a segment of their own ..."""
SEGMENT_BYTES = 2 << 20
"""... which is a multiple of this [B]."""


class Allocator:
    """The blocks of one process. `held_bytes`: in use; `peak_bytes`: the most that ever were [B]."""

    def __init__(self) -> None:
        self.held_bytes = self.peak_bytes = 0
        self._segments = 0
        self._free: list[tuple[int, int, int]] = []  # bytes, segment, where it begins there

    def take(self, size_bytes: int) -> tuple[int, int, int]:
        """Allocate a tensor.

        Args:
            size_bytes: of its elements, padding included.

        Returns:
            Its block, to be freed.
        """
        wanted = cdiv(size_bytes, BLOCK_BYTES) * BLOCK_BYTES
        block = (wanted, -1, 0)
        if wanted > SMALL_BYTES:
            block = self._find(wanted)
            size, segment, begin = block
            if size - wanted > SMALL_BYTES:
                self._free.append((size - wanted, segment, begin + wanted))
                block = (wanted, segment, begin)
        self.held_bytes += block[0]
        self.peak_bytes = max(self.peak_bytes, self.held_bytes)
        return block

    def free(self, block: tuple[int, int, int]) -> None:
        """Free a block; with free ones before and behind it, it becomes one."""
        size, segment, begin = block
        self.held_bytes -= size
        if segment < 0:
            return
        for other in list(self._free):
            if other[1] == segment and other[2] in (begin + size, begin - other[0]):
                self._free.remove(other)
                size, begin = size + other[0], min(begin, other[2])
        self._free.append((size, segment, begin))

    def _find(self, wanted: int) -> tuple[int, int, int]:
        fitting = [block for block in self._free if block[0] >= wanted]
        if fitting:
            self._free.remove(min(fitting))
            return min(fitting)
        self._segments += 1
        segment = LARGE_SEGMENT_BYTES if wanted < LARGE_BYTES else cdiv(wanted, SEGMENT_BYTES) * SEGMENT_BYTES
        return segment, self._segments, 0


def allocated_bytes(sizes_bytes: Iterable[int]) -> int:
    """What tensors take that are allocated one after the other, and all kept [B].

    Args:
        sizes_bytes: of each.
    """
    allocator = Allocator()
    for size in sizes_bytes:
        allocator.take(size)
    return allocator.held_bytes


def peak_bytes(launches: Sequence[Launch]) -> int:
    """Most device memory that a pipeline holds at once [B].

    As `kernels` and `validate` allocate: inputs and outputs first, then each launch's scratch before it runs.
    """
    allocator = Allocator()
    tensors = [tensor for launch in launches for tensor in launch.program.tensors]
    kept = {tensor.name: tensor for tensor in tensors if tensor.role != "scratch"}
    blocks = {name: allocator.take(tensor.size_bytes) for name, tensor in kept.items()}
    for number, launch in enumerate(launches):
        for tensor in launch.program.tensors:
            if tensor.name not in blocks:
                blocks[tensor.name] = allocator.take(tensor.size_bytes)
        allocator.free(allocator.take(launch.workspace_bytes))
        later = {tensor.name for launch in launches[number + 1 :] for tensor in launch.program.tensors}
        for name in [name for name in blocks if name not in kept and name not in later]:
            allocator.free(blocks.pop(name))
    return allocator.peak_bytes
