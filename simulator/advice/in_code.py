"""Rules on what the code of a launch does in an SM: spills, bank conflicts, loads that wait for loads, barriers.

Gains are those of the launch simulated with code that does not: an SM is simulated anew, and the engine with it.
"""

import numpy as np

from .. import units
from ..display.words import percent
from ..prediction.what_helps import Advice
from ..sass.memory_instructions import COPY, GLOBAL_LOADS, PLAIN_GLOBAL, SHARED_LOADS, addresses_of
from ..sm.what_if.changed_code import (
    LaunchChange,
    conflict_free,
    known_before,
    passes_of,
    without_bank_conflicts,
    without_barriers,
    without_spills,
)
from ..trace.control_slice import slice_of
from .case import Case, Change, with_tiles

LEAST_WAITING = 0.05
"""Share of warps' time at a cause from which on it is simulated without."""
LEAST_AT_BARRIERS = 0.2
"""The same at barriers: some wait there in every pipelined loop, which its author can do nothing about."""
LOADS_LOOKED_AT = 8
"""Loads whose addresses are followed back: those that warps wait for most."""
FETCHES = PLAIN_GLOBAL | SHARED_LOADS


def spills(case: Case) -> Advice | None:
    """Registers that go to local memory and back."""
    if not case.spilled_bytes:
        return None
    moved = case.local_bytes
    what = f"{case.spilled_bytes} B per thread go to local memory and back"
    share = f" ({units.traffic(moved)} through L2)" if moved else ""
    gain = case.gain(Change(code=without_spills)) if case.code else None
    return Advice(cause="spills", text=f"no spills: {what}{share}; smaller tiles, or more warps", gain=gain)


def bank_conflicts(case: Case) -> Advice | None:
    """Accesses to shared memory that take more cycles than they have lines."""
    if not case.code:
        return None
    extra: dict[int, float] = {}
    for seen, traced in zip(case.code.followed, case.launch.traced, strict=False):
        for place, lines in conflict_free(seen).items():
            extra[place] = extra.get(place, 0.0) + float(traced.issued[place]) * (passes_of(seen, place) - lines)
    cycles = case.prediction.traffic.cycles * case.device.sms
    if sum(extra.values()) < LEAST_WAITING * cycles:
        return None
    worst = max(extra, key=lambda place: extra[place])
    seen = case.code.followed[0]
    text = (
        f"no bank conflicts: shared memory takes {passes_of(seen, worst):.2g} cycles in place of"
        f" {max(1.0, conflict_free(seen).get(worst, 1.0)):.2g} for an access{case.at(worst)};"
        " another layout or order of axes"
    )
    return Advice(cause="bank conflicts", text=text, gain=case.gain(Change(code=without_bank_conflicts)))


def barriers(case: Case) -> Advice | None:
    """Warps of a CTA that wait for each other."""
    if case.warps is None:
        return None
    waits = case.warps.by_place("barrier")
    if waits.sum() < LEAST_AT_BARRIERS:
        return None
    text = (
        f"fewer barriers: warps wait {percent(float(waits.sum()))} of their time for others of their CTA"
        f"{case.at(int(np.argmax(waits)))}; fewer warps, or fewer reductions and layout changes across them"
    )
    return Advice(cause="barriers", text=text, gain=case.gain(Change(code=without_barriers)))


def dependent_loads(case: Case) -> Advice | None:
    """Loads whose addresses other loads return."""
    if case.warps is None or not (chains := _chains(case)):
        return None
    awaited = case.warps.awaited_shares
    first = max(chains, key=lambda place: awaited[place])
    if sum(awaited[place] for place in chains) < LEAST_WAITING:
        return None
    text = (
        f"loads that need not wait for loads: what is loaded{case.at(first)} tells where{case.at(chains[first])} loads;"
        " load it an iteration earlier, or give each program several of them"
    )
    change = Change(code=known_before(chains), launch=_without_indices(case, set(chains)))
    return Advice(cause="dependent loads", text=text, gain=case.gain(change))


def _without_indices(case: Case, places: set[int]) -> LaunchChange:
    """The launch without loads from memory that holds nothing but what tells addresses."""
    telling = {access.storage for access in case.accesses if access.place in places}
    telling -= {access.storage for access in case.accesses if access.place not in places}
    names = {case.tensor_of(number) for number in telling}
    return lambda launch: with_tiles(launch, lambda tile: None if tile.tensor in names else tile)


def _chains(case: Case) -> dict[int, int]:
    """Places of loads that return what tells addresses -> the access that waits for it."""
    assert case.code is not None and case.warps is not None
    flow = case.code.followed[0].flow
    code = flow.instructions
    fetches = frozenset(place for place, instruction in enumerate(code) if instruction.family in FETCHES)
    loads = [place for place in fetches if code[place].family in GLOBAL_LOADS]
    loads.sort(key=lambda place: -case.warps.awaited[place])  # type: ignore[union-attr]
    copies = [place for place, instruction in enumerate(code) if instruction.family == COPY][:LOADS_LOOKED_AT]
    chains: dict[int, int] = {}
    for place in (*loads[:LOADS_LOOKED_AT], *copies):
        behind = slice_of(flow, {place: addresses_of(code[place])}, unknown=fetches - {place})
        for other in (other for block in behind for other in block):
            if other != place and code[other].family in GLOBAL_LOADS:
                chains.setdefault(other, place)
    return chains
