"""Warps issue in order, one instruction a cycle and sub-core, as the code's control bits and the pipes allow."""

import json
import lzma

import pytest
from machine.sm_toys import Code, straight, walk
from support.lab import DATA
from tilesight.simulator.core.sm import instruction as op
from tilesight.simulator.core.sm import state as sm
from tilesight.simulator.sass.opcodes import rules

MATMULS_BESIDE = DATA / "mma-beside-h200-2026-11-26.ndjson.xz"


@pytest.mark.parametrize("stall", [1, 2, 4, 15])
def test_a_warp_waits_out_its_stall_counts(stall: int) -> None:
    """Fixed latencies would be lost."""
    assert straight(Code().add(stall=stall, times=100)).cycles == 99 * stall


@pytest.mark.parametrize(("warps", "cycles"), [(1, 399), (4, 399), (8, 400), (16, 403), (32, 807)])
def test_a_sub_core_issues_one_instruction_a_cycle(warps: int, cycles: float) -> None:
    """Four warps of a sub-core hide a stall of four cycles, eight share the issue slot."""
    assert straight(Code().add(stall=4, times=100).add(), warps).cycles == pytest.approx(cycles, abs=1)


def test_warps_are_dealt_to_four_sub_cores() -> None:
    """Four warps would get in each other's way, or eight would not."""
    code = Code().add(pipe=op.MUFU, interval=8.0, times=50)
    assert [straight(code, warps).cycles for warps in (1, 4)] == [49 * 8] * 2
    assert straight(code, 8).cycles == 99 * 8


def test_pipes_of_a_sub_core_run_side_by_side() -> None:
    """FMA and ALU would exclude each other."""
    fma, alu = ({"pipe": pipe, "interval": 2.0} for pipe in (op.FMA, op.ALU))
    code = Code()
    for _ in range(50):
        code.add(**fma).add(**alu)  # type: ignore[arg-type]
    assert straight(code).cycles == pytest.approx(100, abs=2)


def test_who_waits_for_a_scoreboard_goes_on_when_the_result_is_there() -> None:
    """A result of variable latency would be used before it is written."""
    code = Code().add(pipe=op.MUFU, writes=3, interval=8.0, latency=17.0).add(waits=0b1000).add()
    seen = straight(code)
    assert seen.cycles == 18
    assert seen.stalls[1, sm.SCOREBOARD] == seen.awaited[0] == 16


def test_a_scoreboard_of_operands_is_free_before_the_result() -> None:
    """Registers could not be written again before a memory instruction is done."""
    code = Code().add(op.SHARED, op.LSU, writes=0, reads=1, interval=2.0, latency=100.0, read=12.0, smem=1.0)
    assert straight(code.add(waits=0b10).add()).cycles == 13


def test_stalls_and_issues_add_up_to_the_time_of_a_warp() -> None:
    """A table of reasons would leave cycles out, or count them twice."""
    code = Code()
    for _ in range(20):
        code.add(pipe=op.MUFU, writes=0, interval=8.0, latency=17.0).add(pipe=op.ALU, waits=1, interval=2.0, stall=4)
        code.add(pipe=op.ALU, interval=2.0).add(pipe=op.ALU, interval=2.0, stall=2)
    seen = straight(code, 12)
    ends = seen.cycles
    busy = seen.issues.sum() + seen.stalls.sum()
    assert busy <= 12 * (ends + 1) + 1e-6
    assert busy == pytest.approx(12 * ends, rel=0.05)


def test_a_warp_goes_on_until_it_waits_and_then_the_oldest_does() -> None:
    """CTAs of an SM would keep step with each other; on a GPU the oldest is the fastest."""
    code = Code().add(times=400)
    seen = walk(code, [[(0, 200, 0), (200, 400, 1)]] * 8)
    assert seen.times(1)[0] == 199
    pausing = Code().add(stall=2, times=400)
    seen = walk(pausing, [[(0, 200, 0), (200, 400, 1)]] * 12)
    assert seen.times(1)[0] == 398
    assert seen.cycles == 1598  # two share the slot, then the third has it alone


def test_the_last_issuer_goes_on_although_an_older_warp_could() -> None:
    """Warps of a CTA would change places at every cycle, and long rows of one warp's instructions never come about."""
    code = Code().add(stall=10).add(times=100).add()
    old, young = [(0, 1, -1), (1, 50, -1), (101, 102, 1)], [(1, 100, -1)]
    seen = walk(code, [old, [(101, 102, -1)], [(101, 102, -1)], [(101, 102, -1)], young])
    assert seen.times(1)[0] == 1 + 99 + 48  # the young one's 99 first, then its own 49, the last of which is noted


@pytest.mark.parametrize("first", [0, 1, 2])
def test_the_oldest_ctas_issue_and_the_youngest_has_what_they_leave(first: int) -> None:
    """Of three that could issue every other cycle two share the slot: the two that began first, wherever they are."""
    offsets = [float(3 * ((slot - first) % 3)) for slot in range(3)]
    seen = straight(Code().add(stall=2, times=100), warps=4, offsets=tuple(offsets))
    ends = [float(seen.times(sm.EXIT, (first + turn) % 3)[0]) for turn in range(3)]
    assert ends[0] == 99 * 2
    assert ends[1] <= ends[0] + 6
    assert ends[2] >= 2 * ends[0] - 6


def test_a_cta_in_the_place_of_an_older_one_is_the_youngest() -> None:
    """The second CTAs of two slots would go on to keep the first of the third slot waiting."""
    seen = straight(Code().add(stall=2, times=400), warps=4, offsets=(0.0, 0.0, 0.0), rounds=2)
    firsts = [float(seen.times(sm.EXIT, slot)[0]) for slot in range(3)]
    assert max(firsts[:2]) <= 800
    assert firsts[2] <= 1600


@pytest.mark.parametrize("beside", ["FFMA", "FMUL", "FADD", "FMNMX", "LOP3", "F2FP", "IMAD"])
def test_a_warp_s_matmul_takes_as_much_from_its_neighbours_as_on_an_h200(beside: str) -> None:
    """FMA would run beside it, and take the time of neither."""
    table = rules(90)
    matmul, other = table["HMMA"], table[beside]
    pipe = {"fma": op.FMA, "alu": op.ALU, "fma_heavy": op.HEAVY}[other.pipe]
    with lzma.open(MATMULS_BESIDE, "rt") as stream:
        rows = [json.loads(line) for line in stream][1:]
    measured = {
        row["others"]: row["cycles_per_mma"]
        for row in rows
        if (row["order"], row["beside"], row["warps"]) == ("mixed", beside, 2) and row["others"] >= 4
    }
    assert len(measured) == 4
    for others, cycles in measured.items():
        code, matmuls = Code(), 32
        for _ in range(matmuls):
            code.add(
                pipe=op.TENSOR_PIPE,
                interval=matmul.interval_cycles,
                fma_cycles=matmul.interval_cycles * matmul.fma_share,
                alu_cycles=matmul.interval_cycles * matmul.alu_share,
            )
            code.add(pipe=pipe, interval=other.interval_cycles, times=others)
        assert straight(code, 8).cycles / (2 * matmuls) == pytest.approx(cycles, rel=0.05)


@pytest.mark.parametrize(("pipe", "interval"), [(op.ALU, 2.0), (op.MUFU, 8.0)])
@pytest.mark.parametrize("warps", [2, 4])
def test_warps_take_turns_at_a_busy_pipe(pipe: int, interval: float, warps: int) -> None:
    """On an H200 warps of a sub-core with FMNMX, or EX2, alone are done within 1 %, or 7 %, of each other."""
    code = Code().add(pipe=pipe, interval=interval, times=200)
    seen = walk(code, [[(0, 199, -1), (199, 200, 1)]], offsets=(0.0,) * 4 * warps)
    ends = [float(seen.times(sm.EXIT, slot)[0]) for slot in range(4 * warps)]
    assert max(ends) == pytest.approx(200 * warps * interval, rel=0.02)
    assert min(ends) > 0.93 * max(ends)
