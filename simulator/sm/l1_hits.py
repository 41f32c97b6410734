"""Which loads of compiled code L1 serves, and what the code spills: by region, for the steps that these belong to.

Of a region's plain loads as large a share hits, evenly spread, as of its steps' tiles (`l1_reuse`); where several steps
run one after the other in a region, the first of its loads are the first one's.
Spilled registers lie at fixed places of the stack, so that the code tells how much of it a region touches,
what of that it reads before it has written it, and what L1 takes in between two uses of a place.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import inf

import numpy as np

from ..core.sm import tables as sm
from ..device.device import Device
from ..device.sm_numbers import SmNumbers
from ..launch.program import Launch
from ..launch.walk import steps
from ..limits import WARP_THREADS, WORD_BYTES
from ..residency.l1_reuse import Served, served_by_l1
from ..residency.residency import Residency
from ..sass.decode import Instruction
from ..sass.opcodes import thread_bytes
from .instructions import LOADS
from .match_steps import Part, Share
from .paths import OUTSIDE, Ways

STACK_PLACE = re.compile(r"\[R1(?:\+(-?0x[0-9a-f]+))?\]")


@dataclass(frozen=True, slots=True)
class Spilled:
    """Different bytes of spilled registers of a CTA. Args: touched: in a step; kept: of them, read before written."""

    touched: int = 0
    kept: int = 0


def find_spilled(launch: Launch, ways: Ways, shares: Mapping[Part, Share]) -> dict[str, Spilled]:
    """What each step touches of its CTA's spilled registers; the most, where it has several parts of the code."""
    touched: Counter[int] = Counter()
    kept: Counter[int] = Counter()
    for way, warps in Counter(ways.warps).items():
        read: dict[int, set[int]] = {}
        seen: dict[int, set[int]] = {}
        for number, region in dict.fromkeys(ways.executed(ways.warps.index(way))):
            block = ways.flow.blocks[number]
            for one in ways.flow.instructions[block.first : block.stop]:
                if one.family in ("LDL", "STL"):
                    words = _words(one, launch.resources.spilled_bytes_per_thread)
                    before = seen.setdefault(region, set())
                    if one.family == "LDL":
                        read.setdefault(region, set()).update(words - before)
                    before |= words
        for region, words in seen.items():
            touched[region] += len(words) * WORD_BYTES * WARP_THREADS * warps
            kept[region] += len(read.get(region, ())) * WORD_BYTES * WARP_THREADS * warps
    found: dict[str, Spilled] = {}
    for part, share in shares.items():
        own = Spilled(touched[part.region], kept[part.region])
        for name in share.steps:
            found[name] = max(found.get(name, Spilled()), own, key=lambda one: one.touched)
    return found


def serve_from_l1(
    launch: Launch,
    residency: Residency,
    device: Device,
    resident: int,
    item: int,
    ways: Ways,
    shares: Mapping[Part, Share],
    code: np.ndarray,
    rates: np.ndarray,
) -> None:
    """Turn loads from L2 (LOAD) that hit L1 into reads of shared memory (SHARED), which is the same memory.

    Args:
        residency: of the launch on the device; resident: CTAs that share an SM; item: whose steps are followed;
        shares: who pays for which part of the code;
        code, rates: as in `core.sm`.
    """
    loaders = _loaders(launch, shares, served_by_l1(launch, residency, device, resident, item))
    fetched = _fetched_again(launch, residency, device, resident, ways)
    region_of = ways.first_regions()
    loads = [int(place) for place in np.flatnonzero(code[:, sm.KIND] == sm.LOAD) if place in region_of]
    plain: dict[int, list[int]] = defaultdict(list)
    for place in loads:
        if not code[place, sm.ARGUMENT]:
            plain[region_of[place]].append(place)
    hits = {place: share for region, places in plain.items() for place, share in _shares(places, loaders[region], ways)}
    due: dict[tuple[int, int], float] = {}
    for place in loads:
        key = region_of[place], int(code[place, sm.ARGUMENT])
        share = fetched.get(place, 0.0) if code[place, sm.ARGUMENT] else hits[place]
        due[key] = due.get(key, 0.5) + share
        if due[key] >= 1.0:
            due[key] -= 1.0
            code[place, sm.KIND], code[place, sm.ARGUMENT] = sm.SHARED, 0
            rates[place, sm.SMEM] = max(rates[place, sm.SMEM], rates[place, sm.TAGS])


def _loaders(launch: Launch, shares: Mapping[Part, Share], served: Mapping[str, Served]) -> dict[int, list[Served]]:
    """Region -> what its steps load, one after the other; together, where they run the same code by turns.

    A step that pays for no part runs as often as the one before, in the same region.
    """
    found: dict[int, dict[tuple[str, ...], Served]] = defaultdict(dict)
    where: list[tuple[int, tuple[str, ...]]] = []
    for step, _ in steps(launch.program.body):
        paid = [(part.region, own.steps) for part, own in shares.items() if step.name in own.steps]
        where = paid or [(region, (step.name,)) for region, _ in where]
        if step.name not in served:
            continue
        for region, names in dict.fromkeys(where):
            found[region][names] = found[region].get(names, Served()).beside(served[step.name])
    return defaultdict(list, {region: list(groups.values()) for region, groups in found.items()})


def _shares(places: list[int], loaders: list[Served], ways: Ways) -> Iterator[tuple[int, float]]:
    """Share of each load that hits. Args: places: of loads, in order; loaders: who makes them, in order."""
    sizes = [thread_bytes(ways.flow.instructions[place]) for place in places]
    whole, before = sum(one.loaded_bytes for one in loaders), 0
    for place, size in zip(places, sizes, strict=True):
        at, passed, share = (before + size / 2) / sum(sizes) * whole, 0, 0.0
        for one in loaders:
            if passed <= at:
                share = one.share
            passed += one.loaded_bytes
        before += size
        yield place, share


def _fetched_again(launch: Launch, residency: Residency, device: Device, resident: int, ways: Ways) -> dict[int, float]:
    """Place of a fetch of spilled registers -> share of it that hits, by what L1 has taken in since their last use."""
    if not any(one.family == "LDL" for one in ways.flow.instructions):
        return {}
    room = float(residency.l1_bytes)
    distances: dict[int, float] = {}
    threads: Counter[int] = Counter()
    for way, warps in Counter(ways.warps).items():
        inside: dict[int, list[tuple[int, Instruction]]] = defaultdict(list)
        for number, region in dict.fromkeys(ways.executed(ways.warps.index(way))):
            block = ways.flow.blocks[number]
            around = [region]
            while around[-1] != OUTSIDE:
                around.append(ways.regions[around[-1]].parent)
            for place in range(block.first, block.stop):
                one = ways.flow.instructions[place]
                if one.family in ("LDL", "STL") or one.family in LOADS:
                    for each in around:
                        inside[each].append((place, one))
        # Those inside come after the ones around them, and know better.
        for region in sorted(inside):
            times = 1 if region == OUTSIDE else 2
            distances |= _distances(inside[region] * times, launch.resources.spilled_bytes_per_thread)
        threads.update({place: WARP_THREADS * warps * resident for place, _ in inside[OUTSIDE]})
    return {place: _kept(distance * threads[place], room, device.sm) for place, distance in distances.items()}


def _kept(distance_bytes: float, room_bytes: float, sm_numbers: SmNumbers) -> float:
    """Share of what was used so many bytes ago that an L1 of that room still has."""
    kept, lost = sm_numbers.spill_l1_kept_fraction, sm_numbers.spill_l1_lost_fraction
    if distance_bytes >= lost * room_bytes:
        return 0.0
    return min(1.0, (lost - distance_bytes / room_bytes) / (lost - kept))


def _distances(accesses: list[tuple[int, Instruction]], stack_bytes: int) -> dict[int, float]:
    """Place of a fetch -> bytes of a thread that were touched since its words were, themselves included, at the end."""
    held: dict[object, int] = {}
    found: dict[int, float] = {}
    for turn, (place, one) in enumerate(accesses):
        if one.family in LOADS:
            held[turn, place] = thread_bytes(one)
            continue
        words = _words(one, stack_bytes)
        if one.family == "LDL":
            since, left = 0, len(words & held.keys())
            for what in reversed(held):
                since += held[what]
                left -= what in words
                if left == 0:
                    break
            found[place] = float(since) if words <= held.keys() else inf
        for word in words:
            held.pop(word, None)
            held[word] = WORD_BYTES
    return found


def _words(one: Instruction, stack_bytes: int) -> set[int]:
    """Words of a thread's stack that an instruction reads or writes; all of them where it does not tell."""
    found = STACK_PLACE.search(" ".join(one.operands))
    if not found:
        return set(range(stack_bytes // WORD_BYTES))
    first = int(found.group(1) or "0", 16) // WORD_BYTES
    return set(range(first, first + max(1, thread_bytes(one) // WORD_BYTES)))
