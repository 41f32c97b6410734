"""Tracers that follow what a few accesses need: what all others need differs among CTAs, and most instructions are for.

A branch of which all CTAs of a class run one side alone is not looked at, as each division of 64 bits has one by
which rows wrap around; nor is one behind the last of the accesses, as that by which rows of padding are not stored.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from ...sass.flow import BRANCHES, FLOWS_KEPT, Flow
from ...sass.traps import followed_edges
from ..cta.address_slice import AddressSlice, Tracer, narrow_slice
from ..cta.cta_run import CtaRun

Blocks = frozenset[int]


def narrowed(tracer: Tracer, run: CtaRun, places: frozenset[int]) -> Tracer:
    """A tracer that follows what the accesses at some places need; it records the loads that these need, too.

    Args:
        run: a CTA of those that will be followed, which all run the same blocks.

    Returns:
        The tracer itself where TMA copies: there accesses are followed together.
    """
    code_slice = tracer.code_slice
    if not may_narrow(code_slice):
        return tracer
    executed, subject = frozenset[int]().union(*set(run.blocks)), tracer.subject
    part = _narrowed(subject.flow, subject.unknown, subject.memory.has_values, executed, places, subject.stored)
    return replace(tracer, code_slice=part)


def may_narrow(code_slice: AddressSlice) -> bool:
    """Whether accesses can be followed one without the other."""
    return not (code_slice.copying or code_slice.writes)


def by_tensor(tracer: Tracer, run: CtaRun, places: frozenset[int]) -> list[frozenset[int]]:
    """Places of accesses in blocks that a CTA runs, by the tensor that it touches there.

    Args:
        run: the CTA; places: of accesses.

    Returns:
        One group where they cannot be told apart: the CTA leaves some of them out, or all are followed together.
    """
    if not may_narrow(tracer.code_slice):
        return [places]
    number_of, tensor_of = tracer.subject.memory.number_of, dict[int, int]()
    for access in run.accesses:
        if access.place in places and access.place not in tensor_of:
            tensor_of[access.place] = number_of(int(access.taken[0]))
    executed = frozenset[int]().union(*set(run.blocks))
    run_places = places & {place for block in executed for place in tracer.code_slice.places[block]}
    if run_places - tensor_of.keys():
        return [run_places]
    return [frozenset(place for place in tensor_of if tensor_of[place] == tensor) for tensor in {*tensor_of.values()}]


@lru_cache(maxsize=FLOWS_KEPT)
def _narrowed(
    flow: Flow,
    unknown: frozenset[int],
    given: bool,
    executed: Blocks,
    places: frozenset[int],
    stored: frozenset[int] | None,
) -> AddressSlice:
    """The slice behind some accesses. Args: unknown, given, stored: as there; executed: blocks that are run."""
    edges = [[to for to in ways if to in executed] for ways in followed_edges(flow)]
    wanted = {block for block in executed if not places.isdisjoint(_places(flow, block))}
    leads = _leading_to(wanted, edges)
    successor: dict[int, int | None] = {
        block: None for block in range(len(edges)) if not leads.intersection(edges[block])
    }
    for block in executed - successor.keys():
        if len(edges[block]) == 1 and flow.code(block)[-1].family in BRANCHES:
            successor[block] = edges[block][0]
    return narrow_slice(flow, unknown, given, places, successor, executed & leads, stored)


def _places(flow: Flow, block: int) -> range:
    return range(flow.blocks[block].first, flow.blocks[block].stop)


def _leading_to(wanted: set[int], edges: Sequence[Sequence[int]]) -> set[int]:
    """Blocks from which some can be reached, and these."""
    leads = set(wanted)
    while more := {block for block, ways in enumerate(edges) if block not in leads and leads.intersection(ways)}:
        leads |= more
    return leads
