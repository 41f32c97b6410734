"""Decoding over latents as its machine code tells it: what is read and written, counted by hand and held to physics."""

import sys
from dataclasses import replace

import pytest
from schedules import contract
from support.outlines import followed
from tilesight.kernels.launch.availability import missing_package
from tilesight.simulator.closed_form.roofline import roofline
from tilesight.simulator.device.device import load_device
from tilesight.simulator.launch.walk import tally
from tilesight.simulator.problems.latent_attention import LatentAttentionProblem
from tilesight.simulator.schedules.config import Config
from tilesight.simulator.schedules.registry import find_schedule
from tilesight.simulator.simulate import simulate

import tilesight

pytestmark = pytest.mark.skipif(missing_package() is not None, reason=str(missing_package()))

H200 = load_device("h200")
SMALL = LatentAttentionProblem(batch=2, heads=32, seqlen_q=1, seqlen_k=512, dtype="bf16")
STEP = replace(SMALL, batch=16, heads=128, seqlen_k=4096)
"""DeepSeek-V3, 16 sequences of 4096 keys: 75 MB of latents, more than an L2 holds."""
LATENT_BYTES = 576 * 2
SECTOR_BYTES = 32


@pytest.mark.parametrize("splits", [1, 4])
def test_the_tables_of_the_docstring_are_true(splits: int) -> None:
    """Bytes of each tensor are its size times what is written down: the latents once a tile of heads, not twice."""
    launches = followed(SMALL, "mla_decode", splits=splits, block_m=16)
    tables = contract.tables(sys.modules[find_schedule("mla_decode").launches.__module__].__doc__ or "")
    for launch in launches:
        exact = tally(launch.program)
        for tensor in launch.program.tensors:
            texts = tables[launch.name].get(tensor.name, ("0", "1"))  # of one split: O and LSE themselves
            wanted = [eval(text, {}, {"splits": splits, "head_tiles": 2}) * tensor.size_bytes for text in texts]
            if launch.name == "flash_decode_merge" and tensor.name.startswith("LSE"):
                wanted = [bytes_ * SECTOR_BYTES // 4 for bytes_ in wanted]  # of one head: a number a sector
            assert [moved.get(tensor.name, 0) for moved in (exact.load_bytes, exact.store_bytes)] == wanted
    assert contract.executed_flop(launches) == SMALL.matmul_flop


@pytest.mark.parametrize(
    "changed",
    [{"seqlen_q": 3, "causal": True, "heads": 8, "seqlen_k": 300}, {"lengths": (512, 77)}, {"page": 16}, {"page": 64}],
    ids=str,
)
def test_traced_splits_keep_the_contract_of_schedules(changed: dict[str, int]) -> None:
    """Inside their tensors, all that is written is written once, nothing before it is written; whatever the cache."""
    problem = replace(SMALL, **changed)
    launches = followed(problem, "mla_decode", splits=4, block_m=16)
    contract.accesses_stay_inside(launches)
    contract.every_element_is_written(launches)
    contract.nothing_is_read_before_it_is_written(launches)
    read_bytes = tally(launches[0].program).load_bytes["C"]
    assert read_bytes == 2 * sum(problem.key_lengths) * LATENT_BYTES


@pytest.mark.parametrize("device", ["h100", "h200"])
@pytest.mark.parametrize("heads", [16, 128])
def test_a_step_keeps_within_physics(device: str, heads: int) -> None:
    """Latents come from HBM once and to SMs once a tile of heads; no faster than HBM and tensor cores can."""
    problem, block_m = replace(STEP, heads=heads), min(64, heads)
    config = Config(splits=4, block_m=block_m, num_warps=8 if block_m == 64 else 4)
    compile_ = tilesight.compiler(problem, device, workers=1)
    prediction = simulate(
        problem, schedule="mla_decode", config=config, device=device, resources_of=compile_, overhead="graph"
    )
    split, merge = prediction.launches
    latents_bytes = 16 * 4096 * LATENT_BYTES
    assert problem.compulsory.read_bytes <= split.traffic.hbm_read_bytes <= 1.02 * problem.compulsory.read_bytes
    asked_bytes = 4 * 16 * heads * LATENT_BYTES + heads // block_m * latents_bytes
    assert split.traffic.smem_fill_bytes == pytest.approx(asked_bytes, rel=0.002)
    # L2 answers SMs once that ask for the same bytes together.
    assert heads // block_m * latents_bytes < split.traffic.l2_read_bytes <= split.traffic.smem_fill_bytes
    assert merge.traffic.l2_read_bytes == pytest.approx(4 * 16 * heads * (512 * 4 + SECTOR_BYTES), rel=0.01)
    assert prediction.total.matmul_flop == 2 * 16 * heads * 4096 * (576 + 512)
    assert roofline(problem, load_device(device)).bound_s < prediction.time_s


def test_what_a_tile_of_heads_cannot_be_is_refused_in_one_line() -> None:
    """More rows than there are queries; O of a large tile in few warps; more splits than tiles of keys."""
    schedule = find_schedule("mla_decode")
    with pytest.raises(ValueError, match=r"block_m = 64: 32 queries of a sequence .*: must be at most 32"):
        schedule.launches(SMALL, Config(block_m=64, num_warps=8), H200)
    with pytest.raises(ValueError, match="num_warps = 4: O of 64 rows fills the registers of 8 warps"):
        schedule.config(block_m=64)
    with pytest.raises(ValueError, match="splits = 9: 512 keys are 8 tiles of 64"):
        schedule.launches(SMALL, Config(splits=9), H200)


def test_explore_says_what_the_rules_of_two_engines_cost() -> None:
    """Sixteen splits of vLLM for 8192 keys, whatever the batch; the eight that SGLang takes at most."""
    problem = replace(SMALL, heads=16, batch=1, seqlen_k=8192)
    compile_ = tilesight.compiler(problem, "h200", workers=1)
    explored = tilesight.explore(
        problem, schedule="mla_decode", resources_of=compile_, overhead="graph", block_m=16, block_n=64, splits=(8, 64)
    )
    assert explored.ranked[0].config.splits == 64
    (note,) = (note for note in explored.notes if note.startswith("by the rules of other programs"))
    assert "vLLM Triton splits 16 (" in note and "SGLang Triton splits 8 (" in note
