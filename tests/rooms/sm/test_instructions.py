"""Instructions as the simulation of an SM takes them, and the latencies that belong to no single one."""

from dataclasses import replace

import pytest
from support.made_code import made_instruction
from support.strategies import TOY
from tilesight.simulator.core.sm import instruction as op
from tilesight.simulator.device.sm_numbers import load_sm
from tilesight.simulator.sm.instructions import lower_code
from tilesight.simulator.sm.machine import latencies_of


def lowered(opcode: str, *operands: str, predicate: str = "") -> op.SmInstruction:
    """One instruction of sm_90."""
    (instruction,), unknown = lower_code(
        [made_instruction(0, opcode, *operands, predicate=predicate)], 90, load_sm("sm_90")
    )
    assert not unknown
    return instruction


def test_a_load_that_never_runs_takes_its_turn_at_shared_memory() -> None:
    """The compiler puts three `@!PT LDS` in front of LDGSTS; ncu counts a wavefront each on an H200."""
    code = lowered("LDS", "RZ", "[RZ]", predicate="!PT")
    assert (code.kind, code.pipe, code.smem_lines) == (op.SHARED, op.LSU, 1.0)


@pytest.mark.parametrize("opcode", ["FADD", "BRA", "LDG.E.128"])
def test_others_that_never_run_take_an_issue_slot_alone(opcode: str) -> None:
    """What is predicated off moves nothing."""
    code = lowered(opcode, "R1", "[R2.64]", predicate="!PT")
    assert (code.kind, code.pipe, code.smem_lines) == (op.PLAIN, op.NO_PIPE, 0.0)


@pytest.mark.parametrize("opcode", ["LDG.E.128", "LDL.128"])
def test_loads_from_l2_tell_spilled_registers_from_data(opcode: str) -> None:
    """Only data wait behind what the SM has stored."""
    code = lowered(opcode, "R4", "[R2.64]")
    assert (code.kind, code.spills, code.smem_lines) == (op.LOAD, int(opcode[:3] == "LDL"), 4.0)


def test_loads_of_single_elements_take_a_cycle_a_line() -> None:
    """On an H200, 4.0 cycles of an SM for 32 elements of 2 B that lie 16 B apart."""
    narrow, wide = lowered("LDG.E.U16", "R4", "[R2.64]"), lowered("LDG.E", "R4", "[R2.64]")
    assert (narrow.tag_lines, wide.tag_lines) == (4.0, 1.0)
    assert (narrow.interval_cycles, wide.interval_cycles) == (2.0, 2.0)


def test_stores_to_shared_memory_hold_their_registers_by_their_number() -> None:
    """On an H200, an address may change 21 cycles after STS.128, 13 after LDGSTS."""
    wide, narrow = lowered("STS.128", "[R2]", "R4"), lowered("STS", "[R2]", "R4")
    assert (wide.operand_cycles, narrow.operand_cycles) == (21.0, 12.0)


@pytest.mark.parametrize(
    ("factor", "added", "held"), [("R4", "R2", 2), ("R4", "RZ", 0), ("0x4", "R2", 0), ("R4", "c[0x0][0x210]", 0)]
)
def test_a_wide_product_of_registers_and_a_pair_holds_its_warp(factor: str, added: str, held: int) -> None:
    """x * c + c in 64 bits takes a lone warp of an H200 12 cycles, where stall counts say 10."""
    wide, narrow = lowered("IMAD.WIDE.U32", "R6", "R3", factor, added), lowered("IMAD", "R6", "R3", factor, "RZ")
    assert wide.stall_cycles - narrow.stall_cycles == held


@pytest.mark.parametrize(
    ("opcode", "operands", "port", "passes"),
    [
        ("MUFU.EX2", ("R1", "R2"), 1.0, 0.0),
        ("FADD", ("R1", "R2", "R3"), 1.0, 0.0),
        ("LDS.128", ("R4", "[R2]"), 1.0, 4.0),
        ("SHFL.BFLY", ("PT", "R1", "R2", "0x1", "0x1f"), 1.0, 2.0),
    ],
)
def test_what_waits_for_matmuls_is_as_measured(opcode: str, operands: list[str], port: float, passes: float) -> None:
    """Each waits once for the register port; a line of LDS takes one matmul of 34 cycles, SHFL two."""
    code = lowered(opcode, *operands)
    assert (code.port_reads, code.smem_passes) == (port, passes)


@pytest.mark.parametrize(
    ("shape", "a", "cycles"),
    [("64x32x16", "gdesc[UR4]", 24.0), ("64x32x16", "R88", 16.0), ("64x128x16", "R88", 64.0), ("64x8x16", "R88", 13.0)],
)
def test_a_matmul_holds_the_register_port_as_long_as_it_runs(shape: str, a: str, cycles: float) -> None:
    """Operands of narrow ones are late: instructions in between would take half as long as on an H200."""
    code = (
        lowered(f"HGMMA.{shape}.F32", "R24", a, "R24")
        if a[0] == "g"
        else lowered(f"HGMMA.{shape}.F32", "R24", a, "gdesc[UR4]", "R24")
    )
    assert (code.port_reads, code.tensor_cycles) == (cycles, cycles)


def test_copies_take_a_cycle_of_the_tags_for_each_line() -> None:
    """64 LDGSTS of a lone CTA would take 64 cycles, in place of 240."""
    code = lowered("LDGSTS.E.BYPASS.128", "[R2]", "desc[UR4][R4.64]")
    assert code.tag_lines == 4.0


def test_copies_come_later_than_loads() -> None:
    """On an H200 512 B of LDGSTS take 332 cycles in the mean of its SMs, a hit 280 of them."""
    latencies = latencies_of(TOY, 1)
    assert (latencies.load, latencies.copy) == (TOY.l2_latency_cycles, TOY.l2_latency_cycles + 30.0)


def test_the_end_of_a_divergent_branch_takes_as_long_as_sampled() -> None:
    """Reductions between warps would be 20 cycles too fast, four times an iteration of HMMA kernels."""
    assert lowered("BSYNC", "B0").stall_cycles == 26


def test_stores_of_single_elements_take_the_way_of_whole_sectors() -> None:
    """Row kernels whose rows are not aligned would be three times too fast; and far more such stores may wait."""
    narrow, wide = lowered("STG.E.U16", "[R2.64]", "R4"), lowered("STG.E.128", "[R2.64]", "R4")
    assert (narrow.smem_lines, wide.smem_lines) == (pytest.approx(4.0 * 1.22), 4.0)
    assert (narrow.queued_lines, wide.queued_lines) == (146.0, 52.0)


@pytest.mark.parametrize(("busy", "cycles"), [(132, 6.26), (99, 6.26 * 0.75), (66, 4.0), (1, 4.0)])
def test_the_way_out_is_wider_where_few_sms_share_it(busy: int, cycles: float) -> None:
    """On an H200, 32 B a cycle leave an SM that writes alone, 31 each of 66, 20 each of all."""
    assert latencies_of(replace(TOY, sms=132), busy).store_per_line == pytest.approx(cycles)


def test_a_fence_for_all_sms_holds_up_its_warp_until_l2_has_answered() -> None:
    """Triton puts one before each atomic, and no scoreboard waits for it."""
    assert lowered("MEMBAR.ALL.GPU").stall_cycles == lowered("MEMBAR.SC.SYS").stall_cycles == 516
    assert lowered("MEMBAR.ALL.CTA").stall_cycles < 20


def test_what_an_atomic_gives_back_is_later_than_what_a_load_brings() -> None:
    """By 72 cycles on an H200; a vector of four floats is four words on the way out."""
    latencies = latencies_of(TOY, 1)
    assert latencies.atomic - latencies.load == pytest.approx(72)
    assert lowered("ATOMG.E.ADD.F32x4.FTZ.RN.STRONG.GPU").smem_lines == 4 * lowered("RED.E.ADD.F32").smem_lines == 4


@pytest.mark.parametrize(("opcode", "cycles"), [("MEMBAR.ALL.CTA", 20), ("FENCE.VIEW.ASYNC.S", 29)])
def test_fences_wait_at_shared_memory(opcode: str, cycles: int) -> None:
    """They would cost the same however much was stored before: 14 and 22 cycles for 79 and 151."""
    code = lowered(opcode)
    assert (code.kind, code.stores, code.smem_lines) == (op.SHARED, 1, 0.0)
    assert code.latency_cycles == code.operand_cycles == cycles - 1
