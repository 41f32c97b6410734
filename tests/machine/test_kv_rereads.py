"""Device memory reads of attention: each input once where K and V fit, K and V again in each wave where they do not."""

import numpy as np
import pytest
from tilesight.simulator.device.device import load_device
from tilesight.simulator.problems.attention import AttentionProblem
from tilesight.simulator.schedules.config import Config
from tilesight.simulator.simulate import simulate

H200 = load_device("h200")
FITS = [
    AttentionProblem(batch=4, heads=32, seqlen_q=4096, seqlen_k=4096, head_dim=64),
    AttentionProblem(batch=2, heads=16, seqlen_q=4096, seqlen_k=4096, head_dim=128, causal=True),
    AttentionProblem(batch=1, heads=16, kv_heads=2, seqlen_q=8192, seqlen_k=8192, head_dim=128),
    AttentionProblem(batch=3, heads=5, seqlen_q=1000, seqlen_k=3001, head_dim=64, dtype="fp8"),
]


@pytest.mark.parametrize("problem", FITS, ids=lambda p: f"H{p.heads}G{p.kv_heads}N{p.seqlen_k}D{p.head_dim}")
def test_attention_whose_keys_fit_reads_q_k_and_v_once(problem: AttentionProblem) -> None:
    """To the byte, whatever the number of waves."""
    seen = simulate(problem, device=H200, steady_state=False).total
    assert seen.hbm_read_bytes == problem.compulsory.read_bytes


@pytest.mark.parametrize("seqlen", [131072, 163840, 196608])
def test_keys_that_do_not_fit_twice_are_read_once_per_wave(seqlen: int) -> None:
    """One head whose K and V take more than half of the L2: Q once, K and V once for each wave of CTAs."""
    problem = AttentionProblem(batch=1, heads=1, seqlen_q=seqlen, seqlen_k=seqlen, head_dim=64)
    seen = simulate(problem, device=H200, config=Config(block_n=128), steady_state=False)
    q_bytes = seqlen * 128
    waves = np.ceil(seen.launches[0].waves)
    assert 2 * 2 * q_bytes > H200.l2_bytes
    assert waves >= 4
    assert seen.total.hbm_read_bytes == pytest.approx(q_bytes + waves * 2 * q_bytes, rel=0.01)


def test_a_wave_that_touches_two_heads_reads_both() -> None:
    """With several heads, each wave reads the K and V of all heads that it touches, within a few percent."""
    seqlen, heads = 114688, 4
    problem = AttentionProblem(batch=1, heads=heads, seqlen_q=seqlen, seqlen_k=seqlen, head_dim=64)
    seen = simulate(problem, device=H200, config=Config(block_n=128), steady_state=False)
    slots = H200.sms * seen.launches[0].ctas_per_sm
    q_tiles = seqlen // 128
    starts = np.arange(0, heads * q_tiles, slots)
    ends = np.minimum(starts + slots, heads * q_tiles) - 1
    touched = int((ends // q_tiles - starts // q_tiles + 1).sum())
    q_bytes = seqlen * 128
    assert seen.total.hbm_read_bytes == pytest.approx(heads * q_bytes + touched * 2 * q_bytes, rel=0.05)
