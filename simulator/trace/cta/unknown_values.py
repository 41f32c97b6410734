"""Doubts: branches, addresses and guards whose values are not known; each is settled by a rule, or refused.

A branch on computed values is taken by every other lane, so that both sides are executed, as in a diverged warp; but
the slow path of an IEEE division or square root is not taken. A loop that tries an atomic until it succeeds ends at
once. What depends on integers in memory whose values were not given is refused, in one line that names source line and
tensor: they are indices, lengths or flags.
"""

from collections.abc import Iterable

import numpy as np

from ...emulator.storage import MOST_VALUES_BYTES, Storage
from ...emulator.thread_values import Array
from ...emulator.threads import Threads
from ...refusal import Refused
from ...sass.memory_instructions import GLOBAL_LOADS, LOADS_AND_COPIES, is_atomic
from ...sass.registers import guard_of, read
from ..control_slice import reaching
from ..counters import Counters, find_counters
from .rare_sides import RareSides, skips_slow_path
from .tables import find_table
from .traced_kernel import TracedKernel
from .waiting import Waiting, find_waiting


class UnknownValues:
    """Doubts about one launch.

    `notes`: what was settled without being known, one line each; `unknown_places`: accesses whose addresses are not
    known; `estimated_places`: of these, those of which each lane is taken to touch a sector of its own;
    `fetched_from`: place of a load or an atomic -> number of the storage that it reads;
    `waiting`: loops that wait for other CTAs; `lower_bound`: whether waits were left out;
    `rare_blocks`: that end in a branch whose rare side no thread takes; `taking`: those where all do instead;
    `counters`: what additions to counters give back; `counter_places`: of these in the code;
    `extrapolated`: whether registers are not computed now but guessed: accesses then raise no doubt.

    Args:
        subject: the launch; kept_bytes: the largest storage that L1 keeps whole for a CTA [B].
    """

    def __init__(self, subject: TracedKernel, kept_bytes: float = 0.0) -> None:
        self._subject, self._kept_bytes = subject, kept_bytes
        self._tables: dict[int, Storage | None] = {}
        self.notes: dict[str, None] = {}
        self.unknown_places: set[int] = set()
        self.estimated_places: set[int] = set()
        self.fetched_from: dict[int, int] = {}
        self.waiting: Waiting = find_waiting(subject.flow)
        self.lower_bound = self.extrapolated = False
        self.rare_blocks: dict[int, None] = {}
        self.taking: frozenset[int] = frozenset()
        self.counters = Counters(subject.memory, subject.kernel.grid, subject.kernel.warps)
        self.counter_places = find_counters(subject.flow)
        self._sides = RareSides(subject.flow)
        self._origins: dict[tuple[int, tuple[str, ...]], list[int]] = {}

    def so_far(self) -> tuple[dict[str, None], set[int], set[int]]:
        """What `take_back` needs to come back to where it is now."""
        return dict(self.notes), set(self.unknown_places), set(self.estimated_places)

    def take_back(self, before: tuple[dict[str, None], set[int], set[int]]) -> None:
        """Forget remarks and places that came since, as threads have been followed in vain. Args: before: `so_far`."""
        self.notes, self.unknown_places, self.estimated_places = before

    def fetched(self, place: int, addresses: Array, active: Array) -> None:
        """Keep which storage a load reads, the first time that it is executed. Args: as in `address_slice.Record`."""
        if place not in self.fetched_from:
            taking = np.broadcast_to(active, np.broadcast_shapes(active.shape, addresses.shape))
            chosen = np.broadcast_to(addresses, taking.shape)[taking]
            if chosen.size:
                self.fetched_from[place] = self._subject.memory.number_of(int(chosen.flat[0]))

    def settle(self, block: int, threads: Threads, holds: Array, known: Array) -> Array:
        """Which threads take a branch whose condition is not known: as `compile_blocks.Unsure`.

        Raises:
            Refused: no rule settles it.
        """
        flow = self._subject.flow
        place = flow.blocks[block].stop - 1
        instruction = flow.instructions[place]
        skips = skips_slow_path(flow, block)
        if skips is not None:
            text = "has an IEEE division or square root: its slow path (denormals, overflow) is not counted"
            self.notes[f"{self._subject.place_text(place)} {text}"] = None
            return np.where(known, holds, skips)
        if (outside := self._sides.outside(block)) is not None:
            return np.where(known, holds, not self._is_taken(block, outside))
        if self._sides.holds_array(block) and self._is_rare(block):
            return self._settle_rare(block, threads, holds, known)
        loop = flow.loop_of(block)
        if self._polls(loop, self._origins_of(place, read(instruction))):
            return self._settle_wait(block, loop, holds, known)
        if self._ends_look_back(block, loop, self._origins_of(place, read(instruction))):
            return self._settle_wait(block, loop, holds, known)
        if loop in self.waiting.retries:
            self.refuse_unknown(place, read(instruction), "a branch depends on")
            text = "tries an atomic until it succeeds: taken to do so at once"
            self.notes[f"{self._subject.place_text(place)} {text}"] = None
            return np.asarray(holds & known)
        self._refuse_atomic(place, read(instruction))
        self.refuse_unknown(place, read(instruction), "a branch depends on")
        decides = self._decides_trips(block) if instruction.family == "BRA" else loop >= 0
        if instruction.family != "BRA" or decides:
            names = self._names(self._origins_of(place, read(instruction)))
            values = f"values computed from tensor {names[0]}" if names else "computed values"
            if instruction.family == "EXIT" and not decides:
                text = f"may return on {values}: taken to go on, so bytes and time are upper bounds"
                self.notes[f"{self._subject.place_text(place)} {text}"] = None
                return np.asarray(holds & known)
            what = "how often a loop runs" if instruction.family == "BRA" else "which threads go on"
            raise Refused(
                f"{self._subject.place_text(place)}: {what} depends on {values}: cannot be predicted from code alone"
            )
        if self._is_rare(block):
            return self._settle_rare(block, threads, holds, known)
        self.notes[f"{self._subject.place_text(place)} branches on computed values: both sides are counted"] = None
        odd = threads.special["SR_LANEID"][0] % 2 == 1
        return np.where(known, holds, odd)

    def _is_taken(self, block: int, side: int) -> bool:
        """Whether a side is where the branch of a block jumps to, and not what follows the block."""
        flow = self._subject.flow
        return flow.block_at.get(flow.code(block)[-1].target or -1, -1) == side

    def _is_rare(self, block: int) -> bool:
        """Whether a block has a rare side, whose loops run as often as the launch says: not until values converge."""
        flow = self._subject.flow
        ends = [flow.blocks[inside].stop - 1 for inside in self._sides.exits(block)]
        return self._sides.rare(block) is not None and not any(
            self._origins_of(place, read(flow.instructions[place])) for place in ends
        )

    def _settle_rare(self, block: int, threads: Threads, holds: Array, known: Array) -> Array:
        """Threads go where they went when they last knew; else none takes the rare side of a branch.

        All do where that is asked for.
        """
        if block in threads.took and block not in self.taking:
            return np.where(known, holds, threads.took[block])
        side = self._sides.rare(block)
        taken = self._is_taken(block, -1 if side is None else side)
        if block not in self.taking:
            self.rare_blocks[block] = None
            taken = not taken
        return np.where(known, holds, taken)

    def _settle_wait(self, block: int, loop: int, holds: Array, known: Array) -> Array:
        """All threads leave a loop that waits for other CTAs."""
        flow = self._subject.flow
        leaves = [side for side in flow.blocks[block].successors if side not in flow.loops[loop].blocks]
        if len(leaves) != 1:
            raise Refused(
                f"{self._subject.place_text(flow.blocks[block].stop - 1)} waits for other CTAs through memory in a loop"
                " of several exits: not modelled"
            )
        polled = sorted(self.waiting.polls.get(loop) or self.waiting.looks_back[loop])
        names = self._names(polled)
        what = f" (it polls {names[0]})" if names else ""
        self.lower_bound = True
        text = f"waits for other CTAs{what}: taken never to wait; the time is a lower bound"
        self.notes[f"{self._subject.place_text(polled[0])} {text}"] = None
        return np.where(known, holds, self._is_taken(block, leaves[0]))

    def base(self, place: int) -> Storage | None:
        """The storage that an access of unknown address lies in; None where several may be. Args: place: of it."""
        if place not in self._tables:
            subject = self._subject
            self._tables[place] = find_table(subject.flow, place, subject.constants, subject.memory)
        return self._tables[place]

    def is_table(self, place: int) -> bool:
        """Whether a load of unknown address looks up values in a storage that L1 keeps whole. Args: place: of it."""
        table = self.base(place)
        plain = self._subject.flow.instructions[place].family in GLOBAL_LOADS
        return table is not None and plain and table.size_bytes <= self._kept_bytes

    def address(self, place: int, names: tuple[str, ...] = ()) -> None:
        """Settle an access whose address is not known: it lies anywhere in its storage; left out where that is unknown.

        Args:
            names: registers of the address; empty: all that the instruction reads.

        Raises:
            Refused: it depends on values that could be given.
        """
        if self.extrapolated:
            return
        self.unknown_places.add(place)
        registers = names or read(self._subject.flow.instructions[place])
        self._refuse_atomic(place, registers)
        self.refuse_unknown(place, registers, "its address depends on")
        storage = None if names else self.base(place)
        if storage is None:
            what = "an address is not known, nor in which tensor it lies; the access is left out: bytes are too low"
        elif self.is_table(place):
            what = f"an address is computed from values; taken to lie anywhere in {storage.name}"
        else:
            self.estimated_places.add(place)
            what = (
                "an address is computed from values; each lane is taken to touch a sector of its own, anywhere in "
                f"{storage.name}: its bytes are an upper bound"
            )
        self.notes[f"{self._subject.place_text(place)}: {what}"] = None

    def guard(self, place: int) -> None:
        """Let all threads take part in an access whose guard is not known. Raises: as `address`."""
        if self.extrapolated:
            return
        guards = guard_of(self._subject.flow.instructions[place])
        self._refuse_atomic(place, guards)
        self.refuse_unknown(place, guards, "who takes part in an access depends on")
        self.notes[
            f"{self._subject.place_text(place)}: a mask is computed from values; all lanes are taken to take part"
        ] = None

    def _decides_trips(self, block: int) -> bool:
        """Whether a branch decides a trip count: it jumps back, or out of its loop."""
        flow = self._subject.flow
        loop, successors = flow.loop_of(block), flow.blocks[block].successors
        return any(target <= block for target in successors) or (
            loop >= 0 and not flow.loops[loop].blocks.issuperset(successors)
        )

    def _origins_of(self, place: int, registers: tuple[str, ...]) -> list[int]:
        """Places of the loads and atomics that registers may be computed from, through shared memory too."""
        key = place, registers
        if key not in self._origins:
            code, code_slice = self._subject.flow.instructions, reaching(self._subject.flow, {place: registers})
            places = [other for block in code_slice for other in block if other != place]
            self._origins[key] = [
                other for other in places if code[other].family in LOADS_AND_COPIES or is_atomic(code[other])
            ]
        return self._origins[key]

    def _names(self, places: Iterable[int]) -> list[str]:
        """Names of the tensors that some accesses touch."""
        storages = self._subject.memory.storages
        numbers = dict.fromkeys(self.fetched_from[place] for place in places if place in self.fetched_from)
        return [storages[number].name for number in numbers if number in storages]

    def _polls(self, loop: int, origins: Iterable[int]) -> bool:
        """Whether what a loop polls is among some places."""
        return not self.waiting.polls.get(loop, frozenset()).isdisjoint(origins)

    def _ends_look_back(self, block: int, loop: int, origins: Iterable[int]) -> bool:
        """Whether a branch ends a walk over CTAs before this one by what the last of them has told."""
        flow = self._subject.flow
        leaves = loop >= 0 and any(side not in flow.loops[loop].blocks for side in flow.blocks[block].successors)
        return leaves and not self.waiting.looks_back.get(loop, frozenset()).isdisjoint(origins)

    def _refuse_atomic(self, place: int, registers: tuple[str, ...]) -> None:
        code = self._subject.flow.instructions
        # What a lock gave back says nothing more once it is free, though it may lie in shared memory beside data.
        origins = (other for other in self._origins_of(place, registers) if other not in self.waiting.polled)
        atomics = [other for other in origins if is_atomic(code[other])]
        if not atomics:
            return
        names = self._names(atomics)
        tensor = f" on tensor {names[0]}" if names else ""
        raise Refused(
            f"{self._subject.place_text(place)} uses the result of an atomic{tensor}: CTA order decides what it does"
        )

    def refuse_unknown(self, place: int, registers: tuple[str, ...], what: str) -> None:
        """Refuse registers that depend on integers in memory whose values were not given.

        Args:
            what: begin of the refusal.

        Raises:
            Refused: they do.
        """
        memory = self._subject.memory
        origins = (other for other in self._origins_of(place, registers) if other not in self.waiting.polled)
        numbers = dict.fromkeys(self.fetched_from[other] for other in origins if other in self.fetched_from)
        storages = [memory.storages[number] for number in numbers if number in memory.storages]
        for storage in [storage for storage in storages if storage.whole and not storage.is_known]:
            name, origin = storage.name, f" ({storage.origin})" if storage.origin else ""
            cure = storage.cure or f"pass {name} as a CPU tensor"
            if storage.size_bytes > MOST_VALUES_BYTES:
                cure = f"it takes {storage.size_bytes:,} B, values are read of up to {MOST_VALUES_BYTES:,} B"
            raise Refused(
                f"{self._subject.place_text(place)}: {what} tensor {name}, whose values are not known{origin}: {cure}"
            )
