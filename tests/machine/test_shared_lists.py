"""Many rows of a use that lie in one long row: a list that CTAs share moves what tiles of their own would."""

import gc
import weakref
from dataclasses import replace

import numpy as np
import pytest
from machine.toys import GPU, launch, run
from tilesight.simulator.dtypes import DTYPES
from tilesight.simulator.emulator.storage import Storage
from tilesight.simulator.engine import engine, touched
from tilesight.simulator.engine.launch_state import LaunchState
from tilesight.simulator.engine.lower import lower_tensors
from tilesight.simulator.launch.program import Launch, Loop, Step, Tensor
from tilesight.simulator.launch.walk import accesses, tally
from tilesight.simulator.prediction.compulsory import compulsory_read_bytes
from tilesight.simulator.residency import l1_reuse
from tilesight.simulator.trace.program import tiles
from tilesight.simulator.trace.program.pitches import one_row
from tilesight.simulator.trace.touch.access_patterns import AccessPattern

X = Storage(number=0, size_bytes=1 << 17, name="X")
CTAS, TRIPS = 8, 3
IRREGULAR = tuple((number * number, 2 + 32 * (number % 2)) for number in range(0, 300, 4))
"""Runs of two widths at no pitch."""
EVEN = tuple((number * 700, 2) for number in range(75))


def made(runs: tuple[tuple[int, int], ...]) -> Launch:
    """CTAs that load these runs in each iteration of a loop, each CTA 136 B behind the one before it."""
    use = AccessPattern(
        part=(0, 0), phase=0, storage=0, kind="load", path="plain", runs=runs, base=X.address + 136 * np.arange(CTAS),
        strides=(4096,),
    )  # fmt: skip
    variables = tiles.Variables(CTAS)
    placed = tiles.Placed(
        tensor="X", storage=X, rows=one_row(X.size_bytes), counters=("i",), members=np.arange(CTAS), variables=variables
    )
    of_use = tiles.tiles_by_strides(use, placed, np.zeros(1, dtype=np.int64))
    body = (Loop(counter="i", trips=TRIPS, body=(Step(name="load", loads=tuple(of_use)),)),)
    held = Tensor(name="X", role="input", slabs=1, rows=1, cols=X.size_bytes, dtype=DTYPES["u8"])
    return launch(body, (held,), np.stack([*variables.columns.values()], axis=1).tolist(), tuple(variables.columns))


def loads_of(those: Launch) -> tuple[tiles.Tile, ...]:
    """Tiles that a step loads."""
    (loop,) = those.program.body
    return loop.body[0].loads  # type: ignore[union-attr]


@pytest.fixture(params=(EVEN, IRREGULAR), ids=("even", "irregular"))
def both(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> tuple[Launch, Launch]:
    """The same use as tiles of its rows, and listed."""
    single = made(request.param)
    monkeypatch.setattr(tiles, "MOST_SINGLE_ROWS", 4)
    return single, made(request.param)


def test_many_rows_are_a_tile_for_each_width(both: tuple[Launch, Launch]) -> None:
    """And a variable says where all of them lie."""
    single, listed = both
    widths = {tile.cols for tile in loads_of(single)}
    assert len(loads_of(single)) == sum(tile.extents for tile in loads_of(listed)) == 75
    assert [tile.cols for tile in loads_of(listed)] == sorted(widths)
    assert len(listed.program.variables) <= 2 + len(widths)


def test_a_shared_list_touches_what_tiles_of_their_own_touch(both: tuple[Launch, Launch]) -> None:
    """The same accesses in every CTA, and the same bytes in all, each once, and at least."""
    single, listed = both
    for cta in range(CTAS):
        same = [sorted((access.col, access.cols) for access in accesses(those.program, cta)) for those in both]
        assert same[0] == same[1]
    assert tally(single.program) == tally(listed.program)
    assert compulsory_read_bytes(single) == compulsory_read_bytes(listed) > 0
    once = [touched.touched_bytes(those.program, lower_tensors((those,), GPU, "chunk")) for those in both]
    assert once[0] == once[1] > 0


def test_a_shared_list_takes_the_time_of_tiles_of_their_own(both: tuple[Launch, Launch]) -> None:
    """To the cycle, with L1, pieces that HBM takes longer for, and what it fetches beside them."""
    gpu = replace(GPU, hbm_piece_latency_s=100e-9)
    single, listed = (run(those, gpu=gpu) for those in both)
    assert (single.hbm_read_bytes, single.l1_hit_bytes) == (listed.hbm_read_bytes, listed.l1_hit_bytes)
    if len(loads_of(both[1])) == 1:  # of several widths others come first
        assert single.cycles == listed.cycles


def test_rows_of_a_shared_list_are_looked_for_in_l1(both: tuple[Launch, Launch]) -> None:
    """As many loads of the same sizes as of tiles of their own."""
    single, listed = (sorted((what.col, size) for _, what, size in l1_reuse.tiles_of(those, 1)) for those in both)
    assert single == listed
    assert len(single) == TRIPS * 75


def test_pieces_that_are_looked_at_in_parts_are_the_same_bytes(
    both: tuple[Launch, Launch], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One CTA at a time, and never more pieces than may be."""
    listed, looked_at = both[1], list[int]()
    tensors = lower_tensors((listed,), GPU, "chunk")
    whole = touched.touched_bytes(listed.program, tensors)
    add = touched.Slab.add
    monkeypatch.setattr(touched.Slab, "add", lambda *given: looked_at.append(len(given[1])) or add(*given))
    monkeypatch.setattr(touched, "PIECES_AT_ONCE", 80)
    assert touched.touched_bytes(listed.program, tensors) == whole
    assert max(looked_at) <= 80
    monkeypatch.setattr(touched, "MOST_RECTANGLES", CTAS * 75 - 1)
    assert touched.touched_bytes(listed.program, tensors) == 0


def test_a_run_is_let_go_of_when_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its caches are gone before the next one's are made, though no garbage has been collected."""
    states: list[weakref.ref[LaunchState]] = []

    class Watched(LaunchState):
        def __init__(self, *given: object, **named: object) -> None:
            super().__init__(*given, **named)  # type: ignore[arg-type]
            states.append(weakref.ref(self))

    monkeypatch.setattr(engine, "LaunchState", Watched)
    gc.disable()
    try:
        run(made(EVEN))
        assert [state() for state in states] == [None]
    finally:
        gc.enable()
