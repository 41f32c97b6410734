"""What an instruction says of its access: which sums are of integers, and what L2 drops first."""

import pytest
from support.listings import listing
from tilesight.simulator.sass.decode import decode
from tilesight.simulator.sass.memory_instructions import is_evicted_first, sums_integers


@pytest.mark.parametrize(
    ("line", "integers"),
    [
        ("REDG.E.ADD.STRONG.GPU desc[UR4][R2.64], R5", True),
        ("ATOMG.E.CAS.STRONG.GPU PT, R7, [R2], R6, R7", True),
        ("REDG.E.ADD.F32.FTZ.RN.STRONG.GPU desc[UR4][R2.64], R5", False),
    ],
)
def test_what_is_compared_waits_for_nothing_as_integers_do(line: str, integers: bool) -> None:
    """Lanes at one word take an H200 0.735 ns each, added or compared, and 1.76 where they add floats."""
    (instruction,) = decode(listing(line))
    assert sums_integers(instruction) is integers


@pytest.mark.parametrize(
    ("line", "first"),
    [
        ("LDG.E.EF.128 R4, desc[UR4][R16.64]", True),
        ("STG.E.EF.128 desc[UR8][R28.64+0x4000], R4", True),
        ("LDG.E.NA.128 R4, desc[UR4][R16.64]", True),
        ("LDG.E.EL.128 R8, desc[UR6][R28.64]", False),
        ("LDG.E.128.STRONG.GPU R4, desc[UR8][R28.64]", False),
    ],
)
def test_evict_first_is_read_off_the_code(line: str, first: bool) -> None:
    """As Triton's eviction_policy and `.cs` compile to."""
    (instruction,) = decode(listing(line))
    assert is_evicted_first(instruction) is first
