"""Extrapolates a launch from windows of it. In: counters per window, and the exact work of the rest. Out: its counters.

Each counter scales with its cause. First reads of HBM scale with the bytes that are touched for the first time, which
are known exactly; repeated reads scale with the steps executed. HBM writes scale with the bytes stored, less what stays
in L2. Fabric traffic has both parts: first touches, and steps. L2 reads, L1 hits and cycles scale with the steps.
"""

from dataclasses import dataclass, field

import numpy as np

from ..core.engine import links
from ..core.engine.links import COUNTERS, STEPS

CYCLES = COUNTERS
DIRTY = COUNTERS + 1
"""Elements of a window behind the counters: cycles, and by how much dirty bytes in L2 have grown."""
BYTES_TOLERANCE, CYCLES_TOLERANCE = 0.003, 0.007
"""How far off the whole launch may be by what is skipped of it, by how much windows differ.
Tests allow 0.5 % and 2 %. Bytes are relative to what is read or written there in all, but where that is little:
writes and fabric to a tenth of what HBM moves at least; L2 reads to a quarter of what SMs ask for,
L1 hits to all of it, since what one does not serve the other does."""
LEAST_OF_HBM, LEAST_OF_ASKED = 0.1, 0.25
"""That tenth, and that quarter."""
QUARTERS = 4
"""Parts of the past that each extrapolate the launch by themselves; how far they disagree is the error."""
PATIENCE_STEPS = 1 << 22
"""Steps in which a steady state should have shown: a launch that swings for longer is continued with what that leaves
open, so that the time an answer takes does not grow with the grid, nor with its loops."""
ALMOST, TURNED_OVER = 0.9, 1.1
"""L2 counts as full when it is this full, since granules leave some room, and as renewed when so many times as much has
come as is there."""
MIXED, MIXING_WAVES = 0.03, 64
"""CTAs that load the same in step, so that one read serves several SMs, or finds what another has just read in an L2
that a wave renews, fall out of step sooner or later, and others into it.
Where that may save more than this share of what they ask for, so many waves must have shown that they do not, or as
many steps as there is patience for."""
AMPLIFIED = 4.0
"""A drift between the halves of the past counts for so many times their length at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What items do, exactly.

    Args:
        items: how many.
        executions: step name -> how often it runs.
        loaded_bytes, stored_bytes: asked for by CTAs [B].
    """

    items: int
    executions: dict[str, int]
    loaded_bytes: int
    stored_bytes: int

    @property
    def steps(self) -> int:
        """Steps executed, of all kinds."""
        return sum(self.executions.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """Windows in a row.

    Args:
        deltas: of each window: by how much counters, cycles and dirty bytes have grown.
        dirty: dirty bytes of L2 at the end of each [B].
    """

    deltas: tuple[np.ndarray, ...] = field(default=())
    dirty: tuple[float, ...] = field(default=())

    def followed_by(self, delta: np.ndarray, dirty: float) -> "Past":
        """One more window; one that has done nothing belongs to the next."""
        return Past(deltas=(*self.deltas, delta), dirty=(*self.dirty, dirty))

    @property
    def windows(self) -> int:
        """The newest windows, as many as the largest power of two; older ones no longer count."""
        return 1 << (len(self.deltas).bit_length() - 1) if self.deltas else 0

    @property
    def is_enough(self) -> bool:
        """Whether there are quarters, something has happened in each, and the newest is a new one."""
        quarter = self.windows // QUARTERS
        return quarter > 0 and len(self.deltas) % quarter == 0 and all(part[STEPS] > 0 for part in self.parts(QUARTERS))

    @property
    def total(self) -> np.ndarray:
        """All of them together."""
        added: np.ndarray = np.sum(self.deltas[-self.windows :], axis=0)
        return added

    def parts(self, count: int) -> list[np.ndarray]:
        """They in equal parts, the oldest first."""
        counted = np.array(self.deltas[-self.windows :])
        return list(counted.reshape(count, -1, counted.shape[1]).sum(axis=1))


def is_renewed(brought: np.ndarray, used: float, capacity: float, times: float = TURNED_OVER) -> bool:
    """Whether something leaves L2 for all that comes; more has come then than is there, and nothing of before is.

    Args:
        brought: by how much counters have grown.
        used, capacity: of L2 [B].
        times: so many times as much.
    """
    inflow = brought[links.HBM_READ] + brought[links.L2_WRITE] + brought[links.FABRIC]
    return bool(used > ALMOST * capacity and inflow > times * used)


def is_mixed(waves: float, steps: float) -> bool:
    """Whether CTAs that began in step would have fallen out of it. Args: steps: of all, that were stepped through."""
    return waves >= MIXING_WAVES or steps >= PATIENCE_STEPS


def keeps_step(seen: np.ndarray, waves: float, whole: Work, capacity: float) -> bool:
    """Whether much is saved, or could be, because CTAs load the same at the same time.

    Args:
        seen: counters of so many waves.
        whole: work of the launch.
        capacity: of L2 [B].
    """
    asked = whole.loaded_bytes * seen[STEPS] / whole.steps
    together = asked - seen[links.L1_HIT] - seen[links.L2_READ]
    shared = asked - seen[links.TOUCHED]
    inflow = (seen[links.HBM_READ] + seen[links.L2_WRITE] + seen[links.FABRIC]) / waves
    fleeting = inflow > ALMOST * capacity and shared > MIXED * asked
    return bool(together > MIXED * asked or fleeting)


def first_touches(seen: np.ndarray, touched: float) -> np.ndarray:
    """What so many bytes touched for the first time add to the snapshot.

    Args:
        seen: sum of windows.
        touched: bytes [B].
    """
    part = np.zeros(COUNTERS + 1)
    part[links.TOUCHED] = touched
    known = seen[links.TOUCHED]
    part[links.FIRST] = part[links.HBM_READ] = touched * (seen[links.FIRST] / known if known else 1.0)
    part[links.FABRIC] = touched * min(1.0, seen[links.FABRIC] / known) if known else 0.0
    return part


def rest_of(seen: np.ndarray, work: Work, touched: float, full: bool) -> np.ndarray:
    """What skipped work adds to the snapshot; float64 of shape (COUNTERS + 1,).

    Args:
        seen: sum of windows.
        work: that is skipped.
        touched: bytes that it touches for the first time [B].
        full: whether L2 is, so that what is stored drives out as much.
    """
    again = seen[: COUNTERS + 1].copy()
    again[links.HBM_READ] -= seen[links.FIRST]
    again[links.FABRIC] -= min(seen[links.FABRIC], seen[links.TOUCHED])
    rest: np.ndarray = again * work.steps / seen[STEPS]
    rest[[links.TOUCHED, links.FIRST]] = 0.0
    rest += first_touches(seen, touched)
    stored = seen[links.L2_WRITE]
    written = seen[links.HBM_WRITE] + (seen[DIRTY] if full else 0.0)
    rest[links.HBM_WRITE] = work.stored_bytes * max(0.0, written) / stored if stored else rest[links.HBM_WRITE]
    rest[links.L2_WRITE] = work.stored_bytes
    return rest


def errors_of(past: Past, work: Work, touched: float, full: bool, windows: float) -> np.ndarray:
    """Error of an extrapolated rest: how far the extrapolations from parts of the past differ.

    Args:
        work, touched, full: as in `rest_of`.
        windows: skipped ones.
    """
    extrapolated = np.array([rest_of(part, work, touched, full) for part in past.parts(QUARTERS)])
    older, newer = (rest_of(part, work, touched, full) for part in past.parts(2))
    ahead = min(1.0 + windows / past.windows, AMPLIFIED)
    error = np.ptp(extrapolated, axis=0) / 2 + np.abs(newer - older) * ahead / 2
    if full:
        # What is dirty has a level, about which it swings; what has not been written in the end is dirty then.
        half, dirty = past.windows // 2, past.dirty[-past.windows :]
        error[links.HBM_WRITE] += abs(float(np.mean(dirty[half:]) - np.mean(dirty[:half])))
    error[[STEPS, links.L2_WRITE, links.TOUCHED, links.FIRST]] = 0.0
    return np.asarray(error)


def unlikeness(like: Work, work: Work) -> float:
    """By what share two pieces of work differ in the kinds of their steps, or in what a step loads: 0 where alike."""
    if not like.steps:
        return 1.0
    old, new = like.loaded_bytes / like.steps, work.loaded_bytes / work.steps
    loads = abs(old - new) / max(old, new, 1.0)
    return max(loads, *(abs(like.executions[name] / like.steps - often / work.steps)
                        for name, often in work.executions.items()))  # fmt: skip


def tolerated(so_far: np.ndarray, rest: np.ndarray, whole: Work, work: Work) -> np.ndarray:
    """How far off each element of the launch's snapshot may be.

    Args:
        so_far: the snapshot, with what has been skipped.
        rest: what the work that would be skipped adds.
        whole: work of the launch.
        work: that would be skipped.
    """
    left = max(0.0, whole.steps - so_far[STEPS] - work.steps) / work.steps
    total = so_far + rest * (1.0 + left)
    hbm = LEAST_OF_HBM * (total[links.HBM_READ] + total[links.HBM_WRITE])
    scale: np.ndarray = total * BYTES_TOLERANCE
    for which in (links.HBM_WRITE, links.FABRIC):
        scale[which] = BYTES_TOLERANCE * max(total[which], hbm)
    scale[links.L2_READ] = BYTES_TOLERANCE * max(total[links.L2_READ], LEAST_OF_ASKED * whole.loaded_bytes)
    scale[links.L1_HIT] = BYTES_TOLERANCE * whole.loaded_bytes
    scale[CYCLES] = CYCLES_TOLERANCE * total[CYCLES]
    return scale
