"""Products of matrix instructions: extents and bits, as the opcode or its family says."""

import pytest
from support.listings import listing
from tilesight.simulator.sass.decode import decode
from tilesight.simulator.sass.matrix import matmul_shape_of


@pytest.mark.parametrize(
    ("opcode", "bits"),
    [
        ("HMMA.16816.F32", 16),
        ("HMMA.16816.F32.BF16", 16),
        ("HMMA.1684.F32.TF32", 32),
        ("IMMA.16832.S4.S4", 4),
        ("IMMA.16832", 8),
        ("QMMA.16832.F32", 8),
        ("OMMA.16864.F32", 4),
        ("DMMA.884", 64),
    ],
)
def test_bits_are_the_types_that_an_opcode_names_or_its_family_has(opcode: str, bits: int) -> None:
    """Of an element of A."""
    (instruction,) = decode(listing(f"{opcode} R4, R8, R12, R4"))
    matmul = matmul_shape_of(instruction)
    assert matmul is not None
    assert matmul.bits == bits


@pytest.mark.parametrize(("family", "bits"), [("HGMMA", 16), ("IGMMA", 8), ("QGMMA", 8), ("BGMMA", 1)])
def test_bits_of_a_warpgroup_are_its_familys(family: str, bits: int) -> None:
    """Where the opcode names none."""
    (instruction,) = decode(listing(f"{family}.64x64x32.F32 R24, gdesc[UR4], R24"))
    matmul = matmul_shape_of(instruction)
    assert matmul is not None
    assert (matmul.m, matmul.n, matmul.k, matmul.bits) == (64, 64, 32, bits)
