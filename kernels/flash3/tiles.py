"""Which CTA computes which tiles, in which order: a list for each, made on the host."""

from collections.abc import Iterator
from heapq import heapify, heapreplace

L2_BYTES = 32 << 20
"""K and V of the heads that are worked on at a time: in an H200 8, 16 and 32 MB are equally fast within 1 % where they
hold a tile for each SM, and where 8 do not (D = 256) 32 are 9 % faster."""
TILE_COST = 1
"""What a tile costs besides its key tiles, in key tiles: its store, and the products of the first with no P V."""


def key_tiles(
    q_tile: int, queries: int, seqlen_q: int, seqlen_k: int, block_n: int, *, causal: bool, window: int
) -> int:
    """Key tiles that a tile of queries goes through: one at least, as in the kernel."""
    if not causal:
        return -(-seqlen_k // block_n)
    offset = seqlen_k - seqlen_q
    end = max(-(-max(min((q_tile + 1) * queries, seqlen_q) + offset, 0) // block_n), 1)
    if not window:
        return end
    return end - min(max(q_tile * queries + 1 + offset - window, 0) // block_n, end - 1)


def in_order(costs: list[int], slabs: int, slabs_at_a_time: int, balanced: bool) -> Iterator[int]:
    """Tiles in the order in which they are begun: number of the slab times tiles of a slab, plus tile.

    Balanced, some slabs at a time, the longest tiles of all of them first; else, or where all are equally long, slab by
    slab.
    """
    count = len(costs)
    if not balanced or len(set(costs)) == 1:
        yield from range(slabs * count)
        return
    longest = sorted(range(count), key=lambda tile: -costs[tile])
    for start in range(0, slabs, slabs_at_a_time):
        for tile in longest:
            for slab in range(start, min(start + slabs_at_a_time, slabs)):
                yield slab * count + tile


def shares(costs: list[int], slabs: int, slabs_at_a_time: int, workers: int, balanced: bool) -> list[list[int]]:
    """The list of each CTA: the next tile goes to the one that is free first.

    Args:
        costs: key tiles of each tile of a slab; slabs: how many have the same; workers: CTAs.
    """
    lists: list[list[int]] = [[] for _ in range(workers)]
    order = in_order(costs, slabs, slabs_at_a_time, balanced)
    if not balanced or len(set(costs)) == 1:
        for place, item in enumerate(order):
            lists[place % workers].append(item)
        return lists
    free = [(0, worker) for worker in range(workers)]
    heapify(free)
    for item in order:
        busy, worker = free[0]
        heapreplace(free, (busy + costs[item % len(costs)] + TILE_COST, worker))
        lists[worker].append(item)
    return lists


def table(lists: list[list[int]]) -> list[list[int]]:
    """A row for each CTA: number of tiles, tiles, and zeros up to one more than the longest list."""
    longest = max(map(len, lists))
    return [[len(items), *items, *[0] * (longest - len(items) + 1)] for items in lists]
