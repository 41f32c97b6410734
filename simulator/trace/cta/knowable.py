"""Instructions whose results are never known, in any thread of any CTA: they depend on data that were not given.

A forward data-flow analysis of what slices may hold: what reads unknown registers writes unknown ones. A slice keeps
such an instruction, which marks its registers as unknown, but not the code that computes its operands. A register that
is taken to be knowable and is not costs time alone; so it is taken to be, where in doubt.

Source: the analysis is constant propagation without the constants; Nielson, Nielson and Hankin,
"Principles of Program Analysis" (1999), section 2.3.3.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np

from ...emulator.global_memory import Memory
from ...emulator.storage import Storage
from ...emulator.tma.written import descriptor_writes
from ...limits import POINTER_BYTES, WORD_BYTES
from ...sass.flow import FLOWS_KEPT, Flow
from ...sass.graph import predecessors
from ...sass.memory_instructions import SHARED_LOADS, SHARED_STORES
from ..control_slice import reaching
from ..counters import counted, find_counters
from .address_slice import find_accesses
from .transfer import NO_RULE, NOTHING, Rule, State, Transfer, TransferRules


def find_unknown(flow: Flow, constants: Mapping[int, int], memory: Memory) -> frozenset[int]:
    """Places of instructions that write registers none of which may be known afterwards.

    Args:
        constants: address in constant bank 0 [B] -> 32-bit word; memory: what the launch's pointers point to.
    """
    valued = [storage for storage in memory.storages.values() if storage.is_known]
    return _unknown(flow, _pointers(constants, valued), any(_holds_pointers(storage, valued) for storage in valued))


@lru_cache(maxsize=FLOWS_KEPT)
def _unknown(flow: Flow, pointers: frozenset[int], to_pointers: bool) -> frozenset[int]:
    """The same. Args: pointers: as `_pointers`; to_pointers: whether any memory with values may hold some."""
    if descriptor_writes(flow):
        return frozenset()  # words of a TMA descriptor are read in shared memory, known or not
    reader = TransferRules(pointers, to_pointers)
    wanted = {place for block in reaching(flow, find_accesses(flow).roots) for place in block}
    rules = [
        reader.rule_of(instruction) if place in wanted else NO_RULE
        for place, instruction in enumerate(flow.instructions)
    ]
    for place in wanted & find_counters(flow).keys():
        rules[place] = rules[place]._replace(transfer=_known(reader.set_of(counted(flow.instructions[place]))))
    states = _before_each(flow, rules, reader.all_registers)
    if any(
        rule.known_data or rule.data & state.known or rule.pointers & state.pointers
        for rule, state in zip(rules, states, strict=True)
    ):
        reader.shared = True
        rules = [
            reader.rule_of(instruction) if rule.results and instruction.family in SHARED_LOADS else rule
            for instruction, rule in zip(flow.instructions, rules, strict=True)
        ]
        states = _before_each(flow, rules, reader.all_registers)
    return frozenset(
        place
        for place, (instruction, rule, state) in enumerate(zip(flow.instructions, rules, states, strict=True))
        if rule.results and instruction.family not in SHARED_STORES and not any(rule.transfer(state)[:2])
    )


def _known(results: int) -> Transfer:
    """Registers may be known in any case. Args: results: them, as a set of bits."""
    return lambda before: State(known=results)


def _holds_pointers(storage: Storage, valued: Sequence[Storage]) -> bool:
    """Whether any 64-bit word in memory may be a pointer to memory with values."""
    data = storage.values or storage.fill * POINTER_BYTES
    words = np.frombuffer(data[: len(data) // POINTER_BYTES * POINTER_BYTES], dtype=np.int64)
    return any(bool(np.any((words >= to.address) & (words <= to.address + to.size_bytes))) for to in valued)


def _pointers(constants: Mapping[int, int], valued: Sequence[Storage]) -> frozenset[int]:
    """Addresses in constant bank 0 [B] of both words of each pointer to memory with values."""
    places: set[int] = set()
    for low in constants if valued else ():
        high = low + WORD_BYTES
        if low % POINTER_BYTES or high not in constants:
            continue
        pointer = constants[high] << 32 | constants[low]
        if any(storage.address <= pointer <= storage.address + storage.size_bytes for storage in valued):
            places |= {low, high}
    return frozenset(places)


def _before_each(flow: Flow, rules: Sequence[Rule], all_registers: int) -> list[State]:
    """State before each instruction, on any path. Args: all_registers: a set of bits, as in `State`."""
    blocks = flow.blocks
    above = predecessors([block.successors for block in blocks])
    # At the entry registers are 0, which is known.
    begins = [NOTHING if above[number] and number else State(known=all_registers) for number in range(len(blocks))]
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
    """State after an instruction."""
    if not rule.results:
        return before
    written = rule.transfer(before)
    if rule.guarded:
        return before.joined(written)
    kept = ~rule.results
    return State(
        before.known & kept | written.known,
        before.partly & kept | written.partly,
        before.pointers & kept | written.pointers,
    )
