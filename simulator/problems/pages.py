"""Pages of a cache: which of a pool hold the keys of each sequence, in a line of text.

random[:SEED]         anywhere, as in a cache that has been in use
sequential            one after the other
shared:KEYS[:SEED]    the first keys of all sequences are the same, in the same pages; the rest anywhere
3 0 1/3 2             listed, those of each sequence: a page that stands in several is shared
"""

import re
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ..integers import cdiv

Numbers = NDArray[np.int32]
USUAL = "random"
ALLOWED = "random[:SEED], sequential, shared:KEYS[:SEED], a list such as '3 0 1/3 2', or a file of one"
LARGEST_NUMBER = (1 << 24) - 1
"""Of a page: a pool has 16 million at most."""
_DRAWN = re.compile(r"random(?::(\d+))?")
_SHARED = re.compile(r"shared:(\d+)(?::(\d+))?")
_LISTED = re.compile(r"[\d\s,/]+")


@lru_cache(maxsize=64)
def pages_of(order: str, lengths: tuple[int, ...], page: int) -> tuple[Numbers, ...]:
    """Numbers of the pages of each sequence, in the order of its keys.

    Args:
        lengths: keys of each sequence; page: keys of a page, 1 or more.

    Raises:
        ValueError: the text is none of those, or does not fit the lengths; one line.
    """
    counts = [cdiv(length, page) for length in lengths]
    if order == "sequential":
        return _dealt(np.arange(sum(counts), dtype=np.int32), counts)
    if match := _DRAWN.fullmatch(order):
        return _dealt(_drawn(sum(counts), match[1]), counts)
    if match := _SHARED.fullmatch(order):
        return _shared(int(match[1]), match[2], lengths, counts, page)
    if _LISTED.fullmatch(order) and any(map(str.isdigit, order)):
        return _listed(order, lengths, counts, page)
    raise ValueError(f"page_order = {order!r}: must be {ALLOWED}")


def distinct_keys(order: str, lengths: tuple[int, ...], page: int) -> int:
    """Keys of all sequences, those in shared pages once. Args: as of `pages_of`."""
    if not page or order == "sequential" or _DRAWN.fullmatch(order):
        return sum(lengths)
    numbers = np.concatenate(pages_of(order, lengths, page))
    held = np.concatenate([np.minimum(page, length - page * np.arange(cdiv(length, page))) for length in lengths])
    most = np.zeros(numbers.max() + 1, dtype=np.int64)
    np.maximum.at(most, numbers, held)
    return int(most.sum())


def short(order: str) -> str:
    """The order in a word; `listed` where pages are."""
    return "listed" if _LISTED.fullmatch(order) else order


def _drawn(count: int, seed: str | None) -> Numbers:
    return np.random.default_rng(int(seed or 0)).permutation(np.arange(count, dtype=np.int32))


def _dealt(numbers: Numbers, counts: Sequence[int]) -> tuple[Numbers, ...]:
    """Pages of a pool to sequences, in order."""
    return tuple(np.split(numbers, np.cumsum(counts)[:-1]))


def _shared(
    keys: int, seed: str | None, lengths: Sequence[int], counts: Sequence[int], page: int
) -> tuple[Numbers, ...]:
    if keys > min(lengths):
        raise ValueError(f"page_order: shared:{keys}: the shortest sequence has {min(lengths)} keys")
    if keys % page:
        raise ValueError(f"page_order: shared:{keys}: must be whole pages of {page} keys")
    prefix = keys // page
    pool = _drawn(prefix + sum(counts) - prefix * len(counts), seed)
    rest = _dealt(pool[prefix:], [count - prefix for count in counts])
    return tuple(np.concatenate([pool[:prefix], numbers]) for numbers in rest)


def _listed(order: str, lengths: Sequence[int], counts: Sequence[int], page: int) -> tuple[Numbers, ...]:
    parts = [re.findall(r"\d+", part) for part in re.split(r"[/\n]", order.strip("/\n ")) if part.strip()]
    if len(parts) != len(counts):
        raise ValueError(f"page_order: lists pages of {len(parts)} sequences: must be {len(counts)}")
    for place, (part, count, length) in enumerate(zip(parts, counts, lengths, strict=True)):
        if len(part) != count:
            raise ValueError(
                f"page_order: lists {len(part)} pages of sequence {place}: must be {count}, for {length} keys in pages"
                f" of {page}"
            )
        if largest := [number for number in part if int(number) > LARGEST_NUMBER]:
            raise ValueError(f"page_order: lists page {largest[0]}: must be at most {LARGEST_NUMBER}")
        if len(set(map(int, part))) < count:
            raise ValueError(f"page_order: lists a page of sequence {place} twice")
    return tuple(np.array(part, dtype=np.int64).astype(np.int32) for part in parts)
