"""Plain loads go through L1, asynchronous copies past it."""

from dataclasses import replace

import numpy as np
import pytest
from closed_forms.sm_bytes import flash1_fill_bytes
from machine.toys import GPU, KIB, TILE_BYTES, Tensor, Tile, launch, run, sweeps
from tilesight.simulator.core.engine.l1 import hit_share, look_up, make_l1
from tilesight.simulator.device.device import Device
from tilesight.simulator.dtypes import DTYPES
from tilesight.simulator.launch.program import Loop, Step, affine
from tilesight.simulator.problems.attention import AttentionProblem
from tilesight.simulator.schedules.config import Config
from tilesight.simulator.simulate import simulate

ALONE = {"smem_bytes": 100 * KIB}


def gpu_with_l1(kib: int) -> Device:
    """The toy with so much L1 left beside CTAs of `ALONE`, for which shared memory takes all it can."""
    return replace(GPU, smem_per_sm_bytes=110 * KIB, smem_per_cta_bytes=110 * KIB, l1_bytes=(110 + kib) * KIB)


@pytest.mark.parametrize(("kib", "hits"), [(24, 24), (12, 11), (8, 1), (4, 0)])
def test_a_plain_sweep_hits_the_more_the_smaller_it_is_beside_l1(kib: int, hits: int) -> None:
    """Three sweeps over 12 tiles: both later ones hit in twice the room, half of them in as much, few in less."""
    seen = run(sweeps(tiles=12, times=3, slabs=(0,), path="plain", **ALONE), gpu=gpu_with_l1(kib))
    assert seen.l2_read_bytes == (36 - hits) * TILE_BYTES
    assert seen.l1_hit_bytes == hits * TILE_BYTES


def test_copies_of_few_bytes_a_thread_go_through_l1() -> None:
    """cp.async moves 4 or 8 bytes a thread through L1 only: flash1, 16 rows, 8 warps: fill up to 188 % off."""
    seen = run(sweeps(tiles=12, times=3, slabs=(0,), path="cached", **ALONE), gpu=gpu_with_l1(24))
    assert seen.l1_hit_bytes == 24 * TILE_BYTES


@pytest.mark.parametrize("path", ["async", "tma"])
def test_asynchronous_copies_bypass_l1(path: str) -> None:
    """Every sweep goes to L2."""
    seen = run(sweeps(tiles=12, times=3, slabs=(0,), path=path, **ALONE), gpu=gpu_with_l1(12))  # type: ignore[arg-type]
    assert seen.l2_read_bytes == 36 * TILE_BYTES
    assert seen.l1_hit_bytes == 0


def test_each_sm_has_an_l1_of_its_own() -> None:
    """Both SMs bring the same tiles in once."""
    seen = run(sweeps(tiles=12, times=3, slabs=(0, 0), path="plain", **ALONE), gpu=gpu_with_l1(24))
    assert seen.l2_read_bytes == 24 * TILE_BYTES
    assert seen.l1_hit_bytes == 48 * TILE_BYTES


def test_a_large_tile_evicts_all_that_it_needs_room_for() -> None:
    """Three tiles of 40 KiB, one of 120 KiB, a small one: none of the first three is left in 98 KiB."""
    sizes = {"a": (40, 0), "b": (40, 40), "c": (40, 80), "large": (120, 120), "small": (1, 240)}
    order = ["a", "b", "c", "large", "small", "c", "b", "a"]
    loads = [Step(name=f"{at} {name}", loads=(_rows(*sizes[name]),)) for at, name in enumerate(order)]
    held = Tensor(name="X", role="input", slabs=1, rows=2048, cols=64, dtype=DTYPES["fp16"])
    capacity = replace(GPU, smem_per_sm_bytes=64 * KIB, smem_per_cta_bytes=64 * KIB, l1_bytes=114 * KIB)
    assert run(launch(loads, (held,), [(0, 1)], ("slab", "one")), gpu=capacity).l1_hit_bytes == 0


def _rows(kib: int, first_kib: int) -> Tile:
    rows = kib * KIB // 128
    return Tile(tensor="X", slab="slab", rows=rows, cols=64, row=affine(one=first_kib * KIB // 128))


def test_a_hit_takes_the_latency_of_l1() -> None:
    """382 cycles for the first time (device memory and fabric), 30 for each of the others."""
    assert run(sweeps(tiles=1, times=5, slabs=(0,), path="plain")).cycles == 382 + 4 * 30


def test_what_a_cta_stores_it_finds_again_in_l1() -> None:
    """FlashAttention-1 loads and stores O and statistics once per key tile: L1 keeps what is stored, at once."""
    problem = AttentionProblem(batch=1, heads=2, seqlen_q=128, seqlen_k=512, head_dim=64)
    config = Config(block_m=64, block_n=32, num_warps=4, num_stages=3, warp_split="q")
    total = simulate(problem, schedule="flash1", config=config, cost="tiles").total
    state = sum(flash1_fill_bytes(problem, 64, 32)[name] for name in ("O", "L", "MAX"))
    assert total.l1_hit_bytes == pytest.approx(state, rel=0.02)


CURVE = np.array(((0.5, 2.9), (1.0, 0.0)))
"""All hits up to half of the room, none beyond 2.9 times."""


def test_l1_remembers_small_tiles_as_far_back_as_large_ones() -> None:
    """Tiles of 16 rows would be forgotten after 256 of them, in a quarter of the room."""
    l1 = make_l1(1)
    hits = [look_up(l1, CURVE, 2048.0 * KIB, tag, KIB, 0, False) for _ in range(2) for tag in range(600)]
    assert hits == [False] * 600 + [True] * 600


def test_l1_finds_what_a_list_in_order_of_use_has() -> None:
    """Tiles of several sizes, loaded and stored at random, held against a list that is gone through one by one."""
    draw, room, l1 = np.random.default_rng(0), 40.0 * KIB, make_l1(1)
    listed: list[tuple[int, int]] = []
    due = 0
    for tag, store in zip(draw.integers(0, 900, 4000).tolist(), (draw.random(4000) < 0.2).tolist(), strict=True):
        size = 128 * (1 + tag % 3)
        newer = listed.index((tag, size)) if (tag, size) in listed[:1024] else 1024
        distance = size + sum(bytes_of for _, bytes_of in listed[:newer])
        hits = False
        if newer < 1024 and distance < np.ceil(2.9 * room):
            listed.pop(newer)
            share = hit_share(distance, room, CURVE)
            due += int(share * size) * (not store)
            hits = due >= size and not store
            due -= size * hits
        listed.insert(0, (tag, size))
        assert look_up(l1, CURVE, room, tag, size, 0, store) == hits


def test_a_piece_of_a_line_takes_the_room_of_the_line() -> None:
    """H200: 2048 lines of which one sector each is loaded fill 248 KiB of L1 as whole ones do; twelve sweeps here."""
    held = Tensor(name="X", role="input", slabs=1, rows=12 * 128, cols=64, dtype=DTYPES["fp16"])

    def hits(cols: int) -> int:
        tile = Tile(tensor="X", slab="slab", rows=128, cols=cols, row=affine(i=128))
        loop = Loop(counter="i", trips=12, body=(Step(name="load", loads=(tile,)),))
        twice = Loop(counter="j", trips=2, body=(loop,))
        whole = run(launch((twice,), (held,), [(0, 1)], ("slab", "one"), **ALONE), gpu=gpu_with_l1(12 * 16))
        return whole.l1_hit_bytes // (128 * cols * 2)

    assert hits(16) == hits(64) > 0
