"""Loads at indices that nobody knows before the launch: from small tables, and from tensors that L1 does not keep."""

from dataclasses import replace

import numpy as np
import pytest
from rooms.trace.test_representative_ctas import ADDRESS, COLUMN, CONSTANTS, LOAD, MASK, X, subject_of
from support.listings import words
from tilesight.simulator.emulator.global_memory import Memory
from tilesight.simulator.emulator.storage import Storage
from tilesight.simulator.trace.cta.address_slice import Tracer, find_slice
from tilesight.simulator.trace.cta.cta_run import CtaAccess, follow_ctas
from tilesight.simulator.trace.cta.tables import find_table
from tilesight.simulator.trace.cta.traced_kernel import TracedKernel
from tilesight.simulator.trace.cta.unknown_values import UnknownValues

TABLE = Storage(number=1, size_bytes=1024, name="table")
LARGE = replace(TABLE, size_bytes=64 * 4 * 32)
POINTER = words({0x220: TABLE.address & 0xFFFFFFFF, 0x224: TABLE.address >> 32})
LOOK_UP = ("IMAD.WIDE R10, R8, 0x4, c[0x0][0x220]", "LDG.E R9, [R10.64]")
EITHER = ("MOV R10, c[0x0][0x210]", "MOV R11, c[0x0][0x214]", "@P0 IMAD.WIDE R10, R8, 0x4, c[0x0][0x220]")


def launch_of(*code: str) -> TracedKernel:
    """A launch of these instructions, with a table beside `X`."""
    return replace(subject_of(*code), constants=CONSTANTS | POINTER, memory=Memory([X, TABLE]))


def looked_up(kept_bytes: float, table: Storage = TABLE) -> tuple[list[CtaAccess], list[str]]:
    """Accesses to the table by two CTAs, and the notes. Args: kept_bytes: of L1 for each CTA."""
    subject = replace(launch_of(*COLUMN, MASK, *ADDRESS, LOAD, *LOOK_UP), memory=Memory([X, table]))
    doubts = UnknownValues(subject, kept_bytes)
    runs = follow_ctas(Tracer(subject, find_slice(subject), doubts), [0, 3])
    place = len(subject.flow.instructions) - 2
    return [access for run in runs for access in run.accesses if access.place == place], list(doubts.notes)


@pytest.mark.parametrize(
    ("address", "table"),
    [((LOOK_UP[0],), TABLE), (("IMAD.WIDE R10, R4, 0x4, c[0x0][0x210]",), X), (EITHER, None)],
    ids=["an index that was loaded", "one that was not", "either of two pointers"],
)
def test_the_pointer_that_an_index_is_added_to_names_the_table(address: tuple[str, ...], table: Storage | None) -> None:
    """Where the index was loaded from does not count."""
    subject = launch_of(*COLUMN, MASK, *ADDRESS, LOAD, *address, LOOK_UP[1])
    place = len(subject.flow.instructions) - 2
    assert find_table(subject.flow, place, subject.constants, subject.memory) == table


def test_a_look_up_lies_anywhere_in_a_table_that_l1_keeps() -> None:
    """At whole elements all over it, in all CTAs alike, so that L1 has them; and a note says so."""
    (first, other), notes = looked_up(kept_bytes=TABLE.size_bytes)
    offsets = first.addresses - TABLE.address
    assert ((offsets >= 0) & (offsets < TABLE.size_bytes) & (offsets % 4 == 0)).all()
    assert len(np.unique(offsets // 32)) > 20, "of 32 sectors"
    assert np.array_equal(first.addresses, other.addresses)
    assert [note.rsplit("; ", 1)[1] for note in notes] == ["taken to lie anywhere in table"]


def test_a_look_up_elsewhere_lies_anywhere_each_lane_in_a_sector_of_its_own() -> None:
    """In a tensor of four sectors for each of 64 threads all of these differ, and another CTA touches others."""
    (first, other), notes = looked_up(kept_bytes=0, table=LARGE)
    sectors = [(access.addresses - LARGE.address) // 32 for access in (first, other)]
    assert all(((numbers >= 0) & (numbers < 256)).all() for numbers in sectors)
    assert [len(np.unique(numbers)) for numbers in sectors] == [64, 64]
    assert not np.array_equal(*sectors)
    assert "each lane is taken to touch a sector of its own, anywhere in table" in notes[-1]


def test_threads_share_the_sectors_of_a_tensor_that_has_fewer() -> None:
    """Of 1024 bytes 64 threads touch all 32."""
    (first, _), _ = looked_up(kept_bytes=0)
    assert np.unique((first.addresses - TABLE.address) // 32).tolist() == list(range(32))
