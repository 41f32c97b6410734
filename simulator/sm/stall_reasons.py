"""Why warps wait before an instruction: names and meanings of the reasons that the simulation of an SM tells apart."""

from dataclasses import dataclass

from ..core.sm import tables as sm


@dataclass(frozen=True, slots=True, kw_only=True)
class Stall:
    """A reason to wait. Args: number: its column in `CompiledCost.stalls`; meaning: half a sentence for people."""

    number: int
    name: str
    meaning: str


STALLS = tuple(
    Stall(number=number, name=name, meaning=meaning)
    for number, name, meaning in (
        (sm.FIXED, "fixed", "for the stall count of the one before"),
        (sm.SCOREBOARD, "scoreboard", "for a result without fixed latency"),
        (sm.COPIES, "copies", "for tiles under way from L2"),
        (sm.MATMULS, "products", "for tile products to end"),
        (sm.QUEUE, "product queue", "for room in the queue of products"),
        (sm.AT_BARRIER, "barrier", "for other warps at a barrier"),
        (sm.BUSY_PIPE, "busy pipe", "for a pipe that is in use"),
        (sm.NOT_SELECTED, "not selected", "for another warp that issues"),
        (sm.PORT_BUSY, "register port", "for the tensor core's register reads"),
    )
)
