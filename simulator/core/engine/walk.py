"""How a CTA goes through its program: which tiles it moves next, when it computes, and when it stalls.

At an event of a CTA the event loop asks `next_move` again and again, until the CTA computes a step, stalls or ends.
A move is a set of tiles to load or store. In: the move just made and the time at which its last tile arrives. Out: the
next move, or how long the CTA stalls.
"""

from typing import NamedTuple

import numpy as np

from ..jit import inlined
from .program import CONSTANT, END, LOOP, STEP, Items, Program

IDLE, ADVANCE, LOADED, PREFETCH, PREFETCHED, BODY = range(6)
"""Phases of a slot. IDLE: it has no CTA. ADVANCE: the CTA goes on at its instruction. LOADED: the loads of the step for
which it stalled have arrived. In an iteration of a pipelined loop: PREFETCH, it issues the loads of a later iteration;
PREFETCHED, the loads that were issued for this iteration have arrived; BODY, so have those that are not prefetched."""

STORES, LOADS, FILL, AHEAD, NOT_PREFETCHED, COMPUTE, SLEEP, EXIT = range(8)
"""Moves. STORES: of the step before. LOADS: all of a step. FILL: prefetches with which a pipelined loop begins. AHEAD:
the prefetch of an iteration for a later one. NOT_PREFETCHED: the other loads of an iteration. The last three move no
tiles and end the event. COMPUTE: the step is computed. SLEEP: the CTA stalls until a time. EXIT: it has ended."""

RING = 16
"""Iterations whose arrival times are kept for a pipelined loop; more than it has stages."""
TRIP, TRIPS = 0, 1
"""Elements of `Ctas.trips`."""

SLOT = np.dtype(
    [
        ("sm", np.int64),
        ("begun", np.float64),  # when its CTA was dispatched
        ("cta", np.int64),
        ("item", np.int64),
        ("pc", np.int64),
        ("phase", np.int64),
        ("current", np.int64),  # the step whose tiles it waits for, or the pipelined loop that it is in
    ]
)


class Ctas(NamedTuple):
    """Where the CTAs that run stand, one in each slot.

    Args:
        slots: records of `SLOT`.
        environment: int64 (slots, variables and counters), their values.
        trips: int64 (slots, loops, 2), the trip that each loop is in, and how many it has.
        arrivals: float64 (slots, RING), when prefetched tiles of a pipelined loop are there, by iteration.
        turns: float64 (slots, steps), how far each has gone round an array in local memory [granules].
    """

    slots: np.ndarray
    environment: np.ndarray
    trips: np.ndarray
    arrivals: np.ndarray
    turns: np.ndarray


class Next(NamedTuple):
    """What a CTA does next.

    Args:
        move: see above.
        step: that the move is about.
        ahead: iteration that it prefetches for (FILL, AHEAD).
        until: when the CTA goes on (SLEEP).
    """

    move: int
    step: int
    ahead: int
    until: float


@inlined
def take_item(ctas: Ctas, items: Items, slot: int, item: int) -> None:
    """A slot's CTA takes up an item, from the first instruction on."""
    state = ctas.slots[slot]
    state.item = item
    state.pc = 0
    for i in range(items.table.shape[1]):
        ctas.environment[slot, i] = items.table[item - items.first, i]


@inlined
def next_move(program: Program, ctas: Ctas, items: Items, slot: int, last: Next, there: float, time: float) -> Next:
    """The next move of a CTA, once the time is known at which the tiles of its last move arrive.

    Args:
        there: when the last tile of the last move is there.
        time: of the event.
    """
    move, step, ahead = last.move, last.step, last.ahead
    if move == STORES:
        return _after_stores(program, ctas, items, slot, time)
    if move == FILL:
        return _after_fill(program, ctas, slot, step, ahead, there, time)
    if move == AHEAD:
        slack_cycles = program.loops[ctas.slots[slot].current].slack_cycles
        ctas.arrivals[slot, ahead % RING] = there - slack_cycles
        return _begin_iteration(program, ctas, slot, step, time)
    # A step that waits for its loads one after the other waits so many times as long.
    loaded = time + program.steps[step].waits * (there - time)
    if move == NOT_PREFETCHED:
        return _after_last_loads(program, ctas, slot, step, loaded, time)
    return _after_loads(ctas, slot, step, loaded, time)


@inlined
def _after_stores(program: Program, ctas: Ctas, items: Items, slot: int, time: float) -> Next:
    """The stores of the step before are issued: go on by the slot's phase."""
    state = ctas.slots[slot]
    if state.phase == LOADED:
        state.pc += 1
        state.phase = ADVANCE
        return Next(COMPUTE, state.current, 0, time)
    if state.phase == ADVANCE:
        return _advance(program, ctas, items, slot, time)
    loop = state.current
    step = program.code[program.loops[loop].body, 1]
    if state.phase == PREFETCH:
        ahead = ctas.trips[slot, loop, TRIP] + program.loops[loop].stages - 2
        if ahead < ctas.trips[slot, loop, TRIPS]:
            _count_to(program, ctas, slot, loop, ahead)
            return Next(AHEAD, step, ahead, time)
    return _begin_iteration(program, ctas, slot, step, time)


@inlined
def _after_loads(ctas: Ctas, slot: int, step: int, loaded: float, time: float) -> Next:
    """All loads of a step are issued; the last arrives at `loaded`."""
    state = ctas.slots[slot]
    if loaded > time:
        state.current = step
        state.phase = LOADED
        return Next(SLEEP, step, 0, loaded)
    state.pc += 1
    return Next(COMPUTE, step, 0, time)


@inlined
def _after_fill(program: Program, ctas: Ctas, slot: int, step: int, ahead: int, there: float, time: float) -> Next:
    """The prefetch of iteration `ahead` is issued: on to the next one, until every stage has its tiles in flight."""
    state = ctas.slots[slot]
    loop = state.current
    ctas.arrivals[slot, ahead] = there
    if ahead + 1 < min(program.loops[loop].stages - 1, ctas.trips[slot, loop, TRIPS]):
        _count_to(program, ctas, slot, loop, ahead + 1)
        return Next(FILL, step, ahead + 1, time)
    state.phase = PREFETCHED
    return Next(SLEEP, step, 0, max(time, ctas.arrivals[slot, 0]))


@inlined
def _begin_iteration(program: Program, ctas: Ctas, slot: int, step: int, time: float) -> Next:
    """An iteration of a pipelined loop, once its prefetch for a later one is issued."""
    state = ctas.slots[slot]
    trip = ctas.trips[slot, state.current, TRIP]
    _count_to(program, ctas, slot, state.current, trip)
    if state.phase == BODY:
        return _compute_iteration(program, ctas, slot, step, time)
    state.phase = PREFETCHED
    until = ctas.arrivals[slot, trip % RING]
    return Next(NOT_PREFETCHED if until <= time else SLEEP, step, 0, until)


@inlined
def _after_last_loads(program: Program, ctas: Ctas, slot: int, step: int, loaded: float, time: float) -> Next:
    """The loads of an iteration that are not prefetched are issued; the last arrives at `loaded`."""
    ctas.slots[slot].phase = BODY
    if loaded <= time:
        return _compute_iteration(program, ctas, slot, step, time)
    return Next(SLEEP, step, 0, loaded)


@inlined
def _compute_iteration(program: Program, ctas: Ctas, slot: int, step: int, time: float) -> Next:
    """All tiles of an iteration of a pipelined loop have arrived: compute it."""
    state = ctas.slots[slot]
    loop = state.current
    ctas.trips[slot, loop, TRIP] += 1
    state.phase = PREFETCH
    if ctas.trips[slot, loop, TRIP] == ctas.trips[slot, loop, TRIPS]:
        state.pc = program.loops[loop].after
        state.phase = ADVANCE
    return Next(COMPUTE, step, 0, time)


@inlined
def _advance(program: Program, ctas: Ctas, items: Items, slot: int, time: float) -> Next:
    """Follow the program from a slot's instruction to the next step, or to the CTA's end."""
    state = ctas.slots[slot]
    environment, trips, pc = ctas.environment, ctas.trips, state.pc
    while True:
        operation, number = program.code[pc, 0], program.code[pc, 1]
        if operation == STEP:
            state.pc = pc
            return Next(LOADS, number, 0, time)
        if operation == LOOP:
            loop = program.loops[number]
            count = _value(environment, slot, loop.trips)
            if count <= 0:
                pc = loop.after
                continue
            trips[slot, number, TRIP] = 0
            trips[slot, number, TRIPS] = count
            environment[slot, loop.counter] = _value(environment, slot, loop.first)
            pc += 1
            if loop.stages > 0:
                state.pc = pc
                state.current = number
                return Next(FILL, program.code[pc, 1], 0, time)
        elif operation == END:
            loop = program.loops[number]
            trips[slot, number, TRIP] += 1
            if trips[slot, number, TRIP] < trips[slot, number, TRIPS]:
                environment[slot, loop.counter] += _value(environment, slot, loop.stride)
                pc = loop.body
            else:
                pc += 1
        else:
            item = state.item + program.cta_count
            if item >= program.item_count:
                state.phase = IDLE
                return Next(EXIT, -1, 0, time)
            take_item(ctas, items, slot, item)
            pc = 0


@inlined
def _count_to(program: Program, ctas: Ctas, slot: int, number: int, trip: int) -> None:
    """Set the counter of a loop to what it is in a trip."""
    loop, environment = program.loops[number], ctas.environment
    first, stride = _value(environment, slot, loop.first), _value(environment, slot, loop.stride)
    environment[slot, loop.counter] = first + stride * trip


@inlined
def _value(environment: np.ndarray, slot: int, reference: int) -> int:
    """The value of a variable, or a constant."""
    value: int = environment[slot, reference] if reference >= 0 else reference + CONSTANT
    return value
