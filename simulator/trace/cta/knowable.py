"""Instructions whose results are never known: they compute with data that nobody gave, in whatever CTA.

They are looked for once per launch, forwards through the code: where no thread can know what an instruction reads, none
knows what it writes. A slice keeps such an instruction, which makes its registers unknown, but not what it is computed
from. What is wrongly taken to be knowable costs time alone; so where in doubt, it is.

Source: a forward data-flow analysis like constant propagation, without the constants; Nielson, Nielson and Hankin,
"Principles of Program Analysis" (1999), section 2.3.3.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from ...sass.flow import Flow
from ...sass.graph import predecessors
from ..deciding import SHARED_LOADS
from ..memory import Memory, Storage
from ..shared_accesses import STORES
from ..tma.written import descriptor_writes
from .knowing import NOTHING, Knowing, Rule, State

POINTER_BYTES, WORD_BYTES = 8, 4


def find_unknown(flow: Flow, constants: Mapping[int, int], memory: Memory) -> frozenset[int]:
    """Places of instructions that write registers of which nothing is known afterwards.

    Args:
        constants: address in constant bank 0 [B] -> 32-bit word; memory: what the launch was given.
    """
    if descriptor_writes(flow):
        return frozenset()  # the words of a descriptor are looked at in shared memory, known or not
    valued = [storage for storage in memory.storages.values() if storage.values is not None]
    reader = Knowing(_pointers(constants, valued), any(_holds_pointers(storage, valued) for storage in valued))
    rules = [reader.rule_of(instruction) for instruction in flow.instructions]
    states = _before_each(flow, rules, reader.every)
    if any(
        rule.known_data or rule.data & state.known or rule.leading & state.leading
        for rule, state in zip(rules, states, strict=True)
    ):
        reader.shared = True
        rules = [
            reader.rule_of(instruction) if instruction.family in SHARED_LOADS else rule
            for instruction, rule in zip(flow.instructions, rules, strict=True)
        ]
        states = _before_each(flow, rules, reader.every)
    return frozenset(
        place
        for place, (instruction, rule, state) in enumerate(zip(flow.instructions, rules, states, strict=True))
        if rule.results and instruction.family not in STORES and not any(rule.made(state)[:2])
    )


def _holds_pointers(storage: Storage, valued: Sequence[Storage]) -> bool:
    """Whether any values in memory may be addresses of memory with values."""
    data = storage.values or b""
    words = np.frombuffer(data[: len(data) // POINTER_BYTES * POINTER_BYTES], dtype=np.int64)
    return any(bool(np.any((words >= to.address) & (words <= to.address + to.size_bytes))) for to in valued)


def _pointers(constants: Mapping[int, int], valued: Sequence[Storage]) -> frozenset[int]:
    """Addresses in the bank of both words of the pointers to memory with values."""
    places: set[int] = set()
    for low in constants if valued else ():
        high = low + WORD_BYTES
        if low % POINTER_BYTES or high not in constants:
            continue
        pointer = constants[high] << 32 | constants[low]
        if any(storage.address <= pointer <= storage.address + storage.size_bytes for storage in valued):
            places |= {low, high}
    return frozenset(places)


def _before_each(flow: Flow, rules: Sequence[Rule], every: int) -> list[State]:
    """What may be known before each instruction, by whatever way a thread came there. Args: every: all registers."""
    blocks = flow.blocks
    above = predecessors([block.successors for block in blocks])
    # What nothing has been written to reads as 0, which is known.
    begins = [NOTHING if above[number] and number else State(known=every) for number in range(len(blocks))]
    waiting = list(range(len(blocks)))[::-1]
    while waiting:
        number = waiting.pop()
        state = begins[number]
        for rule in rules[blocks[number].first : blocks[number].stop]:
            state = _after(rule, state)
        for successor in blocks[number].successors:
            joined = begins[successor].joined(state)
            if joined != begins[successor]:
                begins[successor] = joined
                waiting += [successor] if successor not in waiting else []
    states: list[State] = []
    for block, state in zip(blocks, begins, strict=True):
        for rule in rules[block.first : block.stop]:
            states.append(state)
            state = _after(rule, state)
    return states


def _after(rule: Rule, before: State) -> State:
    """What may be known behind an instruction."""
    if not rule.results:
        return before
    made = rule.made(before)
    if rule.guarded:
        return before.joined(made)
    left = ~rule.results
    return State(
        before.known & left | made.known, before.partly & left | made.partly, before.leading & left | made.leading
    )
