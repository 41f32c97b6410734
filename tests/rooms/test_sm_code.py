"""Instructions as the simulation of an SM takes them, and the latencies that belong to no single one."""

from dataclasses import replace

import pytest
from strategies import TOY
from tilesight.simulator.core import sm_tables as sm
from tilesight.simulator.sass.decode import Instruction
from tilesight.simulator.sm_code import lower_code
from tilesight.simulator.sm_machine import OUT, OUT_ALONE, latencies_of


def row(opcode: str, *operands: str, predicate: str = "", **options: bool) -> tuple[list[int], list[float]]:
    """Columns and rates of one instruction of sm_90."""
    one = Instruction(
        address=0,
        predicate=predicate,
        opcode=opcode,
        operands=operands,
        target=None,
        stall_cycles=1,
        yields=False,
        write_barrier=0,
        read_barrier=-1,
        wait_mask=0,
        reuse=0,
    )
    code, rates, unknown = lower_code([one], 90, **options)
    assert not unknown
    return code[0].tolist(), rates[0].tolist()


def test_a_load_that_never_runs_takes_its_turn_at_shared_memory() -> None:
    """The compiler puts three `@!PT LDS` in front of LDGSTS; ncu counts a wavefront each on an H200."""
    code, rates = row("LDS", "RZ", "[RZ]", predicate="!PT")
    assert (code[sm.KIND], code[sm.PIPE], rates[sm.SMEM]) == (sm.SHARED, sm.LSU, 1.0)


@pytest.mark.parametrize("opcode", ["FADD", "BRA", "LDG.E.128"])
def test_others_that_never_run_take_an_issue_slot_alone(opcode: str) -> None:
    """What is predicated off moves nothing."""
    code, rates = row(opcode, "R1", "[R2.64]", predicate="!PT")
    assert (code[sm.KIND], code[sm.PIPE], rates[sm.SMEM]) == (sm.PLAIN, sm.NO_PIPE, 0.0)


@pytest.mark.parametrize("opcode", ["LDG.E.128", "LDL.128"])
def test_loads_from_l2_tell_spilled_registers_from_data(opcode: str) -> None:
    """Only data wait behind what the SM has stored."""
    code, rates = row(opcode, "R4", "[R2.64]", spills_miss=True)
    assert (code[sm.KIND], code[sm.ARGUMENT], rates[sm.SMEM]) == (sm.LOAD, int(opcode[:3] == "LDL"), 4.0)


@pytest.mark.parametrize(("busy", "cycles"), [(132, OUT), (99, OUT * 0.75), (66, OUT_ALONE), (1, OUT_ALONE)])
def test_the_way_out_is_wider_where_few_sms_share_it(busy: int, cycles: float) -> None:
    """On an H200, 32 B a cycle leave an SM that writes alone, 31 each of 66, 20 each of all."""
    assert latencies_of(replace(TOY, sms=132), busy).out == pytest.approx(cycles)
