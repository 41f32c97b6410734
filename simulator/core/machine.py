"""The event loop: CTAs on SMs, each walking its program, one clock for compute, caches and memory.

Every resident CTA (a *slot*) has one next event; a tournament finds the earliest, the lower slot on a tie.
An event moves a CTA on by one step or one loop iteration:
stores of the step before, loads of this one (or of a later one, where a loop is pipelined), then compute.
A step takes a lone CTA its critical path; CTAs that compute at the same time share the SM's pipes (`sharing`),
so that a lone CTA alternates between pipes and several overlap.
"""

import numpy as np

from .compiled import compiled, inlined
from .links import DISPATCH, STEPS, Rates
from .memory import Memory, access_tile
from .sharing import (
    CTA,
    CURRENT,
    ENDED,
    IDLE,
    ITEM,
    PC,
    PENDING,
    PHASE,
    SM,
    UNKNOWN,
    begin_step,
    end_step,
    reschedule,
)
from .spilled import pass_spilled

# Operations; columns of `code` are operation and argument (a step, or a loop).
STEP, LOOP, END, HALT = 0, 1, 2, 3
# Phases of a slot beside `IDLE`: on its way; waiting for a step's data; for those of a loop's step that do not run
# ahead; at the begin of an iteration; waiting for what ran ahead.
ADVANCE, COMPUTE, BODY, PREFETCH, ITERATE = range(IDLE + 1, IDLE + 6)
# Columns of `loops`: instruction after LOOP and after END; a variable v >= 0 or a constant c as c - CONSTANT; the
# counter's variable; stages of a pipelined loop, else 0; by how many cycles its steps need their data later than
# they begin.
START, STOP, FIRST, STRIDE, TRIPS, COUNTER, STAGES, SLACK = range(8)
LOOP_COLUMNS = 8
# Columns of `steps`: tiles loaded, tiles stored, how often the step waits for loads one after the other, granules of
# spilled registers that it writes to L2, and how many of them it reads before.
LOAD_FROM, LOAD_TO, STORE_FROM, STORE_TO, WAITS, SPILLED, KEPT = range(7)
# Element of `clock`.
NEXT_CTA = 0
# Which loads of a step.
PLAIN, PREFETCHED, ALL = 0, 1, 2
RING = 16
CONSTANT = 1 << 40


@inlined
def _value(environment: np.ndarray, slot: int, reference: int) -> int:
    return environment[slot, reference] if reference >= 0 else reference + CONSTANT


@compiled
def _move(
    entry: np.ndarray,
    dirt: np.ndarray,
    lists: np.ndarray,
    ready: np.ndarray,
    windows: np.ndarray,
    free: np.ndarray,
    pending: np.ndarray,
    l1: np.ndarray,
    counter: np.ndarray,
    rates: Rates,
    tensors: np.ndarray,
    tiles: np.ndarray,
    steps: np.ndarray,
    step: int,
    environment: np.ndarray,
    slot: int,
    sm: int,
    time: float,
    loads: int,
) -> float:
    """Load a step's tiles (PLAIN, PREFETCHED or ALL). Returns: when all are there."""
    done = time
    for tile in range(steps[step, LOAD_FROM], steps[step, LOAD_TO]):
        if loads == ALL or tiles[tile, 4] == loads:
            arrival = access_tile(
                entry, dirt, lists, ready, windows, free, pending, l1, counter, rates, tensors, tiles, tile,
                environment, slot, sm, time, False,
            )  # fmt: skip
            if arrival > done:
                done = arrival
    if loads != PREFETCHED and steps[step, SPILLED] > 0:
        arrival = pass_spilled(
            entry, dirt, lists, windows, free, counter, rates, slot, sm, steps[step, SPILLED],
            steps[step, KEPT], time,
        )  # fmt: skip
        if arrival > done:
            done = arrival
    return done


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
    paces: np.ndarray,
    slots: np.ndarray,
    trips: np.ndarray,
    environment: np.ndarray,
    ring: np.ndarray,
    shares: np.ndarray,
    crowds: np.ndarray,
    due: np.ndarray,
    winner: np.ndarray,
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
        tensors, tiles: as in `memory`; code, loops, steps: int64 tables with the columns above;
        lengths: float64 (steps,), cycles of a lone CTA; uses: float64 (steps, pipes), how long in each it wants a pipe;
        paces: float64 (steps, CTAs of an SM), by a CTA's age, how much longer it takes beside others than the mean;
        slots: int64 (slots, SLOT_COLUMNS); trips: int64 (slots, 2 * loops), trip and trips of each loop;
        environment: int64 (slots, variables and counters); ring: float64 (slots, RING), arrival of prefetched tiles;
        shares: float64 (slots, SHARE_COLUMNS), crowds: float64 (SMs,), as in `sharing`;
        due: float64, when each slot's next event is due, padded with infinity to a power of two;
        winner: int64 (2 * len(due),), the tournament over it, its root at 1; clock: int64, the next CTA;
        slowness: float64 (SMs,), counted cycles for one of each SM;
        table: int64 (items, variables), from item `table_first` on;
        record: float64 (CTAs, 4): SM, slot, start, end of each CTA, or of shape (0, 4) for no record;
        now: time of the newest event so far.

    Returns:
        Time of the newest event.
    """
    entry, dirt, lists, ready, windows, free, pending, l1, counter = memory
    variables = table.shape[1]
    while True:
        slot = winner[1]
        time = due[slot]
        if time == np.inf:
            break
        phase = slots[slot, PHASE]
        sm = slots[slot, SM]
        if phase == IDLE:
            cta = clock[NEXT_CTA]
            if cta >= cta_count:
                reschedule(due, winner, slot, np.inf)
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
            crowds[slot % len(crowds)] = UNKNOWN
            start = max(time, free[DISPATCH])
            free[DISPATCH] = start + rates.cta_dispatch
            if len(record) > 0:
                record[cta, 0] = sm
                record[cta, 1] = slot
                record[cta, 2] = start
            reschedule(due, winner, slot, start)
            continue
        if time > now:
            now = time
        done = slots[slot, PENDING]
        if done >= 0:
            for tile in range(steps[done, STORE_FROM], steps[done, STORE_TO]):
                access_tile(
                    entry, dirt, lists, ready, windows, free, pending, l1, counter, rates, tensors, tiles, tile,
                    environment, slot, sm, time, True,
                )  # fmt: skip
        after, begins = time, -1
        if phase == COMPUTE:
            begins = slots[slot, CURRENT]
            slots[slot, PC] += 1
            phase = ADVANCE
        elif phase >= BODY:
            loop = slots[slot, CURRENT]
            trip, count, stages = trips[slot, 2 * loop], trips[slot, 2 * loop + 1], loops[loop, STAGES]
            step = code[loops[loop, START], 1]
            first = _value(environment, slot, loops[loop, FIRST])
            stride = _value(environment, slot, loops[loop, STRIDE])
            ahead = trip + stages - 2
            if phase == PREFETCH and ahead < count:
                environment[slot, loops[loop, COUNTER]] = first + stride * ahead
                arrival = _move(
                    entry, dirt, lists, ready, windows, free, pending, l1, counter, rates, tensors, tiles, steps, step,
                    environment, slot, sm, time, PREFETCHED,
                )  # fmt: skip
                ring[slot, ahead % RING] = arrival - loops[loop, SLACK]
            environment[slot, loops[loop, COUNTER]] = first + stride * trip
            if phase != BODY:
                after = ring[slot, trip % RING]
                phase = ITERATE
                if after <= time:
                    there = _move(
                        entry, dirt, lists, ready, windows, free, pending, l1, counter, rates, tensors, tiles, steps,
                        step, environment, slot, sm, time, PLAIN,
                    )  # fmt: skip
                    after = time + steps[step, WAITS] * (there - time)
                    phase = BODY
            if phase == BODY and after <= time:
                begins = step
                trips[slot, 2 * loop] = trip + 1
                phase = PREFETCH
                if trip + 1 == count:
                    slots[slot, PC] = loops[loop, STOP]
                    phase = ADVANCE
        else:
            pc = slots[slot, PC]
            while True:
                op, arg = code[pc, 0], code[pc, 1]
                if op == STEP:
                    after = _move(
                        entry, dirt, lists, ready, windows, free, pending, l1, counter, rates, tensors, tiles, steps,
                        arg, environment, slot, sm, time, ALL,
                    )  # fmt: skip
                    after = time + steps[arg, WAITS] * (after - time)
                    if after > time:
                        slots[slot, CURRENT] = arg
                        phase = COMPUTE
                        break
                    begins = arg
                    pc += 1
                    break
                if op == LOOP:
                    count = _value(environment, slot, loops[arg, TRIPS])
                    if count <= 0:
                        pc = loops[arg, STOP]
                        continue
                    trips[slot, 2 * arg] = 0
                    trips[slot, 2 * arg + 1] = count
                    first = _value(environment, slot, loops[arg, FIRST])
                    environment[slot, loops[arg, COUNTER]] = first
                    pc += 1
                    if loops[arg, STAGES] == 0:
                        continue
                    stride = _value(environment, slot, loops[arg, STRIDE])
                    for ahead in range(min(loops[arg, STAGES] - 1, count)):
                        environment[slot, loops[arg, COUNTER]] = first + stride * ahead
                        ring[slot, ahead] = _move(
                            entry, dirt, lists, ready, windows, free, pending, l1, counter, rates, tensors, tiles,
                            steps, code[pc, 1], environment, slot, sm, time, PREFETCHED,
                        )  # fmt: skip
                    after = max(time, ring[slot, 0])
                    slots[slot, CURRENT] = arg
                    phase = ITERATE
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
                shares[slot, ENDED] = time
                crowds[slot % len(crowds)] = UNKNOWN  # the younger CTAs are older now
                if len(record) > 0:
                    record[slots[slot, CTA], 3] = time
                break
            slots[slot, PC] = pc
        slots[slot, PHASE] = phase
        if begins >= 0:
            counter[STEPS] += 1
            begin_step(lengths, uses, paces, slowness, slots, shares, crowds, due, winner, slot, begins, time)
        else:
            end_step(uses, paces, slots, shares, crowds, due, winner, slot, time)
            reschedule(due, winner, slot, after)
    return now
