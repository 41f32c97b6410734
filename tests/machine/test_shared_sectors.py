"""Rows whose bytes are no whole sectors: what a sector holds of two of them comes from device memory once."""

from dataclasses import replace

import numpy as np
import pytest
from machine.toys import GPU, ONE_PARTITION, cost, launch, run
from tilesight.simulator.device.device import Device
from tilesight.simulator.dtypes import DTYPES
from tilesight.simulator.launch.lists import Lists
from tilesight.simulator.launch.program import Launch, Step, Tensor, Tile, affine
from tilesight.simulator.launch.walk import tally

ROWS = 96
"""Of up to 130 elements of two bytes: less than an L2 holds."""


def rows(width: int, *, count: int = ROWS, apart: int = 1, flat: bool = True, stores: bool = False) -> Launch:
    """CTA i loads or stores row `apart` x i of a matrix, or of a vector that holds its rows one after the other."""
    high = count * apart
    shape = (1, high * width) if flat else (high, width)
    tensor = Tensor(
        name="X", role="output" if stores else "input", slabs=1, rows=shape[0], cols=shape[1], dtype=DTYPES["fp16"]
    )
    places = {"col": affine(r=width)} if flat else {"row": affine(r=1)}
    tile = Tile(tensor="X", slab="slab", rows=1, cols=width, **places)  # type: ignore[arg-type]
    step = Step(name="row", stores=(tile,)) if stores else Step(name="row", loads=(tile,))
    return launch((step,), (tensor,), [(0, apart * number) for number in range(count)], ("slab", "r"))


def sectors(width: int, apart: int = 1) -> int:
    """Bytes of the sectors that each row touches, added up."""
    begins = [2 * width * apart * number for number in range(ROWS)]
    return sum(32 * ((begin + 2 * width - 1) // 32 - begin // 32 + 1) for begin in begins)


@pytest.mark.parametrize("gpu", [ONE_PARTITION, GPU])
@pytest.mark.parametrize("flat", [True, False])
@pytest.mark.parametrize("width", [16, 20, 41, 120, 125])
def test_rows_side_by_side_are_read_once_and_asked_for_by_each(width: int, flat: bool, gpu: Device) -> None:
    """Rows of 82 B would come as 96 from device memory, and enter SMs as 96 where they are 96 or 128."""
    program = rows(width, flat=flat)
    seen = run(program, gpu=gpu, costs={"row": cost(10)})
    assert tally(program.program).load_bytes == {"X": sectors(width)}
    # What two SMs ask for at once one unit asks L2 for.
    assert seen.l2_read_bytes <= sectors(width)
    assert seen.hbm_read_bytes == pytest.approx(2 * width * ROWS, abs=32)


@pytest.mark.parametrize("width", [20, 41])
def test_rows_apart_share_no_sector(width: int) -> None:
    """Every fourth row: each has its first and its last sector alone."""
    seen = run(rows(width, apart=4), gpu=ONE_PARTITION, costs={"row": cost(10)})
    assert seen.hbm_read_bytes == sectors(width, apart=4)


def test_rows_side_by_side_are_written_back_once() -> None:
    """2,000 rows of 82 B: all but what L2 holds goes to device memory, not 96 B for each."""
    seen = run(rows(41, count=2000, stores=True), gpu=ONE_PARTITION, costs={"row": cost(10)})
    assert seen.hbm_write_bytes == pytest.approx(2000 * 82 - ONE_PARTITION.l2_bytes, abs=256)


@pytest.mark.parametrize("gpu", [ONE_PARTITION, GPU])
def test_words_that_all_lie_in_a_table_bring_it_once(gpu: Device) -> None:
    """Words anywhere are fetched 64 B at a time: 1,024 of 8 KiB of them bring 8 KiB, and 16 of them 16 x 64 B."""
    table = Tensor(name="X", role="input", slabs=1, rows=1, cols=2048, dtype=DTYPES["fp32"])
    order = np.random.default_rng(3).permutation(1024) * 2
    for count, moved in ((1024, 8192), (16, 16 * 64)):
        pieces = np.stack((np.zeros(count, dtype=np.int64), order[:count] if count > 16 else order[:16] * 0), axis=1)
        if count == 16:
            pieces[:, 1] = np.arange(16) * 128
        lists = Lists(spans=np.array([[0, count]]), pieces=pieces, at="at", until="until")
        tile = Tile(tensor="X", slab="slab", rows=1, cols=1, lists=lists)
        program = launch((Step(name="row", loads=(tile,)),), (table,), [(0, 0, 1)], ("slab", "at", "until"))
        fetching = replace(gpu, sm=replace(gpu.sm, hbm_fetch_bytes=64))
        assert run(program, gpu=fetching, costs={"row": cost(10)}).hbm_read_bytes == moved


def test_what_was_stored_brings_nothing_that_lies_beside_it() -> None:
    """A word stored in every other sector, then one loaded of each between: 64 B each, as nothing of them was read."""
    vector = Tensor(name="X", role="input", slabs=1, rows=1, cols=2048, dtype=DTYPES["fp32"])

    def words(first: int) -> Tile:
        pieces = np.stack((np.zeros(128, dtype=np.int64), first + 16 * np.arange(128)), axis=1)
        lists = Lists(spans=np.array([[0, 128]]), pieces=pieces, at="at", until="until")
        return Tile(tensor="X", slab="slab", rows=1, cols=1, lists=lists)

    body = Step(name="store", stores=(words(0),)), Step(name="load", loads=(words(8),))
    program = launch(body, (vector,), [(0, 0, 1)], ("slab", "at", "until"))
    fetching = replace(ONE_PARTITION, sm=replace(ONE_PARTITION.sm, hbm_fetch_bytes=64))
    seen = run(program, gpu=fetching, costs={"store": cost(10), "load": cost(10)})
    assert seen.hbm_read_bytes == 128 * 64
