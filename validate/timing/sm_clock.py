"""The SM clock while something ran: two reads of the SMs' own cycle counters, cycles over time.

Before the first and after the last launch of a window a tiny kernel notes, on every SM it lands on,
the SM's cycle counter (`%clock64`) and the GPU's time in nanoseconds (`%globaltimer`).
The counter belongs to its SM, so only reads on the same SM make a pair.

Why not NVML: it reports a clock that is some ten to a hundred milliseconds old, so a window of one millisecond
would get the clock of something else; the counters cover exactly the window, and cost two launches outside all samples.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median

SHORTEST_SPAN_NS = 20_000
"""`%globaltimer` ticks in steps of up to about a microsecond: a shorter window would be off by 5 % and more [ns]."""


@dataclass(frozen=True, slots=True)
class Read:
    """What one CTA saw.

    Args:
        sm: number of its SM.
        cycles: of that SM's counter.
        time_ns: of the GPU's timer [ns].
    """

    sm: int
    cycles: int
    time_ns: int


@dataclass(frozen=True, slots=True)
class Window:
    """SM cycles and seconds between two reads; both 0 where unknown."""

    cycles: float
    span_s: float


def window(begin: Iterable[Read], end: Iterable[Read]) -> Window:
    """Cycles and time between two reads, in the median over the SMs that made both.

    An SM that counted no cycles, or went backwards, or whose window is too short for the timer, makes no pair.
    """
    first = {read.sm: read for read in begin}
    pairs = [
        (read.cycles - first[read.sm].cycles, read.time_ns - first[read.sm].time_ns) for read in end if read.sm in first
    ]
    pairs = [(cycles, time_ns) for cycles, time_ns in pairs if cycles > 0 and time_ns >= SHORTEST_SPAN_NS]
    if not pairs:
        return Window(0.0, 0.0)
    span_ns = median(time_ns for _, time_ns in pairs)
    per_ns = median(cycles / time_ns for cycles, time_ns in pairs)
    return Window(cycles=per_ns * span_ns, span_s=span_ns * 1e-9)
