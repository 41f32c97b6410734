"""Copies by TMA: descriptors, boxes clipped at edges, and descriptors that kernels write."""

import numpy as np
import pytest
from tilesight.simulator.emulator.semantics import compile_instruction
from tilesight.simulator.emulator.thread_values import TRUE, Value, word
from tilesight.simulator.emulator.threads import Threads
from tilesight.simulator.emulator.tma.boxes import BoxTouch, unfollowed
from tilesight.simulator.emulator.tma.descriptor import WORDS, Descriptor, descriptor_of, image_of
from tilesight.simulator.sass.decode import Instruction

LANES = np.arange(32).reshape(1, 1, 32)


def instruction(text: str, predicate: str = "") -> Instruction:
    """One of a listing, without its scheduling."""
    opcode, _, rest = text.partition(" ")
    return Instruction(
        address=0, predicate=predicate, opcode=opcode, printed=tuple(rest.split(", ")), target=None, stall_cycles=0,
        yields=False, write_barrier=-1, read_barrier=-1, wait_mask=0, reuse=0,
    )  # fmt: skip


def words_of(image: bytes) -> list[Value]:
    return [(word(int.from_bytes(image[at : at + 4], "little")), True) for at in range(0, 4 * WORDS, 4)]


def read_back(*arguments: object) -> Descriptor:
    descriptor = descriptor_of(words_of(image_of(*arguments)))  # type: ignore[arg-type]
    assert descriptor is not None
    return descriptor


@pytest.mark.parametrize("axes", [1, 2, 3, 5])
def test_a_descriptor_is_read_back_as_it_was_written(axes: int) -> None:
    """Address, sizes, strides and box, whose axes are then the innermost first."""
    shape, box = [7, 5, 9, 300, 4096][-axes:], [1, 2, 1, 64, 32][-axes:]
    strides = [1 << 38, 1 << 36, 1 << 30, 8192, 1][-axes:]
    descriptor = read_back(3 << 40 | 4096, shape, strides, box, 2)
    assert int(descriptor.address.flat[0]) == 3 << 40 | 4096
    assert [int(size.flat[0]) for size in descriptor.sizes] == shape[::-1]
    assert list(descriptor.strides) == [2 * stride for stride in strides[::-1]]
    assert list(descriptor.box) == box[::-1]
    assert descriptor.element_bytes == 2


@pytest.mark.parametrize("missing", [0, 2, 3, 8, 14])
def test_a_descriptor_with_an_unknown_word_is_none(missing: int) -> None:
    """Address, flags, stride, size and box each count."""
    words = words_of(image_of(1 << 40, [64, 128], [128, 1], [32, 64], 2))
    words[missing] = words[missing][0], False
    assert descriptor_of(words) is None


@pytest.mark.parametrize(
    ("corner", "rows", "width", "start"),
    [
        ((0, 0), 32, 128, 0),
        ((64, 80), 20, 128, 80 * 320 + 128),
        ((128, 0), 32, 64, 256),
        ((-8, -20), 12, 112, 0),
        ((0, 100), 0, 0, 0),
        ((160, 0), 0, 0, 0),
    ],
)
def test_boxes_are_clipped_at_every_edge(corner: tuple[int, int], rows: int, width: int, start: int) -> None:
    """A tensor of 100 x 160 halves, boxes of 32 x 64: inside, at the far edges, before the near ones, and outside."""
    touch = BoxTouch(instruction("UTMALDG.2D [UR8], [UR6]"))
    registers = {"UR10": corner[0], "UR11": corner[1]}
    threads = Threads(constants={}, special={}, registers={n: (word(v), True) for n, v in registers.items()})
    boxes = touch.boxes(threads, TRUE[0], read_back(1 << 40, [100, 160], [160, 1], [32, 64], 2))
    assert boxes is not None
    starts, size = boxes.rows(0, 0)
    assert (len(starts), size) == (rows, width)
    assert starts.tolist() == [(1 << 40) + start + 320 * row for row in range(rows)]
    assert boxes.corner(0, 0) == (1 << 40) + 320 * corner[1] + 2 * corner[0]


def test_coordinates_of_stores_stand_a_register_earlier() -> None:
    """They have no mbarrier."""
    load, store = (BoxTouch(instruction(f"{name}.3D [UR8], [UR6]")) for name in ("UTMALDG", "UTMASTG"))
    assert load.names == ("UR10", "UR11", "UR12", "UR6", "UR7")
    assert store.names == ("UR9", "UR10", "UR11", "UR6", "UR7")


def test_copies_of_listed_rows_and_without_descriptors_are_not_followed() -> None:
    """Those of plain boxes are; so is what nobody runs."""
    assert not unfollowed(instruction("UTMAREDG.2D.ADD [UR8], [UR6]"))
    assert unfollowed(instruction("UTMALDG.2D.IM2COL [UR8], [UR6], UR4"))
    assert unfollowed(instruction("UTMALDG.2D.GATHER4 [UR8], [UR6]"))
    assert unfollowed(instruction("UBLKCP [UR8], [UR6], UR4"))
    assert not unfollowed(instruction("UBLKCP [UR8], [UR6], UR4", predicate="!UPT"))


def test_a_warp_clears_shared_memory_and_each_cta_stores_its_own() -> None:
    """What is loaded afterwards: what all threads of each CTA have stored, over zeros."""
    threads = Threads(constants={}, special={})
    threads.registers["R2"] = 4096 + 4 * LANES, True
    threads.registers["R3"] = np.array([5, 6]).reshape(2, 1, 1), True
    threads.registers["UR4"] = word(4096), True
    for text in ("STS [R2], RZ", "STS [UR4+0x8], R3", "LDS R5, [UR4+0x8]", "LDS R6, [UR4+0xc]", "LDS R7, [UR4+0x80]"):
        compile_instruction(instruction(text))(threads, TRUE[0])
    stored, cleared, unset = (threads.registers[name] for name in ("R5", "R6", "R7"))
    assert stored[0][:, 0, 0].tolist() == [5, 6]
    assert np.all(stored[1])
    assert (int(cleared[0].max()), bool(np.all(cleared[1]))) == (0, True)
    assert not np.any(unset[1])
