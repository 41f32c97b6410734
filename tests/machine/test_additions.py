"""Additions at L2 (RED, ATOM): those to one line queue where it lies, those to many lines run side by side."""

from dataclasses import replace

import numpy as np
import pytest
from machine.toys import ONE_PARTITION, TILE_BYTES, launch, run, tensor, tile, writes
from tilesight.simulator.device.device import Device, load_device
from tilesight.simulator.dtypes import DTYPES
from tilesight.simulator.launch.program import Launch, Loop, Path, Step, Tensor, Tile

H200 = load_device("h200")
CTAS, TIMES, LINE_BYTES, WORD_BYTES = 1056, 128, 128, 4
GPU = replace(ONE_PARTITION, l2_slices=1, l2_add_sector_s=1e-9, l2_add_least_s=1.25e-9, l2_add_again_s=3e-9)
"""At 1 GHz: one slice adds to a sector in 1 cycle, to the same place again no sooner than after 3."""


def additions(lines: int, width_bytes: int = LINE_BYTES, path: Path = "atomic", *, given_back: bool = False) -> Launch:
    """Each of 1056 CTAs adds 128 times, each time to one of so many lines, drawn at random."""
    line = np.random.default_rng(0).integers(lines, size=(CTAS, TIMES))
    element = DTYPES["u8"]
    sums = Tensor(name="Y", role="output", slabs=1, rows=lines, cols=LINE_BYTES, dtype=element)  # type: ignore[arg-type]
    names = [f"at{number}" for number in range(TIMES)]
    body = []
    for number, name in enumerate(names):
        tiles = (Tile(tensor="Y", slab="slab", rows=1, cols=width_bytes, row=((name, 1),), path=path),)
        body.append(Step(name=f"add {number}", loads=tiles if given_back else (), stores=tiles))
    items = np.concatenate([np.zeros((CTAS, 1), dtype=np.int64), line], axis=1)
    return launch(body, (sums,), items.tolist(), ("slab", *names))


def us(added: Launch, gpu: Device = H200) -> float:
    """Microseconds that a launch takes, in cycles of the boost clock."""
    return run(added, gpu=gpu).cycles / gpu.boost_clock_hz * 1e6


def test_what_adds_to_one_line_takes_its_additions_one_after_the_other() -> None:
    """Sixteen tiles of 1 KiB to one place: 32 sectors each, and nobody waits for them but the launch's end."""
    step = Step(name="add", stores=(tile("Y", path="atomic"),))
    adds = launch((Loop(counter="i", trips=16, body=(step,)),), (tensor("Y", 1, role="output"),), [(0,)])
    first, end = (run(adds, gpu=replace(GPU, l2_add_sector_s=sector_s)).cycles for sector_s in (1e-9, 2e-9))
    assert end - first == pytest.approx(16 * TILE_BYTES / 32, abs=1)


def test_stores_to_one_line_do_not_queue_like_additions() -> None:
    """A slice takes additions alone; a device whose slices are not known takes additions as it takes stores."""
    stores = writes(tiles=1, slabs=(0,), times=50)
    assert run(stores, gpu=GPU).cycles == run(stores, gpu=ONE_PARTITION).cycles
    assert run(additions(1), gpu=ONE_PARTITION).cycles < 0.2 * run(additions(1), gpu=GPU).cycles


@pytest.mark.parametrize(("lines", "measured_us"), [(1, 327), (4, 160)])
def test_lines_are_added_to_at_the_pace_of_an_h200(lines: int, measured_us: float) -> None:
    """135,168 warps' additions along a line (docs/lab/atomics.cu), 6 us of launch left out."""
    assert us(additions(lines)) == pytest.approx(measured_us, rel=0.06)


@pytest.mark.parametrize(("width_bytes", "measured_us"), [(LINE_BYTES, [26, 13, 7]), (WORD_BYTES, [8.8, 4.0, 2.0])])
def test_more_lines_are_added_to_side_by_side(width_bytes: int, measured_us: list[float]) -> None:
    """64, 256, 1024 lines, and words of them; which slice a line lies in is drawn at random, its hash unknown."""
    for lines, measured in zip([64, 256, 1024], measured_us, strict=True):
        # The fullest slice decides: of 64 lines it has three blocks of two, by the unknown hash one more or less.
        assert us(additions(lines, width_bytes)) == pytest.approx(measured, rel=1 / 3)


def test_additions_to_many_lines_take_no_longer_than_stores() -> None:
    """All slices work side by side: the launch is over when L2 can have taken as many bytes."""
    stored_us = CTAS * TIMES * LINE_BYTES / H200.l2_write_bytes_per_s * 1e6
    assert us(additions(1 << 14)) == pytest.approx(stored_us, rel=0.1)


def test_who_is_given_back_what_was_there_waits_for_the_sum() -> None:
    """One CTA adds to one line 64 times in turn; each time it waits, where else the queue alone is waited for."""
    waited, left = (run(additions(64, given_back=back), gpu=GPU).cycles for back in (True, False))
    assert waited > left
