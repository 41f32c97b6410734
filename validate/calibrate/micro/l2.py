"""L2, measured: its two sides, where lines are at home, bandwidth into the SMs, and what crosses between the sides.

Every `measure_*` takes the GPU and returns a record, an object that JSON can hold; `derive` reads it.
What must not be in a partition is written from elsewhere before: a write drops the copies of a line. Flushing L2 is
not relied on, since lines that were read often outlive it.
"""

from functools import partial
from typing import Any

import numpy as np

from ....simulator.limits import LINE_BYTES
from .gpu import Gpu, attempt
from .lines import Lines, deal, first_and_second, gather, pages_of, scatter

Record = dict[str, Any]
Lists = dict[int, Lines]

REPEATS = 7
LESS, MORE = 50, 250
"""Passes over a resident set: times of more less those of fewer, so that launches and first passes cancel."""
GROUPS_OF_LINES = 128
"""Lines that an SM reads at a time; lists of whole groups keep its warps equally busy."""
FAR_SAMPLE = 16


def measure_sides(gpu: Gpu) -> Record:
    """Which SMs share an L2 partition, and which lines are at home in it.

    One SM reads some lines. What another SM then loads for the first time is near where the line's home, or the
    copy that the first SM's read made, is on its own side; the second load of it is always near. An SM that sees no
    slow first load is on the first SM's side.

    Returns:
        `first` and `second`: per SM, latency of the first and the second load of its lines [cycles].
    """
    per_sm = 64
    lines = np.arange(per_sm * gpu.sms, dtype=np.uint32)
    data = gpu.buffer("lines", 4 * gpu.l2_bytes)
    np.random.default_rng(1).shuffle(lines)
    lines_of_sm = {sm: lines[sm * per_sm : (sm + 1) * per_sm] for sm in range(gpu.sms)}
    scatter(gpu, data, {0: lines})
    gather(gpu, data, {0: np.concatenate([lines, pages_of(lines) + len(lines)])})
    seen = first_and_second(gpu, data, lines_of_sm, touch=len(lines))
    return {
        "first": [seen[sm][0].tolist() for sm in range(gpu.sms)],
        "second": [seen[sm][1].tolist() for sm in range(gpu.sms)],
    }


def measure_homes(gpu: Gpu, sides: list[list[int]], threshold_cycles: float) -> tuple[Record, Lines]:
    """Which lines are at home on which side: those that the second side loads slowly after the first has read them.

    Args:
        sides: SMs of each side; threshold_cycles: by which a first load that crosses takes longer than the second.

    Returns:
        A record (bytes looked at, share that is at home on the first side, lengths of runs of lines with one home),
        and the side of each line.
    """
    count = int(0.4 * gpu.l2_bytes) // LINE_BYTES // 1024 * 1024
    lines = np.arange(count, dtype=np.uint32)
    data = gpu.buffer("lines", 4 * gpu.l2_bytes)
    homes = np.zeros(count, np.int8)
    if len(sides) == 2:
        scatter(gpu, data, deal(lines, sides[0]))
        gather(gpu, data, deal(lines, sides[0]))
        lists = deal(lines, sides[1])
        for sm, (first, second) in first_and_second(gpu, data, lists, touch=1).items():
            homes[lists[sm]] = np.where(first - second > threshold_cycles, 0, 1)
    ends = np.flatnonzero(np.diff(homes))
    runs = np.diff(np.concatenate([[-1], ends, [count - 1]]))
    lengths, often = np.unique(runs, return_counts=True)
    record = {
        "bytes": count * LINE_BYTES,
        "first_side_fraction": float(np.mean(homes == 0)),
        "runs": {str(int(length)): int(n) for length, n in zip(lengths, often, strict=True)},
    }
    return record, homes


def resident(gpu: Gpu, data: int, lists: Lists) -> Record:
    """Bandwidth of a set that stays in L2. Returns: `bytes`, and `seconds` that so many take."""
    total = sum(map(len, lists.values())) * LINE_BYTES
    gather(gpu, data, lists, LESS)
    pairs = [[gather(gpu, data, lists, passes)[1] for passes in (LESS, MORE)] for _ in range(REPEATS)]
    return {"bytes": total * (MORE - LESS), "seconds": [long - short for short, long in pairs]}


def measure_l2(gpu: Gpu, sides: list[list[int]], threshold_cycles: float, homes: Lines) -> Record:
    """L2 bandwidth of private and shared sets in and out of order, of few SMs, near, copied, and across.

    Returns:
        `private`: bytes of the set -> see `resident`; `scattered`, `shared`, `shared_scattered`, `near`, `copied`: the
        same of one set; `fill`: SMs that read -> `bytes` of each and `cycles`; `across`, `one_way`: bytes -> cycles;
        `far_fraction`: share of lines that crossed when `across` read them.
    """
    data = gpu.buffer("lines", 4 * gpu.l2_bytes)
    every = list(range(gpu.sms))
    random = np.random.default_rng(6)
    record: Record = {"private": {}}
    largest = np.zeros(0, np.uint32)
    for fraction in (0.15, 0.2, 0.25, 0.3, 0.35, 0.4):
        per_sm = int(fraction * gpu.l2_bytes) // LINE_BYTES // gpu.sms // GROUPS_OF_LINES * GROUPS_OF_LINES
        largest = np.arange(max(per_sm, GROUPS_OF_LINES) * gpu.sms, dtype=np.uint32)
        record["private"][str(len(largest) * LINE_BYTES)] = resident(gpu, data, deal(largest, every))
    attempt(record, "scattered", partial(resident, gpu, data, deal(random.permutation(largest), every)))
    few = min(gpu.l2_bytes // 16 // LINE_BYTES, gpu.smem_per_cta_bytes // 8) // GROUPS_OF_LINES * GROUPS_OF_LINES
    lines = np.arange(few, dtype=np.uint32)
    rolled = {sm: np.roll(lines, sm * few // gpu.sms) for sm in every}
    attempt(record, "shared", partial(resident, gpu, data, rolled))
    mixed = {sm: random.permutation(lines) for sm in every}
    attempt(record, "shared_scattered", partial(resident, gpu, data, mixed))
    several = [sms for sms in (1, 2, 4, 8, 16, 32, 64) if sms <= gpu.sms]
    attempt(record, "fill", lambda: {str(sms): _fill(gpu, data, every[:sms]) for sms in several})
    if len(sides) < 2:
        return record
    lines_at_home = [np.flatnonzero(homes == side).astype(np.uint32) for side in (0, 1)]
    size = min(map(len, lines_at_home))
    near = deal(lines_at_home[0][:size], sides[0]) | deal(lines_at_home[1][:size], sides[1])
    copied = deal(lines_at_home[1][:size], sides[0]) | deal(lines_at_home[0][:size], sides[1])
    attempt(record, "near", partial(resident, gpu, data, near))
    attempt(record, "copied", partial(resident, gpu, data, copied))
    parts = {share: [lines[: int(share * size)] for lines in lines_at_home] for share in (0.25, 0.5, 0.75, 1.0)}
    attempt(record, "across", partial(_crossings, gpu, data, sides, parts, (0, 1)))
    attempt(record, "one_way", partial(_crossings, gpu, data, sides, parts, (0,)))
    attempt(record, "far_fraction", partial(_far_fraction, gpu, data, sides, parts[1.0], threshold_cycles))
    return record


def _fill(gpu: Gpu, data: int, sms: list[int]) -> Record:
    """Some SMs read 128 KiB each, again and again: bytes of each, and cycles of the slowest."""
    lists = deal(np.arange(1024 * len(sms), dtype=np.uint32), sms)
    gather(gpu, data, lists, LESS)
    pairs = [[int(gather(gpu, data, lists, passes)[0][sms].max()) for passes in (LESS, MORE)] for _ in range(REPEATS)]
    return {"bytes": 1024 * LINE_BYTES * (MORE - LESS), "cycles": [long - short for short, long in pairs]}


def _exchange(sides: list[list[int]], part: list[Lines], crossing: tuple[int, ...]) -> tuple[Lists, Lists]:
    """Lists with which every line is written at home, and then read by SMs of the other side; those that cross."""
    at_home = deal(part[0], sides[0]) | deal(part[1], sides[1])
    away: Lists = {}
    for side in crossing:
        away |= deal(part[1 - side], sides[side])
    return at_home, away


def _crossings(
    gpu: Gpu, data: int, sides: list[list[int]], parts: dict[float, list[Lines]], crossing: tuple[int, ...]
) -> Record:
    """Bytes that cross -> cycles of the slowest SM, several times. Args: crossing: sides that read."""
    record: Record = {}
    for part in parts.values():
        at_home, away = _exchange(sides, part, crossing)
        spent = []
        for _ in range(REPEATS):
            scatter(gpu, data, at_home)
            seen = gather(gpu, data, away)[0]
            spent.append(float(np.max(seen[list(away)])))
        record[str(sum(map(len, away.values())) * LINE_BYTES)] = spent
    return record


def _far_fraction(gpu: Gpu, data: int, sides: list[list[int]], part: list[Lines], threshold_cycles: float) -> float:
    """Share of the lines that still cross when they are read after `scatter`, from single loads of some."""
    at_home, away = _exchange(sides, part, (0, 1))
    scatter(gpu, data, at_home)
    seen = first_and_second(gpu, data, {sm: mine[-FAR_SAMPLE:] for sm, mine in away.items()}, touch=1)
    return float(np.mean([first - second > threshold_cycles for first, second in seen.values()]))
