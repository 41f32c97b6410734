"""Additions at L2 (RED, ATOM): those to one line queue where it lies, those to many lines run side by side."""

from dataclasses import replace

import numpy as np
import pytest
from machine.toys import ONE_PARTITION, TILE_BYTES, launch, run, tensor, tile, writes
from tilesight.simulator.device.device import Device, load_device
from tilesight.simulator.dtypes import DTYPES
from tilesight.simulator.launch.lists import Lists
from tilesight.simulator.launch.program import Launch, Loop, Path, Step, Tensor, Tile

H200, H100 = load_device("h200"), load_device("h100")
CTAS, TIMES, LINE_BYTES, WORD_BYTES, SECTOR_BYTES = 1056, 128, 128, 4, 32
GPU = replace(ONE_PARTITION, l2_slices=1, l2_add_sector_s=1e-9, l2_add_part_s=1.25e-9, l2_add_again_s=3e-9)
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
    """135,168 warps' additions along a line (validate/lab/atomics.cu), 6 us of launch left out."""
    assert us(additions(lines)) == pytest.approx(measured_us, rel=0.06)


@pytest.mark.parametrize(("width_bytes", "measured_us"), [(LINE_BYTES, [26, 13, 7]), (WORD_BYTES, [8.8, 4.0, 2.0])])
def test_more_lines_are_added_to_side_by_side(width_bytes: int, measured_us: list[float]) -> None:
    """64, 256, 1024 lines, and words of them; which slice a stretch of memory begins at is drawn at random."""
    for lines, measured in zip([64, 256, 1024], measured_us, strict=True):
        # The fullest slice decides: of 256 lines some have two pairs of blocks, by the unknown hash one more or less.
        assert us(additions(lines, width_bytes)) == pytest.approx(measured, rel=1 / 2)


def test_additions_to_many_lines_take_little_longer_than_stores() -> None:
    """All slices work side by side: 2 MiB at the pace of an H200 (validate/lab/atomics.cu), 6 us of launch left out."""
    stored_us = CTAS * TIMES * LINE_BYTES / H200.l2_write_bytes_per_s * 1e6
    assert us(additions(1 << 14)) == pytest.approx(4.9, rel=0.1)
    assert stored_us < us(additions(1 << 14)) < 1.5 * stored_us


def test_who_is_given_back_what_was_there_waits_for_the_sum() -> None:
    """One CTA adds to one line 64 times in turn; each time it waits, where else the queue alone is waited for."""
    waited, left = (run(additions(64, given_back=back), gpu=GPU).cycles for back in (True, False))
    assert waited > left


def scattered(lines: int, lanes_at_a_word: int, *, integers: bool = True) -> Launch:
    """Each of 132 x 8 warps adds 16 times: its lanes at words drawn at random of so many lines, some together.

    The same as validate/lab/scattered_adds.cu: a pass over a sector for each lane at the word of it that has most.
    """
    random, ctas, warps, times = np.random.default_rng(0), 132, 8, 16
    word = np.repeat(
        random.integers(lines * LINE_BYTES // WORD_BYTES, size=(ctas, times, warps, 32 // lanes_at_a_word)),
        lanes_at_a_word,
        axis=3,
    )
    passes = [
        sector
        for of_step in word.reshape(ctas * times, warps, 32)
        for of_warp in of_step
        for sector in np.repeat(*most_at_a_word(of_warp)).tolist()
    ]
    counts = [sum(most_at_a_word(of_warp)[1].sum() for of_warp in of_step) for of_step in word.reshape(-1, warps, 32)]
    # Warps come as they come, not in the order of their addresses.
    order = np.lexsort((random.random(len(passes)), np.repeat(np.arange(ctas * times), counts)))
    lists = Lists(
        spans=np.stack([np.cumsum(counts) - counts, counts], axis=1),
        pieces=np.stack(np.divmod(np.array(passes)[order] * SECTOR_BYTES, LINE_BYTES), axis=1),
        at="at",
        until="until",
        per=(("i", 1),),
    )
    element = DTYPES["u8"]
    sums = Tensor(name="Y", role="output", slabs=1, rows=lines, cols=LINE_BYTES, dtype=element)  # type: ignore[arg-type]
    added = Tile(
        tensor="Y",
        slab="slab",
        rows=1,
        cols=SECTOR_BYTES,
        path="atomic",
        integers=integers,
        part_fraction=1.0,
        lists=lists,
    )
    first = np.arange(ctas) * times
    items = np.stack([np.zeros(ctas, dtype=np.int64), first, first + times], axis=1)
    loop = Loop(counter="i", trips=times, body=(Step(name="add", stores=(added,)),))
    return launch((loop,), (sums,), items.tolist(), ("slab", "at", "until"))


def most_at_a_word(words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sectors that a warp adds to, and how many of its lanes are at the word that has most of them."""
    word, lanes = np.unique(words, return_counts=True)
    begins = np.flatnonzero(np.r_[True, np.diff(word // 8) != 0])
    return word[begins] // 8, np.maximum.reduceat(lanes, begins)


@pytest.mark.parametrize(
    ("lines", "lanes_at_a_word", "measured_ns"),
    [
        *((1, 1, 7.15), (4, 1, 6.11), (8, 1, 8.24), (64, 1, 1.67), (1024, 1, 0.445)),
        *((1, 32, 22.2), (8, 32, 11.9), (64, 32, 1.97), (1024, 32, 0.50)),
    ],
)
def test_scattered_lanes_are_added_at_the_pace_of_an_h100(lines: int, lanes_at_a_word: int, measured_ns: float) -> None:
    """Nanoseconds for each warp's addition, of all L2 (validate/lab/scattered_adds.cu): 8 lines lie in two slices."""
    assert us(scattered(lines, lanes_at_a_word), H100) / (132 * 8 * 16) * 1e3 == pytest.approx(measured_ns, rel=0.15)


def test_floats_wait_for_the_sum_before_at_the_same_word_and_integers_do_not() -> None:
    """At one word of a line 3 cycles each, in place of 1.25 (7.6 and 3.2 ms on an H200, validate/lab/atomics.cu)."""
    step = Step(name="add", stores=(Tile(tensor="X", slab="slab", rows=1, cols=2, path="atomic"),))
    integers = Step(name="add", stores=(replace(step.stores[0], integers=True),))
    floats_cycles, integers_cycles, cycles_of_none = (
        run(
            launch((Loop(counter="i", trips=trips, body=(body,)),), (tensor("X", 1, role="output"),), [(0,)]), gpu=GPU
        ).cycles
        for body, trips in ((step, 64), (integers, 64), (step, 1))
    )
    assert floats_cycles - cycles_of_none == pytest.approx(63 * 3, rel=0.05)
    assert integers_cycles - cycles_of_none == pytest.approx(63 * 1.25 - 1.75, rel=0.1)


def test_what_comes_from_the_other_partition_takes_a_turn_of_its_own_slice() -> None:
    """Half of the passes over words at random in 2 MiB take 0.65 of a cycle of a second slice of 80, on their way."""
    slices_alone = replace(H100, l2_write_bytes_per_s=1e15)
    through, not_through = (
        us(scattered(1 << 14, 1), replace(slices_alone, l2_add_far_s=far_s)) for far_s in (H100.l2_add_far_s, 0.0)
    )
    passes = 132 * 8 * 16 * 32
    assert through - not_through == pytest.approx(passes / 2 * H100.l2_add_far_s / H100.l2_slices * 1e6, rel=0.25)
