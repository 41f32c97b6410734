"""What happens next: the earliest event of every SM, and a tournament among SMs; the lower slot on a tie.

CTAs of an SM change each other's ends, those of different SMs do not: so the events of an SM are looked through,
and the SM plays one match after the other up to the root.
"""

import numpy as np

from .compiled import inlined


def tournament(
    sms: int, places: int, slots: int, begin: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """All slots due at `begin`.

    Args:
        places: slots of an SM at most; slots: in all; slot i is place i // sms of SM i % sms.

    Returns:
        due: float64 (sms, places), when each slot's next event is due, infinite where there is none;
        earliest, first: float64, int64 (SMs, padded to a power of two): the earliest of an SM, and its place;
        winner: int64, twice as long, the SM that wins each match, the root at 1.
    """
    size = 1 << max(1, (sms - 1).bit_length())
    due = np.where(np.arange(sms * places) < slots, begin, np.inf).reshape(places, sms).T.copy()
    earliest = np.full(size, np.inf)
    earliest[:sms] = due[:, 0]
    winner = np.zeros(2 * size, dtype=np.int64)
    winner[size:] = np.arange(size)
    level = size
    while level > 1:  # SMs that have slots come first, so that the left one wins
        winner[level // 2 : level] = winner[level : 2 * level : 2]
        level //= 2
    return due, earliest, np.zeros(size, dtype=np.int64), winner


@inlined
def settle(due: np.ndarray, earliest: np.ndarray, first: np.ndarray, winner: np.ndarray, sm: int) -> None:
    """Events of an SM have moved: find its earliest, and replay its matches up to the root."""
    place, time = 0, due[sm, 0]
    for other in range(1, due.shape[1]):
        if due[sm, other] < time:
            place, time = other, due[sm, other]
    earliest[sm], first[sm] = time, place
    node = (sm + len(earliest)) >> 1
    while node > 0:
        left, right = winner[2 * node], winner[2 * node + 1]
        before = winner[node]
        # Which of the two wins is anybody's guess, so nothing branches on it.
        ahead = (earliest[left] < earliest[right]) | (
            (earliest[left] == earliest[right]) & (first[left] <= first[right])
        )
        after = right + (left - right) * ahead
        winner[node] = after
        if before == after and after != sm:
            break
        node >>= 1
