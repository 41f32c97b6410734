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
from ..core.engine.lru import CAPACITY, DIRTY_BYTES, MOST_DIRTY_BYTES, USED
from ..integers import cdiv
from ..launch.program import TileProgram
from ..launch.walk import steps
from .extrapolate import DIRTY, Past, Work, errors_of, first_touches, rest_of, tolerated, unlikeness
from .launch_state import LaunchState
from .running_totals import running_totals
from .touched import touched_bytes

PAST_SHARE, MOST_PAST = 12, 16
"""Windows before the first attempt: a twelfth of the grid's, at most sixteen; fewer may agree by chance."""
FEWEST_WINDOWS, MOST_WINDOWS = 8, 256
"""Fewest windows of a grid that is extrapolated; above the second number windows get longer."""
LONGEST_WINDOW_WAVES = 16
"""Longest window, as a skip ends where a window ends."""
MOST_ENDS = 1 << 16
"""Places that are tried as the end of a skip, to find one after whole waves."""
ALMOST, TURNED_OVER = 0.9, 1.1
"""L2 counts as full when it is this full, since granules leave some room, and so many times as much has come as is
there; and as never to become full where it will be no fuller than that at the end."""
MIXED, MIXING_WAVES = 0.03, 64
"""CTAs that load the same in step, so that one read serves several SMs, or finds what another has just read in an L2
that a wave renews, fall out of step sooner or later, and others into it.
Where that may save more than this share of what they ask for, so many waves must have shown that they do not."""
TAIL_TOLERANCE = 0.0025
"""Largest shift of the tail wave by a skip, as a share of the launch."""
PATIENCE_STEPS = 1 << 22
"""Steps in which a steady state should have shown: a grid that swings for longer is continued with what that leaves
open, so that the time an answer takes does not grow with the grid."""
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
    window = _window(run.slot_count, program.period_items, items)
    locality = _locality_items(program)
    if items // window < FEWEST_WINDOWS:
        run.step_to(items)
        return np.zeros(COUNTERS + 1)
    totals = running_totals(program)
    whole = totals.work(0, items)
    # Granules that share a number are touched more than once: then rates alone say what is touched for the first time,
    # as they do where this is too much to count.
    touched = 0 if run.is_folded else touched_bytes(program, run.tensors)
    even = totals.work(0, 1).steps * items == whole.steps
    skipped, first = np.zeros(COUNTERS + 1), np.zeros(COUNTERS + 1)
    spent = np.zeros(COUNTERS + 1)
    past = Past()
    position, before, used = 0, _snapshot(run), 0.0
    while position < items:
        stop = min(position + window, items)
        run.step_to(stop, position)
        growth = (_used(run) - used) / (stop - position)
        position, used = stop, _used(run)
        now = _snapshot(run)
        delta, before = now - before, now
        if position - window < locality or not _is_settled(run, now, used, growth * (items - position)):
            past = Past()
            continue
        past = past.followed_by(delta, run.memory.l2.lists[:, DIRTY_BYTES].sum())
        if not past.is_enough or past.windows < min(MOST_PAST, items // window // PAST_SHARE):
            continue
        keep = KEEP_WAVES * run.slot_count
        inflow = past.total[links.HBM_READ] + past.total[links.L2_WRITE]
        if refresh and inflow > 0:
            keep += ceil(REFRESH_L2 * _capacity(run) * past.windows * window / inflow)
        waves = past.windows * window / run.slot_count
        if waves < MIXING_WAVES and _keeps_step(run, past.total, waves, whole):
            continue
        most = skip = _resumed_at(position, items - keep, run.slot_count, program, even) - position
        full = _is_full(run, now, used)
        while skip >= window:
            work = totals.work(position, position + skip)
            if not work.steps:
                break
            share = work.steps / whole.steps
            like = totals.work(position - past.windows * window, position)
            expected = touched * skip / items if touched else past.total[links.TOUCHED] * work.steps / past.total[STEPS]
            rest = rest_of(past.total, work, expected, full)
            error = errors_of(past, work, expected, full, skip / window) + unlikeness(like, work) * np.abs(rest)
            scale = tolerated(now[:-1] + skipped, rest, whole, work) * max(1.0, now[STEPS] / PATIENCE_STEPS)
            if np.all(spent + error <= scale * (1.0 if skip == most else share)):
                part = first_touches(past.total, expected)
                spent += error
                skipped, first = skipped + rest - part, first + part
                position += skip
                run.skip_to(position)
                past = Past()
                break
            skip = _resumed_at(position, position + skip // 2, run.slot_count, program, even) - position
            if skip < max(past.windows * window, most // LEAST_SKIP):
                break
    if touched and first[links.TOUCHED] > 0:
        first *= max(0.0, touched - run.memory.counter[links.TOUCHED]) / first[links.TOUCHED]
    return _consistent(run, skipped + first, whole) if skipped[STEPS] else skipped


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


def _window(slots: int, period: int, items: int) -> int:
    """Items per window: about a wave, in whole periods where they are as short; more where there are very many."""
    wave = cdiv(slots, period) * period if period <= slots else slots
    return wave * min(LONGEST_WINDOW_WAVES, max(1, items // (MOST_WINDOWS * wave)))


def _resumed_at(position: int, most: int, slots: int, program: TileProgram, even: bool) -> int:
    """Item, at most `most`, that the launch is taken up again with; `position` where there is none that will do.

    It begins a period, so that nothing is touched for the first time that the launch would have touched before;
    a program of one period has waves alone. Where all items do the same work (`even`), CTAs keep to waves, and whole
    waves are skipped, so that the tail wave stays what it is.
    """
    unit = program.period_items if program.period_items < program.item_count else 1
    last = most // unit
    ends = np.arange(last, max(position // unit, last - MOST_ENDS), -1, dtype=np.int64) * unit
    if even:
        distance = np.abs((ends - position + slots // 2) % slots - slots // 2)
        ends = ends[distance <= TAIL_TOLERANCE * program.item_count]
    return int(ends[0]) if len(ends) else position


def _keeps_step(run: LaunchState, seen: np.ndarray, waves: float, whole: Work) -> bool:
    """Whether much is saved, or could be, because CTAs load the same at the same time.

    Args:
        seen: counters of so many waves.
        whole: work of the launch.
    """
    asked = whole.loaded_bytes * seen[STEPS] / whole.steps
    together = asked - seen[links.L1_HIT] - seen[links.L2_READ]
    shared = asked - seen[links.TOUCHED]
    inflow = (seen[links.HBM_READ] + seen[links.L2_WRITE] + seen[links.FABRIC]) / waves
    fleeting = inflow > ALMOST * _capacity(run) and shared > MIXED * asked
    return bool(together > MIXED * asked or fleeting)


def _snapshot(run: LaunchState) -> np.ndarray:
    """Counters, cycles, and dirty bytes in L2; float64 of shape (COUNTERS + 2,)."""
    return np.append(run.snapshot(), run.memory.l2.lists[:, DIRTY_BYTES].sum())


def _used(run: LaunchState) -> float:
    return float(run.memory.l2.lists[:, USED].sum())


def _capacity(run: LaunchState) -> float:
    return float(run.memory.l2.lists[:, CAPACITY].sum())


def _is_full(run: LaunchState, now: np.ndarray, used: float) -> bool:
    """Whether something leaves L2 for all that comes; more has come then than is there, and nothing of before is."""
    brought = now[links.HBM_READ] + now[links.L2_WRITE] + now[links.FABRIC]
    return bool(used > ALMOST * _capacity(run) and brought > TURNED_OVER * used)


def _is_settled(run: LaunchState, now: np.ndarray, used: float, growth: float) -> bool:
    """Whether L2 is full, or never will be.

    Args:
        now: the snapshot, with dirty bytes.
        used: of L2 [B].
        growth: until the end, at the present rate [B].
    """
    if _is_full(run, now, used):
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
