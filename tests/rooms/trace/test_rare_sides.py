"""What threads do at branches whose conditions are not known: rare sides, calls of the runtime, waits, counters."""

from dataclasses import replace

import numpy as np
import pytest
from rooms.trace.test_representative_ctas import ADDRESS, COLUMN, CONSTANTS, MASK, X, subject_of
from support.listings import flow_of, listing
from tilesight.simulator.emulator.global_memory import Memory
from tilesight.simulator.emulator.storage import Storage
from tilesight.simulator.refusal import Refused
from tilesight.simulator.sass.local_memory import spilled_bytes
from tilesight.simulator.trace.cta.block_counts import count_blocks
from tilesight.simulator.trace.cta.knowable import find_unknown
from tilesight.simulator.trace.cta.rare_sides import RareSides
from tilesight.simulator.trace.cta.traced_kernel import TracedKernel
from tilesight.simulator.trace.cta.unknown_values import UnknownValues
from tilesight.simulator.trace.program.left_out import notes_on_outside_calls, notes_on_rare_sides

LOADED = (*COLUMN, MASK, *ADDRESS, "LDG.E R8, [R6.64]", "FSETP.GT.AND P1, PT, R8, 1e30, PT")
AT = 16 * len(LOADED)
LOOP = ("MOV R9, RZ", "IADD3 R9, R9, 0x1, RZ", "ISETP.NE.AND P2, PT, R9, 0x8, PT", f"@P2 BRA {AT + 32:#x}")
STORED = ("STG.E [R6.64], R8",)


def guarded(*side: str, after: tuple[str, ...] = STORED) -> tuple[str, ...]:
    """Code whose branch on what was loaded leads around some instructions."""
    return (*LOADED, f"@!P1 BRA {AT + 16 * (1 + len(side)):#x}", *side, *after)


def counted(subject: TracedKernel) -> tuple[np.ndarray, UnknownValues]:
    """Executions of each block of each CTA, and what was settled."""
    doubts = UnknownValues(subject)
    return count_blocks(subject, doubts).executions, doubts


def test_a_loop_behind_a_branch_on_values_is_never_taken_and_a_note_says_what_it_would_add() -> None:
    """The 3 instructions of its iterations count 8 times where a warp takes it."""
    subject = subject_of(*guarded(*LOOP))
    counts, doubts = counted(subject)
    assert counts.sum(axis=0).tolist() == [512, 0, 0, 512]
    (note,) = notes_on_rare_sides(subject, doubts, 0)
    never = len(LOADED) + 1 + len(STORED) + 1
    assert f"issues {(never + 1 + 3 * 8) / never:.1f} times as many" in note


@pytest.mark.parametrize(("value", "taken"), [(2e30, 512), (0.0, 0)])
def test_a_rare_side_is_taken_where_values_say_so_and_again_when_they_are_lost(value: float, taken: int) -> None:
    """The first of two rounds knows what was loaded; in the second it is computed by what is not modelled."""
    again = ("F2F.F32.F64 R8, R4", "IADD3 R10, R10, 0x1, RZ", "ISETP.NE.AND P3, PT, R10, 0x2, PT")
    head = ("MOV R10, RZ", *LOADED[:-1])
    begin = 16 * len(head)
    loop = ("MOV R9, RZ", "IADD3 R9, R9, 0x1, RZ", "ISETP.NE.AND P2, PT, R9, 0x8, PT", f"@P2 BRA {begin + 48:#x}")
    meet = begin + 16 * (2 + len(loop))
    code = (*head, LOADED[-1], f"@!P1 BRA {meet:#x}", *loop, *again, f"@P3 BRA {begin:#x}", *STORED)
    subject = subject_of(*code)
    memory = Memory([replace(X, fill=np.float32(value).tobytes())])
    subject = replace(subject, memory=memory, unknown=find_unknown(subject.flow, CONSTANTS, memory))
    counts, _ = counted(subject)
    assert counts.sum(axis=0)[2] == 2 * taken


def test_short_sides_of_a_branch_on_values_are_both_counted() -> None:
    """As in a warp that has diverged."""
    counts, doubts = counted(subject_of(*guarded("FADD R8, R8, R8")))
    assert counts.sum(axis=0).tolist() == [512, 512, 512]
    assert not doubts.rare_blocks and "both sides are counted" in next(iter(doubts.notes))


def test_a_return_on_values_is_not_taken() -> None:
    """Threads that went on are counted in full, and a note says that bytes are upper bounds."""
    counts, doubts = counted(subject_of(*LOADED, "@P1 EXIT", *STORED))
    assert counts.sum(axis=0).tolist() == [512, 512]
    assert "may return on " in next(iter(doubts.notes))


def test_a_branch_that_decides_whether_a_cta_has_work_is_not_rare() -> None:
    """Nothing but the end follows where its sides meet."""
    counts, doubts = counted(subject_of(*guarded(*LOOP, *STORED, after=())))
    assert not doubts.rare_blocks
    assert (counts[:, 1] > 0).all()


def test_a_loop_that_runs_until_values_converge_is_not_rare() -> None:
    """Its branch goes on while the number that was loaded is large: how often is not known."""
    body = ("FMUL R8, R8, 0.5", "FSETP.GT.AND P1, PT, R8, 1e30, PT", f"@P1 BRA {AT + 16:#x}")
    with pytest.raises(Refused, match="how often a loop runs depends on values computed from tensor x"):
        counted(subject_of(*guarded(*body)))


def test_an_array_in_local_memory_marks_a_slow_path_and_a_spilled_register_does_not() -> None:
    """An array is indexed."""
    array, spill = guarded("STL [R2], R8"), guarded("STL [R1+0x8], R8")
    assert RareSides(flow_of(*array, "EXIT")).rare(0) == 1
    assert RareSides(flow_of(*spill, "EXIT")).rare(0) is None


def test_a_side_that_calls_the_runtime_is_left_out() -> None:
    """A failed assertion, or a print: what follows is counted as if there was none."""
    subject = subject_of(*guarded("LDC.64 R2, c[0x4][R0]", "CALL.ABS.NOINC R2"))
    counts, _ = counted(subject)
    assert counts.sum(axis=0).tolist() == [512, 0, 512]
    (note,) = notes_on_outside_calls(subject)
    assert "a call of the CUDA runtime" in note and "CALL." not in note


def test_who_calls_the_runtime_comes_back() -> None:
    """As printf does where all threads print."""
    counts, _ = counted(subject_of(*COLUMN, *ADDRESS, "CALL.ABS.NOINC R2", *STORED))
    assert counts.tolist() == [[1, 1]] * 512


def test_a_lock_is_free_at_once_and_the_time_a_lower_bound() -> None:
    """The loop runs once."""
    lock = (*COLUMN, *ADDRESS, "ATOMG.E.CAS.STRONG.GPU PT, R8, [R6], R4, R5", "ISETP.NE.AND P1, PT, R8, RZ, PT")
    begin = 16 * (len(COLUMN) + len(ADDRESS))
    counts, doubts = counted(subject_of(*lock, f"@P1 BRA {begin:#x}", *STORED))
    assert counts.max() == 1
    assert doubts.lower_bound and "waits for other CTAs" in next(iter(doubts.notes))


COUNTER = Storage(number=1, size_bytes=64, name="arrived", whole=True)
ARRIVE = (
    *COLUMN, *ADDRESS, "ISETP.EQ.AND P0, PT, R0, RZ, PT", "MOV R10, c[0x0][0x220]", "MOV R11, c[0x0][0x224]",
    "IMAD.WIDE R10, R1, 0x4, R10", "@P0 ATOMG.E.ADD.STRONG.GPU PT, R12, desc[UR4][R10.64], 0x1",
    "ISETP.NE.AND P1, PT, R12, 0x1f, PT", "@P1 EXIT", *STORED,
)  # fmt: skip


def test_of_all_ctas_that_add_to_a_counter_the_last_one_goes_on() -> None:
    """512 CTAs, 32 for each of 16 counters: those of the last row of the grid."""
    pointer = {0x220: COUNTER.address & 0xFFFFFFFF, 0x224: COUNTER.address >> 32}
    subject = subject_of(*ARRIVE)
    subject = replace(subject, constants=CONSTANTS | pointer, memory=Memory([X, COUNTER]))
    counts, doubts = counted(subject)
    assert np.flatnonzero(counts[:, -1]).tolist() == list(range(496, 512))
    assert list(doubts.counters.used.values()) == ["arrived"]


def test_a_counter_goes_on_from_the_value_that_was_given() -> None:
    """Where it stands at 1 already, the last but one comes to the number that is waited for."""
    begun = replace(COUNTER, values=np.full(16, 1, dtype=np.int32).tobytes())
    pointer = {0x220: COUNTER.address & 0xFFFFFFFF, 0x224: COUNTER.address >> 32}
    subject = replace(subject_of(*ARRIVE), constants=CONSTANTS | pointer, memory=Memory([X, begun]))
    counts, _ = counted(subject)
    assert np.flatnonzero(counts[:, -1]).tolist() == list(range(480, 496))


def test_registers_that_are_stored_and_loaded_again_are_spills_and_arrays_are_not() -> None:
    """Of a frame of 64 bytes; what is stored alone is for a function that is called."""
    spill = ("STL.64 [R1+0x8], R4", "LDL.64 R4, [R1+0x8]", "EXIT")
    array = ("STL [R2], R4", "LDL R4, [R2+0x4]", "STL [R1+0x18], R0", "EXIT")
    assert spilled_bytes(listing(*spill), 64) == 64
    assert spilled_bytes(listing(*array), 64) == 0
    assert spilled_bytes(listing(*spill[:2], *array), 64) == 8
