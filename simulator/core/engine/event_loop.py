"""The event loop: CTAs on SMs, each walking its program, one clock for compute, caches and memory.

Every resident CTA (a *slot*) has one next event; a tournament finds the earliest, the lower slot on a tie.
An event moves a CTA on by one step or one loop iteration:
stores of the step before, loads of this one (or of a later one, where a loop is pipelined), then compute.
A step takes a lone CTA its critical path; CTAs that compute at the same time share the SM's pipes (`sm_sharing`),
so that a lone CTA alternates between pipes and several overlap.
"""

import numpy as np

from ..jit import compiled, inlined
from .events import LANE_BITS, settle
from .links import DISPATCH, STEPS, Rates
from .sm_sharing import CTA, CURRENT, ENDED, IDLE, ITEM, PC, PHASE, SM, begin_step, end_step, enter, leave
from .spilled import pass_spilled
from .tile_path import ASYNCHRONOUS, Memory, access_tile

# Operations; columns of `code` are operation and argument (a step, or a loop).
STEP, LOOP, END, HALT = 0, 1, 2, 3
# Phases of a slot beside `IDLE`: on its way; waiting for a step's data; for those of a loop's step that do not run
# ahead; at the begin of an iteration; waiting for what ran ahead.
ADVANCE, COMPUTE, BODY, PREFETCH, ITERATE = range(IDLE + 1, IDLE + 6)
# Columns of `loops`: instruction after LOOP and after END; a variable v >= 0 or a constant c as c - CONSTANT; the
# counter's variable; stages of a pipelined loop, else 0; by how many cycles its steps need their data later than
# they begin.
START, STOP, FIRST, STRIDE, TRIPS, COUNTER, STAGES, SLACK = range(8)
LOOP_COLUMNS = SLACK + 1
# Columns of `steps`: tiles loaded, tiles stored, how often the step waits for loads one after the other, granules of
# spilled registers that it writes to L2, and how many of them it reads before.
LOAD_FROM, LOAD_TO, STORE_FROM, STORE_TO, WAITS, SPILLED, KEPT = range(7)
NEXT_CTA = 0
"""The only element of `clock`."""
# Which loads of a step.
PLAIN, PREFETCHED, ALL = 0, 1, 2
# What an event moves, one after the other: stores of the step before; loads that run ahead of a loop, those of an
# iteration that do not, those that a loop begins with; all loads of a step. There is one place where tiles move, since
# compiled code that calls it from several spends longer on passing arrays than on the work.
NOTHING_MORE, STORES, AHEAD, OWN, FILL, WHOLE = range(6)
RING = 16
"""Arrivals that are kept of a pipelined loop: more than it has stages."""
CONSTANT = 1 << 40
"""What tells constants in a table from variables: above any number of an item."""


@inlined
def _value(environment: np.ndarray, slot: int, reference: int) -> int:
    return environment[slot, reference] if reference >= 0 else reference + CONSTANT


@compiled
def run(
    memory: Memory,
    rates: Rates,
    tensors: np.ndarray,
    tiles: np.ndarray,
    code: np.ndarray,
    loops: np.ndarray,
    steps: np.ndarray,
    lengths: np.ndarray,
    uses: np.ndarray,
    slowdown: np.ndarray,
    slots: np.ndarray,
    trips: np.ndarray,
    environment: np.ndarray,
    ring: np.ndarray,
    pending_steps: np.ndarray,
    aged: np.ndarray,
    shares: np.ndarray,
    crowds: np.ndarray,
    known: np.ndarray,
    speeds: np.ndarray,
    due: np.ndarray,
    due_bits: np.ndarray,
    times: np.ndarray,
    seats: np.ndarray,
    clock: np.ndarray,
    slowness: np.ndarray,
    table: np.ndarray,
    table_first: int,
    item_count: int,
    cta_count: int,
    pause_cta: int,
    record: np.ndarray,
    now: float,
) -> float:
    """Run events until all CTAs are done, or until CTA number `pause_cta` is due.

    Args:
        tensors, tiles: as in `tile_path`; code, loops, steps: int64 tables with the columns above;
        lengths: float64 (steps,), cycles of a lone CTA; uses: float64 (steps, pipes), how long in each it wants a pipe;
        slowdown: float64 (steps, CTAs of an SM), by a CTA's age, how much longer it takes beside others than the mean;
        slots: int64 (slots, SLOT_COLUMNS), slot i on the SM `slots[i, SM]` at place i // SMs of lane i % SMs;
        trips: int64 (slots, 2 * loops), trip and trips of each loop;
        environment: int64 (slots, variables and counters); ring: float64 (slots, RING), arrival of prefetched tiles;
        pending_steps: int64 (SMs, places), the step that a CTA computes, or NOTHING;
        aged: int64 (SMs, places + 1), places of an SM's CTAs from the oldest on, their number last;
        shares: float64 (SMs, places, SHARE_COLUMNS), crowds: float64 (SMs,), known: uint64 (KNOWN_CASES,),
        speeds: float64 (KNOWN_CASES, places + 1), as in `sm_sharing`;
        due, times, seats: as in `events`; due_bits: the memory of `due` as int64; clock: int64, the next CTA;
        slowness: float64 (SMs,), counted cycles for one of each SM;
        table: int64 (items, variables), from item `table_first` on;
        record: float64 (CTAs, 4): SM, slot, start, end of each CTA, or of shape (0, 4) for no record;
        now: time of the newest event so far.

    Returns:
        Time of the newest event.
    """
    entry, dirt, lists, ready, windows, free, asked, l1, seen, stamps, counter = memory
    variables, sms = table.shape[1], len(crowds)
    lane = 0
    while True:
        settle(due_bits, times, seats, lane)
        lane, place = seats[1] & ((1 << LANE_BITS) - 1), seats[1] >> LANE_BITS
        time = due[lane, place]
        if time == np.inf:
            break
        slot = place * sms + lane
        phase = slots[slot, PHASE]
        sm = slots[slot, SM]
        if phase == IDLE:
            cta = clock[NEXT_CTA]
            if cta >= cta_count:
                due[lane, place] = np.inf
                continue
            if cta >= pause_cta:
                break
            clock[NEXT_CTA] = cta + 1
            slots[slot, CTA] = cta
            slots[slot, ITEM] = cta
            for i in range(variables):
                environment[slot, i] = table[cta - table_first, i]
            slots[slot, PC] = 0
            slots[slot, PHASE] = ADVANCE
            enter(aged, crowds, lane, place)
            start = max(time, free[DISPATCH])
            free[DISPATCH] = start + rates.cta_dispatch
            if len(record) > 0:
                record[cta, 0] = sm
                record[cta, 1] = slot
                record[cta, 2] = start
            due[lane, place] = start
            continue
        if time > now:
            now = time
        done = pending_steps[lane, place]
        after, begins = time, -1
        move, which, step = STORES, ALL, done
        loop, trip, count, ahead, start_at, stride = 0, 0, 0, 0, 0, 0
        while move != NOTHING_MORE:
            there = time
            if step >= 0:
                low, high = steps[step, LOAD_FROM], steps[step, LOAD_TO]
                if move == STORES:
                    low, high = steps[step, STORE_FROM], steps[step, STORE_TO]
                for tile in range(low, high):
                    if which == ALL or tiles[tile, ASYNCHRONOUS] == which:
                        arrival = access_tile(
                            entry, dirt, lists, ready, windows, free, asked, l1, seen, stamps, counter, rates,
                            tensors, tiles, tile, environment, slot, sm, time, move == STORES,
                        )  # fmt: skip
                        if arrival > there:
                            there = arrival
                if move != STORES and which != PREFETCHED and steps[step, SPILLED] > 0:
                    arrival = pass_spilled(
                        entry, dirt, lists, windows, free, counter, rates, slot, sm, steps[step, SPILLED],
                        steps[step, KEPT], time,
                    )  # fmt: skip
                    if arrival > there:
                        there = arrival
            if move == STORES:
                if phase == COMPUTE:
                    begins = slots[slot, CURRENT]
                    slots[slot, PC] += 1
                    phase = ADVANCE
                    break
                if phase >= BODY:
                    loop = slots[slot, CURRENT]
                    trip, count, stages = trips[slot, 2 * loop], trips[slot, 2 * loop + 1], loops[loop, STAGES]
                    step = code[loops[loop, START], 1]
                    start_at = _value(environment, slot, loops[loop, FIRST])
                    stride = _value(environment, slot, loops[loop, STRIDE])
                    ahead = trip + stages - 2
                    if phase == PREFETCH and ahead < count:
                        environment[slot, loops[loop, COUNTER]] = start_at + stride * ahead
                        move, which = AHEAD, PREFETCHED
                        continue
                    move = AHEAD
                else:
                    pc = slots[slot, PC]
                    while True:
                        op, arg = code[pc, 0], code[pc, 1]
                        if op == STEP:
                            move, which, step = WHOLE, ALL, arg
                            break
                        if op == LOOP:
                            count = _value(environment, slot, loops[arg, TRIPS])
                            if count <= 0:
                                pc = loops[arg, STOP]
                                continue
                            trips[slot, 2 * arg] = 0
                            trips[slot, 2 * arg + 1] = count
                            start_at = _value(environment, slot, loops[arg, FIRST])
                            environment[slot, loops[arg, COUNTER]] = start_at
                            pc += 1
                            if loops[arg, STAGES] == 0:
                                continue
                            loop, step, ahead = arg, code[pc, 1], 0
                            stride = _value(environment, slot, loops[loop, STRIDE])
                            move, which = FILL, PREFETCHED
                            break
                        if op == END:
                            trips[slot, 2 * arg] += 1
                            if trips[slot, 2 * arg] < trips[slot, 2 * arg + 1]:
                                environment[slot, loops[arg, COUNTER]] += _value(environment, slot, loops[arg, STRIDE])
                                pc = loops[arg, START]
                            else:
                                pc += 1
                            continue
                        item = slots[slot, ITEM] + cta_count
                        slots[slot, ITEM] = item
                        if item < item_count:
                            for i in range(variables):
                                environment[slot, i] = table[item - table_first, i]
                            pc = 0
                            continue
                        phase = IDLE
                        shares[lane, place, ENDED] = time
                        leave(aged, crowds, lane, place)
                        if len(record) > 0:
                            record[slots[slot, CTA], 3] = time
                        move = NOTHING_MORE
                        break
                    slots[slot, PC] = pc
                    continue
            elif move == AHEAD:
                ring[slot, ahead % RING] = there - loops[loop, SLACK]
            elif move == WHOLE:
                after = time + steps[step, WAITS] * (there - time)
                if after > time:
                    slots[slot, CURRENT] = step
                    phase = COMPUTE
                else:
                    begins = step
                    slots[slot, PC] += 1
                break
            elif move == FILL:
                ring[slot, ahead] = there
                ahead += 1
                if ahead < min(loops[loop, STAGES] - 1, count):
                    environment[slot, loops[loop, COUNTER]] = start_at + stride * ahead
                    continue
                after = max(time, ring[slot, 0])
                slots[slot, CURRENT] = loop
                phase = ITERATE
                break
            if move == AHEAD:
                environment[slot, loops[loop, COUNTER]] = start_at + stride * trip
                if phase != BODY:
                    after = ring[slot, trip % RING]
                    phase = ITERATE
                    if after <= time:
                        move, which = OWN, PLAIN
                        continue
            else:
                after = time + steps[step, WAITS] * (there - time)
                phase = BODY
            if phase == BODY and after <= time:
                begins = step
                trips[slot, 2 * loop] = trip + 1
                phase = PREFETCH
                if trip + 1 == count:
                    slots[slot, PC] = loops[loop, STOP]
                    phase = ADVANCE
            break
        slots[slot, PHASE] = phase
        if begins >= 0:
            counter[STEPS] += 1
            begin_step(
                lengths, uses, slowdown, slowness[sm], pending_steps, aged, shares, crowds, known, speeds, due, lane,
                place, begins, time,
            )  # fmt: skip
        else:
            end_step(uses, slowdown, pending_steps, aged, shares, crowds, known, speeds, due, lane, place, time)
            due[lane, place] = after
    return now
