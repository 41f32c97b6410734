"""evict_first: a stream that L2 drops first leaves it to what is used again."""

from dataclasses import replace

import pytest
from machine.toys import ONE_PARTITION, TILE_BYTES, launch, run, tensor, tile
from tilesight.simulator.launch.program import Launch, Loop, Step

GPU = replace(ONE_PARTITION, l2_dirty_fraction=0.25)
"""What is dirty is written back before it fills L2."""
SET, STREAM, ROUNDS = 32, 256, 4
"""Tiles of 1 KiB: a set of half of L2, four times as much as L2 between its rounds."""


def rounds(*, passing: bool, stores: bool = False) -> Launch:
    """A CTA reads a set, then goes through its part of a stream, which is new in each round."""
    load = Step(name="set", loads=(tile("S", i=1),))
    new = replace(tile("T", j=1, again=STREAM), passing=passing)
    stream = Step(name="stream", stores=(new,)) if stores else Step(name="stream", loads=(new,))
    body = (Loop(counter="i", trips=SET, body=(load,)), Loop(counter="j", trips=STREAM, body=(stream,)))
    tensors = (tensor("S", SET), tensor("T", STREAM * ROUNDS, role="output" if stores else "input"))
    return launch((Loop(counter="again", trips=ROUNDS, body=body),), tensors, [(0,)])


@pytest.mark.parametrize("stores", [False, True])
def test_a_set_stays_in_l2_beside_a_stream_that_is_dropped_first(stores: bool) -> None:
    """Else it is read again in each round."""
    streamed = 0 if stores else ROUNDS * STREAM
    kept, driven_out = (run(rounds(passing=passing, stores=stores), gpu=GPU) for passing in (True, False))
    assert driven_out.hbm_read_bytes == (ROUNDS * SET + streamed) * TILE_BYTES
    assert kept.hbm_read_bytes == (SET + streamed) * TILE_BYTES


def test_what_is_dropped_first_is_still_written_back() -> None:
    """Each byte that is stored leaves for HBM, but for what L2 holds at the end."""
    seen = run(rounds(passing=True, stores=True), gpu=GPU)
    assert seen.hbm_write_bytes >= ROUNDS * STREAM * TILE_BYTES - GPU.l2_bytes
