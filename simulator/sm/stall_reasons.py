"""Why warps wait before an instruction: names and meanings of the reasons that the simulation of an SM tells apart."""

from dataclasses import dataclass

from ..core.sm import state


@dataclass(frozen=True, slots=True, kw_only=True)
class Stall:
    """A reason to wait.

    Args:
        number: its column in `CompiledCost.stalls`.
        name: for tables.
        meaning: half a sentence for people.
    """

    number: int
    name: str
    meaning: str


STALLS = tuple(
    Stall(number=number, name=name, meaning=meaning)
    for number, name, meaning in (
        (state.FIXED, "fixed", "out the fixed latency that the compiler has set (stall count)"),
        (state.SCOREBOARD, "scoreboard", "for a result of variable latency: a load, a shuffle, MUFU"),
        (state.COPIES, "copies", "for tiles in flight from L2"),
        (state.MATMUL_END, "matmuls", "for matrix products of its warpgroup to end"),
        (state.MATMUL_QUEUE, "matmul queue", "for room in the queue of asynchronous matrix products"),
        (state.AT_BARRIER, "barrier", "for other warps at a barrier"),
        (state.BUSY_PIPE, "busy pipe", "for a pipe that is in use"),
        (state.NOT_SELECTED, "not selected", "ready, as another warp issues"),
        (state.PORT_BUSY, "register port", "for the tensor core's register reads"),
        (state.FETCH, "instruction fetch", "for code that its instruction cache no longer has"),
    )
)
