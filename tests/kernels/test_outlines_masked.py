"""masked_flash and capped decode: what their machine code reads and multiplies, held against closed forms."""

from dataclasses import replace

import numpy as np
import pytest
from schedules import contract
from support.mask_definitions import seen_by_definition
from support.outlines import followed
from tilesight.kernels.launch.availability import missing_package
from tilesight.simulator.closed_form.roofline import roofline
from tilesight.simulator.device.device import load_device
from tilesight.simulator.launch.walk import tally
from tilesight.simulator.problems.attention import AttentionProblem
from tilesight.simulator.schedules.config import Config
from tilesight.simulator.simulate import simulate

import tilesight

pytestmark = pytest.mark.skipif(missing_package() is not None, reason=str(missing_package()))

H200 = load_device("h200")
SMALL = AttentionProblem(batch=2, heads=4, kv_heads=2, seqlen_q=256, seqlen_k=256, head_dim=64)
MASKS = {
    "causal": {"causal": True},
    "prefix": {"mask": "prefix:100"},
    "documents": {"mask": "documents:30,130,96", "causal": True},
    "unlike documents": {"mask": "documents:151,105", "causal": True},
    "blocks": {"mask": "blocks:1001/0000/0111/1011"},
    "first": {"mask": "first:4", "window": 40},
    "all of it": {"softcap": 30.0, "sinks": True},
}
TILES = {"block_m": 64, "block_n": 32}


def needed_tiles(problem: AttentionProblem) -> np.ndarray:
    """Of which tiles of 64 x 32 scores a query sees a key: bool (query tiles, key tiles)."""
    m, n = problem.seqlen_q, problem.seqlen_k
    seen = seen_by_definition(problem.mask, m, n, causal=problem.causal, window=problem.window)
    needed: np.ndarray = seen.reshape(m // 64, 64, n // 32, 32).any(axis=(1, 3))
    return needed


@pytest.mark.parametrize("asked", MASKS.values(), ids=list(MASKS))
def test_key_tiles_are_read_once_for_each_query_tile_that_sees_them(asked: dict[str, object]) -> None:
    """Q once where anything is seen, outputs once, K and V of no other tile, however far ahead they are loaded."""
    problem = replace(SMALL, **asked)
    launches = followed(problem, "masked_flash", num_stages=1, **TILES)
    contract.accesses_stay_inside(launches)
    contract.every_element_is_written(launches)
    contract.nothing_is_read_before_it_is_written(launches)
    exact, needed = tally(launches[0].program), needed_tiles(problem)
    assert exact.load_bytes["K"] == exact.load_bytes["V"] == 2 * 4 * needed.sum() * 32 * 64 * 2
    assert exact.load_bytes["Q"] == 2 * 4 * needed.any(axis=1).sum() * 64 * 64 * 2
    for stages in (2, 3, 4):
        ahead = tally(followed(problem, "masked_flash", num_stages=stages, **TILES)[0].program)
        assert [ahead.load_bytes[name] for name in "KV"] == [exact.load_bytes[name] for name in "KV"]
    assert exact.load_bytes["SEEN"] == 2 * 4 * 256 * 2 * 4
    if problem.sinks:
        ctas = 2 * 4 * len(needed)
        assert 4 * ctas <= exact.load_bytes["SINKS"] <= 32 * ctas  # no more than a sector each


@pytest.mark.parametrize("asked", MASKS.values(), ids=list(MASKS))
def test_predictions_of_masks_keep_to_physics(asked: dict[str, object]) -> None:
    """FLOP are those of the tiles, and at most those of the tensor cores; bytes no less than compulsory."""
    problem = replace(SMALL, **asked)
    resources_of = tilesight.compiler(problem, "h200", workers=1)
    asked_of = {"schedule": "masked_flash", "config": Config(**TILES), "resources_of": resources_of}
    prediction = simulate(problem, **asked_of)
    assert prediction.total.executed_flop == 2 * 4 * needed_tiles(problem).sum() * 4 * 64 * 32 * 64
    assert prediction.total.matmul_flop == problem.matmul_flop <= prediction.total.executed_flop
    assert prediction.total.hbm_read_bytes >= problem.compulsory.read_bytes
    peak_flop_per_s = H200.sms * H200.wgmma_fp16_flop_per_cycle * H200.boost_clock_hz
    assert prediction.total.executed_flop < prediction.time_s * peak_flop_per_s
    assert problem.compulsory.read_bytes < prediction.time_s * H200.hbm_peak_bytes_per_s


def test_a_decode_with_cap_and_sinks_reads_a_sink_a_head_and_takes_two_operations_more_a_score() -> None:
    """Bytes of K and V are those without; of 16 rows a tile each score costs an exponential and a reciprocal more."""
    problem = replace(SMALL, heads=32, kv_heads=2, seqlen_q=1, seqlen_k=1024)
    asked = {"schedule": "flash_decode", "config": Config(splits=2)}
    plain, asks_more = (
        simulate(posed, resources_of=tilesight.compiler(posed, "h200", workers=1), **asked)
        for posed in (problem, replace(problem, softcap=50.0, sinks=True))
    )
    assert 0 <= asks_more.total.hbm_read_bytes - plain.total.hbm_read_bytes <= 32 * 4 + 2 * 128
    more = asks_more.total.exp_count - plain.total.exp_count
    assert more == pytest.approx(2 * 2 * 2 * 16 * 1024, rel=0.01)
    assert asks_more.time_s >= plain.time_s


def test_values_narrower_than_keys_are_read_written_and_multiplied_at_their_width() -> None:
    """192 and 128, as DeepSeek-V3 prefills: bytes and operations tile by tile, the width of keys padded to 256."""
    problem = replace(SMALL, head_dim=192, head_dim_v=128, causal=True)
    (launch,) = followed(problem, "masked_flash", num_stages=1, **TILES)
    exact, tiles = tally(launch.program), int(needed_tiles(problem).sum())
    heads = problem.batch * problem.heads
    assert exact.load_bytes["Q"] == heads * 256 * 192 * 2
    assert exact.load_bytes["K"] == heads * tiles * 32 * 192 * 2
    assert exact.load_bytes["V"] == heads * tiles * 32 * 128 * 2
    assert exact.store_bytes["O"] == heads * 256 * 128 * 2
    resources_of = tilesight.compiler(problem, "h200", workers=1)
    total = simulate(problem, schedule="masked_flash", config=Config(**TILES), resources_of=resources_of).total
    assert total.executed_flop == heads * tiles * 2 * 64 * 32 * (256 + 128)
    assert total.matmul_flop == problem.matmul_flop == heads * 256 * 257 // 2 * 2 * (192 + 128)
    assert total.time_s > roofline(problem, H200).bound_s
