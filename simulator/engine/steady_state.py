"""Large grids stay cheap: a launch in steady state is simulated for a while, and the rest of it is extrapolated.

The grid is simulated in windows of about a wave. Once the L2 has settled and holds nothing older than the launch,
each quarter of the windows since then gives an extrapolation of the rest, and so do the older and the newer half.
Where these differ by no more than the tolerances of `extrapolate`, the rest is skipped. Otherwise the simulation goes
on, and the next attempt has more windows. The end of the grid is always simulated.
"""

from math import ceil

import numpy as np

from ..core.engine import links
from ..core.engine.links import COUNTERS, STEPS
from ..core.engine.lru import CAPACITY, DIRTY_BYTES, LEFT_BYTES, MOST_DIRTY_BYTES, USED
from ..integers import cdiv
from ..launch.program import TileProgram
from ..launch.walk import steps
from .extrapolate import (
    ALMOST,
    DIRTY,
    PATIENCE_STEPS,
    Past,
    Work,
    errors_of,
    first_touches,
    is_mixed,
    is_renewed,
    keeps_step,
    rest_of,
    tolerated,
    unlikeness,
)
from .launch_state import LaunchState
from .long_loops import LongLoops

PAST_SHARE, MOST_PAST = 12, 16
"""Windows before the first attempt: a twelfth of the grid's, at most sixteen; fewer may agree by chance."""
FEWEST_WINDOWS, MOST_WINDOWS = 8, 256
"""Fewest windows of a grid that is extrapolated; above the second number windows get longer."""
LONGEST_WINDOW_WAVES, LONG_WINDOW_STEPS = 16, 1 << 20
"""Longest window, as a skip ends where a window ends; and steps beyond which it is no longer than a wave."""
MOST_ENDS = 1 << 16
"""Places that are tried as the end of a skip, to find one after whole waves."""
TAIL_TOLERANCE = 0.0025
"""Largest shift of the tail wave by a skip, as a share of the launch."""
LEAST_SKIP = 4
"""Where the whole rest cannot be skipped, a half or a quarter of it is tried."""
KEEP_WAVES, REFRESH_L2 = 2, 1.5
"""Waves that are simulated at the end: two at least, and as many as refill the L2 so often for the next launch."""


def extrapolate_steady_state(run: LaunchState, refresh: bool) -> np.ndarray:
    """Step through a launch, skipping windows while the rest is known well enough.

    Args:
        run: a launch that has not begun.
        refresh: step through enough of the end to leave the L2 as the whole launch would.

    Returns:
        What the skipped windows add to the snapshot; float64 of shape (COUNTERS + 1,).
    """
    program, items = run.launch.program, run.launch.program.item_count
    loops = LongLoops(run)
    window = _window(run, loops)
    locality = _locality_items(program)
    if items // window < FEWEST_WINDOWS:
        run.step_to(items)
        return _made_whole(run, loops, np.zeros(COUNTERS + 1), np.zeros(COUNTERS + 1), 0)
    totals, whole, touched = loops.totals, loops.whole, loops.touched
    even = totals.work(0, 1).steps * items == whole.steps
    skipped, first = np.zeros(COUNTERS + 1), np.zeros(COUNTERS + 1)
    spent = np.zeros(COUNTERS + 1)
    past, streamed_before = Past(), 0.0
    position, before, used, left = 0, loops.snapshot(), 0.0, _left(run)
    while position < items:
        stop = min(position + window, items)
        run.step_to(stop, position)
        growth = (_used(run) - used) / (stop - position)
        leaving, left = (left - _left(run)) / (stop - position), _left(run)
        position, used = stop, _used(run)
        now = loops.snapshot()
        delta, before = now - before, now
        streamed = loops.skipped[STEPS] - streamed_before > delta[STEPS] / 2
        streamed_before = loops.skipped[STEPS]
        if streamed:
            delta[[links.TOUCHED, links.FIRST]] = 0.0  # which is read like all that is touched again
        if (
            (position - window < locality and not streamed)
            or not _is_settled(run, now, used, growth * (items - position))
            or 0.0 < left < leaving * (items - position)  # what others left in L2 is gone before the end
        ):
            past = Past()
            continue
        past = past.followed_by(delta, run.memory.l2.lists[:, DIRTY_BYTES].sum())
        patience = max(1.0, run.memory.counter[STEPS] / PATIENCE_STEPS)
        if not past.is_enough or past.windows < min(MOST_PAST, items // window // PAST_SHARE) / patience:
            continue
        keep = KEEP_WAVES * run.slot_count
        inflow = past.total[links.HBM_READ] + past.total[links.L2_WRITE]
        if refresh and inflow > 0:
            keep += ceil(REFRESH_L2 * _capacity(run) * past.windows * window / inflow)
        waves = past.windows * window / run.slot_count
        if not is_mixed(waves, run.memory.counter[STEPS]) and keeps_step(past.total, waves, whole, _capacity(run)):
            continue
        unit = program.period_items if program.period_items < items and not streamed else 1
        most = skip = _resumed_at(position, items - keep, run.slot_count, items, unit, even) - position
        full = is_renewed(now, used, _capacity(run))
        while skip >= window:
            work = totals.work(position, position + skip)
            if not work.steps:
                break
            share = work.steps / whole.steps
            like = totals.work(position - past.windows * window, position)
            expected = past.total[links.TOUCHED] * work.steps / past.total[STEPS]
            if touched and not streamed:
                expected = touched * skip / items
            rest = rest_of(past.total, work, expected, full)
            error = errors_of(past, work, expected, full, skip / window) + unlikeness(like, work) * np.abs(rest)
            scale = tolerated(now[:-1] + skipped, rest, whole, work) * patience
            if np.all(spent + error <= scale * (1.0 if skip == most else share)):
                part = first_touches(past.total, expected)
                spent += error
                skipped, first = skipped + rest - part, first + part
                position += skip
                run.skip_to(position)
                past = Past()
                break
            skip = _resumed_at(position, position + skip // 2, run.slot_count, items, unit, even) - position
            if skip < max(past.windows * window, most // LEAST_SKIP):
                break
    return _made_whole(run, loops, skipped, first, touched)


def _made_whole(run: LaunchState, loops: LongLoops, skipped: np.ndarray, first: np.ndarray, touched: int) -> np.ndarray:
    """What was skipped of items and of trips, so that what is touched for the first time is what it must be.

    Args:
        skipped, first: of items: what is moved again, and first touches.
        touched: by the launch for the first time; 0 where that is not known [B].
    """
    if touched and first[links.TOUCHED] > 0:
        left = touched - run.memory.counter[links.TOUCHED] - loops.skipped[links.TOUCHED]
        first = first * (max(0.0, left) / first[links.TOUCHED])
    skipped = skipped + first + loops.skipped
    return _consistent(run, skipped, loops.whole) if skipped[STEPS] else skipped


def _locality_items(program: TileProgram) -> int:
    """Items after which what they share has been touched, and is touched again: those of the shared slab, or a sweep.

    CTAs go through a slab before they come to the next, or through all slabs time after time.
    """
    if program.sweep_items:
        return program.sweep_items
    slabs = [tensor.slabs for tensor in program.tensors if tensor.slabs > 1]
    if not slabs or max(slabs) >= program.item_count:
        return 0
    names = {tile.slab for step, _ in steps(program.body) for tile in (*step.loads, *step.stores)}
    (zeroth, first) = program.items(np.arange(2, dtype=np.int64))
    sweeps = any(zeroth[column] != first[column] for column, name in enumerate(program.variables) if name in names)
    return max(slabs) if sweeps else program.item_count // min(slabs)


def _window(run: LaunchState, loops: LongLoops) -> int:
    """Items per window: about a wave, in whole periods where they are as short; more where there are very many."""
    slots, period, items = run.slot_count, run.launch.program.period_items, run.launch.program.item_count
    wave = cdiv(slots, period) * period if period <= slots else slots
    if items < 2 * MOST_WINDOWS * wave:
        return wave
    longest = max(1, LONG_WINDOW_STEPS * items // (wave * max(1, loops.whole.steps)))
    return wave * min(LONGEST_WINDOW_WAVES, longest, items // (MOST_WINDOWS * wave))


def _resumed_at(position: int, most: int, slots: int, items: int, unit: int, even: bool) -> int:
    """Item, at most `most`, that the launch is taken up again with; `position` where there is none that will do.

    It is a multiple of `unit`. That is a period, so that nothing is touched for the first time that the launch would
    have touched before; a program of one period, and one that streams, have waves alone. Where all items do the same
    work (`even`), CTAs keep to waves, and whole waves are skipped, so that the tail wave stays what it is.
    """
    last = most // unit
    ends = np.arange(last, max(position // unit, last - MOST_ENDS), -1, dtype=np.int64) * unit
    if even:
        distance = np.abs((ends - position + slots // 2) % slots - slots // 2)
        ends = ends[distance <= TAIL_TOLERANCE * items]
    return int(ends[0]) if len(ends) else position


def _used(run: LaunchState) -> float:
    return float(run.memory.l2.lists[:, USED].sum())


def _left(run: LaunchState) -> float:
    return float(run.memory.l2.lists[:, LEFT_BYTES].sum())


def _capacity(run: LaunchState) -> float:
    return float(run.memory.l2.lists[:, CAPACITY].sum())


def _is_settled(run: LaunchState, now: np.ndarray, used: float, growth: float) -> bool:
    """Whether L2 is full, or never will be: no fuller than `ALMOST` at the end.

    Args:
        now: the snapshot, with dirty bytes.
        used: of L2 [B].
        growth: until the end, at the present rate [B].
    """
    if is_renewed(now, used, _capacity(run)):
        return True
    most_dirty, more = run.memory.l2.lists[:, MOST_DIRTY_BYTES].sum(), max(0.0, growth)
    return bool(max((used + more) / _capacity(run), (now[DIRTY] + more) / most_dirty) < ALMOST)


def _consistent(run: LaunchState, skipped: np.ndarray, whole: Work) -> np.ndarray:
    """The same within what must be: L1 and L2 serve no more than is asked for, and L2 all that HBM reads."""
    counter, total = run.memory.counter, run.snapshot() + skipped
    # Spilled registers come back from HBM without being asked for.
    fetched = 0.0 if run.lowered.spilled_granules else total[links.HBM_READ]
    hits = min(total[links.L1_HIT], max(whole.loaded_bytes - fetched, counter[links.L1_HIT]))
    asked = whole.loaded_bytes - hits
    reads = max(min(total[links.L2_READ], max(asked, counter[links.L2_READ])), min(asked, fetched))
    skipped[links.L1_HIT] += hits - total[links.L1_HIT]
    skipped[links.L2_READ] += reads - total[links.L2_READ]
    return skipped
