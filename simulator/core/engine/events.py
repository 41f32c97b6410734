"""What happens next: the earliest event of every SM, and a tournament among SMs; the lower slot on a tie.

CTAs of an SM change each other's ends, those of different SMs do not: so the events of an SM are looked through,
and the SM plays one match after the other up to the root. Matches hold the time and the seat of who won them, not where
to look these up: a loop that waits for no look-up takes a third of the time. Times are compared as integers of the same
bits, which are in the same order, since none is negative, and take a processor a third as long.
"""

import numpy as np

from ..jit import inlined

LANE_BITS = 20
"""A seat is an SM and a place of it: place << LANE_BITS | SM, in the order of slots."""


def tournament(sms: int, places: int, slots: int, begin: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """All slots due at `begin`.

    Args:
        places: slots of an SM at most; slots: in all; slot i is place i // sms of SM i % sms.

    Returns:
        due: float64 (sms, places), when each slot's next event is due, infinite where there is none;
        times, seats: int64, times as their bits, twice the SMs, padded to a power of two: of the winner of each match,
        the root at 1, those of match i at 2 i and 2 i + 1; SMs, each by its earliest event, in the second half.
    """
    size = 1 << max(1, (sms - 1).bit_length())
    due = np.where(np.arange(sms * places) < slots, begin, np.inf).reshape(places, sms).T.copy()
    times, seats = np.full(2 * size, np.inf).view(np.int64), np.zeros(2 * size, dtype=np.int64)
    times[size : size + sms] = due.view(np.int64)[:, 0]
    seats[size:] = np.arange(size)
    level = size
    while level > 1:  # SMs that have slots come first, so that the left one wins
        times[level // 2 : level] = times[level : 2 * level : 2]
        seats[level // 2 : level] = seats[level : 2 * level : 2]
        level //= 2
    return due, times, seats


@inlined
def settle(due: np.ndarray, times: np.ndarray, seats: np.ndarray, sm: int) -> None:
    """Events of an SM have moved: find its earliest, and replay its matches up to the root. Args: due: as integers."""
    # Which is the earlier is anybody's guess, so nothing branches on it: `choose` has all bits set, or none.
    place, time = 0, due[sm, 0]
    for other in range(1, due.shape[1]):
        sooner = due[sm, other] - time
        choose = sooner >> 63
        place += (other - place) & choose
        time += sooner & choose
    seat = place << LANE_BITS | sm
    node = len(times) // 2 + sm
    times[node], seats[node] = time, seat
    while node > 1:
        sooner, lower = times[node ^ 1] - time, seats[node ^ 1] - seat
        choose = sooner + (lower >> 63) >> 63
        time += sooner & choose
        seat += lower & choose
        node >>= 1
        times[node], seats[node] = time, seat
