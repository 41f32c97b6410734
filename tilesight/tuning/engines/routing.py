"""Which experts the tokens of a batch go to, and the order in which an engine's kernel takes them.

Source of the order: `moe_align_block_size` of vLLM and SGLang: tokens of an expert follow each other, each expert's are
padded to whole tiles by a number that is no token's.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .layer import Layer, Product

Numbers = NDArray[np.int32]


@dataclass(frozen=True, slots=True, kw_only=True)
class Routing:
    """How tokens choose their experts. Args: skew: chance of the i-th expert ~ i^-skew, 0: all get as many; seed."""

    skew: float = 0.0
    seed: int = 0

    def experts(self, layer: Layer, batch: int) -> Numbers:
        """Experts of each token, none twice: [batch, topk]."""
        if not self.skew:
            return (np.arange(batch * layer.topk, dtype=np.int32) % layer.experts).reshape(batch, layer.topk)
        random = np.random.default_rng([self.seed, batch])
        ranks = random.permutation(layer.experts) + 1
        # The largest of log(chance) + Gumbel noise are drawn without replacement by these chances.
        scores = -self.skew * np.log(ranks) + random.gumbel(size=(batch, layer.experts))
        return np.argsort(-scores, axis=1, kind="stable")[:, : layer.topk].astype(np.int32)


@dataclass(frozen=True, slots=True, kw_only=True)
class Aligned:
    """Rows in the order of the kernel.

    Args:
        rows: row of each place, that of none is `chosen`; experts: of each tile; padded: places that are taken.
    """

    rows: Numbers
    experts: Numbers
    padded: int


def aligned(chosen: Numbers, experts: int, tile: int) -> Aligned:
    """Sort what tokens chose by expert, in whole tiles. Args: chosen: [batch, topk]; tile: rows of one."""
    flat = chosen.ravel()
    counts = np.bincount(flat, minlength=experts)
    tiles = -(-counts // tile)
    # As much memory as any choice could need: tiles that stay empty are launched, and return at once.
    places = flat.size * tile if flat.size < experts else flat.size + experts * (tile - 1)
    rows = np.full(places, flat.size, np.int32)
    begins = (np.cumsum(tiles) - tiles) * tile
    order = np.argsort(flat, kind="stable")
    within = np.arange(flat.size) - np.repeat(np.cumsum(counts) - counts, counts)
    rows[begins[flat[order]] + within] = order
    of_tiles = np.zeros(-(-places // tile), np.int32)
    of_tiles[: tiles.sum()] = np.repeat(np.arange(experts), tiles)
    return Aligned(rows=rows, experts=of_tiles, padded=int(tiles.sum()) * tile)


def launched_rows(order: Aligned, product: Product, tile: int) -> int:
    """Places that the engines launch tiles for: all, but of fewer tokens than a tile has rows."""
    places = int(order.rows.size)
    return places if product.rows // product.top >= tile else min(places, product.rows * tile)


def row_tiles(layer: Layer, batch: int, tile: int, routing: Routing) -> int:
    """Tiles of rows of the longest launch of a batch of tokens. Args: tile: rows of one."""
    if not layer.experts:
        return -(-batch // tile)
    order = aligned(routing.experts(layer, batch), layer.experts, tile)
    return max(-(-launched_rows(order, product, tile) // tile) for product in layer.products(batch))
