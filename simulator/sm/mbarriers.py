"""Which mbarrier waits are for which arrivals, and what bulk copies and stores move, as far as code and paths tell.

The copies that a kernel without specialised warps announces are waited for one after the other, in that order.
Specialised warps have a ring of mbarriers for each thing that they pass on: a *channel*, known by the offset in shared
memory that all instructions on it name. Producers that wait for free buffers find all stages free at the start.
Matmuls in tensor memory have a channel of their own, in order as well: waits for what no copy is announced on are for
them.
"""

from collections import Counter
from collections.abc import Mapping

import numpy as np

from ..core.sm import instruction as sm
from ..launch.program import Launch
from ..launch.traced import Mbarrier
from ..launch.walk import moved_bytes, steps
from ..limits import SMEM_LINE_BYTES
from ..sass.decode import Instruction
from ..sass.operands import Address
from ..trace.paths import CtaPaths
from .match_steps import Attribution, Part

ON_CHANNELS = (sm.EXPECT, sm.MBARRIER_WAIT, sm.ARRIVE)


def with_leaders(code: np.ndarray, paths: CtaPaths) -> np.ndarray:
    """The code with the warp that acts for its CTA, for each instruction: the first one that runs it.

    Args:
        code: records of `core.sm.instruction`.
    """
    code = code.copy()
    leaders: dict[int, int] = {}
    for warp in range(len(paths.warps)):
        for number in {number for number, _ in paths.executed(warp)}:
            leaders.setdefault(number, warp)
    for number, block in enumerate(paths.flow.blocks):
        code["leader"][block.first : block.stop] = leaders.get(number, -1)
    return code


def with_channels(code: np.ndarray, launch: Launch, paths: CtaPaths) -> np.ndarray:
    """The code with the channel of each instruction on mbarriers, and how many copies or free phases it is about.

    Args:
        code: without copies that no lane takes part in.

    Raises:
        ValueError: more channels than the simulation has; one line.
    """
    code = code.copy()
    kinds = code["kind"]
    if launch.traced and launch.traced[0].mbarriers:
        return _on_rings(code, launch, launch.traced[0].mbarriers)
    if not launch.consumer_warps:
        code["copies"][kinds == sm.EXPECT] = 1
        code["in_order"][kinds == sm.MBARRIER_WAIT] = 1
        return _with_matmul_waits(code, paths)
    places = [int(place) for place in np.flatnonzero(np.isin(kinds, ON_CHANNELS))]
    offset_of = {place: _offset(paths.flow.instructions[place]) for place in places}
    offsets = sorted(set(offset_of.values()))
    if len(offsets) > sm.CHANNELS:
        raise ValueError(_too_many(launch, len(offsets)))
    given_back = {offset_of[place] for place in places if kinds[place] == sm.ARRIVE}
    for place, offset in offset_of.items():
        code["channel"][place] = offsets.index(offset)
        if kinds[place] == sm.EXPECT:
            code["copies"][place] = _copies_after(kinds, place)
        elif kinds[place] == sm.MBARRIER_WAIT and offset in given_back:
            code["free_phases"][place] = launch.num_stages
    return _with_matmul_waits(code, paths)


def with_barriers(code: np.ndarray, launch: Launch) -> np.ndarray:
    """The code with the named barriers that its warps were seen to come to, where code computes them."""
    code = code.copy()
    for place, use in (launch.traced[0].barriers if launch.traced else {}).items():
        code["barrier"][place], code["barrier_ring"][place] = use.first, use.count
        code["barrier_warps"][place], code["arriving"][place] = use.takes, use.coming
        if not use.coming:  # its predicate is false in every warp that passes by
            code["kind"][place] = sm.PLAIN
    return code


def _on_rings(code: np.ndarray, launch: Launch, rings: Mapping[int, Mbarrier]) -> np.ndarray:
    """The code with the rings that its instructions were seen to use. Raises: as `with_channels`."""
    if (most := 1 + max(use.ring for use in rings.values())) > sm.CHANNELS:
        raise ValueError(_too_many(launch, most))
    for place, use in rings.items():
        code["channel"][place], code["free_phases"][place] = use.ring, use.ahead
        code["arrivals"][place], code["arriving"][place] = use.arrivals, use.arriving
        if code["kind"][place] == sm.EXPECT:
            code["copies"][place] = _copies_after(code["kind"], place)
    return code


def _too_many(launch: Launch, rings: int) -> str:
    return f"kernel {launch.name}: {rings} rings of mbarriers; at most {sm.CHANNELS} are followed"


def _with_matmul_waits(code: np.ndarray, paths: CtaPaths) -> np.ndarray:
    """The code with the waits for matmuls in tensor memory, which are in order, on their channel."""
    kinds = code["kind"]
    commits = kinds == sm.MATMUL_COMMIT
    if not commits.any():
        return code
    announced = {
        _offset(paths.flow.instructions[place]) for place in np.flatnonzero(np.isin(kinds, (sm.EXPECT, sm.ARRIVE)))
    }
    for place in np.flatnonzero(kinds == sm.MBARRIER_WAIT):
        if _offset(paths.flow.instructions[place]) not in announced:
            code["channel"][place], code["in_order"][place], code["free_phases"][place] = sm.MATMULS_CHANNEL, 0, 0
    code["channel"][commits] = sm.MATMULS_CHANNEL
    return code


def _offset(instruction: Instruction) -> int:
    offsets = [operand.offset for operand in instruction.operands if isinstance(operand, Address)]
    return next(filter(None, offsets), 0)


def _copies_after(kinds: np.ndarray, place: int) -> int:
    """Bulk copies between an announcement and the next one."""
    later = kinds[place + 1 :]
    ends = np.flatnonzero(later == sm.EXPECT)
    return int((later[: ends[0] if len(ends) else None] == sm.BULK_COPY).sum())


def with_bulk_copy_sizes(
    code: np.ndarray,
    launch: Launch,
    paths: CtaPaths,
    attributions: Mapping[Part, Attribution],
    executed: Mapping[str, int],
) -> np.ndarray:
    """The code with what each bulk copy moves, which it does not tell: an even part of what its step loads by TMA.

    Args:
        code: with leaders.
        attributions: which steps each part of the code belongs to.
        executed: step name -> executions in the CTA.
    """
    code = code.copy()
    moved = {
        step.name: executed[step.name]
        * sum(
            moved_bytes(launch.program.tensor(tile.tensor), tile.rows, tile.cols)
            for tile in step.loads
            if tile.path == "tma"
        )
        for step, _ in steps(launch.program.body)
    }
    leaders = {int(place): int(code["leader"][place]) for place in np.flatnonzero(code["kind"] == sm.BULK_COPY)}
    copies: dict[int, Counter[int]] = {}
    for warp in sorted(set(leaders.values()) - {-1}):
        for number, region in paths.executed(warp):
            here = paths.flow.blocks[number]
            for place, leader in leaders.items():
                if leader == warp and here.first <= place < here.stop:
                    copies.setdefault(region, Counter())[place] += 1
    rest = float(sum(moved.values()))
    straight: Counter[int] = Counter()
    for region, places in copies.items():
        inside = region >= 0 and paths.regions[region].leaf
        attribution = attributions.get(Part(region))
        if not inside or attribution is None:
            straight += places
            continue
        # What is copied ahead of a loop is what its first iterations need.
        wanted = attribution.times * sum(executed[name] for name in attribution.steps)
        total = sum(moved[name] for name in attribution.steps) * paths.regions[region].count / wanted
        rest -= total
        for place in places:
            code["smem_lines"][place] = total / sum(places.values()) / SMEM_LINE_BYTES
    for place in straight:
        code["smem_lines"][place] = max(0.0, rest) / sum(straight.values()) / SMEM_LINE_BYTES
    return code


def with_traced_sizes(code: np.ndarray, box_bytes: Mapping[int, float]) -> np.ndarray:
    """The code with what bulk copies and stores move, where that is known. Args: box_bytes: as in `TracedCode`."""
    code = code.copy()
    bulk = np.isin(code["kind"], (sm.BULK_COPY, sm.BULK_STORE))
    code["smem_lines"][bulk] = 0.0
    for place, moved in box_bytes.items():
        code["smem_lines"][place] = moved / SMEM_LINE_BYTES
    return code


def with_bulk_store_sizes(code: np.ndarray, launch: Launch, paths: CtaPaths, executed: Mapping[str, int]) -> np.ndarray:
    """The same for bulk stores: what a kernel stores is known.

    Args:
        code: with leaders.
        executed: step name -> executions in the CTA.
    """
    code = code.copy()
    wanted = 0
    for step, _ in steps(launch.program.body):
        for tile in step.stores:
            tensor = launch.program.tensor(tile.tensor)
            elements = min(tile.rows, tensor.rows) * min(tile.cols, tensor.cols)
            wanted += executed[step.name] * elements * tensor.element_bytes
    stores = code["kind"] == sm.BULK_STORE
    issued = 0
    for place in np.flatnonzero(stores):
        leader = int(code["leader"][place])
        block = next(number for number, block in enumerate(paths.flow.blocks) if block.first <= place < block.stop)
        issued += sum(number == block for number, _ in paths.executed(leader)) if leader >= 0 else 0
    if issued:
        code["smem_lines"][stores] = wanted / issued / SMEM_LINE_BYTES
    return code
