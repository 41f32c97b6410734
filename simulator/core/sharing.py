"""CTAs share an SM: how fast each goes on while others compute beside it.

A step takes a lone CTA its length, and keeps each pipe of the SM busy for a part of it.
While the CTAs that compute want no pipe for more than all of the time, each goes at its own speed;
where they want one for longer, they are slowed until their shares of it add up to one, the older ones less.
So whenever a CTA begins a step, or waits for data, the others' ends move.
"""

import numpy as np

from .compiled import inlined

# Columns of `slots`; PENDING is the step that the slot's CTA computes, or -1.
SM, CTA, ITEM, PC, PHASE, CURRENT, PENDING = range(7)
SLOT_COLUMNS = 7
IDLE = 0
"""Phase of a slot without a CTA."""
# Columns of `shares`: cycles of the step that a lone CTA had left at a time, that time, and the speed since;
# how much longer the CTA, being as old as it is, takes beside others than their mean; when the slot's last CTA ended.
LEFT, SINCE, SPEED, PACE, ENDED = range(5)
SHARE_COLUMNS = 5
ENOUGH = 1.0 + 1e-9
"""A pipe that is wanted for no longer in a cycle slows nobody down."""
UNKNOWN = -1.0
"""Crowd of an SM whose CTAs' speeds have to be looked at; all others are 1 or more."""


@inlined
def reschedule(due: np.ndarray, winner: np.ndarray, slot: int, time: float) -> None:
    """A slot's next event is due at `time`: replay its matches up to the root. Ties go to the lower slot."""
    due[slot] = time
    node = (slot + len(due)) >> 1
    while node > 0:
        left, right = winner[2 * node], winner[2 * node + 1]
        winner[node] = left if due[left] <= due[right] else right
        node >>= 1


@inlined
def _age(slots: np.ndarray, slot: int, sms: int) -> int:
    """Older CTAs on the SM of a slot's. CTAs begin in the order of their numbers."""
    older = 0
    for other in range(slot % sms, len(slots), sms):
        if slots[other, PHASE] != IDLE and slots[other, CTA] < slots[slot, CTA]:
            older += 1
    return older


@inlined
def _wanted(uses: np.ndarray, slots: np.ndarray, slot: int, sms: int, pipe: int) -> float:
    """How long in a cycle the CTAs that compute beside a slot's, and it, want a pipe."""
    wanted = 0.0
    for other in range(slot % sms, len(slots), sms):
        if slots[other, PENDING] >= 0:
            wanted += uses[slots[other, PENDING], pipe]
    return wanted


@inlined
def _crowd(uses: np.ndarray, slots: np.ndarray, slot: int, sms: int) -> float:
    """How long in a cycle the CTAs that compute beside a slot's, and it, want the pipe that they want most."""
    crowd = 1.0
    for pipe in range(uses.shape[1]):
        wanted = _wanted(uses, slots, slot, sms, pipe)
        if wanted > ENOUGH:
            crowd = max(crowd, wanted)
    return crowd


@inlined
def _slowed_to(uses: np.ndarray, slots: np.ndarray, shares: np.ndarray, slot: int, sms: int) -> float:
    """Speed times pace of the CTAs that are slowed beside a slot's, so that no pipe gives more than all of its time."""
    least = np.inf
    for pipe in range(uses.shape[1]):
        if _wanted(uses, slots, slot, sms, pipe) <= ENOUGH:
            continue
        level, slowed = 0.0, -1
        while True:
            # CTAs of lower paces than the level are not slowed, and take what they want; the others share what is left.
            before, left, wanted, slowed = slowed, 1.0, 0.0, 0
            for other in range(slot % sms, len(slots), sms):
                step = slots[other, PENDING]
                if step >= 0 and shares[other, PACE] <= level:
                    left -= uses[step, pipe]
                elif step >= 0:
                    wanted += uses[step, pipe] / shares[other, PACE]
                    slowed += 1
            if slowed == before or wanted == 0.0:
                break
            level = left / wanted
        if wanted > 0.0:
            least = min(least, level)
    return least


@inlined
def _share_out(
    uses: np.ndarray, paces: np.ndarray, slots: np.ndarray, shares: np.ndarray, crowds: np.ndarray, due: np.ndarray,
    winner: np.ndarray, slot: int, time: float,
) -> None:  # fmt: skip
    """A CTA has begun to compute beside others, or has stopped: all go on at new speeds."""
    sms = len(crowds)
    crowd = _crowd(uses, slots, slot, sms)
    if crowd == crowds[slot % sms] == 1.0:
        return  # nobody was slowed, and nobody is
    crowds[slot % sms] = crowd
    level = np.inf
    if crowd > 1.0:
        for other in range(slot % sms, len(slots), sms):
            if slots[other, PENDING] >= 0:
                shares[other, PACE] = paces[slots[other, PENDING], _age(slots, other, sms)]
        level = _slowed_to(uses, slots, shares, slot, sms)
    for other in range(slot % sms, len(slots), sms):
        if slots[other, PENDING] < 0:
            continue
        left = max(0.0, shares[other, LEFT] - (time - shares[other, SINCE]) * shares[other, SPEED])
        speed = min(1.0, level / shares[other, PACE])
        shares[other, LEFT], shares[other, SINCE], shares[other, SPEED] = left, time, speed
        reschedule(due, winner, other, time + left / speed)


@inlined
def begin_step(
    lengths: np.ndarray, uses: np.ndarray, paces: np.ndarray, slowness: np.ndarray, slots: np.ndarray,
    shares: np.ndarray, crowds: np.ndarray, due: np.ndarray, winner: np.ndarray, slot: int, step: int, time: float,
) -> None:  # fmt: skip
    """A slot's CTA begins to compute a step; its next event is the step's end."""
    sms = len(crowds)
    same = slots[slot, PENDING] == step and crowds[slot % sms] != UNKNOWN
    slots[slot, PENDING] = step
    shares[slot, LEFT], shares[slot, SINCE] = lengths[step] * slowness[slots[slot, SM]], time
    if not same:
        crowds[slot % sms] = UNKNOWN
        _share_out(uses, paces, slots, shares, crowds, due, winner, slot, time)
    else:
        reschedule(due, winner, slot, time + shares[slot, LEFT] / shares[slot, SPEED])


@inlined
def end_step(
    uses: np.ndarray, paces: np.ndarray, slots: np.ndarray, shares: np.ndarray, crowds: np.ndarray, due: np.ndarray,
    winner: np.ndarray, slot: int, time: float,
) -> None:  # fmt: skip
    """A slot's CTA computes no more for now."""
    if slots[slot, PENDING] >= 0:
        slots[slot, PENDING] = -1
        _share_out(uses, paces, slots, shares, crowds, due, winner, slot, time)
