"""CTAs share an SM: how fast each goes on while others compute beside it.

A step takes a lone CTA its length, and keeps each pipe of the SM busy for a part of it.
While the CTAs that compute want no pipe for more than all of the time, each goes at its own speed;
where they want one for longer, they are slowed until their shares of it add up to one, the older ones less.
So whenever a CTA begins a step, or waits for data, the others' ends move.

Speeds follow from which step each CTA computes, by age, and from nothing else: the same few cases return for as long as
a launch runs, so that what was found once is kept, and looked up (`known`, `speeds`).
"""

import numpy as np

from ..jit import compiled, inlined

# Columns of `slots`: CTAs that an SM holds at a time have the slots SM, SM + SMs, ..., and a *place* each, 0, 1, ...
SM, CTA, ITEM, PC, PHASE, CURRENT = range(6)
SLOT_COLUMNS = CURRENT + 1
IDLE = 0
"""Phase of a slot without a CTA."""
NOTHING = -1
"""Element of `pending` of a CTA that computes nothing, and of a place without CTA."""
# Columns of `shares`: cycles of the step that a lone CTA had left at a time, that time, and the speed since;
# when the place's last CTA ended.
LEFT, SINCE, SPEED, ENDED = range(4)
SHARE_COLUMNS = ENDED + 1
ENOUGH = 1.0 + 1e-9
"""A pipe that is wanted for no longer in a cycle slows nobody down."""
UNKNOWN = -1.0
"""Crowd of an SM whose CTAs' speeds have to be looked at; all others are 1 or more."""
KNOWN_BITS = 12
"""Of the number of a case that is kept; each takes the place of an older one."""
KNOWN_CASES = 1 << KNOWN_BITS
MULTIPLIER = 0x9E3779B97F4A7C15
"""Odd, so that no two cases of up to 20 CTAs are likely to meet in 64 bits."""


@inlined
def enter(aged: np.ndarray, crowds: np.ndarray, sm: int, place: int) -> None:
    """A CTA begins, and is the youngest of its SM."""
    count = aged[sm, -1]
    aged[sm, count] = place
    aged[sm, -1] = count + 1
    crowds[sm] = UNKNOWN


@inlined
def leave(aged: np.ndarray, crowds: np.ndarray, sm: int, place: int) -> None:
    """A CTA is done: the younger ones are older now."""
    count = aged[sm, -1] - 1
    age = 0
    while aged[sm, age] != place:
        age += 1
    for younger in range(age, count):
        aged[sm, younger] = aged[sm, younger + 1]
    aged[sm, -1] = count
    crowds[sm] = UNKNOWN


@compiled
def _find_speeds(
    uses: np.ndarray, slowdown: np.ndarray, pending: np.ndarray, aged: np.ndarray, found: np.ndarray
) -> None:
    """Speeds of the CTAs of an SM that compute, so that no pipe gives more than all of its time.

    Args:
        pending, aged: of the SM; found: float64 (CTAs + 1,), speeds by age; the last becomes the crowd: how long in a
            cycle they want the pipe that they want most, at least 1.
    """
    count = aged[-1]
    crowd, least = 1.0, np.inf
    for pipe in range(uses.shape[1]):
        wanted = 0.0
        for age in range(count):
            if pending[aged[age]] >= 0:
                wanted += uses[pending[aged[age]], pipe]
        if wanted <= ENOUGH:
            continue
        crowd = max(crowd, wanted)
        level, slowed = 0.0, -1
        while True:
            # CTAs of a lower slowdown than the level take what they want; the others share what is left.
            before, left, wanted, slowed = slowed, 1.0, 0.0, 0
            for age in range(count):
                step = pending[aged[age]]
                if step >= 0 and slowdown[step, age] <= level:
                    left -= uses[step, pipe]
                elif step >= 0:
                    wanted += uses[step, pipe] / slowdown[step, age]
                    slowed += 1
            if slowed == before or wanted == 0.0:
                break
            level = left / wanted
        if wanted > 0.0:
            least = min(least, level)
    for age in range(count):
        step = pending[aged[age]]
        found[age] = min(1.0, least / slowdown[step, age]) if step >= 0 else 0.0
    found[-1] = crowd


@inlined
def _share_out(
    uses: np.ndarray, slowdown: np.ndarray, pending: np.ndarray, aged: np.ndarray, shares: np.ndarray,
    crowds: np.ndarray, known: np.ndarray, speeds: np.ndarray, due: np.ndarray, sm: int, time: float,
) -> None:  # fmt: skip
    """A CTA has begun to compute beside others, or has stopped: all go on at new speeds."""
    count = aged[sm, -1]
    key = np.uint64(count)
    for age in range(count):
        key = key * np.uint64(MULTIPLIER) + np.uint64(pending[sm, aged[sm, age]] + 2)
    # Multiplied once more, or cases that differ in the youngest CTA alone would take each other's place.
    case = np.int64(key * np.uint64(MULTIPLIER) >> np.uint64(64 - KNOWN_BITS))
    if known[case] != key:
        known[case] = key
        _find_speeds(uses, slowdown, pending[sm], aged[sm], speeds[case])
    crowd = speeds[case, -1]
    if crowd == crowds[sm] == 1.0:
        return  # nobody was slowed, and nobody is
    crowds[sm] = crowd
    for age in range(count):
        place = aged[sm, age]
        if pending[sm, place] < 0:
            continue
        left = max(0.0, shares[sm, place, LEFT] - (time - shares[sm, place, SINCE]) * shares[sm, place, SPEED])
        speed = speeds[case, age]
        shares[sm, place, LEFT], shares[sm, place, SINCE], shares[sm, place, SPEED] = left, time, speed
        due[sm, place] = time + left / speed


@inlined
def begin_step(
    lengths: np.ndarray, uses: np.ndarray, slowdown: np.ndarray, slowness: float, pending: np.ndarray, aged: np.ndarray,
    shares: np.ndarray, crowds: np.ndarray, known: np.ndarray, speeds: np.ndarray, due: np.ndarray, sm: int,
    place: int, step: int, time: float,
) -> None:  # fmt: skip
    """The CTA of a place begins to compute a step; its next event is the step's end."""
    same = pending[sm, place] == step and crowds[sm] != UNKNOWN
    pending[sm, place] = step
    shares[sm, place, LEFT], shares[sm, place, SINCE] = lengths[step] * slowness, time
    if not same:
        crowds[sm] = UNKNOWN
        _share_out(uses, slowdown, pending, aged, shares, crowds, known, speeds, due, sm, time)
    else:
        due[sm, place] = time + shares[sm, place, LEFT] / shares[sm, place, SPEED]


@inlined
def end_step(
    uses: np.ndarray, slowdown: np.ndarray, pending: np.ndarray, aged: np.ndarray, shares: np.ndarray,
    crowds: np.ndarray, known: np.ndarray, speeds: np.ndarray, due: np.ndarray, sm: int, place: int, time: float,
) -> None:  # fmt: skip
    """The CTA of a place computes no more for now."""
    if pending[sm, place] >= 0:
        pending[sm, place] = NOTHING
        _share_out(uses, slowdown, pending, aged, shares, crowds, known, speeds, due, sm, time)
