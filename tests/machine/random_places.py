"""Launches on an H200 that load from, or store to, pieces at random places, as validate/lab/random_pieces.cu does."""

import numpy as np
from machine.toys import launch, run_all
from tilesight.simulator.device.device import load_device
from tilesight.simulator.dtypes import DTYPES
from tilesight.simulator.launch.lists import Lists
from tilesight.simulator.launch.program import Launch, Loop, Step, Tensor, Tile

H200 = load_device("h200")
CTAS, TIMES, TOGETHER = 1056, 64, 32
"""CTAs, steps of each, and pieces of a step."""
PIECES = CTAS * TIMES * TOGETHER
GIB = 1 << 30


def random_places(piece_bytes: int, footprint_bytes: int, *, stores: bool = False) -> Launch:
    """Each CTA goes to `TOGETHER` places at once, `TIMES` times."""
    places = np.random.default_rng(0).integers(footprint_bytes // piece_bytes, size=PIECES)
    pieces = np.stack([np.zeros(PIECES, dtype=np.int64), places * piece_bytes], axis=1)
    first = np.arange(CTAS * TIMES) * TOGETHER
    lists = Lists(
        spans=np.stack([first, np.full(len(first), TOGETHER)], axis=1), pieces=pieces, at="at", until="until",
        per=(("i", 1),),
    )  # fmt: skip
    held = Tensor(
        name="X", role="output" if stores else "input", slabs=1, rows=1, cols=footprint_bytes, dtype=DTYPES["u8"]
    )
    piece = Tile(tensor="X", slab="slab", rows=1, cols=piece_bytes, path="plain", lists=lists)
    step = Step(name="move", stores=(piece,)) if stores else Step(name="move", loads=(piece,))
    items = [(0, cta * TIMES, (cta + 1) * TIMES) for cta in range(CTAS)]
    return launch((Loop(counter="i", trips=TIMES, body=(step,)),), (held,), items, ("slab", "at", "until"))


def ps_a_piece(moved: Launch) -> float:
    """Picoseconds that a piece takes, without the launch, where the same was done before."""
    seen = run_all(moved, moved, gpu=H200)[-1]
    return (seen.cycles / H200.boost_clock_hz) * 1e12 / PIECES
