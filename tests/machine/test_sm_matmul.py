"""Matmuls of a warpgroup run beside its warps, one after the other, and come first at what they need."""

import pytest
from machine.sm_toys import LATENCIES, Code, Seen, straight, walk
from support.measured import beside_products_of_an_h100, shared_with_products
from tilesight.simulator.core.sm import instruction as op
from tilesight.simulator.core.sm import state as sm
from tilesight.simulator.device.device import load_device
from tilesight.simulator.sm.machine import latencies_of

H200 = load_device("h200")
SHIPPED = latencies_of(H200, H200.sms)._replace(clock_rest=1e9)
"""The numbers of the architecture that predictions use."""
MATMUL_CYCLES = 32.0
"""Cycles of m64n64k16."""
WAITED = LATENCIES.matmul_release + 2
"""From the end of a matmul to what comes after the wait for it."""
WAIT = {"kind": op.MATMUL_WAIT, "stall": 2}


@pytest.mark.parametrize("columns", [64, 128, 256])
def test_matmuls_follow_each_other_without_a_gap(columns: int) -> None:
    """A stream of m64nNk16 would not take N / 2 cycles each, as measured."""
    code = Code()
    for number in range(16):
        code.matmul(columns, commits=number == 15)
    seen = straight(code.add(**WAIT).add(), 4)  # type: ignore[arg-type]
    assert seen.cycles == pytest.approx(16 * columns / 2 + WAITED)


def test_matmuls_that_jitter_take_as_long_in_the_mean() -> None:
    """Up to a tenth longer or shorter, evenly: a row of 64 is as long as without, and no other row of four is."""
    code = Code()
    for number in range(64):
        code.matmul(commits=number % 4 == 3)
        if number % 4 == 3:
            code.add(**WAIT)  # type: ignore[arg-type]
    paths = [[(5 * turn, 5 * turn + 5, turn) for turn in range(16)]] * 4
    lengths = []
    for jitter in (0.0, 0.1):
        seen = walk(code, paths, latencies=LATENCIES._replace(matmul_jitter=jitter))
        lengths.append([float(seen.times(turn + 1)[0] - seen.times(turn)[0]) for turn in range(15)])
    even, uneven = lengths
    assert max(even) - min(even) < 3
    assert 4 < max(uneven) - min(uneven) < 4 * 64 * 0.2
    assert sum(uneven) == pytest.approx(sum(even), rel=0.01)


def test_shared_memory_is_used_for_the_lines_that_pass_it_not_for_as_long_as_they_wait() -> None:
    """Eight matmuls read 32 lines each; beside them each of four warps loads ten times four, more slowly."""
    code = Code()
    for number in range(8):
        code.matmul(commits=number == 7)
    code.add(op.SHARED, op.LSU, interval=4.0, latency=22.0, smem=4.0, times=10).add(**WAIT).add()  # type: ignore[arg-type]
    assert straight(code, 4).used[sm.SHARED_MEMORY] == 8 * 32 + 4 * 10 * 4


def test_a_matmul_begins_when_all_four_warps_have_issued_it() -> None:
    """One warp's rows could not be multiplied alone."""
    code = Code().add(stall=15, times=20).matmul(commits=True).add(**WAIT).add()  # type: ignore[arg-type]
    late, early = [(0, 23, -1)], [(20, 23, -1)]
    alone = walk(code, [early] * 4).cycles
    assert walk(code, [early] * 3 + [late]).cycles == alone + 20 * 15


def test_a_wait_may_leave_newer_groups_running() -> None:
    """`wgmma.wait_group 1` would wait for everything."""
    cycles = []
    for left in (0, 1):
        code = Code().matmul(commits=True).matmul(commits=True)
        cycles.append(straight(code.add(pending=left, **WAIT).add(), 4).cycles)  # type: ignore[arg-type]
    assert cycles[0] - cycles[1] == pytest.approx(64)


def test_a_warp_that_waits_after_every_matmul_takes_its_latency_every_time() -> None:
    """Matmuls that the compiler serialised would cost no more than others."""
    chained, serial = Code(), Code()
    for number in range(8):
        chained.matmul(commits=number == 7)
        serial.matmul(commits=True).add(**WAIT)  # type: ignore[arg-type]
    chained.add(**WAIT)  # type: ignore[arg-type]
    more = straight(serial.add(), 4).cycles - straight(chained.add(), 4).cycles
    assert more == pytest.approx(7 * WAITED)


def test_two_warpgroups_share_the_tensor_cores() -> None:
    """Eight warps would multiply twice as fast as four."""
    code = Code()
    for number in range(16):
        code.matmul(commits=number == 15)
    code.add(**WAIT).add()  # type: ignore[arg-type]
    alone, both = (straight(code, warps).cycles for warps in (4, 8))
    assert both - WAITED == pytest.approx(2 * (alone - WAITED))


@pytest.mark.parametrize(
    ("name", "pipe", "interval", "stall"),
    [
        ("ffma_half", op.FMA, 1.0, 2),
        ("ffma_quarter", op.FMA, 1.0, 4),
        ("fmnmx", op.ALU, 2.0, 1),
        ("lop3", op.ALU, 2.0, 1),
        ("lop3_half", op.ALU, 2.0, 4),
        ("ex2", op.MUFU, 8.0, 1),
    ],
)
def test_instructions_beside_a_stream_of_matmuls_are_slowed_as_measured(
    name: str, pipe: int, interval: float, stall: int
) -> None:
    """More than half of the cycles that an H100 loses, with numbers of an H200; and matmuls keep their pace."""
    alone, beside, products = beside_products_of_an_h100()[name, 1]
    code = Code()
    for number in range(8):
        code.matmul(commits=number == 7)
    code.add(pending=1, **WAIT).add(stall=5)  # type: ignore[arg-type]
    code.add(pipe=pipe, interval=interval, stall=stall, port=1.0, times=64)
    matmuls, others = [(0, 10, 0)] * 300, [(10, 74, 1)] * 200
    for paths, expected in ([others] * 4, alone), ([others] * 4 + [matmuls] * 4, beside):
        turns = walk(code, paths, latencies=SHIPPED).times(1)
        cycles = (turns[150] - turns[50]) / 100 / 64
        assert cycles == pytest.approx(expected, abs=(beside - alone) / 2)
    intervals = walk(code, [matmuls] * 4 + [others] * 4, latencies=SHIPPED).times(0)
    assert 64 * 0.99 < (intervals[20] - intervals[5]) / 15 / 8 < products * 1.01


@pytest.mark.parametrize("name", ["ffma", "fmul"])
def test_a_long_row_of_instructions_holds_matmuls_up(name: str) -> None:
    """By less than on an H100, where rows of 64 get ahead of them: 162 and 164 cycles in place of 64."""
    measured = beside_products_of_an_h100()[name, 1][2]
    code = Code()
    for number in range(8):
        code.matmul(commits=number == 7)
    code.add(pending=1, **WAIT).add(stall=5)  # type: ignore[arg-type]
    code.add(pipe=op.FMA, port=1.0, times=64)
    paths = [[(0, 10, 0)] * 60] * 4 + [[(10, 74, 1)] * 900] * 4
    intervals = walk(code, paths, latencies=SHIPPED).times(0)
    assert 64 * 1.04 < (intervals[20] - intervals[5]) / 15 / 8 < measured


def _beside(kind: int, times: int, turns: int, smem: float = 32.0, stores: int = 0) -> Seen:
    """Eight warps that use shared memory for 512 B so many times, and four with turns of eight m64n64k16."""
    code = Code()
    code.add(kind, op.LSU, interval=4.0, smem=4.0, latency=22.0, writes=0, stall=15, stores=stores, passes=4.0)
    code.add(waits=1)
    for number in range(8):
        code.add(op.MATMUL, commits=int(number == 7), stall=4, smem=smem, tensor_cycles=32.0, port=32.0)
    code.add(pending=1, **WAIT).add(stall=2)  # type: ignore[arg-type]
    return walk(code, [[(0, 2, 0)] * times] * 8 + [[(2, len(code.rows), -1)] * turns] * 4)


@pytest.mark.parametrize("pause", [900, 1500, 3000])
@pytest.mark.parametrize("warp", [False, True], ids=["warpgroup", "warp"])
def test_pauses_between_matmuls_count_from_where_the_clock_rises(pause: int, warp: bool) -> None:
    """After 1,000 cycles without matmuls; a restart costs 60 % of a late one at once, the rest after as many more."""
    code = Code()
    if warp:
        code.add(pipe=op.TENSOR_PIPE, interval=16.0, stall=16)
    else:
        code.matmul(commits=True).add(**WAIT)  # type: ignore[arg-type]
    first = len(code.rows)
    code.add(stall=15, times=pause // 15)
    turns = [(0, first, -1), (first, first + pause // 15, -1)] * 10
    warps = 1 if warp else 4
    used = walk(code, [turns] * warps, latencies=LATENCIES._replace(clock_rest=1000.0)).used
    rested = max(0.0, pause + (0.0 if warp else WAITED) - 1000.0)
    assert used[sm.RESTED] == pytest.approx(9 * rested)
    assert used[sm.RESTARTS] == pytest.approx(9 * (0.6 + 0.4 * min(1.0, rested / 1000.0)) if rested else 0.0)


COPIED = {
    "LDGSTS": (8 * 8 * 512, [{"kind": op.COPY, "pipe": op.LSU, "interval": 4.0, "smem": 4.0}] * 8),
    "bulk": (512 * 128, [{"kind": op.EXPECT, "copies": 1}, {"kind": op.BULK_COPY, "smem": 512.0}]),
}
"""What 8 warps copy to shared memory at a time [B], and how: bulk copies are made by the first."""
WAITED_FOR = {
    "LDGSTS": [{"kind": op.COPY_COMMIT}, {"kind": op.COPY_WAIT, "pending": 1}],
    "bulk": [{"kind": op.MBARRIER_WAIT, "in_order": 1, "writes": 0}, {"waits": 1}],
}


@pytest.mark.parametrize("name", COPIED)
def test_matmuls_are_as_fast_while_tiles_arrive(name: str) -> None:
    """As many bytes a cycle arrive as on an H200, where matmuls took 33.9 cycles alone and 34.6 beside them at most."""
    rows = [row for row in shared_with_products("m64n64k16 SS") if row["ctas"] == 16]
    alone = min(row["cycles_per_product"] for row in rows if row["second"] == "none")
    (beside, _) = (row for row in rows if row["second"] == name and row["second_warps"] == 8)
    size, copy = COPIED[name]
    products_cycles = 100 * 8 * MATMUL_CYCLES
    times = round(beside["second_bytes_per_cycle"] * products_cycles / size)
    code = Code()
    for row in (*copy, *WAITED_FOR[name]):
        code.add(**row)  # type: ignore[arg-type]
    copies = len(code.rows)
    for number in range(8):
        code.add(op.MATMUL, commits=int(number == 7), stall=4, smem=32.0, tensor_cycles=32.0, port=32.0)
    code.add(pending=1, **WAIT).add(stall=2)  # type: ignore[arg-type]
    seen = walk(code, [[(0, copies, -1)] * times] * 8 + [[(copies, len(code.rows), 0)] * 100] * 4)
    assert seen.used[sm.SHARED_MEMORY] == pytest.approx(times * size / 128 + 100 * 8 * 32, rel=0.01)
    assert seen.cycles == pytest.approx(products_cycles, rel=beside["cycles_per_product"] / alone - 1)


@pytest.mark.parametrize(("products", "smem"), [("m64n64k16 SS", 32.0), ("m64n64k16 RS", 16.0)])
@pytest.mark.parametrize(("stores", "names"), [(1, {"STS"}), (0, {"LDS", "LDSM"})], ids=["stores", "loads"])
def test_matmuls_leave_others_what_they_do_not_take(products: str, smem: float, stores: int, names: set[str]) -> None:
    """512 B take 4 cycles alone, on an H200 9 to 48 beside matmuls: three quarters and more of that is lost here."""
    rows = [row for row in shared_with_products(products) if row["second"] in names and row["second_warps"] == 8]
    lost = sum(512 / row["second_bytes_per_cycle"] for row in rows) / len(rows) - 4
    times = _beside(op.SHARED, 500, 400, smem, stores).times(0)
    during = times[times < 8000]
    assert during[-1] / (8 * (len(during) - 1)) == pytest.approx(4 + lost, abs=lost / 4)


@pytest.mark.parametrize(("lines", "passes", "measured"), [(4.0, 4.0, 138.0), (1.0, 2.0, 69.0)])
def test_others_go_when_a_matmul_that_takes_all_of_shared_memory_ends(
    lines: float, passes: float, measured: float
) -> None:
    """A warp's LDS.128, its SHFL beside m64n64k16 with both operands there, to a matmul; one H200, `sm_sharing`."""
    code = Code().add(op.SHARED, op.LSU, interval=4.0, smem=lines, latency=22.0, writes=0, passes=passes).add(waits=1)
    for number in range(8):
        code.add(op.MATMUL, commits=int(number == 7), stall=4, smem=32.0, tensor_cycles=32.0, port=32.0)
    code.add(pending=1, **WAIT).add(stall=2)  # type: ignore[arg-type]
    pad = [[(0, 1, -1)]] * 3
    times = walk(code, [[(0, 2, 0)] * 60, *pad, *[[(2, len(code.rows), -1)] * 60] * 4]).times(0)
    assert (times[50] - times[10]) / 40 == pytest.approx(measured, abs=MATMUL_CYCLES)


def _reads_end(reads: int, smem: float) -> float:
    """When a warp has its data, of four that each read 512 B so many times; a matmul begins 20 cycles after them."""
    code = Code()
    code.add(op.SHARED, op.LSU, interval=4.0, smem=4.0, latency=22.0, writes=0, times=reads)
    code.add(waits=1).add()
    code.add(stall=10, times=2).add(op.MATMUL, commits=1, stall=4, smem=smem, tensor_cycles=32.0, port=32.0)
    multiplies = [(reads + 2, reads + (5 if smem else 4), -1)]
    seen = walk(code, [[(0, reads + 1, -1), (reads + 1, reads + 2, 0)]] * 4 + [multiplies] * 4)
    return float(seen.times(0)[0])


def test_lines_that_wait_when_a_matmul_begins_are_delayed() -> None:
    """All have issued when it begins; where it reads half of the time, reads have a quarter of its 32 cycles."""
    assert _reads_end(5, 16.0) - _reads_end(5, 0.0) == pytest.approx(MATMUL_CYCLES * 0.74)


def test_lines_that_outlast_a_matmul_go_on_as_if_there_were_none() -> None:
    """Behind one matmul that takes 92 % of shared memory 1,600 lines are late by 92 % of its length, no more."""
    assert _reads_end(100, 32.0) - _reads_end(100, 0.0) == pytest.approx(MATMUL_CYCLES * 0.92)


def test_a_matmul_that_takes_all_of_shared_memory_is_held_up_by_who_passes() -> None:
    """On an H200, m64n64k16 takes 33.9 cycles alone, 35.3 where three lines pass with each; to a line."""
    code = Code()
    for number in range(8):
        code.add(op.MATMUL, commits=int(number == 7), stall=4, smem=32.0, tensor_cycles=32.0, port=32.0)
    code.add(pending=1, **WAIT).add(stall=2)  # type: ignore[arg-type]
    code.add(op.SHARED, op.LSU, interval=4.0, smem=4.0, latency=22.0, writes=0, passes=4.0).add(waits=1)

    def turn(others: int) -> float:
        times = walk(code, [[(0, 10, 0)] * 40] * 4 + [[(10, 12, -1)] * others] * 8).times(0)
        return float(times[30] - times[10]) / 20

    assert turn(400) / turn(1) == pytest.approx(35.3 / 33.9, abs=0.5 / 33.9)
