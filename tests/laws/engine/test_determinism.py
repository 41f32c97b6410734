"""Same input, same output, bit for bit."""

import json
import os
import subprocess
import sys

from hypothesis import given, settings
from hypothesis import strategies as st
from laws.cases import Case, cases
from tilesight.simulator.problems.attention import AttentionProblem
from tilesight.simulator.simulate import simulate, simulate_with_timeline

PROGRAM = """
import json
from tilesight.simulator.problems.attention import AttentionProblem
from tilesight.simulator.simulate import simulate
problem = AttentionProblem(batch=2, heads=24, seqlen_q=2048, seqlen_k=2048, head_dim=64, causal=True)
print(json.dumps([simulate(problem, schedule=name).to_dict() for name in ("flash2", "naive")]))
"""


@settings(max_examples=100)
@given(case=cases(), l2=st.sampled_from(("cold", "warm")), resolution=st.sampled_from(("chunk", "line")))
def test_the_same_call_gives_the_same_json(case: Case, l2: str, resolution: str) -> None:
    """Nothing is left over from one call to the next."""
    first = json.dumps(case.simulate(l2=l2, resolution=resolution).to_dict())
    second = simulate(
        case.problem,
        schedule=case.schedule,
        config=case.config,
        device=case.device,
        l2=l2,
        resolution=resolution,
        steady_state=case.steady_state,
    )
    assert first == json.dumps(second.to_dict())


def test_other_processes_give_the_same_json() -> None:
    """Whatever the hash seed."""
    said = []
    for seed in ("1", "2"):
        environment = os.environ | {"PYTHONHASHSEED": seed}
        finished = subprocess.run(
            [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=False
        )
        assert finished.returncode == 0, finished.stderr
        said.append(finished.stdout)
    assert said[0] == said[1] != ""


def test_calls_in_between_change_nothing() -> None:
    """A large problem, a small one, the large one again."""
    large = AttentionProblem(batch=4, heads=16, seqlen_q=4096, seqlen_k=4096, head_dim=64)
    before = simulate(large)
    simulate_with_timeline(
        AttentionProblem(batch=1, heads=2, seqlen_q=100, seqlen_k=77, head_dim=40), schedule="flash1"
    )
    assert simulate(large) == before
