"""What the code does not tell by itself, and how it is settled: or refused, in one line that names line and tensor.

Branches on computed values go both ways, by different lanes: both sides run, as in a warp whose lanes disagree.
Code that tries an atomic again until it succeeds does so at once.
What depends on whole numbers in memory that were not given is refused: they are an index, a length or a flag.
"""

from collections.abc import Iterable

import numpy as np

from ...sass.registers import guard_of, read
from ..deciding import slice_of
from ..operands import Threads
from ..values import Array
from .given import Refused, Subject

ATOMIC = frozenset({"ATOMG", "ATOM", "ATOMS", "ATOMGS"})
FETCHES = frozenset({"LDG", "LD", "LDGSTS"})


class Doubts:
    """Doubts about one launch. `notes`: what was settled without being known, one line each, with how often."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self.notes: dict[str, None] = {}
        self.unknown_places: set[int] = set()
        self.fetched_from: dict[int, int] = {}
        """Place of a load -> number of the storage that it reads."""

    def fetched(self, place: int, addresses: Array, active: Array) -> None:
        """Take down which storage a load reads, the first time that it does."""
        if place not in self.fetched_from:
            taking = np.broadcast_to(active, np.broadcast_shapes(active.shape, addresses.shape))
            chosen = np.broadcast_to(addresses, taking.shape)[taking]
            if chosen.size:
                self.fetched_from[place] = self._subject.memory.number_of(int(chosen.flat[0]))

    def settle(self, block: int, threads: Threads, holds: Array, known: Array) -> Array:
        """Who takes a branch whose condition is not known: as `jumps.Unsure`. Raises: Refused: nobody can tell."""
        flow = self._subject.flow
        place = flow.blocks[block].stop - 1
        instruction = flow.instructions[place]
        self.refuse_sources(place, read(instruction), f"{instruction.family} depends on")
        target = flow.block_at.get(instruction.target or -1, -1)
        around = range(target, block + 1) if 0 <= target <= block else range(0)
        if any(one.family in ATOMIC for number in around for one in flow.code(number)):
            text = "tries an atomic until it succeeds: taken to do so at once"
            self.notes[f"{self._subject.place_text(place)} {text}"] = None
            return np.asarray(holds & known)
        if instruction.family != "BRA" or around:
            raise Refused(
                f"{self._subject.place_text(place)} branches on computed values; cannot be predicted from code alone"
            )
        self.notes[f"{self._subject.place_text(place)} branches on computed values: both sides are counted"] = None
        odd = threads.special["SR_LANEID"][0] % 2 == 1
        return np.where(known, holds, odd)

    def address(self, place: int, names: tuple[str, ...] = ()) -> None:
        """An access at an address that is not known.

        Args:
            names: registers that tell it, where these are not all that the instruction names.

        Raises:
            Refused: it depends on values that could be given.
        """
        self.unknown_places.add(place)
        self.refuse_sources(place, names or read(self._subject.flow.instructions[place]), "its address depends on")
        self.notes[f"{self._subject.place_text(place)}: an address is not known; the access is left out"] = None

    def guard(self, place: int) -> None:
        """An access of which it is not known who takes part."""
        guards = guard_of(self._subject.flow.instructions[place])
        self._refuse(place, self.sources(place, guards), "who takes part in an access depends on")
        self.notes[f"{self._subject.place_text(place)}: a mask is not known; all are taken to take part"] = None

    def sources(self, place: int, registers: tuple[str, ...]) -> list[str]:
        """Names of storages of whole numbers without values that some registers may come from."""
        flow, memory = self._subject.flow, self._subject.memory
        found = slice_of(flow, {place: registers})
        loads = [one for block in found for one in block if flow.instructions[one].family in FETCHES and one != place]
        numbers = dict.fromkeys(self.fetched_from[one] for one in loads if one in self.fetched_from)
        storages = [memory.storages[number] for number in numbers if number in memory.storages]
        return [one.name for one in storages if one.whole and one.values is None]

    def refuse_sources(self, place: int, registers: tuple[str, ...], what: str) -> None:
        """See whether values that could be given would tell registers. Args: what: begin of the line if so.

        Raises:
            Refused: they would.
        """
        self._refuse(place, self.sources(place, registers), what)

    def _refuse(self, place: int, names: Iterable[str], what: str) -> None:
        for name in names:
            raise Refused(
                f"{self._subject.place_text(place)}: {what} tensor {name}, whose values are not known: "
                f"pass {name} as a CPU tensor"
            )
