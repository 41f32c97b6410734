"""Which loads of compiled code L1 serves, and what the code spills: by region, for the steps that these belong to.

Of a region's plain loads as large a share hits, evenly spread, as of its steps' tiles (`l1_reuse`); where several steps
run one after the other in a region, the first of its loads are the first one's.
Spilled registers lie at fixed places of the stack, so that the code tells how much of it a region touches,
what of that it reads before it has written it, and what L1 takes in between two uses of a place.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import inf

import numpy as np

from ..core.sm import instruction as sm
from ..device.device import Device
from ..device.sm_numbers import SmNumbers
from ..integers import cdiv
from ..launch.program import Launch
from ..launch.traced import Phase
from ..launch.walk import steps
from ..limits import WARP_THREADS, WORD_BYTES
from ..residency.l1_reuse import Served, served_by_l1
from ..residency.residency import Residency
from ..sass.decode import Instruction
from ..sass.flow import Flow
from ..sass.opcodes import thread_bytes
from ..sass.operands import stack_offset
from ..trace.nests import OUTSIDE
from ..trace.paths import CtaPaths
from .instructions import LOADS, SPILL_LOAD, SPILL_STORE
from .match_steps import Attribution, Part

SPILLS = (SPILL_LOAD, SPILL_STORE)
STACK_PARTS = 62
"""Most parts into which a stack is divided: bits of an integer."""


@dataclass(frozen=True, slots=True)
class Spilled:
    """Different bytes of spilled registers of a CTA.

    Args:
        touched: in a step [B].
        kept: of them, read before they are written [B].
        parts_written, parts_kept, part_bytes, parts, written_turn, kept_turn: as `StepCost.local_written`,
            `local_kept`, `local_part_bytes`, `local_parts`, `local_written_turn` and `local_kept_turn`.
    """

    touched: int = 0
    kept: int = 0
    parts_written: int = 0
    parts_kept: int = 0
    part_bytes: int = 0
    parts: int = 0
    written_turn: float = 0.0
    kept_turn: float = 0.0


def find_spilled(launch: Launch, paths: CtaPaths, attributions: Mapping[Part, Attribution]) -> dict[str, Spilled]:
    """What each step touches of its CTA's spilled registers; the most, where it has several parts of the code."""
    touched: Counter[int] = Counter()
    kept: Counter[int] = Counter()
    for path, warps in Counter(paths.warps).items():
        read: dict[int, set[int]] = {}
        seen: dict[int, set[int]] = {}
        for number, region in dict.fromkeys(paths.executed(paths.warps.index(path))):
            block = paths.flow.blocks[number]
            for instruction in paths.flow.instructions[block.first : block.stop]:
                if instruction.family in SPILLS:
                    words = _words(instruction, launch.resources.spilled_bytes_per_thread)
                    before = seen.setdefault(region, set())
                    if instruction.family == SPILL_LOAD:
                        read.setdefault(region, set()).update(words - before)
                    before |= words
        for region, words in seen.items():
            touched[region] += len(words) * WORD_BYTES * WARP_THREADS * warps
            kept[region] += len(read.get(region, ())) * WORD_BYTES * WARP_THREADS * warps
    by_step: dict[str, Spilled] = {}
    for part, attribution in attributions.items():
        here = Spilled(touched[part.region], kept[part.region])
        for name in attribution.steps:
            by_step[name] = max(by_step.get(name, Spilled()), here, key=lambda spilled: spilled.touched)
    return by_step


def spilled_by_phase(launch: Launch, flow: Flow, phases: Iterable[Phase], warps: int) -> dict[str, Spilled]:
    """The same of a traced program, whose steps know their code. One word of each part of the stack stands for it."""
    stack = launch.resources.spilled_bytes_per_thread // WORD_BYTES
    part_words = max(1, cdiv(stack, STACK_PARTS))
    count = cdiv(stack, part_words)
    samples = {min(stack - 1, part * part_words + part_words // 2): part for part in range(count)}
    by_step: dict[str, Spilled] = {}
    for phase in phases:
        written: set[int] = set()
        kept: set[int] = set()
        turned = {SPILL_LOAD: 0, SPILL_STORE: 0}
        for place in phase.spills:
            instruction = flow.instructions[place]
            if not any(stack_offset(operand) is not None for operand in instruction.operands):
                # An array: which place the code computes; each execution takes the next, as a loop over it does.
                turned[instruction.family] += max(1, thread_bytes(instruction) // WORD_BYTES)
                continue
            words = _words(instruction, stack * WORD_BYTES)
            if instruction.family == SPILL_LOAD:
                kept |= words - written
            else:
                written |= words
        size = WORD_BYTES * WARP_THREADS * warps
        turns = {family: count * min(words, stack) / stack for family, words in turned.items() if words}
        by_step[phase.step] = Spilled(
            touched=min(stack, len(written | kept) + max(turned.values())) * size,
            kept=min(stack, len(kept) + turned[SPILL_LOAD]) * size,
            parts=count,
            written_turn=turns.get(SPILL_STORE, 0.0),
            kept_turn=turns.get(SPILL_LOAD, 0.0),
            parts_written=sum(1 << part for word, part in samples.items() if word in written),
            parts_kept=sum(1 << part for word, part in samples.items() if word in kept),
            part_bytes=part_words * size if count else 0,
        )
    return by_step


def with_l1_hits(
    code: np.ndarray,
    launch: Launch,
    residency: Residency,
    device: Device,
    resident: int,
    item: int,
    paths: CtaPaths,
    attributions: Mapping[Part, Attribution],
) -> np.ndarray:
    """The code with loads that hit L1 as reads of shared memory (SHARED), which is the same memory.

    Args:
        code: with loads that all come from L2 (LOAD), as `code_table` makes it.
        residency: of the launch on the device.
        resident: CTAs that share an SM.
        item: whose steps are followed.
        paths: of that item's CTA.
        attributions: which steps each part of the code belongs to.
    """
    code = code.copy()
    loaders = _loaders(launch, attributions, served_by_l1(launch, residency, device, resident, item))
    reloaded = _reloads_that_hit(launch, residency, device, resident, paths)
    region_of = paths.first_regions()
    loads = [int(place) for place in np.flatnonzero(code["kind"] == sm.LOAD) if place in region_of]
    plain: dict[int, list[int]] = defaultdict(list)
    for place in loads:
        if not code["spills"][place]:
            plain[region_of[place]].append(place)
    hits = {
        place: share for region, places in plain.items() for place, share in _shares(places, loaders[region], paths)
    }
    due: dict[tuple[int, int], float] = {}
    for place in loads:
        spills = int(code["spills"][place])
        key = region_of[place], spills
        share = reloaded.get(place, 0.0) if spills else hits[place]
        due[key] = due.get(key, 0.5) + share
        if due[key] >= 1.0:
            due[key] -= 1.0
            code["kind"][place], code["spills"][place] = sm.SHARED, 0
            code["smem_lines"][place] = max(code["smem_lines"][place], code["tag_lines"][place])
    return code


def _loaders(
    launch: Launch, attributions: Mapping[Part, Attribution], served: Mapping[str, Served]
) -> dict[int, list[Served]]:
    """Region -> what its steps load, in order; as one, where they run the same code alternately.

    A step that no part belongs to runs as often as the one before, in the same region.
    """
    loaders: dict[int, dict[tuple[str, ...], Served]] = defaultdict(dict)
    where: list[tuple[int, tuple[str, ...]]] = []
    for step, _ in steps(launch.program.body):
        attributed = [(part.region, to.steps) for part, to in attributions.items() if step.name in to.steps]
        where = attributed or [(region, (step.name,)) for region, _ in where]
        if step.name not in served:
            continue
        for region, names in dict.fromkeys(where):
            loaders[region][names] = loaders[region].get(names, Served()).beside(served[step.name])
    return defaultdict(list, {region: list(groups.values()) for region, groups in loaders.items()})


def _shares(places: list[int], loaders: list[Served], paths: CtaPaths) -> Iterator[tuple[int, float]]:
    """Share of each load that hits.

    Args:
        places: of loads, in order.
        loaders: the steps that they belong to, in order.
    """
    sizes = [thread_bytes(paths.flow.instructions[place]) for place in places]
    whole, before = sum(loader.loaded_bytes for loader in loaders), 0
    for place, size in zip(places, sizes, strict=True):
        at, passed, share = (before + size / 2) / sum(sizes) * whole, 0, 0.0
        for loader in loaders:
            if passed <= at:
                share = loader.share
            passed += loader.loaded_bytes
        before += size
        yield place, share


def _reloads_that_hit(
    launch: Launch, residency: Residency, device: Device, resident: int, paths: CtaPaths
) -> dict[int, float]:
    """Place of a reload of spilled registers -> share that hits, by what L1 has taken in since their last use."""
    if not any(instruction.family == SPILL_LOAD for instruction in paths.flow.instructions):
        return {}
    room = float(residency.l1_bytes)
    distances: dict[int, float] = {}
    threads: Counter[int] = Counter()
    for path, warps in Counter(paths.warps).items():
        inside: dict[int, list[tuple[int, Instruction]]] = defaultdict(list)
        for number, region in dict.fromkeys(paths.executed(paths.warps.index(path))):
            block = paths.flow.blocks[number]
            around = [region]
            while around[-1] != OUTSIDE:
                around.append(paths.regions[around[-1]].parent)
            for place in range(block.first, block.stop):
                instruction = paths.flow.instructions[place]
                if instruction.family in SPILLS or instruction.family in LOADS:
                    for outer in around:
                        inside[outer].append((place, instruction))
        # Those inside come after the ones around them, and know better.
        for region in sorted(inside):
            times = 1 if region == OUTSIDE else 2
            distances |= _distances(inside[region] * times, launch.resources.spilled_bytes_per_thread)
        threads.update({place: WARP_THREADS * warps * resident for place, _ in inside[OUTSIDE]})
    return {place: _kept(distance * threads[place], room, device.sm) for place, distance in distances.items()}


def _kept(distance_bytes: float, room_bytes: float, sm_numbers: SmNumbers) -> float:
    """Share of what was used a number of bytes ago that an L1 of that room still has."""
    kept, lost = sm_numbers.spill_l1_kept_fraction, sm_numbers.spill_l1_lost_fraction
    if distance_bytes >= lost * room_bytes:
        return 0.0
    return min(1.0, (lost - distance_bytes / room_bytes) / (lost - kept))


def _distances(accesses: list[tuple[int, Instruction]], stack_bytes: int) -> dict[int, float]:
    """Place of a reload -> bytes of a thread that were touched since its words were, with themselves, at the end."""
    held: dict[object, int] = {}
    distances: dict[int, float] = {}
    for turn, (place, instruction) in enumerate(accesses):
        if instruction.family in LOADS:
            held[turn, place] = thread_bytes(instruction)
            continue
        words = _words(instruction, stack_bytes)
        if instruction.family == SPILL_LOAD:
            since, remaining = 0, len(words & held.keys())
            for what in reversed(held):
                since += held[what]
                remaining -= what in words
                if remaining == 0:
                    break
            distances[place] = float(since) if words <= held.keys() else inf
        for word in words:
            held.pop(word, None)
            held[word] = WORD_BYTES
    return distances


def _words(instruction: Instruction, stack_bytes: int) -> set[int]:
    """Words of a thread's stack that an instruction reads or writes; all of them where it does not tell."""
    offsets = [offset for operand in instruction.operands if (offset := stack_offset(operand)) is not None]
    if not offsets:
        return set(range(stack_bytes // WORD_BYTES))
    first = offsets[0] // WORD_BYTES
    return set(range(first, first + max(1, thread_bytes(instruction) // WORD_BYTES)))
