"""Tiles in pieces whose origins are listed: as tiles whose origins are affine, where these say the same."""

from dataclasses import replace

import numpy as np
import pytest
from machine.toys import COLS, GPU, TILE_BYTES, TILE_ROWS, launch, run, tensor, tile
from tilesight.simulator.engine.lower import lower_tensors
from tilesight.simulator.engine.touched import touched_bytes
from tilesight.simulator.launch.lists import Lists
from tilesight.simulator.launch.program import Launch, Loop, Path, Step
from tilesight.simulator.launch.walk import accesses, tally

TILES = 40


def listed(order: list[int], ctas: int, path: Path = "async") -> Launch:
    """CTA c loads tile order[c * n + i] in iteration i, each of them listed."""
    tiles_per_cta = len(order) // ctas
    pieces = np.array([(TILE_ROWS * number, 0) for number in order], dtype=np.int64)
    spans = np.array([(place, 1) for place in range(len(order))], dtype=np.int64)
    lists = Lists(spans=spans, pieces=pieces, at="at", until="until", per=(("i", 1),))
    step = Step(name="load", loads=(replace(tile("X", path=path), lists=lists),))
    items = [(0, cta * tiles_per_cta, (cta + 1) * tiles_per_cta) for cta in range(ctas)]
    body = (Loop(counter="i", trips=tiles_per_cta, body=(step,)),)
    return launch(body, (tensor("X", TILES),), items, ("slab", "at", "until"))


def affine(ctas: int, tiles_per_cta: int) -> Launch:
    """CTA c loads tile c * each + i in iteration i."""
    step = Step(name="load", loads=(tile("X", at=1, i=1),))
    body = (Loop(counter="i", trips=tiles_per_cta, body=(step,)),)
    return launch(body, (tensor("X", TILES),), [(0, cta * tiles_per_cta) for cta in range(ctas)], ("slab", "at"))


def test_a_list_in_order_is_a_loop() -> None:
    """The same accesses, bytes and cycles."""
    by_list, by_formula = listed(list(range(TILES)), 4), affine(4, 10)
    for cta in range(4):
        assert list(accesses(by_list.program, cta)) == list(accesses(by_formula.program, cta))
    assert tally(by_list.program) == tally(by_formula.program)
    ran, expected = run(by_list), run(by_formula)
    assert (ran.cycles, ran.fabric_bytes) == (expected.cycles, expected.fabric_bytes)
    assert ran.hbm_read_bytes == expected.hbm_read_bytes == TILES * TILE_BYTES


def test_pieces_are_looked_for_in_l1() -> None:
    """What the SM has just loaded is found there on a path through L1, and on no other."""
    order = [3, 3, 7, 3, 7, 7, 3, 3]
    assert run(listed(order, 1, "plain")).l1_hit_bytes == 6 * TILE_BYTES
    assert run(listed(order, 1)).l1_hit_bytes == 0


def test_pieces_of_one_granule_are_told_apart_in_l1() -> None:
    """Two halves of a row are one granule: the first is not found where the second is looked for."""
    pieces = np.array([(0, 0), (0, COLS // 2), (0, 0), (0, COLS // 2)], dtype=np.int64)
    spans = np.array([(number, 1) for number in range(4)], dtype=np.int64)
    lists = Lists(spans=spans, pieces=pieces, at="at", until="until", per=(("i", 1),))
    half = replace(tile("X", path="plain"), rows=1, cols=COLS // 2, lists=lists)
    body = (Loop(counter="i", trips=4, body=(Step(name="load", loads=(half,)),)),)
    made = launch(body, (tensor("X", TILES),), [(0, 0, 4)], ("slab", "at", "until"))
    assert run(made).l1_hit_bytes == 2 * COLS


def test_a_loop_that_is_cut_goes_through_each_list_once() -> None:
    """Twice three iterations of a round, the second three in a loop of their own: six lists, as accesses say."""
    order = [3, 1, 7, 4, 2, 6]
    whole = listed([*order, *order], 2)
    (loop,) = whole.program.body
    assert isinstance(loop, Loop)
    halves = (replace(loop, trips=2), replace(loop, trips=4, first=2))
    cut = replace(whole, program=replace(whole.program, body=halves))
    read = sum(access.rows for item in range(2) for access in accesses(cut.program, item))
    assert read == 12 * TILE_ROWS
    assert tally(cut.program).load_bytes == tally(whole.program).load_bytes == {"X": 12 * TILE_BYTES}


def test_a_loop_that_is_cut_goes_through_each_list_once_in_every_round() -> None:
    """Lists of two loops, one in the other: 2 rounds of 3, of which each half of the inner loop takes its own."""
    pieces = np.array([(TILE_ROWS * number, 0) for number in range(9)], dtype=np.int64)
    spans = np.array([(0, 1), (1, 2), (3, 1), (4, 1), (5, 3), (8, 1)], dtype=np.int64)
    lists = Lists(spans=spans, pieces=pieces, at="at", until="until", per=(("o", 3), ("i", 1)))
    step = Step(name="load", loads=(replace(tile("X"), lists=lists),))
    halves = tuple(Loop(counter="i", trips=trips, first=first, body=(step,)) for first, trips in ((0, 1), (1, 2)))
    body = (Loop(counter="o", trips=2, body=halves),)
    made = launch(body, (tensor("X", TILES),), [(0, 0, 6)], ("slab", "at", "until"))
    assert tally(made.program).load_bytes == {"X": 9 * TILE_BYTES}


def test_lists_of_long_nests_are_counted_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """2,000 rounds of up to 40 lists of an item: as many pieces as each of its lists has, in one sum."""
    rounds, most = 2000, 40
    counts = (np.arange(rounds * most) * 7919) % 3
    spans = np.stack([np.cumsum(counts) - counts, counts], axis=1)
    lists = Lists(
        spans=spans, pieces=np.zeros((counts.sum(), 2), dtype=np.int64), at="at", until="until",
        per=(("o", most), ("i", 2)),
    )  # fmt: skip
    step = Step(name="load", loads=(replace(tile("X"), lists=lists),))
    nest = (Loop(counter="o", trips=rounds, body=(Loop(counter="i", trips="trips", first=1, body=(step,)),)),)
    items = [(0, 0, len(spans), trips) for trips in (19, 0, 3)]
    made = launch(nest, (tensor("X", TILES),), items, ("slab", "at", "until", "trips"))
    counted, asked = Lists.counts, []
    monkeypatch.setattr(Lists, "counts", lambda *given: asked.append(1) or counted(*given))
    per_round = counts.reshape(rounds, most)[:, 2:]
    expected = sum(int(per_round[:, : 2 * trips : 2].sum()) for _, _, _, trips in items)
    assert tally(made.program).load_bytes == {"X": expected * TILE_BYTES}
    assert len(asked) == 1


def test_what_is_listed_twice_is_read_once() -> None:
    """From HBM; into the SM both times."""
    repeating = listed([3, 3, 7, 3, 7, 7, 3, 3], 2)
    assert run(repeating).hbm_read_bytes == 2 * TILE_BYTES
    assert tally(repeating.program).load_bytes == {"X": 8 * TILE_BYTES}


def test_what_lists_of_other_lengths_touch_is_counted_where_each_item_stands() -> None:
    """One piece from tile 4 on, and three from tile 24 on: four tiles, as a run reads from HBM."""
    pieces = np.array([(TILE_ROWS * number, 0) for number in (0, 0, 1, 2)], dtype=np.int64)
    lists = Lists(spans=np.array([(0, 1), (1, 3)], dtype=np.int64), pieces=pieces, at="at", until="until")
    step = Step(name="load", loads=(replace(tile("X", first=1), lists=lists),))
    items, variables = [(0, 4, 0, 1), (0, 24, 1, 2)], ("slab", "first", "at", "until")
    made = launch((step,), (tensor("X", TILES),), items, variables)
    touched = touched_bytes(made.program, lower_tensors((made,), GPU, "chunk"))
    assert touched == run(made).hbm_read_bytes == 4 * TILE_BYTES


def test_pieces_that_are_listed_come_as_late_as_the_last_of_them() -> None:
    """Each place comes sooner or later than the mean; the last of 16 at most as late as any may be."""
    gpu = replace(GPU, hbm_piece_latency_s=100e-9)
    for count, least in ((1, -100), (16, 50)):
        pieces = np.array([(TILE_ROWS * number, 0) for number in range(count)], dtype=np.int64)
        spans = np.array([(0, count)], dtype=np.int64)
        lists = Lists(spans=spans, pieces=pieces, at="at", until="until")
        half = replace(tile("X"), rows=1, cols=COLS // 2, lists=lists)
        made = launch((Step(name="load", loads=(half,)),), (tensor("X", TILES),), [(0, 0, 1)], ("slab", "at", "until"))
        assert least < run(made, gpu=gpu).cycles - run(made).cycles < 100
