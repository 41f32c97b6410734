"""Plain loads go through L1, asynchronous copies past it."""

from dataclasses import replace

import pytest
from machine.toys import GPU, KIB, TILE_BYTES, Tensor, Tile, launch, run, sweeps
from tilesight.simulator.closed_form_fill import flash1_fill_bytes
from tilesight.simulator.device import Device
from tilesight.simulator.problem import AttentionProblem
from tilesight.simulator.program import Step, affine
from tilesight.simulator.schedule import Config
from tilesight.simulator.simulate import simulate

ALONE = {"smem_bytes": 100 * KIB}


def gpu_with_l1(kib: int) -> Device:
    """The toy with so much L1 left beside one CTA of `ALONE`."""
    return replace(GPU, smem_per_sm_bytes=110 * KIB, smem_per_cta_bytes=110 * KIB, l1_bytes=(101 + kib) * KIB)


def test_a_plain_sweep_of_what_fits_hits_from_the_second_time_on() -> None:
    """Three sweeps over 12 tiles: 12 tiles from L2, 24 from L1."""
    seen = run(sweeps(tiles=12, times=3, slabs=(0,), path="plain", **ALONE), gpu=gpu_with_l1(12))
    assert seen.l2_read_bytes == 12 * TILE_BYTES
    assert seen.l1_hit_bytes == 24 * TILE_BYTES


@pytest.mark.parametrize("path", ["async", "tma"])
def test_asynchronous_copies_bypass_l1(path: str) -> None:
    """Every sweep goes to L2."""
    seen = run(sweeps(tiles=12, times=3, slabs=(0,), path=path, **ALONE), gpu=gpu_with_l1(12))  # type: ignore[arg-type]
    assert seen.l2_read_bytes == 36 * TILE_BYTES
    assert seen.l1_hit_bytes == 0


def test_a_plain_sweep_of_one_tile_too_much_never_hits() -> None:
    """LRU, again and again over 13 tiles where 12 fit."""
    seen = run(sweeps(tiles=13, times=3, slabs=(0,), path="plain", **ALONE), gpu=gpu_with_l1(12))
    assert seen.l2_read_bytes == 39 * TILE_BYTES
    assert seen.l1_hit_bytes == 0


def test_shared_memory_in_use_leaves_less_l1() -> None:
    """192 KiB less 1 KiB reserved and 150 KiB of a CTA's own hold 41 tiles."""
    for tiles, hits in ((41, 41), (42, 0)):
        sweep = sweeps(tiles=tiles, times=2, slabs=(0,), path="plain", smem_bytes=150 * KIB)
        assert run(sweep).l1_hit_bytes == hits * TILE_BYTES


def test_each_sm_has_an_l1_of_its_own() -> None:
    """Both SMs bring the same tiles in once."""
    seen = run(sweeps(tiles=12, times=3, slabs=(0, 0), path="plain", **ALONE), gpu=gpu_with_l1(12))
    assert seen.l2_read_bytes == 24 * TILE_BYTES
    assert seen.l1_hit_bytes == 48 * TILE_BYTES


def test_a_large_tile_evicts_all_that_it_needs_room_for() -> None:
    """Three tiles of 40 KiB, one of 120 KiB, a small one: none of the first three is left in 152 KiB."""
    sizes = {"a": (40, 0), "b": (40, 40), "c": (40, 80), "large": (120, 120), "small": (1, 240)}
    order = ["a", "b", "c", "large", "small", "c", "b", "a"]
    loads = [Step(name=f"{at} {name}", loads=(_rows(*sizes[name]),)) for at, name in enumerate(order)]
    held = Tensor(name="X", role="input", slabs=1, rows=2048, cols=64, element_bytes=2)
    capacity = replace(GPU, l1_bytes=168 * KIB)  # 16 KiB are reserved for 16 CTAs
    assert run(launch(loads, (held,), [(0, 1)], ("slab", "one")), gpu=capacity).l1_hit_bytes == 0


def _rows(kib: int, first_kib: int) -> Tile:
    rows = kib * KIB // 128
    return Tile(tensor="X", slab="slab", rows=rows, cols=64, row=affine(one=first_kib * KIB // 128))


def test_a_hit_takes_the_latency_of_l1() -> None:
    """382 cycles for the first time (device memory and fabric), 30 for each of the others."""
    assert run(sweeps(tiles=1, times=5, slabs=(0,), path="plain")).cycles == 382 + 4 * 30


def test_a_slice_that_a_cta_stores_as_it_sweeps_is_not_served_by_l1() -> None:
    """FlashAttention-1 loads and stores O and statistics once per key tile: L1 forgets what is stored."""
    problem = AttentionProblem(batch=1, heads=2, seqlen_q=512, seqlen_k=512, head_dim=64)
    total = simulate(problem, schedule="flash1", config=Config(num_stages=3)).total
    assert total.l1_hit_bytes == 0
    assert total.smem_fill_bytes == sum(flash1_fill_bytes(problem, 128, 64).values())
