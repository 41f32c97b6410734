"""How many CTAs an SM holds, which limit says so, and what does not fit at all."""

from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from support.strategies import TOY
from tilesight.simulator.device.device import load_device
from tilesight.simulator.launch.code import Code
from tilesight.simulator.launch.program import Resources
from tilesight.simulator.refusal import Refusal
from tilesight.simulator.residency.occupancy import occupancy

H200 = load_device("h200")


def needs(registers: int, smem_bytes: int) -> Resources:
    """Resources of that many registers per thread and bytes per CTA."""
    return Resources(registers_per_thread=registers, smem_bytes_per_cta=smem_bytes)


@pytest.mark.parametrize(
    ("registers", "smem_bytes", "num_warps", "ctas", "limit"),
    [
        (32, 0, 4, 16, "warps"),
        (32, 0, 1, 32, "ctas"),
        (168, 0, 4, 3, "registers"),
        (128, 0, 4, 4, "registers"),
        (255, 0, 8, 1, "registers"),
        (64, 49152, 4, 4, "smem"),
        (64, 115712, 4, 2, "smem"),
        (64, 115713, 4, 1, "smem"),
        (64, 232448, 8, 1, "smem"),
        # Eleven CTAs take 157 units of 128 B each, beside 1 KiB; not one byte more.
        (16, 20096, 1, 11, "smem"),
        (16, 20097, 1, 10, "smem"),
        # 96 registers of 32 lanes are 3072: five warps a sub-core, not the 21 that 65,536 would hold.
        (96, 0, 7, 2, "registers"),
        (96, 0, 1, 20, "registers"),
        (104, 0, 2, 8, "registers"),
    ],
)
def test_the_tightest_limit_of_an_h200_decides(
    registers: int, smem_bytes: int, num_warps: int, ctas: int, limit: str
) -> None:
    """As the CUDA occupancy calculator (`cuda_occupancy.h`) says for compute capability 9.0."""
    seen = occupancy(needs(registers, smem_bytes), num_warps, H200)
    assert (seen.ctas_per_sm, seen.limit) == (ctas, limit)
    assert seen.occupancy_fraction == ctas * num_warps / 64


@pytest.mark.parametrize(
    ("registers", "smem_bytes", "num_warps", "said"),
    [
        (32, 232449, 4, "shared memory: a CTA needs 232449 B"),
        (256, 0, 4, "registers: a thread needs 256"),
        (32, 0, 64, "num_warps: a CTA has 2048 threads"),
        (255, 0, 16, "registers: an SM"),
    ],
)
def test_what_does_not_fit_is_named(registers: int, smem_bytes: int, num_warps: int, said: str) -> None:
    """One line: the resource, the need, the limit."""
    refusal = occupancy(needs(registers, smem_bytes), num_warps, H200)
    assert isinstance(refusal, Refusal) and refusal.kind == "does not fit"
    assert refusal.reason.startswith(said) and "\n" not in refusal.reason


@pytest.mark.parametrize(
    ("device", "lines", "ctas", "limit"),
    [
        # 64 on an SM: four barriers of sixteen CTAs, six of ten, all that a register may name of four.
        ("h200", ("BAR.SYNC.DEFER_BLOCKING 0x0 ;", "@P0 BAR.ARV 0x3, 0x80 ;"), 16, "warps"),
        ("h200", ("BAR.RED.POPC.DEFER_BLOCKING 0x5, 0x80 ;",), 10, "barriers"),
        ("h200", ("BAR.SYNC.DEFER_BLOCKING 0x1, 0x80 ;", "BAR.ARV R8, 0x80 ;"), 4, "barriers"),
        ("b200", ("BAR.ARV R8, 0x80 ;",), 4, "barriers"),
        ("rtx-5090", ("BAR.ARV R8, 0x80 ;",), 1, "barriers"),
        ("a100", ("BAR.ARV R8, 0x80 ;",), 16, "warps"),
        ("h200", ("BAR.SYNCALL ;", "SYNCS.ARRIVE.TRANS64 RZ, [UR4], R2 ;"), 16, "warps"),
    ],
)
def test_named_barriers_are_shared_by_the_ctas_of_an_sm(
    device: str, lines: tuple[str, ...], ctas: int, limit: str
) -> None:
    """As the CUDA occupancy calculator says from compute capability 9.0 on."""
    code = Code(sass="\n".join(f" /*{16 * n:04x}*/ {line}" for n, line in enumerate(lines)), constants={})
    seen = occupancy(replace(needs(32, 0), code=code), 4, load_device(device))
    assert (seen.ctas_per_sm, seen.limit) == (ctas, limit)


@given(
    registers=st.integers(1, 255), smem_bytes=st.integers(0, 166912), num_warps=st.sampled_from((1, 2, 4, 8, 16, 32))
)
def test_resident_ctas_take_no_more_than_the_sm_has(registers: int, smem_bytes: int, num_warps: int) -> None:
    """Of registers, shared memory, warps and CTA slots."""
    assume(-(-registers // 8) * 8 * 32 * num_warps <= TOY.registers_per_sm)
    seen = occupancy(needs(registers, smem_bytes), num_warps, TOY)
    ctas = seen.ctas_per_sm
    assert 1 <= ctas <= TOY.max_ctas_per_sm
    assert ctas * num_warps <= TOY.max_warps_per_sm
    assert ctas * num_warps * 32 * registers <= TOY.registers_per_sm
    assert ctas * (smem_bytes + TOY.smem_reserved_per_cta_bytes) <= TOY.smem_per_sm_bytes
    assert 0 < seen.occupancy_fraction <= 1


@given(registers=st.integers(1, 250), smem_bytes=st.integers(0, 160000), num_warps=st.sampled_from((1, 2, 4, 8)))
def test_needing_more_never_lets_more_in(registers: int, smem_bytes: int, num_warps: int) -> None:
    """In registers, shared memory, warps."""
    assume(registers * 32 * num_warps <= TOY.registers_per_sm // 2)
    here = occupancy(needs(registers, smem_bytes), num_warps, TOY).ctas_per_sm
    assert occupancy(needs(registers + 5, smem_bytes), num_warps, TOY).ctas_per_sm <= here
    assert occupancy(needs(registers, smem_bytes + 5000), num_warps, TOY).ctas_per_sm <= here
    assert occupancy(needs(registers, smem_bytes), 2 * num_warps, TOY).ctas_per_sm <= here


def test_the_system_takes_its_share_of_shared_memory_per_cta() -> None:
    """Without the 1 KiB that is reserved, one CTA more fits."""
    free = replace(TOY, smem_reserved_per_cta_bytes=0)
    assert occupancy(needs(32, TOY.smem_per_sm_bytes // 4), 4, TOY).ctas_per_sm == 3
    assert occupancy(needs(32, TOY.smem_per_sm_bytes // 4), 4, free).ctas_per_sm == 4
