"""A line-exact LRU cache on its own: a stream of accesses in, misses and write-backs out; the second door to `core/`.

For questions that need no kernel: what a cache of some size and associativity makes of a stream.
The engine keeps its own L2 of chunks, two partitions and a clock.

Whole aligned chunks (a tile's lines are touched together) give exactly the result of their lines, much faster:
under modulo indexing the lines of a chunk of a power of two lie in as many neighbouring sets,
so those sets always hold the lines of the same chunks.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..core.engine.lru import EMPTY_TAG, make_lru, run_lines, run_linked

MOST_WAYS_SHIFTED = 64
"""Sets up to this size are kept as arrays in order of use, larger ones as linked lists."""
MOST_LINES = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheRun:
    """What a cache made of a stream, in lines whatever the resolution.

    Args:
        accesses: lines touched; misses: of them, those that the cache did not hold.
        written_back: dirty lines evicted; those still in the cache at the end are not among them.
    """

    accesses: int
    misses: int
    written_back: int

    @property
    def hits(self) -> int:
        """Lines touched that the cache held."""
        return self.accesses - self.misses


def run_cache(
    numbers: npt.ArrayLike,
    *,
    capacity_bytes: int,
    ways: int,
    line_bytes: int = 128,
    chunk_lines: int = 1,
    writes: npt.ArrayLike | None = None,
) -> CacheRun:
    """Feed a stream of accesses to an empty cache: LRU, modulo indexing, write-back, write-allocate.

    Args:
        numbers: line numbers (addresses over `line_bytes`), or chunk numbers; int of shape (n,).
        capacity_bytes: size of the cache [B]; ways: lines of a set, 0 for one set of all lines.
        line_bytes: [B]; chunk_lines: lines that each access touches, as an aligned block.
        writes: which accesses write; bool of shape (n,); None means that all read.

    Raises:
        ValueError: a size does not divide the next larger one, or a line number is out of range.
    """
    stream = np.ascontiguousarray(numbers, dtype=np.int64)
    written = np.zeros(0, dtype=np.uint8) if writes is None else np.ascontiguousarray(writes, dtype=np.uint8)
    if stream.ndim != 1 or (writes is not None and written.shape != stream.shape):
        raise ValueError(f"numbers, writes: shapes {stream.shape} and {written.shape} must be (n,) and equal")
    lines = capacity_bytes // line_bytes
    set_lines = ways or lines
    if lines < 1 or capacity_bytes % (line_bytes * set_lines):
        raise ValueError(f"capacity_bytes = {capacity_bytes}: must be a multiple of {set_lines} ways of {line_bytes} B")
    sets = lines // set_lines
    blocks = sets if ways else lines
    if chunk_lines < 1 or blocks % chunk_lines:
        raise ValueError(f"chunk_lines = {chunk_lines}: must divide {blocks} {'sets' if ways else 'lines'}")
    limit = MOST_LINES // chunk_lines
    if len(stream) and not 0 <= stream.min() <= stream.max() < limit:
        raise ValueError(f"numbers: must be from 0 to {limit - 1}")
    lists, depth = (sets // chunk_lines, ways) if ways else (1, lines // chunk_lines)
    if depth <= MOST_WAYS_SHIFTED:
        tags = np.full((lists, depth), EMPTY_TAG, dtype=np.int32)
        misses, evicted = run_lines(tags, stream, written)
    else:
        entry, dirt, sizes = make_lru(int(stream.max(initial=0)) + 1, np.full(lists, depth))
        misses, evicted = run_linked(entry, dirt, sizes, stream, written)
    return CacheRun(
        accesses=len(stream) * chunk_lines, misses=int(misses) * chunk_lines, written_back=int(evicted) * chunk_lines
    )
