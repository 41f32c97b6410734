"""How often blocks run: loops, roles of warps, threads that go apart, and what cannot be known."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.listings import flow_of, launch_of, words
from tilesight.simulator.emulator.compile_blocks import compile_blocks
from tilesight.simulator.emulator.run_blocks import run_blocks
from tilesight.simulator.emulator.threads import Threads
from tilesight.simulator.sass.constants import BANK_ADDRESS, Parameter, bank_place, constant_bank
from tilesight.simulator.trace.control_slice import control_slice
from tilesight.simulator.trace.executions import executed_instructions, executions, paths

A, B = "c[0x0][0x210]", "c[0x0][0x214]"
COUNT_UP = ("IADD3 R0, R0, 0x1, RZ", f"ISETP.LT.AND P0, PT, R0, {A}, PT")


def loop(*body: str, at: int) -> tuple[str, ...]:
    """R0 from 0 to the first parameter. Args: body: of the loop; at: place of its first instruction."""
    return ("MOV R0, RZ", *body, *COUNT_UP, f"@P0 BRA {16 * at:#x}")


@given(st.integers(1, 40), st.integers(1, 5), st.integers(1, 3))
def test_a_loop_runs_as_often_as_its_counter_says(trips: int, warps: int, ctas: int) -> None:
    """Instructions are those before, trips times those in, and those after the loop, for every warp."""
    flow = flow_of(*loop("FADD R4, R4, R5", at=1), "EXIT")
    count = executed_instructions(flow, launch_of(ctas, warps=warps), words({0x210: trips}))
    assert count == (1 + 4 * trips + 1) * warps * ctas


@given(st.integers(0, (1 << 31) - 1), st.integers(1, 1 << 30), st.integers(1, 30))
def test_a_division_by_a_reciprocal_is_exact(remainder: int, divisor: int, quotient: int) -> None:
    """The number of a tile, which ptxas divides by way of a float, would be off by one."""
    divisor = min(divisor, ((1 << 31) - 1) // (quotient + 1))
    dividend = quotient * divisor + remainder % divisor
    flow = flow_of(
        f"I2F.U32.RP R0, {B}",
        "MUFU.RCP R0, R0",
        "IADD3 R2, R0, 0xffffffe, RZ",
        "F2I.FTZ.U32.TRUNC.NTZ R3, R2",
        "MOV R2, RZ",
        "IADD3 R5, RZ, -R3, RZ",
        f"IMAD R5, R5, {B}, RZ",
        "IMAD.HI.U32 R3, R3, R5, R2",
        f"IMAD.HI.U32 R3, R3, {A}, RZ",
        "IADD3 R5, -R3, RZ, RZ",
        f"IMAD R5, R5, {B}, {A}",
        f"ISETP.GE.U32.AND P0, PT, R5, {B}, PT",
        f"@P0 IADD3 R5, R5, -{B}, RZ",
        "@P0 IADD3 R3, R3, 0x1, RZ",
        f"ISETP.GE.U32.AND P1, PT, R5, {B}, PT",
        "@P1 IADD3 R3, R3, 0x1, RZ",
        "MOV R0, RZ",
        "IADD3 R0, R0, 0x1, RZ",
        "ISETP.LT.U32.AND P0, PT, R0, R3, PT",
        "@P0 BRA 0x110",
        "EXIT",
    )
    counts = executions(flow, launch_of(), words({0x210: dividend, 0x214: divisor})).counts
    assert counts[0, 0].tolist() == [1, quotient, 1]


def test_each_cta_runs_its_own_trips() -> None:
    """CTAs of a causal launch, whose trips grow with their number, would all be counted like the first."""
    flow = flow_of(
        "S2R R1, SR_CTAID.X",
        "MOV R0, RZ",
        "IADD3 R0, R0, 0x1, RZ",
        "ISETP.LE.AND P0, PT, R0, R1, PT",
        "@P0 BRA 0x20",
        "EXIT",
    )
    counted = executions(flow, launch_of(5), {})
    assert counted.counts[:, 0, 1].tolist() == [1, 2, 3, 4, 5]
    assert counted.instructions(flow) == 5 * 3 + 3 * 15
    assert counted.per_place(flow).tolist() == [5, 5, 15, 15, 15, 5]


def test_ctas_that_repeat_are_followed_once() -> None:
    """A million CTAs of one kind would be followed one by one; of a persistent grid each has its own share."""
    flow = flow_of("S2R R1, SR_CTAID.X", "ISETP.EQ.AND P0, PT, R1, RZ, PT", "@P0 EXIT", "NOP", "EXIT")
    counted = executions(flow, launch_of(12, period=3), {})
    assert counted.copies.tolist() == [4, 4, 4]
    assert counted.instructions(flow) == 4 * 3 + 8 * 5
    persistent = executions(flow, launch_of(7, period=3, items=21), {})
    assert persistent.instructions(flow) == 3 + 6 * 5


def test_a_warp_whose_lanes_go_apart_runs_both_ways() -> None:
    """A branch that half a warp takes would count for one side only, or for each lane."""
    flow = flow_of(
        "S2R R0, SR_TID.X",
        "ISETP.LT.U32.AND P0, PT, R0, 0x10, PT",
        "@P0 BRA 0x50",
        "NOP",
        "BRA 0x70",
        "NOP",
        "NOP",
        "EXIT",
    )
    counted = executions(flow, launch_of(warps=2), {})
    assert counted.counts[0].tolist() == [[1, 1, 1, 1], [1, 1, 0, 1]]
    # The lower address first, and all lanes together again where the ways meet.
    assert paths(flow, launch_of(warps=2), {}) == ((0, 1, 2, 3), (0, 1, 3))


def test_each_part_of_a_warp_comes_to_the_meeting_point_by_itself() -> None:
    """Parts that have gone apart issue the BSYNC one after the other, and go on together behind it."""
    flow = flow_of(
        "S2R R0, SR_TID.X",
        "LOP3.LUT P0, RZ, R0, 0x3, RZ, 0xc0, !PT",
        "BSSY B0, 0x60",
        "@P0 BRA 0x50",
        "STS [R1], R2",
        "BSYNC B0",
        "EXIT",
    )
    counted = executions(flow, launch_of(3, warps=2), {})
    assert counted.counts[0].tolist() == [[1, 1, 1]] * 2
    assert counted.instructions(flow) == 3 * 2 * (7 + 1)
    assert counted.per_place(flow).tolist() == [6, 6, 6, 6, 6, 12, 6]


def test_workers_follow_what_the_first_warp_leaves_in_shared_memory() -> None:
    """Specialised warps sit in a loop that asks shared memory what to do next; they would be lost there."""
    flow = flow_of(
        "S2R R0, SR_TID.X",
        "UMOV UR4, 0x400",
        "SHF.R.U32.HI R1, RZ, 0x5, R0",
        "R2UR UR5, R1",
        "ISETP.NE.U32.AND P0, PT, R1, RZ, PT",
        "@P0 BRA 0xb0",
        "MOV R2, 0x20100",  # 0x60, warp 0: states of warps 0, 1 and 2
        "STS [UR4+0x100], R2",
        "BAR.SYNC.DEFER_BLOCKING 0x1",
        "BAR.SYNC.DEFER_BLOCKING 0x1",
        "EXIT",
        "BAR.SYNC.DEFER_BLOCKING 0x1",  # 0xb0, workers
        "LDS.U8 R3, [UR5+UR4+0x100]",
        "ISETP.EQ.U32.AND P0, PT, R3, 0x2, PT",
        "@P0 BRA 0x110",
        "STS [R8], R9",  # state 1
        "NOP",
        "BAR.SYNC.DEFER_BLOCKING 0x1",  # 0x110
        "EXIT",
    )
    assert paths(flow, launch_of(warps=3), {}) == ((0, 1), (0, 2, 3, 4), (0, 2, 4))


def test_a_barrier_that_not_all_come_to_is_told() -> None:
    """A kernel whose warps wait for each other for ever would run for ever here, too."""
    flow = flow_of(
        "LDS R1, [UR4]",
        "ISETP.EQ.AND P1, PT, R1, RZ, PT",
        "BAR.SYNC.DEFER_BLOCKING 0x3, 0x40",
        "@P1 EXIT",
        "EXIT",
    )
    with pytest.raises(ValueError, match="warps wait at barrier 3, where other warps of their CTA never come"):
        executions(flow, launch_of(warps=1), {})


def test_arriving_at_a_barrier_does_not_hold_a_warp() -> None:
    """A producer that only reports would wait for its consumers."""
    flow = flow_of(
        "S2R R0, SR_TID.X",
        "ISETP.GE.U32.AND P0, PT, R0, 0x20, PT",
        "@P0 BRA 0x60",
        "LDS R1, [RZ]",
        "BAR.ARV 0x2, 0x40",
        "EXIT",
        "BAR.SYNC.DEFER_BLOCKING 0x2, 0x40",
        "LDS R1, [RZ]",
        "ISETP.EQ.AND P1, PT, R1, RZ, PT",
        "@P1 EXIT",
        "EXIT",
    )
    assert paths(flow, launch_of(warps=2), {}) == ((0, 1), (0, 2))


def test_waits_succeed_at_once() -> None:
    """A wait for an mbarrier, whose end nobody knows, would be an unknown branch."""
    flow = flow_of("SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR4+0x10], R5", "@!P0 BRA 0x0", "EXIT")
    assert paths(flow, launch_of(), {}) == ((0, 1),)


def test_spilled_counters_are_found_again() -> None:
    """A loop whose bound has been spilled to the stack would be an unknown branch."""
    flow = flow_of(
        f"MOV R4, {A}",
        "STL [R1+0x8], R4",
        "MOV R4, RZ",
        "LDL R4, [R1+0x8]",
        "MOV R0, RZ",
        "IADD3 R0, R0, 0x1, RZ",
        "ISETP.LT.AND P0, PT, R0, R4, PT",
        "@P0 BRA 0x50",
        "EXIT",
    )
    assert executions(flow, launch_of(), words({0x210: 6})).counts[0, 0].tolist() == [1, 6, 1]


def test_predicates_are_kept_as_bits_of_a_word() -> None:
    """The bits are set one by one in a word that holds nothing yet; a branch on one would be unknown."""
    flow = flow_of(
        f"ISETP.EQ.AND P1, PT, {A}, 0x5, PT",
        "LOP3.LUT R108, R108, 0xfffffffb, RZ, 0xc0, !PT",
        "@P1 LOP3.LUT R108, R108, 0x4, RZ, 0xfc, !PT",
        "LOP3.LUT P0, RZ, R108, 0x4, RZ, 0xc0, !PT",
        "@P0 BRA 0x60",
        "NOP",
        "P2R R9, PR, RZ, 0x3",
        "R2P PR, R9, 0x2",
        "@!P1 EXIT",
        "EXIT",
    )
    assert paths(flow, launch_of(), words({0x210: 5})) == ((0, 2, 3),)
    assert paths(flow, launch_of(), words({0x210: 6})) == ((0, 1, 2),)


def test_a_function_returns_to_where_it_was_called_from() -> None:
    """Calls would not come back, or come back to the first caller."""
    flow = flow_of(
        "MOV R2, 0x20",
        "CALL.REL.NOINC 0x50",
        "MOV R2, 0x40",
        "CALL.REL.NOINC 0x50",
        "EXIT",
        "NOP",
        "RET.REL.NODEC R2 0x0",
    )
    assert paths(flow, launch_of(), {}) == ((0, 3, 1, 3, 2),)


def test_a_branch_on_data_is_refused() -> None:
    """Its trips would be made up."""
    flow = flow_of("LDG.E R0, desc[UR4][R2.64]", "ISETP.EQ.AND P0, PT, R0, RZ, PT", "@P0 BRA 0x0", "EXIT")
    with pytest.raises(ValueError, match="BRA at 0x20 depends on data"):
        executions(flow, launch_of(), {})


def test_a_wide_load_forgets_all_that_it_overwrites() -> None:
    """A counter would be taken from before a load wrote over it."""
    flow = flow_of("MOV R3, RZ", "LDG.E.128 R0, [R8]", "ISETP.EQ.AND P0, PT, R3, RZ, PT", "@P0 EXIT", "EXIT")
    with pytest.raises(ValueError, match="EXIT at 0x30 depends on data"):
        executions(flow, launch_of(), {})


def test_a_way_that_ends_in_a_trap_is_not_taken() -> None:
    """An assertion in the code would make its kernel impossible to follow."""
    flow = flow_of("LDG.E R0, [R2]", "ISETP.EQ.AND P0, PT, R0, RZ, PT", "@P0 BRA 0x40", "EXIT", "BPT.TRAP 0x1", "EXIT")
    assert paths(flow, launch_of(), {}) == ((0, 1),)


def test_only_what_decides_is_followed() -> None:
    """A kernel's arithmetic would be run, which takes a thousand times as long."""
    flow = flow_of(*loop("FADD R4, R4, R5", "LDG.E R6, [R8]", "IADD3 R9, R9, 0x4, RZ", at=1), "EXIT")
    chosen = [flow.instructions[place].address for block in control_slice(flow) for place in block]
    assert chosen == [0x0, 0x40, 0x50, 0x60, 0x70]


def test_constants_stand_where_the_code_looks_for_them() -> None:
    """Trip counts would be read from other arguments, or from none."""
    parameters = [
        Parameter(name="q", type="*fp16", address=0x210, size_bytes=8),
        Parameter(name="seqlen", type="i32", address=0x218, size_bytes=4),
        Parameter(name="stride", type="i64", address=0x220, size_bytes=8),
        Parameter(name="scale", type="fp32", address=0x228, size_bytes=4),
    ]
    arguments = {"seqlen": -2, "stride": (5 << 32) + 7, "scale": 1.0, "block_m": 64}
    bank = constant_bank(90, parameters, arguments, grid=(3, 2, 1), threads=(128, 1, 1))
    shape = {0x0: 128, 0x4: 1, 0x8: 1, 0xC: 3, 0x10: 2, 0x14: 1}
    where_parameters_lie = {0x198: BANK_ADDRESS + 0x210 & 0xFFFFFFFF, 0x19C: BANK_ADDRESS >> 32}
    inverse = 0x3F800000
    clusters = {
        0x144: 1,
        0x148: 1,
        0x14C: 1,
        0x150: inverse,
        0x154: inverse,
        0x158: inverse,
        0x15C: 3,
        0x160: 2,
        0x164: 1,
        0x188: 1,
    }
    assert bank == {
        **shape,
        **clusters,
        **where_parameters_lie,
        0x218: 0xFFFFFFFE,
        0x220: 7,
        0x224: 5,
        0x228: 0x3F800000,
    }
    assert [bank_place(BANK_ADDRESS + 0x250), bank_place(BANK_ADDRESS - 1)] == [0x250, None]
    for blackwell in (100, 120):
        assert constant_bank(blackwell, [], {}, grid=(3, 2, 1), threads=(128, 1, 1)) == {
            0x360: 128, 0x364: 1, 0x368: 1, 0x370: 3, 0x374: 2, 0x378: 1,
            0x348: BANK_ADDRESS + 0x380 & 0xFFFFFFFF, 0x34C: BANK_ADDRESS >> 32,
        }  # fmt: skip


def test_code_that_does_not_end_is_told() -> None:
    """A loop whose end is missed would be followed for ever."""
    flow, threads = flow_of("BRA 0x0", "EXIT"), Threads(constants={}, special={})
    with pytest.raises(ValueError, match="a loop does not end"):
        run_blocks(flow, compile_blocks(flow, control_slice(flow)), threads, 1, 1, most_steps=100)


def packed(bit: int) -> tuple[str, ...]:
    """Bit 5 of a spilled word depends on data, bit 6 on the first parameter; a bit decides about one instruction."""
    return (
        "LDG.E R9, desc[UR4][R2.64]",
        "ISETP.LT.AND P2, PT, R9, RZ, PT",
        f"ISETP.LT.AND P3, PT, RZ, {A}, PT",
        "LOP3.LUT R7, R7, 0xffffffbf, RZ, 0xc0, !PT",
        "@P2 LOP3.LUT R7, R7, 0x20, RZ, 0xfc, !PT",
        "@P3 LOP3.LUT R7, R7, 0x40, RZ, 0xfc, !PT",
        "STL [R1+0x10], R7",
        "LDL R8, [R1+0x10]",
        f"LOP3.LUT P1, RZ, R8, {1 << bit:#x}, RZ, 0xc0, !PT",
        "@P1 BRA 0xb0",
        "FADD R4, R4, R5",
        "EXIT",
    )


@pytest.mark.parametrize(("parameter", "executed"), [(1, 11), (0, 12)])
def test_bits_beside_one_that_depends_on_data_are_known(parameter: int, executed: int) -> None:
    """Predicates that are spilled in one word: kernels with 256 x 128 tiles, persistent, could not be followed."""
    assert executed_instructions(flow_of(*packed(6)), launch_of(), words({0x210: parameter})) == executed


def test_a_bit_that_depends_on_data_is_not_known() -> None:
    """A way that nobody knows would be taken."""
    with pytest.raises(ValueError, match="depends on data"):
        executed_instructions(flow_of(*packed(5)), launch_of(), words({0x210: 1}))
