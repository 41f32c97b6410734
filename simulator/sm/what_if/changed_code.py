"""Code that has been followed, with something about it changed: without spills, without bank conflicts, coalesced, ...

In: code as one of its CTAs runs it. Out: the same with other lines, waits and kinds in its table. Instructions stay
where they are, so that what a change removes still takes an issue slot.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np

from ...core.sm import instruction as sm
from ...core.sm.instruction import SmInstruction
from ...device.device import Device
from ...device.sm_numbers import SmNumbers
from ...launch.program import Launch
from ...limits import SMEM_LINE_BYTES, WARP_THREADS
from ...residency.residency import Residency
from ...sass.memory_instructions import GLOBAL_LOADS, PLAIN_GLOBAL, PLAIN_SHARED, bytes_of
from ...sass.opcodes import thread_bytes
from ..followed import FollowedCode, follow
from ..from_code import CompiledCost, compiled_costs, single_cta_classes

CodeChange = Callable[[FollowedCode, SmNumbers], FollowedCode]
KEPT = frozenset({"stall_cycles", "wait_mask", "leader"})
"""Fields of an instruction that stay when it does nothing more than issue."""
LEAST_LATENCY = 4.0
"""Of a load whose result is there at once, as a register that an instruction has just written [cycles]."""
LaunchChange = Callable[[Launch], Launch]


def unchanged(seen: FollowedCode, numbers: SmNumbers) -> FollowedCode:
    """Code as it is."""
    return seen


def without_spills(seen: FollowedCode, numbers: SmNumbers) -> FollowedCode:
    """No register goes to local memory and back."""
    return replace(seen, code=_idle(seen.code, seen.code["spills"] == 1), touched={})


def without_barriers(seen: FollowedCode, numbers: SmNumbers) -> FollowedCode:
    """No warp waits for others at a barrier of its CTA."""
    return replace(seen, code=_idle(seen.code, seen.code["kind"] == sm.BARRIER))


def without_bank_conflicts(seen: FollowedCode, numbers: SmNumbers) -> FollowedCode:
    """Accesses to shared memory take as many cycles as they have lines."""
    code = seen.code.copy()
    for place, lines in conflict_free(seen).items():
        row = code[place]  # a view: what is set here is set in the table
        row["smem_lines"] = lines
        row["interval_cycles"] = max(numbers.lsu_interval_cycles, lines)
        row["smem_passes"] = max(1.0, lines)
    return replace(seen, code=code)


def conflict_free(seen: FollowedCode) -> dict[int, float]:
    """Places of the accesses to shared memory with bank conflicts -> cycles that they would take without."""
    ideal = {
        place: WARP_THREADS * thread_bytes(instruction) / SMEM_LINE_BYTES
        for place, instruction in enumerate(seen.flow.instructions)
        if instruction.family in PLAIN_SHARED and seen.code[place]["kind"] == sm.SHARED
    }
    return {place: lines for place, lines in ideal.items() if seen.code[place]["smem_lines"] > lines}


def passes_of(seen: FollowedCode, place: int) -> float:
    """Cycles that an access takes shared memory."""
    return float(seen.code[place]["smem_lines"])


def is_in_l1(seen: FollowedCode, place: int) -> bool:
    """Whether L1 serves most of what an access to device memory asks for."""
    return int(seen.code[place]["kind"]) == sm.SHARED


def coalesced(seen: FollowedCode, numbers: SmNumbers) -> FollowedCode:
    """Lanes of a warp load and store neighbouring elements of device memory."""
    code = seen.code.copy()
    for place, instruction in enumerate(seen.flow.instructions):
        if instruction.family not in PLAIN_GLOBAL or code[place]["kind"] == sm.PLAIN:
            continue
        row = code[place]
        lines = WARP_THREADS * bytes_of(instruction) / SMEM_LINE_BYTES
        row["smem_lines"] = min(row["smem_lines"], lines)
        row["tag_lines"] = min(row["tag_lines"], max(1.0, lines))
        row["interval_cycles"] = min(row["interval_cycles"], max(numbers.lsu_interval_cycles, lines))
    return replace(seen, code=code)


def known_before(places: Iterable[int]) -> CodeChange:
    """What these loads return is there at once. Args: places: of them in the code."""
    wanted = list(places)

    def change(seen: FollowedCode, numbers: SmNumbers) -> FollowedCode:
        code = seen.code.copy()
        loads = [place for place in wanted if seen.flow.instructions[place].family in GLOBAL_LOADS]
        code["kind"][loads], code["latency_cycles"][loads] = sm.PLAIN, LEAST_LATENCY
        return replace(seen, code=code)

    return change


def further_ahead(seen: FollowedCode, numbers: SmNumbers) -> FollowedCode:
    """Pipelined loops wait for what they asked for an iteration earlier: one stage more."""
    code = seen.code.copy()
    kinds = code["kind"]
    for loop in seen.flow.loops:
        inside = np.zeros(len(code), dtype=np.bool_)
        for block in loop.blocks:
            inside[seen.flow.blocks[block].first : seen.flow.blocks[block].stop] = True
        groups = int((inside & (kinds == sm.COPY_COMMIT)).sum())
        if groups and not any(other.depth > loop.depth and other.blocks < loop.blocks for other in seen.flow.loops):
            code["pending"][inside & (kinds == sm.COPY_WAIT)] += groups
    waits = kinds == sm.MBARRIER_WAIT
    ahead = waits & (code["free_phases"] > 0) if (code["free_phases"] > 0).any() else waits & (code["in_order"] == 1)
    code["free_phases"][ahead] += 1
    code["in_order"][ahead] = 0
    return replace(seen, code=code)


def _idle(table: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """A table in which some instructions do nothing but issue. Args: chosen: bool (instructions,)."""
    code = table.copy()
    for name, default in SmInstruction()._asdict().items():
        if name not in KEPT:
            code[name][chosen] = default
    return code


class CodeOfLaunch:
    """A launch's code, followed through a CTA of each class.

    Raises:
        ValueError: there is no code, or it cannot be followed; one line.
    """

    def __init__(self, launch: Launch, device: Device) -> None:
        capability = device.capability
        self._launch, self._device = launch, device
        self._lone = single_cta_classes(launch)
        self.followed: list[FollowedCode] = [follow(lone, capability, device.sm) for lone in self._lone]

    def costs(
        self, residency: Residency, change: CodeChange = unchanged, altered: LaunchChange = lambda launch: launch
    ) -> list[CompiledCost]:
        """What its steps take. Args: residency: of the altered launch; change: of code; altered: of all else."""
        return [
            compiled_costs(
                altered(lone),
                residency,
                self._device,
                followed=change(seen, self._device.sm),
                whole=altered(self._launch),
            )
            for lone, seen in zip(self._lone, self.followed, strict=True)
        ]
