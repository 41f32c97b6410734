"""Oracles: the same answer in ten obvious lines, slow and independent of the code they check."""

from collections import OrderedDict
from collections.abc import Iterable


def lru_cache(lines: Iterable[int], writes: Iterable[bool], sets: int, ways: int) -> tuple[int, int]:
    """Misses and lines written back of a set-associative LRU cache, modulo indexing, write-back, write-allocate."""
    held: list[OrderedDict[int, bool]] = [OrderedDict() for _ in range(sets)]
    misses = written_back = 0
    for line, write in zip(lines, writes, strict=True):
        here = held[line % sets]
        misses += line not in here
        here[line] = here.pop(line, False) or write
        if len(here) > ways:
            written_back += here.popitem(last=False)[1]
    return misses, written_back
