"""CTAs that mask unlike each other, and loops whose accesses are masked between their ends."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from support.listings import listing, words
from tilesight.simulator.emulator.storage import Storage
from tilesight.simulator.launch.program import Code, Resources
from tilesight.simulator.launch.walk import accesses
from tilesight.simulator.trace.cta.traced_kernel import CompiledKernel
from tilesight.simulator.trace.program.launch import Traced, launches_of, trace
from tilesight.simulator.trace.touch.mask_classes import MOST_ITERATIONS, changing_masks

PLACE, REGION, TRIPS, TAIL = 7, 3, 10, 2


def group_of(lanes: list[int], *trips: int) -> Any:
    """CTAs of these trip counts; the representative makes one access in each iteration of a loop, by so many lanes."""
    positions = [SimpleNamespace(region=REGION, iteration=(at,)) for at in range(len(lanes))]
    accesses = [SimpleNamespace(visit=at, place=PLACE, lanes=taking) for at, taking in enumerate(lanes)]
    representative = SimpleNamespace(positions=positions, accesses=accesses)
    return SimpleNamespace(representative=representative, trips={REGION: np.array(trips)})


@pytest.mark.parametrize(
    ("lanes", "changes"),
    [
        ([32] * 10, False),
        ([0, *[32] * 9], False),
        ([32] * 8 + [5, 0], False),
        ([32] * 4 + [5] + [0] * 5, True),
        ([32] + [0] * 9, False),
    ],
    ids=["all", "not the first", "a tail", "a group's end", "one iteration"],
)
def test_a_loop_is_looked_at_where_masks_change_between_its_ends(lanes: list[int], changes: bool) -> None:
    """Five groups of grouped_mm_2d2d would be as long as one of them: bytes into the SMs 11 % off."""
    assert changing_masks(group_of(lanes, *[TRIPS] * 4), TAIL) == ({PLACE: REGION} if changes else {})


def test_loops_of_unlike_length_tell_nothing_by_their_masks() -> None:
    """Copies that run ahead of a short loop end at once; and what would take too long is not looked at."""
    lanes = [32] * 4 + [0] * 6
    assert changing_masks(group_of(lanes, TRIPS, 4), TAIL) == {}
    assert changing_masks(group_of(lanes, *[TRIPS] * (MOST_ITERATIONS // TRIPS + 1)), TAIL) == {}


X = Storage(number=0, size_bytes=1 << 20, name="x")
CONSTANTS = words({0x210: X.address & 0xFFFFFFFF, 0x214: X.address >> 32})


def triangle(ctas: int) -> Traced:
    """CTA c loads the first c + 1 of its 64 numbers: as many kinds of CTAs as there are CTAs."""
    sass = listing(
        "S2R R0, SR_TID.X",
        "S2R R1, SR_CTAID.X",
        "ISETP.LE.AND P0, PT, R0, R1, PT",
        "IMAD R3, R1, 0x40, R0",
        "IMAD.WIDE R6, R3, 0x4, c[0x0][0x210]",
        "@P0 LDG.E R8, [R6.64]",
        "EXIT",
    )
    code = Code(sass=sass, constants=CONSTANTS)
    resources = Resources(registers_per_thread=32, smem_bytes_per_cta=0, warps_per_cta=2, code=code)
    called = CompiledKernel(
        name="triangle", grid=(ctas, 1, 1), num_warps=2, num_stages=1, resources=resources, storages=(X,)
    )
    return trace(called, 1 << 16)


@pytest.mark.parametrize(("ctas", "classes"), [(3, 3), (32, 32), (33, 1)])
def test_up_to_32_kinds_of_ctas_are_classes_of_their_own(ctas: int, classes: int) -> None:
    """With more of them each CTA's accesses are listed instead; either way a CTA loads 4 B (c + 1)."""
    traced = triangle(ctas)
    (path_class,) = traced.classes
    assert len(path_class.masked) == classes
    assert traced.notes == ()
    (launch,) = launches_of([traced])
    for cta in range(ctas):
        pitch = launch.program.tensor("x").pitch_bytes
        loaded = [
            address
            for access in accesses(launch.program, cta)
            for row in range(access.row, access.row + access.rows)
            for address in range(row * pitch + access.col, row * pitch + access.col + access.cols)
        ]
        assert {address // 32 for address in loaded} == {address // 32 for address in range(256 * cta, 260 * cta + 4)}
