"""Copies by TMA: descriptors, boxes clipped at edges, and descriptors that kernels write."""

import numpy as np
import pytest
from tilesight.simulator.emulator.semantics import compile_instruction
from tilesight.simulator.emulator.thread_values import TRUE, Value, word
from tilesight.simulator.emulator.threads import Threads
from tilesight.simulator.emulator.tma.boxes import BoxTouch
from tilesight.simulator.emulator.tma.bulk import BulkTouch, unfollowed
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


def bulk(size: int, addresses: list[int]) -> Threads:
    """Warps that copy. Args: size: in units of 16 B; addresses: of each warp in global memory."""
    low = np.array([address & 0xFFFFFFFF for address in addresses], dtype=np.int64).reshape(1, -1, 1)
    high = np.array([address >> 32 for address in addresses], dtype=np.int64).reshape(1, -1, 1)
    return Threads(
        constants={}, special={}, registers={"UR6": (low, True), "UR7": (high, True), "UR4": (word(size), True)}
    )


@pytest.mark.parametrize(
    "text",
    [
        "UBLKCP.S.G [UR8], [UR6], UR4",
        "UBLKCP.G.S [UR6], [UR5], UR4",
        "UBLKRED.G.S.ADD.F32.RN [UR6], [UR5], UR4",
    ],
)
def test_bytes_without_a_descriptor_are_boxes_of_one_row(text: str) -> None:
    """Where they go in shared memory would be taken for where they come from."""
    code = instruction(text)
    assert not unfollowed(code)
    touch, threads = BulkTouch(code), bulk(64, [3 << 40, 3 << 40 | 4096])
    active = np.ones((1, 2, 1), dtype=np.bool_)
    descriptor = touch.descriptor(threads, active)
    assert descriptor is not None and descriptor.box_bytes == 1024
    boxes = touch.boxes(threads, active, descriptor)
    assert boxes is not None
    assert [boxes.rows(0, warp)[0].tolist() for warp in range(2)] == [[3 << 40], [3 << 40 | 4096]]
    assert boxes.rows(0, 1)[1] == 1024 and boxes.tensor_at(0, 1) == 3 << 40 | 4096


@pytest.mark.parametrize("text", ["UBLKCP.S.S [UR8], [UR6], UR4", "UBLKCP.S.G.MULTICAST [UR8], [UR6], UR4"])
def test_copies_to_other_ctas_are_not_followed(text: str) -> None:
    """Their bytes would be counted as those of one CTA."""
    assert unfollowed(instruction(text))


def test_bytes_of_which_the_size_is_not_known_are_none() -> None:
    """They would be counted as nothing."""
    threads = bulk(64, [1 << 40])
    threads.registers["UR4"] = word(64), False
    touch = BulkTouch(instruction("UBLKCP.S.G [UR8], [UR6], UR4"))
    assert touch.descriptor(threads, np.ones((1, 1, 1), dtype=np.bool_)) is None


def test_lanes_that_differ_are_told_by_the_move_to_a_uniform_register() -> None:
    """ptxas goes round until none does: a loop of one lane each would end after the first, or never."""
    registers: dict[str, Value] = {"R2": (LANES // 16, True), "R3": (LANES * 0, True)}
    threads = Threads(constants={}, special={"SR_LANEID": (LANES, True)}, registers=registers)
    everyone = np.ones((1, 1, 32), dtype=np.bool_)
    for text in ("R2UR P0, UR4, R2", "R2UR.OR P0, UR5, R3"):
        compile_instruction(instruction(text))(threads, everyone)
    assert np.broadcast_to(threads.registers["P0"][0], (1, 1, 32))[0, 0].tolist() == [False] * 16 + [True] * 16
