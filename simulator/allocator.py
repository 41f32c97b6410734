"""What a tensor takes of device memory: torch's caching allocator hands out blocks, not bytes.

In: size of a tensor; out: size of its block, as `torch.cuda.max_memory_allocated` counts it.
Left out: a block cut from the rest of a segment that others began may be up to 1 MiB larger.

Source: PyTorch 2.11, c10/cuda/CUDACachingAllocator (round_size, get_allocation_size, should_split).
"""

from .tiling import cdiv

BLOCK_BYTES = 512
"""Blocks are multiples of this [B]."""
LARGE_BYTES = 10 << 20
"""From this size on a tensor gets a segment of its own [B] ..."""
SEGMENT_BYTES = 2 << 20
"""... which is a multiple of this [B]."""
LEAST_REST_BYTES = 1 << 20
"""A segment's rest of at most so many bytes stays with its block [B]."""


def allocated_bytes(size_bytes: int) -> int:
    """Size of the block that holds a tensor [B]. Args: size_bytes: of the tensor's elements, padding included."""
    block = cdiv(size_bytes, BLOCK_BYTES) * BLOCK_BYTES
    if block < LARGE_BYTES:
        return block
    segment = cdiv(block, SEGMENT_BYTES) * SEGMENT_BYTES
    return segment if segment - block <= LEAST_REST_BYTES else block
