"""Large grids stay cheap by steady state: what repeats itself is stepped through a few times, and then continued.

The grid is stepped through in windows of whole periods, at least one wave each.
Once the L2 is full (or its fill no longer changes), holds nothing older than the launch,
and three windows in a row agree on the rates per step,
windows are skipped, and their mean rates continued over the exact number of steps left out;
where later windows have other amounts of work (a causal mask in one head), a few are skipped at a time,
and the rates before and after are averaged.
"""

from math import ceil

import numpy as np

from .core import links, machine
from .core.links import COUNTERS, STEPS
from .core.lru import CAPACITY, USED
from .program import TileProgram
from .under_way import UnderWay
from .walk import tally_items

FEWEST_WINDOWS = 8
LONG_PERIOD_WAVES, SHORT_WINDOW_WAVES = 8, 2
"""A program that repeats itself only after so many waves is watched so many waves at a time instead."""
AGREEING_WINDOWS = 3
CYCLES_TOLERANCE, BYTES_TOLERANCE = 0.01, 0.03
"""Spread of the rates per step over agreeing windows: of cycles, relative to their mean; of bytes, relative to the
largest of their own mean, a tenth of all HBM bytes and a two-hundredth of what L2 serves (SM-side bytes: all of it)."""
FULL, UNCHANGED = 0.98, 0.001
"""L2 counts as settled when it is this full, or its fill changes by less than this share of it."""
KEEP_WINDOWS = 2
REFRESH_L2 = 1.5
"""Windows stepped through at the end: at least two, and as many as refill the L2 so often, for the launch after."""
CHANGING_SKIP = 4
"""Windows skipped at a time where later ones do other amounts of work."""
MISFIT = 0.01
"""A window may miss whole waves by this share of itself."""
TAIL_TOLERANCE = 0.0025
"""A skip may shift the tail wave by this share of the whole launch."""


def skip_steadily(run: UnderWay, refresh: bool) -> np.ndarray:
    """Step through a launch, skipping windows while the rates hold.

    Args:
        run: a launch that has not begun.
        refresh: step through enough of the end to leave the L2 as the whole launch would.

    Returns:
        What the skipped windows add to the snapshot; float64 of shape (COUNTERS + 1,).
    """
    program, lists = run.launch.program, run.state.lists
    capacity = lists[:, CAPACITY].sum()
    window = _window(run.slot_count, _locality_items(program), program.item_count)
    skipped = np.zeros(COUNTERS + 1)
    if program.item_count // window < FEWEST_WINDOWS:
        run.step_to(program.item_count)
        return skipped
    last_window = tally_items(program, program.item_count - window, program.item_count)
    steady = tally_items(program, 0, window) == last_window
    first_touch = window * _first_touch_bytes(program) / program.item_count
    owed_steps, rate_before = 0, skipped
    position, previous, used = 0, run.snapshot(), lists[:, USED].sum()
    history: list[np.ndarray] = []
    while position < program.item_count:
        stop = min(position + window, program.item_count)
        run.step_to(stop, position)
        dispatched = last_window if steady else tally_items(program, position, stop)
        position = stop
        previous, delta = run.snapshot(), run.snapshot() - previous
        used, growth = lists[:, USED].sum(), lists[:, USED].sum() - used
        if delta[STEPS] == 0:
            continue
        # Bytes touched for the first time go with the items that were dispatched, all else with the steps that ran.
        share = np.minimum(1.0, first_touch / np.maximum(delta, 1.0))
        rate = (1.0 - share) * delta / delta[STEPS] + share * delta / dispatched.steps
        skipped += owed_steps * (rate_before + rate) / 2
        owed_steps = 0
        settled = used > FULL * capacity or abs(growth) < UNCHANGED * capacity
        brought = previous[links.HBM_READ] + previous[links.L2_WRITE] + previous[links.FABRIC]
        history = [*history, rate][-AGREEING_WINDOWS:] if settled and brought >= used else []
        if len(history) < AGREEING_WINDOWS or not _agree(history):
            continue
        keep = KEEP_WINDOWS
        inflow = delta[links.HBM_READ] + delta[links.L2_WRITE]
        if refresh and inflow > 0:
            keep += ceil(REFRESH_L2 * capacity / inflow)
        skip = (program.item_count - position) // window - keep
        if steady:
            skip = _whole_waves(skip, window, run.slot_count, program.item_count)
        else:
            skip = min(skip, CHANGING_SKIP)
        if skip < 1:
            continue
        if steady:
            skipped += skip * dispatched.steps * np.mean(history, axis=0)
        else:
            owed_steps = tally_items(program, position, position + skip * window).steps
            rate_before, history = rate, []
        position += skip * window
        run.clock[machine.NEXT_CTA] = position
    return skipped


def _locality_items(program: TileProgram) -> int:
    """Items after which other data is touched in the same way: the period, or a slab's items where all are equal."""
    slabs = max(tensor.slabs for tensor in program.tensors)
    return program.period_items if program.period_items > 1 else max(1, program.item_count // slabs)


def _window(slots: int, period: int, items: int) -> int:
    """Items per window: whole periods, at least a wave, and as near to whole waves as a sixteenth of the grid allows.

    CTAs of equal length keep to waves, so a window that is no whole number of them sees one wave more or less in turn.
    A program with too few periods still repeats itself roughly, wave by wave.
    """
    if period > LONG_PERIOD_WAVES * slots:
        return SHORT_WINDOW_WAVES * slots
    fewest = -(-slots // period)
    if items // (fewest * period) < FEWEST_WINDOWS:
        return slots
    most = max(fewest, items // (2 * FEWEST_WINDOWS * period))
    sizes = np.arange(fewest, most + 1, dtype=np.int64) * period
    misfit = np.abs((sizes + slots // 2) % slots - slots // 2) / sizes
    return int(sizes[np.argmax(misfit <= max(MISFIT, misfit.min() * 1.1))])


def _first_touch_bytes(program: TileProgram) -> np.ndarray:
    """Bytes of each counter that a program causes by touching its tensors for the first time; shaped as a snapshot."""
    bytes_ = np.zeros(COUNTERS + 1)
    touched = tally_items(program, 0, 1)
    for name in touched.load_bytes:
        bytes_[links.HBM_READ] += program.tensor(name).size_bytes
    for name in touched.store_bytes:
        bytes_[links.HBM_WRITE] += program.tensor(name).size_bytes
    bytes_[links.FABRIC] = bytes_[links.HBM_READ]
    return bytes_


def _whole_waves(most: int, window: int, slots: int, items: int) -> int:
    """How many windows to skip, at most `most`: about whole waves, so that the tail stays what it is."""
    if most < 1:
        return 0
    candidates = np.arange(most, 0, -1)
    distance = np.abs((candidates * window + slots // 2) % slots - slots // 2)
    close = distance <= max(int(distance.min()), TAIL_TOLERANCE * items)
    return int(candidates[np.argmax(close)])


def _agree(history: list[np.ndarray]) -> bool:
    """Whether the rates per step of several windows agree."""
    rates = np.array(history)
    spread, mean = rates.max(axis=0) - rates.min(axis=0), rates.mean(axis=0)
    scale = np.full(len(mean), mean[links.L2_READ])
    at_hbm = [links.HBM_READ, links.HBM_WRITE, links.FABRIC]
    floor = max(0.1 * (mean[links.HBM_READ] + mean[links.HBM_WRITE]), 0.005 * mean[links.L2_READ])
    scale[at_hbm] = np.maximum(mean[at_hbm], floor)
    limit = BYTES_TOLERANCE * scale
    limit[-1] = CYCLES_TOLERANCE * mean[-1]
    return bool(np.all(spread[limit > 0] <= limit[limit > 0]))
