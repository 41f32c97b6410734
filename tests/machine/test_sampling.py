"""Where granules are too many and too small, a few stand for all: bytes and cycles stay what they are."""

import pytest
from tilesight.simulator.device.device import load_device
from tilesight.simulator.engine import lower
from tilesight.simulator.problems.attention import AttentionProblem
from tilesight.simulator.simulate import launches_of, simulate

DEVICE = load_device("h200")
PROBLEM = AttentionProblem(batch=1, heads=16, kv_heads=16, seqlen_q=2048, seqlen_k=2048, head_dim=64)
UNALIGNED = AttentionProblem(batch=1, heads=16, kv_heads=4, seqlen_q=1000, seqlen_k=3000, head_dim=64)
COUNTED = ("cycles", "hbm_read_bytes", "hbm_write_bytes", "l2_write_bytes", "fabric_bytes")


@pytest.mark.parametrize("schedule", ["naive", "unfused"])
@pytest.mark.parametrize("problem", [PROBLEM, UNALIGNED])
def test_a_sample_counts_what_all_granules_do(
    schedule: str, problem: AttentionProblem, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Scores that overflow L2, and lines that are not aligned."""
    predictions = []
    for above in (1 << 60, 0):
        monkeypatch.setattr(lower, "SAMPLE_ABOVE_GRANULES", above)
        predictions.append(simulate(problem, schedule=schedule, device=DEVICE))
    for whole, sampled in zip(predictions[0].launches, predictions[1].launches, strict=True):
        for name in COUNTED:
            expected = getattr(whole.traffic, name)
            assert getattr(sampled.traffic, name) == pytest.approx(expected, rel=0.01, abs=2e5), (whole.name, name)


def test_only_what_is_large_is_sampled() -> None:
    """Scores, not keys; and no line of memory, as each is asked for."""
    launches = launches_of(PROBLEM, "naive", None, DEVICE)
    tensors = lower.lower_tensors(launches, DEVICE, "chunk")
    scores, keys = (tensors.table[tensors.index[name]] for name in "SK")
    assert keys["sampling_stride"] == 1
    assert scores["sampling_stride"] > 1
    assert scores["row_granules"] * scores["sampling_stride"] * scores["granule_row_bytes"] == scores["row_bytes"]
    assert lower.lower_tensors(launches, DEVICE, "line").table["sampling_stride"].max() == 1
