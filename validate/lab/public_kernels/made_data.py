"""Index data of the launches: plausible random values, the same each time; name of a file -> what makes it."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

BODIES_PER_BOX, BOXES = 100, 10
"""Of lavaMD: particles of a box, boxes along an axis."""
ELEMENTS, NEIGHBOURS = 193536, 4
"""Of the flow solver: cells of the mesh of 193 K, padded to CTAs of 192, and neighbours of each."""
NODES = 1 << 18
POINTS = 1 << 18
EDGES, ROWS = 200_000, 20_000
LEVELS = ((50, 67), (25, 34), (13, 17), (7, 9))
"""Heights and widths of a pyramid of features."""
QUERIES = sum(height * width for height, width in LEVELS)
SPLATS, TILE, TILES = 60_000, 16, (50, 33)
"""Gaussians, pixels of a tile along an axis, tiles of an image of 800 x 528."""


def bits(values: NDArray[np.floating]) -> NDArray[np.int32]:
    """Floats as the integers of the same bits, whose values are followed."""
    return np.ascontiguousarray(values, dtype=np.float32).view(np.int32)


def image_bytes() -> NDArray[np.uint32]:
    """8 MiB of bytes, a third of them dark: no even histogram."""
    draw = np.random.default_rng(1)
    dark, light = draw.normal(30, 12, 8 << 20), draw.normal(150, 40, 8 << 20)
    return np.where(draw.random(8 << 20) < 0.33, dark, light).clip(0, 255).astype(np.uint8).view(np.uint32)


def mesh() -> NDArray[np.int32]:
    """Neighbours of cells, [4][cells]: near ones mostly, 2 % walls (-2) and far fields (-1)."""
    draw = np.random.default_rng(2)
    cells = np.arange(ELEMENTS)
    far = draw.random((NEIGHBOURS, ELEMENTS)) < 0.1
    step = np.where(far, draw.integers(-20000, 20001, far.shape), draw.integers(-60, 61, far.shape))
    near = (cells + step).clip(0, ELEMENTS - 1)
    return np.where(draw.random(far.shape) < 0.02, draw.integers(-2, 0, far.shape), near).astype(np.int32)


def boxes() -> NDArray[np.int32]:
    """`box_str` of each box: place, number, first particle, and up to 26 neighbours, 656 B."""
    places = [(x, y, z) for z in range(BOXES) for y in range(BOXES) for x in range(BOXES)]
    made = np.zeros((len(places), 164), dtype=np.int32)
    for number, (x, y, z) in enumerate(places):
        made[number, :6] = x, y, z, number, number * BODIES_PER_BOX, 0
        near = [
            (x + i, y + j, z + k)
            for k in (-1, 0, 1)
            for j in (-1, 0, 1)
            for i in (-1, 0, 1)
            if (i, j, k) != (0, 0, 0) and all(0 <= at < BOXES for at in (x + i, y + j, z + k))
        ]
        made[number, 6] = len(near)
        for slot, (i, j, k) in enumerate(near):
            other = (k * BOXES + j) * BOXES + i
            made[number, 8 + 6 * slot : 14 + 6 * slot] = i, j, k, other, other * BODIES_PER_BOX, 0
    return made


def degrees() -> NDArray[np.int64]:
    """Edges of each node of the graph: 2 to 10."""
    return np.random.default_rng(3).integers(2, 11, NODES)


def nodes() -> NDArray[np.int32]:
    """First edge of each node, and how many."""
    count = degrees()
    return np.stack((np.cumsum(count) - count, count), axis=1).astype(np.int32)


def edges() -> NDArray[np.int32]:
    """Where edges lead to, padded to a multiple of 1,024."""
    total = -(-int(degrees().sum()) // 1024) * 1024
    return np.random.default_rng(4).integers(0, NODES, total).astype(np.int32)


def front() -> NDArray[np.bool_]:
    """Nodes that are looked at in this step: 30 %."""
    return np.random.default_rng(5).random(NODES) < 0.3


def visited() -> NDArray[np.bool_]:
    """Nodes that have been reached: those of this step, and 30 % more."""
    return front() | (np.random.default_rng(6).random(NODES) < 0.3)


def positions() -> NDArray[np.int32]:
    """Points in the unit cube, [points][3]: along rays, as a renderer samples them."""
    draw = np.random.default_rng(7)
    begin, way = draw.random((POINTS // 64, 1, 3)), draw.random((POINTS // 64, 1, 3)) - 0.5
    at = begin + way * np.linspace(0, 1, 64)[None, :, None]
    return bits(np.abs(at) % 1.0).reshape(POINTS, 3)


def index() -> NDArray[np.int64]:
    """Rows that edges add to, in no order."""
    return np.random.default_rng(8).integers(0, ROWS, EDGES)


def row_ends() -> NDArray[np.int64]:
    """Where each row of a sparse matrix begins, and the last one ends: 400,000 entries in 20,000 rows."""
    inner = np.sort(np.random.default_rng(9).integers(0, 2 * EDGES + 1, ROWS - 1))
    return np.concatenate(([0], inner, [2 * EDGES])).astype(np.int64)


def pyramid() -> NDArray[np.int64]:
    """Heights and widths."""
    return np.array(LEVELS, dtype=np.int64)


def level_begins() -> NDArray[np.int64]:
    """First place of each level."""
    sizes = [height * width for height, width in LEVELS]
    return np.cumsum([0, *sizes[:-1]]).astype(np.int64)


def sampled() -> NDArray[np.int32]:
    """Where queries sample each level, [query][head 8][level][point 4][x, y]: about themselves."""
    draw = np.random.default_rng(10)
    centres_of = [
        ((x + 0.5) / width, (y + 0.5) / height) for height, width in LEVELS for y in range(height) for x in range(width)
    ]
    around = np.array(centres_of)[:, None, None, None, :]
    return bits(around + draw.normal(0, 0.04, (QUERIES, 8, len(LEVELS), 4, 2)))


def _splats() -> tuple[NDArray[np.float32], NDArray[np.int32], NDArray[np.int64], NDArray[np.float32]]:
    """Centres, radii, tiles touched (first x, y, last x, y), depths."""
    draw = np.random.default_rng(11)
    centres = (draw.random((SPLATS, 2)) * np.array(TILES) * TILE).astype(np.float32)
    radii = (2 + draw.exponential(6, SPLATS)).clip(2, 60).astype(np.int32)
    reach, last = radii[:, None].astype(np.float32), np.array(TILES)
    low = np.trunc((centres - reach) / TILE).astype(np.int64).clip(0, last)
    high = np.trunc((centres + reach + np.float32(TILE - 1)) / TILE).astype(np.int64).clip(0, last)
    return centres, radii, np.concatenate((low, high), axis=1), draw.random(SPLATS).astype(np.float32)


def centres() -> NDArray[np.int32]:
    """Of the Gaussians [pixels]."""
    return bits(_splats()[0])


def radii() -> NDArray[np.int32]:
    """Of the Gaussians [pixels]."""
    return _splats()[1]


def touched_so_far() -> NDArray[np.int32]:
    """Tiles that all Gaussians up to each touch."""
    touched = _splats()[2]
    return np.cumsum((touched[:, 2] - touched[:, 0]) * (touched[:, 3] - touched[:, 1])).astype(np.int32)


def _sorted_pairs() -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Tile and Gaussian of each pair, by tile and then by depth."""
    _, _, touched, depths = _splats()
    pairs = [
        (y * TILES[0] + x, splat)
        for splat, (left, top, right, bottom) in enumerate(touched.tolist())
        for y in range(top, bottom)
        for x in range(left, right)
    ]
    tile, splat = np.array(pairs).T
    order = np.lexsort((depths[splat], tile))
    return tile[order], splat[order]


def keys() -> NDArray[np.uint64]:
    """Tile and depth of each pair."""
    tile, splat = _sorted_pairs()
    return tile.astype(np.uint64) << np.uint64(32) | _splats()[3][splat].view(np.uint32).astype(np.uint64)


def pairs() -> NDArray[np.int32]:
    """Gaussian of each pair."""
    return _sorted_pairs()[1].astype(np.int32)


def ranges() -> NDArray[np.int32]:
    """First and last pair of each tile."""
    tile = _sorted_pairs()[0]
    ends = np.searchsorted(tile, np.arange(TILES[0] * TILES[1] + 1))
    return np.stack((ends[:-1], ends[1:]), axis=1).astype(np.int32)


def conics() -> NDArray[np.int32]:
    """Inverse covariance and opacity of each Gaussian."""
    spread = (_splats()[1] / 3.0) ** 2
    opacity = np.random.default_rng(12).random(SPLATS)
    return bits(np.stack((1 / spread, 0 * spread, 1 / spread, opacity), axis=1))


def lengths() -> NDArray[np.int32]:
    """Tokens that 32 sequences have so far."""
    return np.random.default_rng(13).integers(300, 1024, 32).astype(np.int32)


def placed() -> NDArray[np.int32]:
    """Where experts left each of 2 x 4,096 rows."""
    return np.random.default_rng(14).permutation(8192).astype(np.int32)


def experts() -> NDArray[np.int32]:
    """Two of eight experts for each row."""
    draw = np.random.default_rng(15)
    return np.argsort(draw.random((4096, 8)), axis=1)[:, :2].astype(np.int32)


MAKERS: dict[str, Callable[[], NDArray[np.generic]]] = {
    maker.__name__: maker
    for maker in (
        image_bytes, mesh, boxes, nodes, edges, front, visited, positions, index, row_ends, pyramid, level_begins,
        sampled, centres, radii, touched_so_far, keys, pairs, ranges, conics, lengths, placed, experts,
    )
}  # fmt: skip
