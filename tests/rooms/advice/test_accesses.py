"""Which access wastes most of what it fetches, by hand."""

from tilesight.simulator.advice.accesses import Access, useful_share, worst

WARPS = 1000


def access(place: int, useful_bytes: int, sectors: int, family: str = "LDG") -> Access:
    """An access of so many warps, each of which asks for so much, in so many sectors."""
    return Access(
        place=place,
        storage=0,
        family=family,
        useful_bytes=WARPS * useful_bytes,
        touched_bytes=WARPS * 32 * sectors,
        lanes=WARPS * 32,
        threads=WARPS * 32,
    )


TILES = access(1, 512, 16)
"""Whole sectors, of which much is loaded."""
SCALES = access(2, 128, 32)
"""4 of each 32 B."""


def test_an_access_of_few_bytes_and_many_sectors_is_found() -> None:
    """Though nine tenths of all bytes are used: those of a thousand tiles beside it."""
    accesses = [*(TILES for _ in range(20)), SCALES]
    assert useful_share(accesses) > 0.9 and worst(accesses, 0.5) is SCALES


def test_a_warp_that_asks_for_one_sector_can_waste_none() -> None:
    """A scalar that all lanes load, whatever is left of its sector; nor do atomics count, or half-used sectors."""
    assert worst([access(1, 4, 1), access(2, 128, 32, "RED"), access(3, 128, 8)], 0.5) is None
    assert worst([access(3, 128, 8)]) is not None
