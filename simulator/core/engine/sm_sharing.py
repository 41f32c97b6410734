"""CTAs share an SM: how fast each one computes while others compute at the same time.

In: for each step its length (cycles of a CTA that has the SM to itself) and the share of that time for which it uses
each pipe. Out: the speed of every CTA that computes, and with it the time at which its step ends.
As long as no pipe is asked for more than 100 % of its cycles, every CTA runs at full speed. Where a pipe is
oversubscribed, CTAs slow down until their shares of it add up to 100 %; older CTAs slow down less.
CTAs of one or two warps have the pipes of a quarter or half of the sub-cores alone, a *group*: those of a group use no
more of a pipe than the group has. An SM hands the groups out in turn, whatever they are busy with, to each CTA that
begins; one whose registers are taken is passed over. (%warpid of CTAs of 1 to 4 warps that end in no order, H200,
validate/lab/warp_places.cu; that a full one is passed over is an assumption.) Shared memory is everybody's.
So the end of a step moves whenever another CTA of the SM begins a step or stalls.

Speeds depend on which step each CTA computes, from the oldest CTA to the youngest, and on nothing else. The same few
combinations return throughout a launch, so speeds are computed once for each and looked up (`cases`, `speeds`).
"""

from typing import NamedTuple

import numpy as np

from ..jit import compiled, inlined

NOTHING = -1
"""Element of `pending` of a CTA that computes nothing, and of a place without CTA."""
ALL = -1
"""No group: all CTAs of an SM."""
ENOUGH = 1.0 + 1e-9
"""A pipe that is used up to this share of its cycles slows no CTA down; the rest is rounding."""
UNKNOWN = -1.0
"""Oversubscription of an SM whose CTAs' speeds have to be looked at; all others are 1 or more."""
CASE_BITS = 12
"""Bits of a case's place in the table of speeds; a new case replaces the one in its place."""
CASES = 1 << CASE_BITS
MULTIPLIER = 0x9E3779B97F4A7C15
"""Odd, so that no two cases of up to 20 CTAs are likely to meet in 64 bits."""

PROGRESS = np.dtype(
    [
        ("cycles_left", np.float64),  # of its step, were it alone, at `since`
        ("since", np.float64),
        ("speed", np.float64),  # since then
        ("ended", np.float64),  # when the last CTA of the place did
    ]
)


class Sharing(NamedTuple):
    """The CTAs of all SMs. An SM holds so many at a time, each in a *place*.

    Args:
        lengths: float64 (steps,), cycles that a step takes a lone CTA.
        uses: float64 (steps, pipes), share of that time in which it uses a pipe.
        groups: of sub-cores, of which a CTA has one.
        group_room: CTAs for which a group has registers.
        group_share: of an SM that its busiest group is where `uses` were found out.
        shared: pipe that all groups share, shared memory.
        slowdown: float64 (steps, ages), how many times as long as the mean it takes where CTAs slow each other.
        clock_ratio: float64 (SMs,), cycles that are counted for one of each SM.
        entered: int64 (SMs,), CTAs that have begun.
        group: int64 (SMs, places), that each CTA has.
        pending: int64 (SMs, places), the step that a CTA computes, or NOTHING.
        by_age: int64 (SMs, places + 1), places of an SM's CTAs from the oldest on; last, how many there are.
        progress: records of `PROGRESS`, (SMs, places).
        oversubscription: float64 (SMs,), demand for the busiest pipe over its capacity, at least 1.
        cases: uint64 (CASES,), steps by age whose speeds are known.
        speeds: float64 (CASES, places + 1), speeds by age; last, the oversubscription.
        due: float64 (SMs, places), when each CTA's next event is.
    """

    lengths: np.ndarray
    uses: np.ndarray
    groups: int
    group_room: int
    group_share: float
    shared: int
    slowdown: np.ndarray
    clock_ratio: np.ndarray
    entered: np.ndarray
    group: np.ndarray
    pending: np.ndarray
    by_age: np.ndarray
    progress: np.ndarray
    oversubscription: np.ndarray
    cases: np.ndarray
    speeds: np.ndarray
    due: np.ndarray


@inlined
def enter(sharing: Sharing, sm: int, place: int) -> None:
    """A CTA begins, and is the youngest of its SM."""
    by_age = sharing.by_age
    count = by_age[sm, -1]
    group = sharing.entered[sm] % sharing.groups
    for _ in range(sharing.groups):
        there = 0
        for age in range(count):
            there += sharing.group[sm, by_age[sm, age]] == group
        if there < sharing.group_room:
            break
        group = (group + 1) % sharing.groups
    sharing.group[sm, place] = group
    sharing.entered[sm] += 1
    by_age[sm, count] = place
    by_age[sm, -1] = count + 1
    sharing.oversubscription[sm] = UNKNOWN


@inlined
def leave(sharing: Sharing, sm: int, place: int, time: float) -> None:
    """A CTA is done: the younger ones are older now."""
    by_age = sharing.by_age
    sharing.progress[sm, place].ended = time
    count = by_age[sm, -1] - 1
    age = 0
    while by_age[sm, age] != place:
        age += 1
    for younger in range(age, count):
        by_age[sm, younger] = by_age[sm, younger + 1]
    by_age[sm, -1] = count
    sharing.oversubscription[sm] = UNKNOWN


@inlined
def begin_step(sharing: Sharing, sm: int, place: int, step: int, clock_ratio: float, time: float) -> None:
    """The CTA of a place begins to compute a step; its next event is the step's end."""
    progress = sharing.progress[sm, place]
    same = sharing.pending[sm, place] == step and sharing.oversubscription[sm] != UNKNOWN
    sharing.pending[sm, place] = step
    progress.cycles_left, progress.since = sharing.lengths[step] * clock_ratio, time
    if not same:
        sharing.oversubscription[sm] = UNKNOWN
        _share_out(sharing, sm, time)
    else:
        sharing.due[sm, place] = time + progress.cycles_left / progress.speed


@inlined
def end_step(sharing: Sharing, sm: int, place: int, time: float) -> None:
    """The CTA of a place computes no more for now."""
    if sharing.pending[sm, place] >= 0:
        sharing.pending[sm, place] = NOTHING
        _share_out(sharing, sm, time)


@inlined
def _share_out(sharing: Sharing, sm: int, time: float) -> None:
    """A CTA of the SM has begun or ended a step: set the speeds and the ends of all that compute."""
    by_age, pending = sharing.by_age, sharing.pending
    count = by_age[sm, -1]
    key = np.uint64(count)
    for age in range(count):
        place = by_age[sm, age]
        key = key * np.uint64(MULTIPLIER) + np.uint64(
            (pending[sm, place] + 2) * sharing.groups + sharing.group[sm, place]
        )
    # Multiplied once more, or cases that differ in the youngest CTA alone would take each other's place.
    case = np.int64(key * np.uint64(MULTIPLIER) >> np.uint64(64 - CASE_BITS))
    if sharing.cases[case] != key:
        sharing.cases[case] = key
        _work_out_speeds(sharing, pending[sm], sharing.group[sm], by_age[sm], sharing.speeds[case])
    oversubscription = sharing.speeds[case, -1]
    if oversubscription == sharing.oversubscription[sm] == 1.0:
        return  # nobody was slowed, and nobody is
    sharing.oversubscription[sm] = oversubscription
    for age in range(count):
        place = by_age[sm, age]
        if pending[sm, place] < 0:
            continue
        progress = sharing.progress[sm, place]
        left = max(0.0, progress.cycles_left - (time - progress.since) * progress.speed)
        speed = sharing.speeds[case, age]
        progress.cycles_left, progress.since, progress.speed = left, time, speed
        sharing.due[sm, place] = time + left / speed


@compiled
def _work_out_speeds(
    sharing: Sharing, pending: np.ndarray, group_of: np.ndarray, by_age: np.ndarray, speeds: np.ndarray
) -> None:
    """Speeds of the CTAs of an SM that compute, such that no pipe is used for more than 100 % of its cycles.

    Args:
        pending, group_of, by_age: of the SM.
        speeds: float64 (places + 1,), which becomes the speeds by age and the oversubscription.
    """
    speeds[:] = 1.0
    for pipe in range(sharing.uses.shape[1]):
        _limit(sharing, pending, group_of, by_age, speeds, pipe, ALL, 1.0)
        if sharing.groups > 1 and pipe != sharing.shared:
            for group in range(sharing.groups):
                _limit(sharing, pending, group_of, by_age, speeds, pipe, group, sharing.group_share)
    for age in range(by_age[-1]):
        if pending[by_age[age]] < 0:
            speeds[age] = 0.0


@compiled
def _limit(
    sharing: Sharing,
    pending: np.ndarray,
    group_of: np.ndarray,
    by_age: np.ndarray,
    speeds: np.ndarray,
    pipe: int,
    group: int,
    capacity: float,
) -> None:
    """Slow the CTAs of a group down until they use no more of a pipe than there is.

    Args:
        speeds: as above; lowered.
        group_of: place -> group; group: or `ALL`.
        capacity: cycles of the pipe that the group has of each cycle.
    """
    uses, slowdown, count = sharing.uses, sharing.slowdown, by_age[-1]
    wanted = 0.0
    for age in range(count):
        place = by_age[age]
        if pending[place] >= 0 and group in (ALL, group_of[place]):
            wanted += uses[pending[place], pipe]
    if wanted <= capacity * ENOUGH:
        return
    speeds[-1] = max(speeds[-1], wanted / capacity)
    level, slowed = 0.0, -1
    while True:
        # CTAs of a lower slowdown than the level take what they want; the others share what is left.
        before, left, wanted, slowed = slowed, capacity, 0.0, 0
        for age in range(count):
            step, place = pending[by_age[age]], by_age[age]
            if step < 0 or group not in (ALL, group_of[place]):
                continue
            if slowdown[step, age] <= level:
                left -= uses[step, pipe]
            else:
                wanted += uses[step, pipe] / slowdown[step, age]
                slowed += 1
        if slowed == before or wanted == 0.0:
            break
        level = max(level, left / wanted)  # or a CTA at the very level would be slowed and not, in turns, for ever
    if wanted > 0.0:
        for age in range(count):
            step, place = pending[by_age[age]], by_age[age]
            if step >= 0 and group in (ALL, group_of[place]):
                speeds[age] = min(speeds[age], level / slowdown[step, age])
