"""Long loops stay cheap: once the trips of a loop repeat, all CTAs that run skip as many of them, together.

A wave of CTAs that each sweep millions of keys is a launch of its own. While all CTAs that run are in the same loop, a
few trips of each are a window, and windows are extrapolated as those of a grid are (`extrapolate`).
Trips are skipped only where L2 has been renewed since the last skip, by what was stepped through: so nothing that a CTA
would find there is missed, nor is anything found that would have been driven out. What such a loop reads a second time
it reads from device memory like the first time, so rates alone tell what skipped trips read.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ..core.engine import links
from ..core.engine.event_loop import NEXT_CTA
from ..core.engine.links import COUNTERS, STEPS
from ..core.engine.lru import CAPACITY, DIRTY_BYTES, USED
from ..core.engine.program import STEP
from ..core.engine.walk import IDLE, RING, TRIP, TRIPS
from ..launch.program import TileProgram
from ..launch.walk import ITEMS_AT_ONCE, begin_alike, item_totals
from .extrapolate import PATIENCE_STEPS, Past, Work, errors_of, is_mixed, is_renewed, keeps_step, rest_of, tolerated
from .launch_state import STEPS_AT_ONCE, LaunchState
from .touched import touched_bytes

WINDOW_TRIPS, WINDOW_STEPS = 2, 1 << 14
"""Trips of each CTA in a window, and steps of all, at least: to look at counters takes as long as hundreds of steps."""
LEAST_TRIPS = 512
"""Trips, at least, of a loop that is looked at: a shorter one is over before its trips have shown that they repeat."""
RENEWALS = 2.0
"""Times that L2 is renewed between two skips: data wait for their next use in the part of a sweep before a skip and in
the part of the next sweep, and sets of L2 fill unevenly."""
READ = [links.HBM_READ, links.FABRIC]
"""What CTAs behind the first one of those that are together find in L2, and would have to bring anew after a skip."""
KEPT_TRIPS = RING
"""Trips that are left to the CTA with the fewest: a pipelined loop ends as it would have, and the last ones of masked
loops do other work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningTotals:
    """Totals of a period's items before each of them, and of all of them.

    Args:
        executions: step name -> how often it runs; int64 (period + 1,).
        loaded_bytes, stored_bytes: asked for by CTAs; int64 (period + 1,) [B].
    """

    executions: dict[str, np.ndarray]
    loaded_bytes: np.ndarray
    stored_bytes: np.ndarray

    def work(self, start: int, stop: int) -> Work:
        """Steps, and what is loaded and stored, of the items start .. stop - 1."""

        def between(totals: np.ndarray) -> int:
            # An item does what the one a period before it does.
            period = len(totals) - 1
            return sum(
                sign * (item // period * int(totals[-1]) + int(totals[item % period]))
                for sign, item in ((1, stop), (-1, start))
            )

        return Work(
            items=stop - start,
            executions={name: between(totals) for name, totals in self.executions.items()},
            loaded_bytes=between(self.loaded_bytes),
            stored_bytes=between(self.stored_bytes),
        )


def running_totals(program: TileProgram) -> RunningTotals:
    """Look through one period of a program."""
    period = program.period_items if begin_alike(program) else program.item_count
    parts = [
        item_totals(program, begin, min(begin + ITEMS_AT_ONCE, period)) for begin in range(0, period, ITEMS_AT_ONCE)
    ]

    def running(pieces: list[np.ndarray]) -> np.ndarray:
        return np.concatenate(([0], np.cumsum(np.concatenate(pieces)))).astype(np.int64)

    def together(moved: dict[str, np.ndarray], items: int) -> np.ndarray:
        return sum(moved.values(), start=np.zeros(items, dtype=np.int64))

    sizes = [len(next(iter(executions.values()))) for executions, _, _ in parts]
    return RunningTotals(
        executions={name: running([executions[name] for executions, _, _ in parts]) for name in parts[0][0]},
        loaded_bytes=running([together(loads, size) for (_, loads, _), size in zip(parts, sizes, strict=True)]),
        stored_bytes=running([together(stores, size) for (_, _, stores), size in zip(parts, sizes, strict=True)]),
    )


class Together(NamedTuple):
    """A loop that all CTAs that run are in.

    Args:
        loop: its number; slots: those that run; steps: of a trip.
        left: trips that the CTA with the fewest has before it; spread: by which it is ahead of the last one.
    """

    loop: int
    slots: np.ndarray
    steps: int
    left: int
    spread: int


class After(NamedTuple):
    """What follows a skip: CTAs behind the first find nothing of what it would have left them in L2, and read it again.

    Args:
        rates: that they would have read at without the skip; float64 (READ,) [B per step].
        steps: until the last one comes to where the first was; seen: counters so far.
    """

    rates: np.ndarray
    steps: float
    seen: np.ndarray


class LongLoops:
    """What has been skipped of the loops of a launch.

    Args:
        run: a launch that has not begun; it asks `look` from now on.
    """

    def __init__(self, run: LaunchState) -> None:
        self.run = run
        self.skipped = np.zeros(COUNTERS + 1)
        self.loops = [number for number in range(len(run.program.loops)) if _is_innermost(run, number)]
        self.past, self.before, self.base = Past(), np.zeros(COUNTERS + 2), np.zeros(COUNTERS + 2)
        self.windows: tuple[int, int] = (-1, 0)
        self.after = After(np.zeros(len(READ)), 0.0, np.zeros(COUNTERS))
        run.look = self.look

    @cached_property
    def totals(self) -> RunningTotals:
        """Of the launch's items."""
        return running_totals(self.run.launch.program)

    @cached_property
    def whole(self) -> Work:
        """Work of the launch."""
        return self.totals.work(0, self.run.launch.program.item_count)

    @cached_property
    def touched(self) -> int:
        """Bytes that the launch loads of its inputs, each once; 0 where only rates say what is touched first [B]."""
        # Granules that share a number are touched more than once, and some launches are too much to look through.
        return 0 if self.run.is_folded else touched_bytes(self.run.launch.program, self.run.tensors)

    def snapshot(self) -> np.ndarray:
        """Counters, cycles, and dirty bytes in L2, with what was skipped; float64 of shape (COUNTERS + 2,)."""
        return np.append(self.run.snapshot() + self.skipped, self.run.memory.l2.lists[:, DIRTY_BYTES].sum())

    def look(self) -> int:
        """Skip trips if that can be done now. Returns: steps after which to look again."""
        self._make_good()
        together = _together(self.run, self.loops)
        if together is None:
            self.windows = (-1, 0)
            return WINDOW_STEPS if self.loops else STEPS_AT_ONCE
        trip = together.steps * len(together.slots)
        window = max(WINDOW_TRIPS, WINDOW_STEPS // trip) * trip
        now = self.snapshot()
        if self.windows != (together.loop, window):
            self.windows, self.past = (together.loop, window), Past()
            self.before = self.base = now
            return window
        delta, self.before = now - self.before, now
        lists = self.run.memory.l2.lists
        if not is_renewed(now - self.base, lists[:, USED].sum(), lists[:, CAPACITY].sum(), RENEWALS):
            return window
        delta[[links.TOUCHED, links.FIRST]] = 0.0  # which is read like all that is touched again
        self.past = self.past.followed_by(delta, now[-1])
        trips = (together.left - KEPT_TRIPS) // RING * RING
        longer = trips * trip > self.past.total[STEPS]
        if self.past.is_enough and longer and self._is_mixed(now - self.base):
            self._skip(together, trips, now)
        return window

    def _make_good(self) -> None:
        """Count what has been read after a skip as if there had been none."""
        if self.after.steps > 0:
            counter = self.run.memory.counter[:COUNTERS].copy()
            delta = counter - self.after.seen
            self.skipped[READ] += self.after.rates * delta[STEPS] - delta[READ]
            self.after = After(self.after.rates, self.after.steps - delta[STEPS], counter)

    def _is_mixed(self, seen: np.ndarray) -> bool:
        """Whether CTAs do not gain by being in step, or have had the time to fall out of it. Args: seen: as `base`."""
        waves = seen[STEPS] * self.run.launch.program.item_count / (self.whole.steps * self.run.slot_count)
        capacity = float(self.run.memory.l2.lists[:, CAPACITY].sum())
        return is_mixed(waves, self.run.memory.counter[STEPS]) or not keeps_step(seen, waves, self.whole, capacity)

    def _skip(self, together: Together, trips: int, now: np.ndarray) -> None:
        """Skip so many trips, if what they would have done is known well enough."""
        seen = self.past.total
        times = trips * together.steps * len(together.slots) / seen[STEPS]
        work = Work(items=0, executions={"": round(times * seen[STEPS])}, loaded_bytes=0,
                    stored_bytes=round(times * seen[links.L2_WRITE]))  # fmt: skip
        rest = rest_of(seen, work, 0.0, True)
        error = errors_of(self.past, work, 0.0, True, times * self.past.windows)
        if self.run.next_cta[NEXT_CTA] >= self.run.program.cta_count:
            error[READ] += rest[READ] * together.spread / trips  # nobody follows who would read in their place
        patience = max(1.0, self.run.memory.counter[STEPS] / PATIENCE_STEPS)
        share = work.steps / self.whole.steps
        if np.any(error > tolerated(now[:-1], rest, self.whole, work) * patience * share):
            return
        self.skipped = self.skipped + rest
        trailing = together.spread * together.steps * len(together.slots)
        self.after = After(rest[READ] / work.steps, trailing, self.run.memory.counter[:COUNTERS].copy())
        self.run.skip_trips(together.loop, together.slots, trips)
        self.past, self.windows = Past(), (-1, 0)


def _is_innermost(run: LaunchState, number: int) -> bool:
    """Whether a loop consists of steps, and may have many trips."""
    loop = run.program.loops[number]
    body = run.program.code[loop["body"] : loop["after"] - 1]
    return bool(np.all(body[:, 0] == STEP)) and run.most_trips(number) >= LEAST_TRIPS


def _together(run: LaunchState, loops: list[int]) -> Together | None:
    """The loop that all CTAs that run are in; None where they are in none, or in different ones."""
    busy = np.flatnonzero(run.calendar.due.T.reshape(-1)[: run.slot_count] < np.inf)
    slots = run.ctas.slots[busy]
    if not len(busy) or np.any(slots["phase"] == IDLE):
        return None
    for number in loops:
        loop = run.program.loops[number]
        if np.all((slots["pc"] >= loop["body"]) & (slots["pc"] < loop["after"])):
            trips = run.ctas.trips[busy, number]
            left = int((trips[:, TRIPS] - trips[:, TRIP]).min()) - 1
            return Together(number, busy, int(loop["after"] - 1 - loop["body"]), left, int(np.ptp(trips[:, TRIP])))
    return None
