"""Shared memory, barriers and copies of an SM: 128 B a cycle for all warps, arrivals one by one, commits in order."""

import numpy as np
import pytest
from machine.sm_toys import LATENCIES, Code, straight, walk
from support.measured import barriers_of_an_h100
from tilesight.simulator.core.sm import instruction as op
from tilesight.simulator.core.sm import state as sm
from tilesight.simulator.device.device import load_device
from tilesight.simulator.sm.machine import latencies_of

LOAD_128 = {"kind": op.SHARED, "pipe": op.LSU, "interval": 4.0, "latency": 22.0, "smem": 4.0}


@pytest.mark.parametrize("warps", [4, 8, 16])
def test_shared_memory_serves_all_warps_at_128_bytes_a_cycle(warps: int) -> None:
    """16 bytes a thread would come faster than the banks can give them."""
    code = Code().add(**LOAD_128, times=49).add(**LOAD_128, writes=0).add(waits=1).add()  # type: ignore[arg-type]
    assert straight(code, warps).cycles == pytest.approx(warps * 50 * 4 + 22, rel=0.03)


@pytest.mark.parametrize(("warps", "measured"), barriers_of_an_h100().items())
def test_barriers_take_as_long_as_measured(warps: int, measured: float) -> None:
    """bar.sync after bar.sync on an H100, with the numbers that are kept of an H200, whole cycles."""
    latencies = latencies_of(load_device("h200"), 132)
    times = walk(Code().add(op.BARRIER), [[(0, 1, 0)] * 50] * warps, latencies=latencies).times(0)
    assert (times[-1] - times[10]) / (len(times) - 11) == pytest.approx(measured, abs=1.0)


def test_arrivals_at_barriers_of_all_ctas_take_turns() -> None:
    """An H200 takes 2.05 cycles for each warp of 16 CTAs of four (validate/lab/shared_turns.cu); alone, each CTA 21."""
    seen = straight(Code().add(op.BARRIER, smem=1.0, times=100), 4, offsets=(0.0,) * 16)
    assert seen.cycles / (16 * 4 * 100) == pytest.approx(2.05, rel=0.05)


def test_an_arrival_takes_a_turn_at_l1() -> None:
    """Four shuffles and four barriers take each warp of many 8.4 cycles on an H200, and would take 4 or 8 or 12."""
    body = [(op.SHARED, op.LSU)] * 4 + [(op.BARRIER, op.NO_PIPE)] * 4
    code = Code()
    for kind, pipe in body * 25:
        code.add(kind, pipe, smem=1.0)
    assert straight(code, 4, offsets=(0.0,) * 16).cycles / (16 * 4 * 25) == pytest.approx(8.4, rel=0.07)


def test_a_barrier_lets_nobody_go_before_the_last() -> None:
    """Data would be read before another warp has written them."""
    code = Code().add(stall=15, times=20).add(op.BARRIER).add()
    seen = walk(code, [[(20, 22, -1)]] * 3 + [[(0, 22, -1)]])
    assert seen.cycles == pytest.approx(300 + LATENCIES.barrier_release, abs=3)


def test_an_arrival_that_does_not_wait_goes_on() -> None:
    """bar.arrive would hold up a producer."""
    two: dict[str, float] = {"barrier": 1, "barrier_warps": 2}
    code = Code().add(op.BARRIER, only_arrives=1, **two).add(stall=15, times=20).add(op.BARRIER, **two).add()
    seen = walk(code, [[(0, 1, -1), (22, 23, -1)], [(1, 23, -1)]])
    assert seen.cycles == pytest.approx(300 + LATENCIES.barrier_release, abs=3)


@pytest.mark.parametrize(("left", "cycles"), [(0, 400), (1, 300)])
def test_a_wait_for_copies_may_leave_the_newest_commits(left: int, cycles: float) -> None:
    """A pipelined loop would wait for the tile that it has just asked for."""
    copy = {"kind": op.COPY, "pipe": op.LSU, "interval": 4.0, "smem": 4.0}
    code = Code().add(**copy).add(op.COPY_COMMIT).add(stall=15).add(stall=15, times=6).add(**copy)  # type: ignore[arg-type]
    seen = straight(code.add(op.COPY_COMMIT).add(op.COPY_WAIT, pending=left).add())
    assert seen.cycles == pytest.approx(cycles, abs=12)


def test_each_wait_for_a_bulk_copy_is_for_the_next_announced() -> None:
    """A loop would go on with a tile that TMA has not brought yet, or wait for a later one."""
    announce, wait = {"kind": op.EXPECT, "copies": 1}, {"kind": op.MBARRIER_WAIT, "in_order": 1, "writes": 0}
    code = Code().add(**announce).add(op.BULK_COPY, smem=4.0, stall=15).add(stall=15, times=9)  # type: ignore[arg-type]
    code.add(**announce).add(op.BULK_COPY, smem=4.0).add(**wait).add(waits=1)  # type: ignore[arg-type]
    first = straight(code).cycles
    assert first == pytest.approx(LATENCIES.bulk_copy, abs=12)
    assert straight(code.add(**wait).add(waits=1)).cycles == pytest.approx(first + 150, abs=12)


def test_a_slot_takes_up_the_next_cta_when_one_has_ended() -> None:
    """A full SM would run empty, and its CTAs cost what the first ones did."""
    seen = straight(Code().add(stall=10, times=11), rounds=3, offsets=(0.0, 50.0))
    assert [list(seen.times(sm.START, slot)[:3]) for slot in (0, 1)] == [[0, 200, 400], [50, 250, 450]]


def test_two_runs_are_the_same() -> None:
    """A prediction would change from call to call."""
    code = Code()
    for _ in range(30):
        code.add(**LOAD_128, writes=0).add(op.BARRIER).add(waits=1, stall=3)  # type: ignore[arg-type]
    first, second = (straight(code, 8, offsets=(0.0, 7.0, 31.0), rounds=2) for _ in range(2))
    assert (first.log == second.log).all()
    assert (first.stalls == second.stalls).all()


def test_a_producer_waits_until_its_consumer_has_given_room_back() -> None:
    """A specialised producer would run ahead of its ring of two, or consumers take tiles that are not there."""
    full, room = 0, 1
    code = Code().add(op.MBARRIER_WAIT, channel=room, free_phases=2).add(op.EXPECT, channel=full, copies=1)
    code.add(op.BULK_COPY, smem=4.0).add(op.MBARRIER_WAIT, channel=full).add(stall=15, times=40)
    code.add(op.ARRIVE, channel=room, leader=1)
    trips = 20
    seen = walk(code, [[(0, 3, 0)] * trips, [(3, 45, -1)] * trips])
    took = seen.times(0)
    assert took[2] < 10
    assert np.diff(took)[3:-1] == pytest.approx(600, rel=0.02)
    assert seen.cycles == pytest.approx(LATENCIES.bulk_copy + trips * 600, rel=0.02)


def test_room_is_given_back_by_all_that_read_it() -> None:
    """A producer would fill buffers that the slower of two groups still reads, or one arrival count for two."""
    full, room, trips = 0, 1, 20
    code = Code().add(op.MBARRIER_WAIT, channel=room, free_phases=2).add(op.EXPECT, channel=full, copies=1)
    code.add(op.BULK_COPY, smem=4.0)
    for warp, stalls in ((1, 10), (2, 40)):
        code.add(op.MBARRIER_WAIT, channel=full).add(stall=15, times=stalls)
        code.add(op.ARRIVE, channel=room, leader=warp, arrivals=2)
    seen = walk(code, [[(0, 3, 0)] * trips, [(3, 15, -1)] * trips, [(15, 57, -1)] * trips])
    assert np.diff(seen.times(0))[3:-1] == pytest.approx(600, rel=0.02)
    assert seen.cycles == pytest.approx(LATENCIES.bulk_copy + trips * 600, rel=0.02)


def test_a_spill_takes_the_way_to_l2_and_its_warp_goes_on() -> None:
    """Spills would cost what shared memory takes, or a round trip each."""
    spill = {"kind": op.STORE, "pipe": op.LSU, "interval": 2.0, "smem": 1.0, "spills": 1, "queued_lines": 40.0}
    few, many = (straight(Code().add(**spill, times=times).add()) for times in (10, 1000))  # type: ignore[arg-type]
    assert few.cycles == pytest.approx(20, abs=2)
    # 40 of them may still be waiting to leave, others in front of L1.
    assert many.cycles == pytest.approx((1000 - 40 - LATENCIES.lsu_queue) * LATENCIES.store_per_line, rel=0.01)
    assert many.used[sm.SPILLED] == 1000


def test_who_waits_for_bulk_stores_goes_on_when_they_have_left_shared_memory() -> None:
    """A tile would be overwritten before TMA has read it, or stores cost nothing."""
    code = Code().add(op.BULK_STORE, smem=64.0).add(op.BULK_COMMIT).add(op.COPY_WAIT).add()
    assert straight(code).cycles == pytest.approx(64 * LATENCIES.store_per_line, abs=4)
    assert straight(code, 4).cycles == pytest.approx(64 * LATENCIES.store_per_line, abs=4)


@pytest.mark.parametrize(("stores", "taken"), [(0, 0.25 / 2), (1, 1.25 / 2)])
def test_copies_take_their_turn_from_loads_and_their_data_too_from_stores(stores: int, taken: float) -> None:
    """On an H200, LDGSTS and LDS together move 193 B a cycle, LDGSTS and STS 105."""
    copy = {"kind": op.COPY, "pipe": op.LSU, "interval": 4.0, "smem": 4.0}
    other = {**LOAD_128, "stores": stores}
    apart = straight(Code().add(**other, times=80).add(**other, writes=0).add(waits=1).add(), 8)  # type: ignore[arg-type]
    code = Code()
    for _ in range(40):
        code.add(**other, times=2).add(**copy)  # type: ignore[arg-type]
    beside = straight(code.add(**other, writes=0).add(waits=1).add(), 8)  # type: ignore[arg-type]
    assert beside.cycles / apart.cycles == pytest.approx(1 + taken, rel=0.05)


def test_a_bulk_copy_sets_out_a_turn_after_what_was_stored_before_has_left() -> None:
    """On an H200, a copy of 32 KiB is there after 717 cycles, behind a bulk store of as much after 2067."""
    copy = {"kind": op.EXPECT, "copies": 1}, {"kind": op.BULK_COPY, "smem": 4.0}
    wait = {"kind": op.MBARRIER_WAIT, "in_order": 1, "writes": 0}
    alone = straight(Code().add(**copy[0]).add(**copy[1]).add(**wait).add(waits=1)).cycles  # type: ignore[arg-type]
    code = Code().add(op.BULK_STORE, smem=64.0).add(**copy[0]).add(**copy[1]).add(**wait).add(waits=1)  # type: ignore[arg-type]
    assert straight(code).cycles - alone == pytest.approx(
        64 * LATENCIES.store_per_line + LATENCIES.copy_after_store, abs=4
    )


def _waited(kind: int, shared: int, stored: int = 0, spills: int = 0) -> float:
    """Cycles until 100 loads or copies are there, after so many uses of shared memory, or of the link to L2."""
    moved = {"kind": kind, "pipe": op.LSU, "interval": 1.0, "smem": 4.0, "spills": spills, "times": 99}
    store = {"kind": op.STORE, "pipe": op.LSU, "interval": 4.0, "smem": 4.0, "queued_lines": 70.0}
    code = Code().add(**LOAD_128, times=shared).add(stall=15, times=60)  # type: ignore[arg-type]
    code.add(**store, times=stored).add(**moved)  # type: ignore[arg-type]
    code.add(**{**moved, "times": 1}, writes=0)  # type: ignore[arg-type]
    if kind == op.COPY:
        return straight(code.add(op.COPY_COMMIT).add(op.COPY_WAIT).add()).cycles
    return straight(code.add(waits=1)).cycles


def test_loads_come_more_slowly_the_busier_shared_memory_is() -> None:
    """Data for registers would come past loads and matmuls that keep shared memory busy."""
    busy = 200 * 4 / (200 * 4 + 15 * 60)
    assert _waited(op.LOAD, 0) == pytest.approx(LATENCIES.load + 15 * 60 + 100 * 4, abs=8)
    # The share of busy cycles falls while the loads come, 400 cycles of some 2,100: 20 cycles less than at its begin.
    assert _waited(op.LOAD, 200) - _waited(op.LOAD, 0) == pytest.approx(200 * 4 + 400 / (1 - busy) - 400, abs=25)


def test_copies_are_as_fast_however_busy_shared_memory_has_been() -> None:
    """On an H200, 92 B a cycle of LDGSTS arrive beside matmuls that take all of it."""
    assert _waited(op.COPY, 200) - _waited(op.COPY, 0) == pytest.approx(200 * 4, abs=8)


@pytest.mark.parametrize("kind", [op.LOAD, op.COPY])
def test_what_is_loaded_waits_behind_what_is_stored(kind: int) -> None:
    """Ten stores of 512 B leave after 320 cycles; a load that came after them would overtake them."""
    # The stores keep shared memory busy for 40 of some 940 cycles, by which 400 cycles of loads grow: 17 at most.
    left_cycles = 10 * 4 * LATENCIES.store_per_line
    assert _waited(kind, 0, stored=10) - _waited(kind, 0) == pytest.approx(left_cycles, abs=17)


def test_spilled_registers_do_not_wait_behind_what_is_stored() -> None:
    """Launches with many spills would be 10 % too slow, in place of 7 (a fit)."""
    spilled, data = (_waited(op.LOAD, 0, stored=10, spills=spills) for spills in (1, 0))
    # But behind the turns of ten stores at L1, 40 cycles: exact but for the begin of a turn.
    assert data - spilled == pytest.approx(10 * 4 * LATENCIES.store_per_line - 40, abs=4)


@pytest.mark.parametrize("warps", [1, 4, 8])
def test_an_address_may_change_when_l1_has_taken_the_copies_before(warps: int) -> None:
    """A row of LDGSTS would cost four warps 32 cycles; of a lone CTA on an H200, 64 of them take 240 in all."""
    copy = {"kind": op.COPY, "pipe": op.LSU, "interval": 4.0, "smem": 4.0, "tag_lines": 4.0, "read": 13.0, "reads": 0}
    row = Code().add(**copy, stall=4, times=8).add(waits=1)  # type: ignore[arg-type]
    assert straight(row, warps).cycles == pytest.approx(8 * 4 * warps + 13, abs=8)


@pytest.mark.parametrize("tags", [1, 4, 8])
def test_loads_pass_shared_memory_line_by_line(tags: int) -> None:
    """The output kernel of N = 3000, eight lines a load of 64 B, would be 50 % too fast."""
    load = {"kind": op.LOAD, "pipe": op.LSU, "interval": 2.0, "smem": 0.5, "tag_lines": float(tags)}
    read = {**LOAD_128, "writes": 0}
    code = Code().add(**load, times=50).add(**read).add(waits=1)  # type: ignore[arg-type]
    assert straight(code, 4).cycles == pytest.approx(max(50 * 4 * tags, 50 * 2) + 4 * 4 + 22, abs=8)


def test_what_an_atomic_gives_back_comes_from_l2_behind_what_is_stored() -> None:
    """It would be there as soon as L1 has taken it; who does not wait for it goes on."""
    store = {"kind": op.STORE, "pipe": op.LSU, "interval": 4.0, "smem": 4.0, "queued_lines": 52.0}
    for stores in (0, 8):
        code = Code().add(**store, times=stores)  # type: ignore[arg-type]
        waited = straight(code.add(**store, writes=0).add(waits=1))  # type: ignore[arg-type]
        left = 4 * (stores + 1) * LATENCIES.store_per_line
        assert waited.cycles == pytest.approx(left + LATENCIES.atomic, abs=12)
    assert straight(Code().add(**store).add()).cycles < 20  # type: ignore[arg-type]


@pytest.mark.parametrize("stores", [0, 8, 64])
def test_a_fence_waits_for_what_was_stored_and_holds_up_nobody(stores: int) -> None:
    """On an H200 a lone CTA waits 15 to 40 cycles at one, 59 to 107 where others store as well."""
    store = {**LOAD_128, "stores": 1}
    fence = {"kind": op.SHARED, "stores": 1, "latency": 20.0, "passes": 1.0, "writes": 0}
    waited = straight(Code().add(**store, times=stores).add(**fence).add(waits=1), 4)  # type: ignore[arg-type]
    assert waited.cycles == pytest.approx(16 * stores + 20, abs=8)
    copy = {"kind": op.COPY, "pipe": op.LSU, "interval": 4.0, "smem": 4.0, "times": 20}
    apart = Code().add(**copy).add(**LOAD_128, writes=0).add(waits=1)  # type: ignore[arg-type]
    beside = Code().add(**copy).add(**{**fence, "writes": -1}).add(**LOAD_128, writes=0).add(waits=1)  # type: ignore[arg-type]
    assert straight(beside, 4).cycles == pytest.approx(straight(apart, 4).cycles, abs=8)


@pytest.mark.parametrize(("between", "cycles"), [(0, 300 + 4), (40, 15 * 40 + 32)])
def test_l1_serves_what_is_under_way_when_it_comes(between: int, cycles: float) -> None:
    """Eight loads of the same lines would be there before the lines are; or each would take as long as the first."""
    load = {"pipe": op.LSU, "interval": 2.0, "smem": 4.0, "tag_lines": 4.0, "latency": 32.0}
    code = Code().add(op.LOAD, **load)  # type: ignore[arg-type]
    if between:
        code.add(stall=15, times=between)
    code.add(op.REUSED_LOAD, writes=0, **load).add(waits=1)  # type: ignore[arg-type]
    assert straight(code).cycles == pytest.approx(cycles, abs=12)
