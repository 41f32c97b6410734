"""Matmuls in tensor memory: one warp issues them, all wait at an mbarrier that is told when they are done."""

import pytest
from machine.sm_toys import Code, walk
from support.listings import flow_of, launch_of
from tilesight.simulator.core.sm import instruction as op
from tilesight.simulator.core.sm import state as sm
from tilesight.simulator.device.device import load_device
from tilesight.simulator.sm.instructions import lower_code
from tilesight.simulator.sm.mbarriers import with_channels
from tilesight.simulator.trace.paths import find_paths

ARRIVAL, CYCLES = 120.0, 64.0
"""From the end of a matmul to the end of the wait for it; of a matmul."""


def code_of(matmuls: int, smem: float = 0.0, commits: int = 1) -> Code:
    """Matmuls with a commit behind each part of them, waits for all, and what uses their sums."""
    code = Code()
    for _ in range(commits):
        code.add(op.TENSOR_MEMORY_MATMUL, tensor_cycles=CYCLES, smem=smem, times=matmuls // commits)
        code.add(op.MATMUL_COMMIT, channel=op.MATMULS_CHANNEL, latency=ARRIVAL)
    return code.add(op.MBARRIER_WAIT, channel=op.MATMULS_CHANNEL, times=commits).add()


@pytest.mark.parametrize("commits", [1, 4])
def test_a_wait_is_over_when_the_matmuls_before_its_commit_are(commits: int) -> None:
    """All four warps wait, one issues; each commit takes its turn of a cycle."""
    code = code_of(8, commits=commits)
    stop = len(code.rows)
    seen = walk(code, [[(0, stop, -1)], *[[(8 + commits, stop, -1)]] * 3])
    assert seen.cycles == pytest.approx(8 * CYCLES + ARRIVAL, abs=commits + 2)
    assert seen.used[sm.MATMULS] == 8 * CYCLES


def test_a_warp_that_does_not_issue_does_not_go_on_without_the_sums() -> None:
    """It would, if a wait were over where nothing has been announced yet."""
    code = Code().add(stall=15, times=20)
    code.rows += [row._replace(leader=1) for row in code_of(1).rows]
    # The first warp only waits, at instruction 22, and passes mark 5 behind that.
    seen = walk(code, [[(22, 23, -1), (23, 24, 5)], [(0, 24, -1)]])
    assert seen.times(5)[0] >= 20 * 15 + CYCLES + ARRIVAL


def test_ctas_share_the_tensor_cores() -> None:
    """Two CTAs take twice as long as one, and neither waits for the other's sums longer than it must."""
    code = code_of(8)
    path = [[(0, len(code.rows), -1)]]
    assert walk(code, path, offsets=(0.0, 0.0)).cycles == pytest.approx(16 * CYCLES + ARRIVAL, abs=4)


def test_operands_that_pass_shared_memory_slowly_slow_a_matmul_down() -> None:
    """M = 128, N = 64 with A in shared memory: 48 lines of operands in 32 cycles of the tensor cores."""
    code = code_of(8, smem=96.0)
    seen = walk(code, [[(0, len(code.rows), -1)]])
    assert seen.cycles == pytest.approx(8 * 96.0 + ARRIVAL, abs=4)
    assert seen.used[sm.MATMULS] == 8 * CYCLES


def test_waits_for_matmuls_are_told_from_those_for_copies() -> None:
    """They are at an mbarrier on which no copy is announced."""
    flow = flow_of(
        "SYNCS.ARRIVE.TRANS64 RZ, [UR16+0xc000], R0",
        "SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR9+0xc000], R3",
        "UMOV UR43, 0x4100010",
        "UTCHMMA gdesc[UR12], gdesc[UR18], tmem[UR32], tmem[UR42], idesc[UR43], UPT",
        "UTCBAR [UR4], URZ",
        "SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR17], R2",
        "EXIT",
    )
    code = op.code_table(lower_code(flow.instructions, 100, load_device("b200").sm)[0])
    code = with_channels(code, launch_of(), find_paths(flow, [[0]]))
    assert code["kind"][3:5].tolist() == [op.TENSOR_MEMORY_MATMUL, op.MATMUL_COMMIT]
    assert (code["tensor_cycles"][3], code["smem_lines"][3]) == (32.0, 32.0)
    assert code["channel"][[1, 4, 5]].tolist() == [0, op.MATMULS_CHANNEL, op.MATMULS_CHANNEL]
    assert code["in_order"][[1, 5]].tolist() == [1, 0]
