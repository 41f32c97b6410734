"""Matmuls in tensor memory: extents from the descriptor that reaches them, time and operands from these."""

import pytest
from support.listings import flow_of
from tilesight.simulator.refusal import CannotFollow
from tilesight.simulator.sass.matrix import MatmulShape, matmul_shape_of, tensor_cycles

MATMUL = "{} {}, gdesc[UR8], tmem[UR19], tmem[UR32], idesc[UR33], UPT"


def shape_of(*before: str, family: str = "UTCHMMA", a: str = "gdesc[UR6]") -> MatmulShape:
    """The matmul that stands last in a kernel. Args: before: instructions in front of it."""
    flow = flow_of(*before, MATMUL.format(family, a), "EXIT")
    matmul = matmul_shape_of(flow.instructions[-2])
    assert matmul is not None
    return matmul


@pytest.mark.parametrize(
    ("family", "idesc", "extents", "bits"),
    [
        ("UTCHMMA", 0x4100010, (64, 64, 16), 16),
        ("UTCHMMA", 0x8110010, (128, 64, 16), 16),
        ("UTCHMMA", 0x8050010, (128, 16, 16), 16),
        ("UTCHMMA", 0x8210490, (128, 128, 16), 16),
        ("UTCHMMA", 0x8410010, (128, 256, 16), 16),
        ("UTCHMMA", 0x8200910, (128, 128, 8), 32),
        ("UTCQMMA", 0x8210010, (128, 128, 32), 8),
    ],
)
def test_extents_are_those_of_the_tile_that_triton_was_given(
    family: str, idesc: int, extents: tuple[int, int, int], bits: int
) -> None:
    """Descriptors as Triton 3.6 has ptxas 12.9 set them: of tiles of fp16, bf16, tf32 and e4m3."""
    matmul = shape_of(f"UMOV UR33, {idesc:#x}", family=family)
    assert ((matmul.m, matmul.n, matmul.k), matmul.bits) == (extents, bits)


@pytest.mark.parametrize(("a", "smem_cycles"), [("gdesc[UR6]", 512), ("tmem[UR6]", 256)])
def test_a_product_of_128_cubed_takes_the_cycles_that_are_published(a: str, smem_cycles: int) -> None:
    """Zadouri et al. 2026, arXiv:2603.05451: 8192 FLOP and 128 B of shared memory a cycle."""
    matmul = shape_of("UMOV UR33, 0x8210010", a=a)
    deep = 128 / matmul.k
    assert deep * tensor_cycles(matmul, 1.0) == 2 * 128**3 / 8192
    assert deep * matmul.smem_bytes / 128 == smem_cycles


def test_a_descriptor_is_found_through_copies_and_earlier_blocks() -> None:
    """The one that reaches the matmul, not the one that stands last before it elsewhere."""
    assert shape_of("UMOV UR9, 0x8110010", "UMOV UR33, UR9").n == 64
    assert shape_of("UMOV UR33, 0x8110010", "@P0 BRA 0x30", "NOP").n == 64


@pytest.mark.parametrize(
    "before",
    [
        ("UIADD3 UR33, UPT, UPT, UR4, 0x1, URZ",),
        ("UMOV UR33, 0x8110010", "@UP0 UMOV UR33, 0x8210010"),
        ("UMOV UR33, 0x8110010", "@P0 BRA 0x30", "UMOV UR33, 0x8210010"),
        (),
    ],
)
def test_a_matmul_whose_extents_are_not_sure_is_refused(before: tuple[str, ...]) -> None:
    """A guess would be a wrong time; none at all no time."""
    with pytest.raises(
        CannotFollow, match=r"^UTCHMMA at 0x[0-9a-f]+: its extents are in a descriptor that is computed$"
    ):
        shape_of(*before)
