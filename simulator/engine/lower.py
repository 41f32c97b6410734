"""Turns the launches of a pipeline into the arrays that the compiled engine walks.

All launches share one numbering of granules, so that what one launch leaves in L2 the next one finds.
A granule of a tensor is the largest rectangle that every tile of every launch covers as a whole (`chunk`),
or one 128-byte line (`line`).
Where these are too many and too small, one of a few, along diagonals, stands for its neighbours (decision 0004).
Tensors of millions of granules are folded: granule numbers repeat after a window of many L2 capacities;
data that are touched again after so much other traffic would have been evicted from L2 anyway.
Before a number is reused for another granule, its old granule is dropped from L2:
CTAs that run at the same time may be whole windows apart, and must not hit each other's data.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from math import gcd

import numpy as np

from ..core.engine.program import (
    COL,
    CONSTANT,
    END,
    HALT,
    LIST,
    LOOP,
    LOOP_NEST,
    ROW,
    STEP,
    STEP_TILES,
    TENSOR,
    TERMS,
    TILE,
)
from ..device.device import Device
from ..integers import cdiv
from ..launch.lists import Lists
from ..launch.program import ASYNCHRONOUS, THROUGH_L1, Affine, Launch, Loop, Step, Tensor, Tile
from ..launch.walk import executions_of, pipelined_stages, steps
from ..limits import LINE_BYTES, SECTOR_BYTES
from ..sm.step_cost import StepCost
from .neighbours import Row, bytes_beside, read_alone, row_of

SPILLED_BYTES, LEAST_BYTES, MOST_SPILLED = 1 << 16, 256, 62
"""Granules of spilled registers: of one size, no larger than the first, a multiple of the second [B], as long as there
are no more than the third: bits of a number."""
SAMPLE_ABOVE_GRANULES, LEAST_SAMPLED = 1 << 17, 4
"""Granules of a tensor of which a few stand for all, and how many of them every tile still has at least."""
SMALL_TILE = 64
"""A tile so many times smaller than the largest of its tensor may hold no sampled granule, or one that stands for many:
its bytes are right only in the mean of many tiles."""
RARE_SHARE = 1 / 16
"""Of a tensor's traffic, that its smallest tiles may be for the same to hold for them: ends of rows, say."""
FOLD_ABOVE_GRANULES = 1 << 21
"""Granules of a tensor above which several share a number, so that tables fit a CPU's memory."""
MOST_WINDOWS_AT_THE_LIMIT = 4
"""Times that a tensor just above that limit is folded at most: its numbers are a fourth as many, or more."""
FOLD_L2_CAPACITIES = 8
"""How many times what L2 holds lies at least between granules that share one: the first has long been driven out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoweredTensors:
    """Tensors of all launches of a pipeline.

    Args:
        table: records of `core.engine.program.TENSOR`.
        index: tensor name -> row.
        granules: numbers of them in all.
        size_bytes: of all tensors [B].
        interleaved: whether lines of a granule lie in all partitions.
    """

    table: np.ndarray
    index: dict[str, int]
    granules: int
    size_bytes: int
    interleaved: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LoweredLaunch:
    """Tables of one launch.

    Args:
        tiles, origins, lists, steps, loops, code: as in `core.engine.program`.
        costs: float64 (steps, pipes + 1), cycles of each pipe, the critical path last.
        slowdown_by_age: of each step, as in `step_cost.StepCost`.
        environment_size: item variables plus loop counters.
        covers_l2: as in `step_cost.StepCost`.
        spilled_granules: of each slot, of `SPILLED_BYTES` at most.
        spilled_bytes: of one of these granules [B].
    """

    tiles: np.ndarray
    origins: np.ndarray
    lists: np.ndarray
    steps: np.ndarray
    loops: np.ndarray
    code: np.ndarray
    costs: np.ndarray
    slowdown_by_age: tuple[tuple[float, ...], ...]
    environment_size: int
    covers_l2: bool
    spilled_granules: int
    spilled_bytes: int


def lower_tensors(launches: tuple[Launch, ...], device: Device, resolution: str) -> LoweredTensors:
    """Number the granules of all tensors.

    Args:
        resolution: `chunk` or `line`.

    Raises:
        ValueError: two launches mean different tensors by one name.
    """
    tensors: dict[str, Tensor] = {}
    uses: dict[str, list[tuple[Tile, str, Launch]]] = {}
    for launch in launches:
        for tensor in launch.program.tensors:
            if tensors.setdefault(tensor.name, tensor) != tensor:
                raise ValueError(f"tensor {tensor.name} differs between launches")
        for step, _ in steps(launch.program.body):
            for tile in (*step.loads, *step.stores):
                uses.setdefault(tile.tensor, []).append((tile, step.name, launch))
    rows: list[tuple[int, ...]] = []
    base = address = 0
    for name, tensor in tensors.items():
        packed, tiles = tensor.pitch_bytes == tensor.row_bytes, [tile for tile, _, _ in uses.get(name, [])]
        if resolution == "line":
            # Only tiles of whole rows run over the ends of packed rows; others start anew in each.
            merged = packed and all(tile.cols >= tensor.cols for tile in tiles)
            high, wide = _line_shape(tensor, merged, device.line_bytes)
        else:
            high, wide = _chunk_shape(tensor, tiles)
        stride = 1 if resolution == "line" else _sampling_stride(tensor, uses.get(name, []), high, wide)
        row_granules = cdiv(cdiv(tensor.row_bytes, wide), stride)
        slab_granules = cdiv(tensor.rows, high) * row_granules
        total = slab_granules * tensor.slabs
        fold = total
        if total > FOLD_ABOVE_GRANULES:
            window = max(
                FOLD_ABOVE_GRANULES // MOST_WINDOWS_AT_THE_LIMIT,
                FOLD_L2_CAPACITIES * device.l2_bytes // (high * wide * stride),
            )
            fold = cdiv(total, max(1, total // window))
        shape = high, wide, tensor.rows, tensor.row_bytes, tensor.pitch_bytes
        rows.append((base, slab_granules, row_granules, *shape, int(packed), fold, int(fold < total), stride, address))
        base += fold
        address += cdiv(tensor.size_bytes, LINE_BYTES) * LINE_BYTES
    return LoweredTensors(
        table=np.array(rows, dtype=TENSOR),
        index={name: i for i, name in enumerate(tensors)},
        granules=base,
        size_bytes=address,
        interleaved=resolution == "chunk",
    )


def _line_shape(tensor: Tensor, packed: bool, line_bytes: int) -> tuple[int, int]:
    whole = SECTOR_BYTES // gcd(tensor.row_bytes, SECTOR_BYTES)  # rows that fill sectors exactly
    if packed and (tensor.row_bytes < line_bytes or whole > 1):
        return max(1, line_bytes // tensor.row_bytes // whole) * whole, tensor.row_bytes
    return 1, line_bytes


def _chunk_shape(tensor: Tensor, tiles: list[Tile]) -> tuple[int, int]:
    high, wide = 0, 0
    for tile in tiles:
        for _, coefficient in tile.row:
            high = gcd(high, coefficient)
        if tile.rows < tensor.rows:
            high = gcd(high, tile.rows)
        if tile.cols < tensor.cols:
            wide = gcd(wide, tile.cols * tensor.element_bytes)
            for _, coefficient in tile.col:
                wide = gcd(wide, coefficient * tensor.element_bytes)
        if tile.lists is not None:
            row, col = tile.lists.steps
            high = gcd(high, row) if tile.rows < tensor.rows else high
            wide = gcd(wide, col * tensor.element_bytes) if tile.cols < tensor.cols else wide
    # Smaller ones than memory moves would each be paid for with a sector.
    return high or tensor.rows, max(wide, min(SECTOR_BYTES, tensor.row_bytes)) if wide else tensor.row_bytes


def _sampling_stride(tensor: Tensor, uses: list[tuple[Tile, str, Launch]], high: int, wide: int) -> int:
    """How many granules one stands for: a power of two. Args: uses: tiles, with the names of their steps."""
    count = cdiv(tensor.rows, high) * cdiv(tensor.row_bytes, wide) * tensor.slabs
    if count <= SAMPLE_ABOVE_GRANULES:
        return 1
    launches = {id(launch): launch for _, _, launch in uses}
    executions = {key: executions_of(launch.program) for key, launch in launches.items()}
    covered = sorted(
        (min(tile.rows, tensor.rows) * min(tile.cols, tensor.cols) * tensor.element_bytes // (high * wide), times)
        for tile, times in ((tile, executions[id(launch)][step]) for tile, step, launch in uses)
    )
    rare = RARE_SHARE * sum(granules * times for granules, times in covered)
    upto = accumulate(granules * times for granules, times in covered)
    large = [granules for (granules, _), moved in zip(covered, upto, strict=True) if moved > rare]
    if not large:  # no tile fills a granule
        return 1
    least = min(granules for granules in large if SMALL_TILE * granules >= large[-1])
    return 1 << max(0, (least // LEAST_SAMPLED).bit_length() - 1)


def lower_launch(launch: Launch, costs: Mapping[str, StepCost], index: dict[str, int]) -> LoweredLaunch:
    """Translate a loop nest to instructions. Args: costs: by step; index: tensor name -> row of `LoweredTensors`."""
    program = launch.program
    variables = {name: i for i, name in enumerate(program.variables)}
    code: list[tuple[int, int]] = []
    loops: list[tuple[int, ...]] = []
    order: list[Step] = []

    def reference(value: int | str) -> int:
        return variables[value] if isinstance(value, str) else value - CONSTANT

    def emit(body: tuple[Step | Loop, ...]) -> None:
        for node in body:
            if isinstance(node, Step):
                code.append((STEP, len(order)))
                order.append(node)
                continue
            number = len(loops)
            variables.setdefault(node.counter, len(variables))
            loops.append(())
            code.append((LOOP, number))
            start = len(code)
            emit(node.body)
            code.append((END, number))
            references = (reference(value) for value in (node.first, node.step, node.trips))
            stages = pipelined_stages(node, launch)
            slack = round(costs[node.body[0].name].slack_cycles) if stages else 0  # type: ignore[union-attr]
            loops[number] = start, len(code), *references, variables[node.counter], stages, slack

    emit(program.body)
    code.append((HALT, 0))
    granules, size = _spilled_granules(costs.values())
    costed = [costs[step.name] for step in order]
    tiles = [tile for step in order for tile in (*step.loads, *step.stores)]
    # What an atomic gives back is the very tile that it stores.
    added = [
        place >= len(step.loads) and any(tile is load for load in step.loads)
        for step in order
        for place, tile in enumerate((*step.loads, *step.stores))
    ]
    lowered_tiles, origins = _lower_tiles(launch, tiles, added, variables, index)
    return LoweredLaunch(
        tiles=lowered_tiles,
        origins=origins,
        lists=_joined(*((tile.lists, _element_bytes(launch, tile)) for tile in tiles if tile.lists is not None)),
        steps=np.array(list(_spans(order, costs, size)), dtype=STEP_TILES),
        loops=np.array(loops, dtype=LOOP_NEST),
        code=np.array(code, dtype=np.int64),
        costs=np.array([(*cost.pipe_cycles, cost.critical_path_cycles) for cost in costed], dtype=np.float64),
        slowdown_by_age=tuple(cost.slowdown_by_age for cost in costed),
        environment_size=len(variables),
        covers_l2=any(cost.covers_l2 for cost in costs.values()),
        spilled_granules=granules,
        spilled_bytes=size,
    )


def _spans(order: Sequence[Step], costs: Mapping[str, StepCost], size: int) -> Iterator[tuple[float, ...]]:
    """Of each step its tiles among those of all, and what it passes on. Args: size: of spilled granules [B]."""
    first = 0
    for step in order:
        cost, middle = costs[step.name], first + len(step.loads)
        passed = cost.local_written, cost.local_kept
        if not cost.local_part_bytes:
            passed = (1 << cdiv(cost.local_bytes, size)) - 1, (1 << cdiv(cost.local_kept_bytes, size)) - 1
        turned = cost.local_written_turn, cost.local_kept_turn
        yield first, middle, middle, middle + len(step.stores), cost.waits, *passed, *turned
        first = middle + len(step.stores)


def _spilled_granules(costs: Collection[StepCost]) -> tuple[int, int]:
    """Granules of a slot's spilled registers, and their size [B]."""
    part = max(cost.local_part_bytes for cost in costs)
    if part:
        turns = any(cost.local_written_turn or cost.local_kept_turn for cost in costs)
        whole = max(cost.local_parts for cost in costs) if turns else 0
        return max(whole, *((cost.local_written | cost.local_kept).bit_length() for cost in costs)), part
    spilled = max(cost.local_bytes for cost in costs)
    granules = min(cdiv(spilled, SPILLED_BYTES), MOST_SPILLED)
    return granules, LEAST_BYTES * cdiv(spilled, LEAST_BYTES * granules) if granules else LEAST_BYTES


def _lower_tiles(
    launch: Launch, tiles: list[Tile], added: list[bool], variables: dict[str, int], index: dict[str, int]
) -> tuple[np.ndarray, np.ndarray]:
    """Tiles and where they begin, as in `core.engine.program`. Args: added: whether a load of its step has added it."""
    rows: list[tuple[float, ...]] = []
    origins = np.zeros((len(tiles), 3, TERMS, 2), dtype=np.int64)
    taken: Counter[Row] = Counter()
    for tile in tiles:
        taken[row_of(launch.program, tile)] += tile.cols * _element_bytes(launch, tile)
    base = 1
    for tile, waits, origin in zip(tiles, added, origins, strict=True):
        element_bytes = _element_bytes(launch, tile)
        extent = tile.rows, tile.cols * element_bytes
        flags = (
            tile.path in ASYNCHRONOUS,
            tile.path in THROUGH_L1,
            tile.path == "atomic",
            tile.integers,
            waits,
            tile.passing,
        )
        lists = -1, 0
        terms_of_lists: Affine = ()
        if tile.lists is not None:
            lists, terms_of_lists = (variables[tile.lists.at], base), tile.lists.per
            base += len(tile.lists.spans) + len(tile.lists.pieces)
        beside = bytes_beside(launch.program, tile, extent[1])
        alone = read_alone(launch.program, tile, beside, taken)
        places = (*lists, tile.is_gathered, beside, alone)
        rows.append((index[tile.tensor], variables[tile.slab], *extent, *flags, tile.part_fraction, *places))
        for axis, terms, factor in ((ROW, tile.row, 1), (COL, tile.col, element_bytes), (LIST, terms_of_lists, 1)):
            for term, (name, coefficient) in enumerate(terms):
                origin[axis, term] = variables[name], coefficient * factor
    return np.array(rows, dtype=TILE), origins


def _element_bytes(launch: Launch, tile: Tile) -> int:
    return launch.program.tensor(tile.tensor).element_bytes


@lru_cache(maxsize=1)
def _joined(*lists: tuple[Lists, int]) -> np.ndarray:
    """Lists and pieces of all tiles, one behind the other, as in `core.engine.program`; the first row is not used.

    Those of the newest launch are kept: it is simulated cold, behind dirty data, and once for each piece of advice.

    Args:
        lists: of each tile, and bytes of an element of its tensor.
    """
    parts = [np.zeros((1, 2), dtype=np.int64)]
    base = 1
    for pieces_of, element_bytes in lists:
        spans = pieces_of.spans.copy()
        spans[:, 0] += base + len(spans)
        parts += [spans, pieces_of.pieces * np.array((1, element_bytes))]
        base += len(spans) + len(pieces_of.pieces)
    return np.ascontiguousarray(np.concatenate(parts), dtype=np.int64)
