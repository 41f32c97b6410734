"""FlashAttention-2 by TMA: the bytes of flash2 on another path, one loop for specialised warps, clear refusals."""

from dataclasses import replace

import pytest
from support.strategies import TOY, TOY_TCGEN05, TOY_WGMMA
from tilesight.simulator.device.device import Device, load_device
from tilesight.simulator.launch.program import Launch
from tilesight.simulator.launch.walk import accesses, steps, tally
from tilesight.simulator.problems.attention import AttentionProblem
from tilesight.simulator.schedules.config import Config
from tilesight.simulator.schedules.registry import find_schedule
from tilesight.simulator.simulate import simulate

TMA = find_schedule("flash2_tma")
PROBLEM = AttentionProblem(batch=1, heads=4, kv_heads=2, seqlen_q=300, seqlen_k=250, head_dim=64)
WHOLE = replace(PROBLEM, seqlen_q=256, seqlen_k=256)
BLOCKS = {"block_m": 128, "block_n": 64, "num_warps": 4}
LARGE = AttentionProblem(batch=4, heads=16, seqlen_q=4096, seqlen_k=4096, head_dim=128)


def _launch(
    problem: AttentionProblem = PROBLEM, name: str = "flash2_tma", device: Device = TOY_WGMMA, **chosen: int | str
) -> Launch:
    schedule = find_schedule(name)
    (launch,) = schedule.launches(problem, schedule.config(**{**BLOCKS, **chosen}), device)
    return launch


@pytest.mark.parametrize("specialised", [0, 1])
@pytest.mark.parametrize("kv_order", ["forward", "sawtooth"])
@pytest.mark.parametrize("causal", [False, True])
def test_every_item_touches_what_flash2_touches(specialised: int, kv_order: str, causal: bool) -> None:
    """The copy engine changes how a tile travels, neither the tile nor its turn."""
    problem = replace(PROBLEM, causal=causal)
    ours = _launch(problem, kv_order=kv_order, num_stages=2, warp_specialize=specialised)
    theirs = _launch(problem, "flash2", kv_order=kv_order, num_stages=2)
    assert ours.program.item_count == theirs.program.item_count
    for item in range(ours.program.item_count):
        assert list(accesses(ours.program, item)) == list(accesses(theirs.program, item))


@pytest.mark.parametrize("num_stages", [1, 3])
def test_what_is_loaded_comes_by_tma(num_stages: int) -> None:
    """Q too, and whether or not the loop is pipelined."""
    loads = {tile for step, _ in steps(_launch(num_stages=num_stages).program.body) for tile in step.loads}
    assert {(tile.tensor, tile.path) for tile in loads} == {("Q", "tma"), ("K", "tma"), ("V", "tma")}


@pytest.mark.parametrize(
    ("problem", "masked"),
    [(WHOLE, False), (PROBLEM, True), (replace(WHOLE, causal=True), True)],
    ids=["whole", "ragged", "causal"],
)
def test_specialised_warps_walk_one_loop(problem: AttentionProblem, masked: bool) -> None:
    """All tiles in it, each with the mask where any tile of the problem may need one."""
    executions = tally(_launch(problem, num_stages=2, warp_specialize=1).program).executions
    separate = tally(_launch(problem).program).executions
    assert executions["masked" if masked else "inner"] == separate["inner"] + separate["masked"]
    assert executions["inner" if masked else "masked"] == 0


@pytest.mark.parametrize(("device", "compute", "all_warps"), [(TOY_WGMMA, 8, 12), (TOY_TCGEN05, 4, 12)])
def test_the_compiler_adds_warps(device: Device, compute: int, all_warps: int) -> None:
    """Hopper: two groups of four compute and one loads; they start with all registers of the SM in equal shares."""
    launch = _launch(device=device, num_stages=2, warp_specialize=1)
    assert (launch.num_warps, launch.compute_warps, launch.warps_per_cta) == (4, compute, all_warps)
    assert launch.resources.registers_per_thread == 168
    assert (
        simulate(LARGE, schedule="flash2_tma", config=TMA.config(num_stages=2, warp_specialize=1))
        .launches[0]
        .ctas_per_sm
        == 1
    )


def test_specialised_shared_memory_holds_all_stages_and_an_exchange_of_o() -> None:
    """Q, two stages of K and V, 64 B a thread: within 1 % of the 180512 B that Triton 3.6 compiles, barriers aside."""
    launch = _launch(LARGE, device=load_device("h200"), block_n=128, num_stages=2, warp_specialize=1)
    assert launch.resources.smem_bytes_per_cta == 2 * 128 * (128 + 2 * 2 * 128) + 64 * 256
    assert launch.resources.smem_bytes_per_cta == pytest.approx(180512, rel=0.01)


@pytest.mark.parametrize(
    ("chosen", "device", "dtype", "text"),
    [
        ({}, TOY, "fp16", "toy has compute capability 8.0 and no TMA: flash2_tma needs 9.0 or newer; take flash2"),
        ({"num_warps": 8}, TOY_WGMMA, "fp16", "num_warps = 8: must be 4 with warp_specialize = 1"),
        ({"block_m": 64}, TOY_WGMMA, "fp16", "block_m = 64: must be 128 or 256 with warp_specialize = 1"),
        ({}, TOY_WGMMA, "fp32", "dtype = 'fp32': must be fp16 or bf16 with warp_specialize = 1 on toy"),
        ({"num_stages": 3}, TOY_WGMMA, "fp16", "num_stages = 3: must be at most 2 with warp_specialize = 1"),
    ],
)
def test_what_cannot_be_done_is_refused(chosen: dict[str, int], device: Device, dtype: str, text: str) -> None:
    """In one line, with what would do; nothing falls back to flash2 or to unspecialised warps by itself."""
    config = Config(**{**BLOCKS, "num_stages": 2, "warp_specialize": 1, **chosen})  # type: ignore[arg-type]
    with pytest.raises(ValueError) as caught:
        TMA.launches(replace(PROBLEM, dtype=dtype), config, device)
    assert str(caught.value).startswith(text)
    assert "\n" not in str(caught.value)


def test_options_in_conflict_are_refused_by_name_and_left_out_of_the_space() -> None:
    """`config` says why; `configs` keeps what goes together, or, where nothing does, says why."""
    with pytest.raises(ValueError, match="num_warps = 8: must be 4 with warp_specialize = 1"):
        TMA.config(num_warps=8, warp_specialize=1)
    assert {config.num_warps for config in TMA.configs(warp_specialize=1)} == {4}
    assert {config.warp_specialize for config in TMA.configs(num_warps=8)} == {0}
    with pytest.raises(ValueError, match="num_warps = 8: must be 4"):
        list(TMA.configs(num_warps=8, warp_specialize=1))


def test_fp8_needs_rows_of_whole_tma_strides() -> None:
    """16 B: any multiple of 8 elements of 16 bits, a multiple of 16 of 8 bits."""
    assert TMA.supports(replace(PROBLEM, head_dim=24)) is None
    assert TMA.supports(replace(PROBLEM, head_dim=48, dtype="fp8")) is None
    reason = TMA.supports(replace(PROBLEM, head_dim=24, dtype="fp8"))
    assert reason == "head_dim = 24: must be a multiple of 16 in fp8, TMA copies rows of 16 B"


def test_the_output_of_fp8_is_bf16() -> None:
    """As in FlashAttention-3: inputs take a byte an element, O two."""
    launch = _launch(replace(PROBLEM, dtype="fp8"), device=load_device("h200"))
    element = {tensor.name: tensor.element_bytes for tensor in launch.program.tensors}
    assert element == {"Q": 1, "K": 1, "V": 1, "O": 2, "LSE": 4}
