"""What happens next: the earliest event of every SM, and a tournament among SMs; the lower slot on a tie.

CTAs of an SM change each other's ends, those of different SMs do not: so the events of an SM are looked through,
and the SM plays one match after the other up to the root. Matches hold the time and the seat of who won them, not where
to look these up: a loop that waits for no look-up takes a third of the time. Times are compared as integers of the same
bits, which are in the same order, since none is negative, and take a processor a third as long.
"""

from typing import NamedTuple

import numpy as np

from ..jit import inlined

LANE_BITS = 20
"""A seat is an SM and a place of it: place << LANE_BITS | SM, in the order of slots."""


class Calendar(NamedTuple):
    """When the next event of each slot is due.

    Args:
        due: float64 (SMs, places), infinite where there is none.
        due_bits: the same memory as int64.
        times: int64, bits of the time of the winner of each match: the root at 1, the matches before match i at 2 i and
            2 i + 1, SMs, each by its earliest event, in the second half; as many as twice the SMs, padded to a power of
            two.
        seats: int64, the winner's seat.
    """

    due: np.ndarray
    due_bits: np.ndarray
    times: np.ndarray
    seats: np.ndarray


def make_calendar(sms: int, places: int, slots: int, begin: float) -> Calendar:
    """All slots due at `begin`.

    Args:
        places: slots of an SM at most.
        slots: in all; slot i is place i // sms of SM i % sms.
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
    return Calendar(due=due, due_bits=due.view(np.int64), times=times, seats=seats)


@inlined
def next_event(calendar: Calendar, sm: int) -> tuple[int, int]:
    """Events of an SM have moved: replay its matches. Returns: SM and place of the earliest event of all."""
    due, times, seats = calendar.due_bits, calendar.times, calendar.seats
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
    return seat & ((1 << LANE_BITS) - 1), seat >> LANE_BITS
