"""The event loop: CTAs on SMs, each walking its program, one clock for compute, caches and memory.

Every resident CTA (a *slot*) has one next event; a tournament finds the earliest, the lower slot on a tie (`events`).
An event moves a CTA on by one step or one loop iteration (`walk`): stores of the step before, loads of this one (or of
a later one, where a loop is pipelined), then compute. Tiles go through caches and links (`tile_path`).
A step takes a lone CTA its critical path; CTAs that compute at the same time share the SM's pipes (`sm_sharing`),
so that a lone CTA alternates between pipes and several overlap.
"""

import numpy as np

from ..jit import compiled, inlined
from .events import Calendar, next_event
from .links import DISPATCH, STEPS, Rates
from .memory import Memory
from .program import Items, Program
from .sm_sharing import Sharing, begin_step, end_step, enter, leave
from .spilled import pass_spilled, turn
from .tile_path import access_listed, access_tile
from .walk import ADVANCE, AHEAD, COMPUTE, EXIT, FILL, IDLE, NOT_PREFETCHED, STORES, Ctas, Next, next_move, take_item

NEXT_CTA = 0
"""The only element of `next_cta`."""
RECORD_SM, RECORD_SLOT, RECORD_BEGIN, RECORD_END = range(4)
"""Columns of `record`."""


@compiled
def run(
    memory: Memory,
    rates: Rates,
    program: Program,
    ctas: Ctas,
    sharing: Sharing,
    calendar: Calendar,
    items: Items,
    next_cta: np.ndarray,
    pause_cta: int,
    pause_step: float,
    record: np.ndarray,
    now: float,
) -> float:
    """Run events until all CTAs are done, or until CTA number `pause_cta` is due, or so many steps have run.

    Args:
        ctas: slot i is in place i // SMs of the SM that comes i % SMs-th in the order of dispatch (its *lane*).
        sharing, calendar: by lane.
        items: those that are taken up until then.
        next_cta: int64 (1,), number of the next CTA that is dispatched.
        pause_step: steps of the launch, those of earlier calls included.
        record: float64 (CTAs, 4), SM, slot, begin and end of each CTA; or of shape (0, 4) for no record.
        now: time of the newest event so far.

    Returns:
        Time of the newest event.
    """
    sms = len(sharing.oversubscription)
    lane = 0
    while True:
        lane, place = next_event(calendar, lane)
        time = calendar.due[lane, place]
        if time == np.inf or memory.counter[STEPS] >= pause_step:
            return now
        slot = place * sms + lane
        state = ctas.slots[slot]
        if state.phase == IDLE:
            cta = next_cta[NEXT_CTA]
            if cta >= program.cta_count:
                calendar.due[lane, place] = np.inf
                continue
            if cta >= pause_cta:
                return now
            next_cta[NEXT_CTA] = cta + 1
            calendar.due[lane, place] = _dispatch(memory, rates, ctas, items, slot, cta, time, record)
            enter(sharing, lane, place)
            continue
        now = max(now, time)
        last = Next(STORES, sharing.pending[lane, place], 0, time)
        while last.move < COMPUTE:
            # The one place where tiles move: compiled code grows by all of `access_tile` for each.
            there = _move_tiles(memory, rates, program, ctas, slot, last.move, last.step, time)
            last = next_move(program, ctas, items, slot, last, there, time)
        if last.move == COMPUTE:
            memory.counter[STEPS] += 1
            begin_step(sharing, lane, place, last.step, sharing.clock_ratio[state.sm], time)
            continue
        until = last.until
        if last.move == EXIT:
            leave(sharing, lane, place, time)
            until = max(until, state.begun + rates.cta_place)
            if len(record) > 0:
                record[state.cta, RECORD_END] = time
        end_step(sharing, lane, place, time)
        calendar.due[lane, place] = until


@inlined
def _dispatch(
    memory: Memory, rates: Rates, ctas: Ctas, items: Items, slot: int, cta: int, time: float, record: np.ndarray
) -> float:
    """A CTA gets an idle slot. Returns: when it begins: one CTA after the other is dispatched."""
    state = ctas.slots[slot]
    state.cta = cta
    state.phase = ADVANCE
    take_item(ctas, items, slot, cta)
    begin = state.begun = max(time, memory.free[DISPATCH])
    memory.free[DISPATCH] = begin + rates.cta_dispatch
    if len(record) > 0:
        record[cta, RECORD_SM] = state.sm
        record[cta, RECORD_SLOT] = slot
        record[cta, RECORD_BEGIN] = begin
    return begin


@inlined
def _move_tiles(
    memory: Memory, rates: Rates, program: Program, ctas: Ctas, slot: int, move: int, step: int, time: float
) -> float:
    """Move the tiles of a step that a move is about (see `walk`). Returns: when all of them are there."""
    there = time
    if step < 0:
        return there
    tiles = program.steps[step]
    prefetches = move in (FILL, AHEAD)
    first, last = tiles.load_from, tiles.load_to
    if move == STORES:
        first, last = tiles.store_from, tiles.store_to
    for tile in range(first, last):
        asynchronous = program.tiles[tile].asynchronous == 1
        if (prefetches and not asynchronous) or (move == NOT_PREFETCHED and asynchronous):
            continue
        if program.tiles[tile].lists_at < 0:
            arrival = access_tile(memory, rates, program, tile, ctas, slot, time, move == STORES)
        else:
            arrival = access_listed(memory, rates, program, tile, ctas, slot, time, move == STORES)
        there = max(there, arrival)
    moved = max(tiles.spilled_turn, tiles.reloaded_turn)
    if ((tiles.spilled | tiles.reloaded) != 0 or moved > 0.0) and move != STORES and not prefetches:
        at = ctas.turns[slot, step]
        spilled = tiles.spilled | turn(at, tiles.spilled_turn, rates.spilled_granules)
        reloaded = tiles.reloaded | turn(at, tiles.reloaded_turn, rates.spilled_granules)
        ctas.turns[slot, step] = (at + moved) % max(1, rates.spilled_granules)
        there = max(there, pass_spilled(memory, rates, slot, ctas.slots[slot].sm, spilled, reloaded, time))
    return there
