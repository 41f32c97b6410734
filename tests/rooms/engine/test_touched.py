"""What a launch touches, from where its tiles lie alone; against what a run reads."""

from dataclasses import replace

import numpy as np
import pytest
from machine.toys import GPU, TILE_BYTES, launch, run, tensor, tile
from tilesight.simulator.engine.lower import lower_tensors
from tilesight.simulator.engine.touched import touched_bytes
from tilesight.simulator.launch.lists import Lists
from tilesight.simulator.launch.program import Loop, Step


@pytest.mark.parametrize(("first", "step", "trips"), [(2, 1, 3), (4, -1, 3), (0, 1, 0)])
def test_a_loop_touches_the_tiles_of_its_trips_and_none_behind_the_last(first: int, step: int, trips: int) -> None:
    """Three of nine tiles, forwards or backwards; none without a trip, of which all is stepped through."""
    body = Step(name="load", loads=(tile("X", i=1),))
    made = launch((Loop(counter="i", trips=trips, first=first, step=step, body=(body,)),), (tensor("X", 9),), [(0,)])
    touched = touched_bytes(made.program, lower_tensors((made,), GPU, "chunk"))
    seen = run(made)
    assert touched == seen.hbm_read_bytes == trips * TILE_BYTES
    assert seen.simulated_fraction == 1


def test_a_list_of_a_cta_that_is_not_of_the_class_is_not_looked_at() -> None:
    """Its variables hold numbers of another class, here of lists that there are not."""
    lists = Lists(spans=np.array([(0, 1)]), pieces=np.array([(0, 0)]), at="at", until="until", per=())
    step = Step(name="load", loads=(replace(tile("X"), lists=lists),))
    body = (Loop(counter="guard", trips="member", body=(step,)),)
    made = launch(body, (tensor("X", 9),), [(0, 1, 0, 1), (0, 0, 900, 905)], ("slab", "member", "at", "until"))
    assert touched_bytes(made.program, lower_tensors((made,), GPU, "chunk")) == TILE_BYTES


def test_lists_that_items_share_are_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Six items with three pieces in all: eight rectangles if each were looked at by itself, twice what is allowed."""
    spans, pieces = np.array([(0, 1), (1, 1), (2, 1)]), np.array([(0, 0), (8, 0), (16, 0)])
    lists = Lists(spans=spans, pieces=pieces, at="at", until="until", per=())
    step = Step(name="load", loads=(replace(tile("X"), lists=lists),))
    items = [(0, 0, 1), (0, 1, 2), (0, 0, 1), (0, 1, 3), (0, 1, 2), (0, 1, 3)]
    made = launch((step,), (tensor("X", 9),), items, ("slab", "at", "until"))
    lowered = lower_tensors((made,), GPU, "chunk")
    monkeypatch.setattr("tilesight.simulator.engine.touched.ITEMS_AT_ONCE", 2)
    monkeypatch.setattr("tilesight.simulator.engine.touched.MOST_RECTANGLES", 4)
    assert touched_bytes(made.program, lowered) == 3 * TILE_BYTES


def test_too_many_rectangles_are_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """A launch of many CTAs that load many places each would take all of memory; rates say what it touches first."""
    body = Step(name="load", loads=(tile("X"),))
    made = launch((body,), (tensor("X", 9),), [(0,)] * 3)
    assert touched_bytes(made.program, lower_tensors((made,), GPU, "chunk")) == TILE_BYTES
    monkeypatch.setattr("tilesight.simulator.engine.touched.MOST_RECTANGLES", 2)
    assert touched_bytes(made.program, lower_tensors((made,), GPU, "chunk")) == 0


def test_a_slab_that_the_first_items_do_not_hold_is_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """What they touch of it would be taken for all that the launch does."""
    body = Step(name="load", loads=(replace(tile("X"), row=(("at", 8),)),))
    made = launch((body,), (tensor("X", 9),), [(0, 0), (0, 1), (0, 2)], ("slab", "at"))
    lowered = lower_tensors((made,), GPU, "chunk")
    assert touched_bytes(made.program, lowered) == run(made).hbm_read_bytes > 0
    monkeypatch.setattr("tilesight.simulator.engine.touched.MOST_ITEMS", 2)
    assert touched_bytes(made.program, lowered) == 0


def test_an_input_that_is_written_in_place_is_fetched_first() -> None:
    """Only what a launch itself makes is not for it to fetch."""
    step = Step(name="both", loads=(tile("X", i=1),), stores=(tile("X", i=1),))
    loop = Loop(counter="i", trips=3, body=(step,))
    in_place, made = (launch((loop,), (tensor("X", 9, role=role),), [(0,)]) for role in ("input", "output"))
    assert touched_bytes(in_place.program, lower_tensors((in_place,), GPU, "chunk")) == 3 * TILE_BYTES
    assert touched_bytes(made.program, lower_tensors((made,), GPU, "chunk")) == 0
