"""Which lines, sectors and banks instructions touch, in small kernels whose addresses can be told by hand."""

import numpy as np
import pytest
from support.listings import flow_of, launch_of, words
from tilesight.simulator.emulator.threads import special_registers
from tilesight.simulator.trace.accesses import Access, accesses

TID, TO_BYTES = "S2R R0, SR_TID.X", "IMAD.WIDE R2, R0, {size}, RZ"


def touched(*lines: str, warps: int = 1, ctas: int = 1, constants: dict[int, int] | None = None) -> dict[int, Access]:
    """What a kernel without branches touches, place by place."""
    flow = flow_of(*lines, "EXIT")
    launch = launch_of(ctas, warps=warps)
    special = special_registers(launch.grid, np.arange(ctas), warps)
    return accesses(flow, [range(len(flow.blocks))] * warps, words(constants or {}), special)


def lanes_apart(size: int, *lines: str) -> Access:
    """What the last line touches, R2 being so many bytes further in each lane."""
    access_at = touched(TID, TO_BYTES.format(size=hex(size)), *lines)
    return access_at[max(access_at)]


@pytest.mark.parametrize(
    ("size", "opcode", "lines", "sectors", "moved_bytes"),
    [
        (16, "LDG.E.128", 4, 16, 512),
        (4, "LDG.E", 1, 4, 128),
        (16, "LDG.E.U16", 4, 16, 64),
        (128, "LDG.E", 32, 32, 128),
        (0, "LDG.E", 1, 1, 4),
    ],
)
def test_lanes_far_apart_touch_more_lines(
    size: int, opcode: str, lines: float, sectors: float, moved_bytes: float
) -> None:
    """Loads of a tile whose rows are not aligned would cost what they move."""
    access = lanes_apart(size, f"{opcode} R4, desc[UR4][R2.64+0x100]")
    assert access == Access(lanes=32, lines=lines, sectors=sectors, moved_bytes=moved_bytes)


@pytest.mark.parametrize(("opcode", "groups"), [("LDG.E", 1), ("LDG.E.64", 2), ("LDG.E.128", 4)])
def test_a_line_counts_for_each_group_of_lanes_that_it_could_serve(opcode: str, groups: float) -> None:
    """Also where all lanes load the same, as measured by validate/lab/l1_duplicates.cu."""
    access = lanes_apart(0, f"{opcode} R4, desc[UR4][R2.64+0x100]")
    assert (access.lines, access.sectors) == (groups, 1)


def test_an_offset_moves_lanes_over_the_end_of_a_line() -> None:
    """Rows that begin in the middle of a sector would seem whole."""
    access = lanes_apart(4, "STG.E desc[UR4][R2.64+-0x10], R4")
    assert (access.lines, access.sectors, access.moved_bytes) == (2, 5, 128)


def test_lanes_that_take_no_part_touch_nothing() -> None:
    """The end of a row would be stored as if it were whole."""
    access_at = touched(
        TID,
        TO_BYTES.format(size="0x10"),
        "ISETP.LT.AND P0, PT, R0, 0x8, PT",
        "@P0 STG.E.U16 desc[UR4][R2.64], R4",
        "LDGSTS.E.BYPASS.128 [R2], desc[UR4][R2.64], !P0",
    )
    assert (access_at[3].sectors, access_at[3].moved_bytes) == (4, 16)
    assert (access_at[4].sectors, access_at[4].moved_bytes, access_at[4].passes) == (12, 384, 3)


def test_who_takes_part_in_a_bulk_copy_is_known() -> None:
    """Copies in front of a loop that runs no iteration would be announced, and nobody would wait for them."""
    access_at = touched(
        TID,
        "ISETP.EQ.AND P0, PT, R0, RZ, PT",
        "ISETP.LT.AND P1, PT, RZ, c[0x0][0x210], P0",
        "@P0 SYNCS.ARRIVE.TRANS64 RZ, [UR4+0x100], R1",
        "@P1 SYNCS.ARRIVE.TRANS64 RZ, [UR4+0x108], R1",
        "UISETP.LT.AND UP0, UPT, URZ, 0x1, UPT",
        "@!UP0 UTMALDG.3D [UR8], [UR6]",
        constants={0x210: 0},
    )
    assert {place: access.lanes for place, access in access_at.items()} == {3: 1, 4: 0, 6: 0}


def test_warps_and_ctas_are_averaged() -> None:
    """One CTA at an edge would stand for all."""
    access_at = touched(
        TID,
        TO_BYTES.format(size="0x10"),
        "S2R R5, SR_CTAID.X",
        "IMAD R6, R5, 0x20, R0",
        "ISETP.LT.AND P0, PT, R6, 0x30, PT",
        "@P0 LDG.E.128 R8, desc[UR4][R2.64]",
        warps=2,
        ctas=2,
    )
    assert access_at[5].moved_bytes == (512 + 256 + 256 + 0) / 4


@pytest.mark.parametrize(
    ("size", "line", "passes"),
    [
        (4, "LDS R4, [R2]", 1),
        (8, "LDS R4, [R2]", 2),
        (128, "LDS R4, [R2]", 32),
        (0, "LDS R4, [R2+UR4+0x4]", 1),
        (8, "STS.64 [R2], R4", 2),
        (16, "STS.128 [R2], R4", 4),
        (32, "STS.128 [R2], R4", 8),
        (16, "LDSM.16.M88.4 R4, [R2]", 4),
        (128, "LDSM.16.M88.4 R4, [R2]", 32),
        (144, "LDSM.16.M88.2 R4, [R2]", 2),
    ],
)
def test_a_bank_serves_one_word_at_a_time(size: int, line: str, passes: float) -> None:
    """A tile without a swizzle would seem as quick as one with it."""
    assert lanes_apart(size, line).passes == passes


def test_an_address_that_depends_on_data_is_not_known() -> None:
    """What is read through an index that was loaded would get a number that nobody knows."""
    access_at = touched(TID, TO_BYTES.format(size="0x4"), "LDG.E R4, desc[UR4][R2.64]", "LDS R5, [R4]")
    assert set(access_at) == {2}


def test_arguments_decide_where_rows_begin() -> None:
    """Rows of 48 B and rows of 64 B would touch as many sectors."""
    pitch = (
        TID,
        "SHF.R.U32.HI R1, RZ, 0x2, R0",
        "LOP3.LUT R5, R0, 0x3, RZ, 0xc0, !PT",
        "IMAD R6, R5, 0x10, RZ",
        "IMAD R6, R1, c[0x0][0x218], R6",
        "IMAD.WIDE R2, R6, 0x1, RZ",
        "LDG.E.U16 R4, desc[UR4][R2.64]",
    )
    rows = {bytes_apart: touched(*pitch, constants={0x218: bytes_apart})[6] for bytes_apart in (6000, 6016)}
    assert (rows[6016].lines, rows[6016].sectors) == (8, 16)
    assert rows[6000].sectors == 20


def test_tensors_lie_apart() -> None:
    """V would be in L1 as soon as K is loaded, and a kernel without stages would be 5 % too fast."""
    lane = "IMAD.SHL.U32 R1, R0, 0x4, RZ"
    k = ("IADD3 R2, P0, R1, c[0x0][0x210], RZ", "IADD3.X R3, RZ, c[0x0][0x214], RZ, P0, !PT")
    v = ("IADD3 R4, P0, R1, c[0x0][0x218], RZ", "IADD3.X R5, RZ, c[0x0][0x21c], RZ, P0, !PT")
    loads = [f"LDG.E R8, desc[UR4][R{pointer}.64]" for pointer in (2, 4, 2)]
    access_at = touched(TID, lane, *k, *v, *loads)
    assert [access_at[place].again for place in sorted(access_at)] == [0.0, 0.0, 1.0]


def test_a_load_of_one_sector_more_is_not_there_already() -> None:
    """The first lines of the next row would come for nothing."""
    wide = [f"LDG.E.U16 R4, desc[UR4][R2.64+{offset:#x}]" for offset in (0, 2, 32, 0x200)]
    access_at = touched(TID, TO_BYTES.format(size="0x10"), *wide)
    assert [access_at[place].again for place in sorted(access_at)] == [0.0, 1.0, 0.0, 0.0]
