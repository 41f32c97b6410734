"""Rounds in which loads come that L1 has no room for at once."""

import pytest
from tilesight.simulator.device.device import load_device
from tilesight.simulator.problems.attention import AttentionProblem
from tilesight.simulator.schedules.config import Config
from tilesight.simulator.schedules.registry import find_schedule
from tilesight.simulator.sm.latency_slack import LatencySlack, with_rounds


@pytest.mark.parametrize(("block_n", "l1_kib", "rounds"), [(64, 28, 1), (128, 28, 2), (128, 124, 1)])
def test_loads_come_in_as_many_rounds_as_l1_has_room_for(block_n: int, l1_kib: int, rounds: int) -> None:
    """H200: a CTA waits for 64 KiB of K and V as for two tiles one after the other, for 32 KiB as for one."""
    problem = AttentionProblem(batch=1, heads=4, seqlen_q=128, seqlen_k=1024, head_dim=128)
    config = Config(block_m=64, block_n=block_n)
    (launch,) = find_schedule("flash1").launches(problem, config, load_device("h200"))
    slacks = {"inner": LatencySlack(waits=2)}
    waits = {name: slack.waits for name, slack in with_rounds(slacks, launch, l1_kib << 10).items()}
    assert waits == {"prologue": 1, "outer": rounds, "inner": 2}
