"""Pipes, intervals and latencies of opcodes, and the products that they name."""

from collections import Counter

import pytest
from support.listings import listing
from tilesight.simulator.device.device import load_device
from tilesight.simulator.sass.decode import Instruction, decode
from tilesight.simulator.sass.matrix import matmul_shape_of, tensor_cycles
from tilesight.simulator.sass.opcodes import (
    ARCHITECTURES,
    find_rule,
    interval_cycles,
    rules,
    vector_bytes,
)
from tilesight.simulator.sm.instructions import lower_code

DEVICES = {80: "a100-sxm-80gb", 86: "a40", 89: "l40s", 90: "h200"}
SUB_CORES = 4


def instruction(line: str) -> Instruction:
    """One instruction."""
    (decoded,) = decode(listing(line))
    return decoded


def interval(line: str, capability: int) -> float:
    """How long an instruction keeps its pipe."""
    decoded = instruction(line)
    rule = find_rule(decoded, rules(capability))
    assert rule
    return interval_cycles(decoded, rule)


@pytest.mark.parametrize("capability", ARCHITECTURES)
def test_every_rule_has_a_pipe_numbers_and_a_source(capability: int) -> None:
    """A number would stand there of which nobody knows where it is from."""
    for opcode, rule in rules(capability).items():
        assert rule.pipe and len(rule.source) > 5, opcode
        assert rule.interval_cycles > 0 and rule.latency_cycles >= 0, opcode


@pytest.mark.parametrize("capability", DEVICES)
def test_pipes_are_as_fast_as_the_device_file_says(capability: int) -> None:
    """Code and tile programs would be timed for two different GPUs."""
    device = load_device(DEVICES[capability])
    for line, lanes in (
        ("FFMA R0, R1, R2, R3", device.fma_per_cycle),
        ("IADD3 R0, R1, R2, R3", device.alu_per_cycle),
        ("MUFU.EX2 R0, R1", device.mufu_per_cycle),
    ):
        assert interval(line, capability) == SUB_CORES * 32 / lanes
    matmul = interval("HMMA.16816.F32 R0, R4, R8, R0", capability)
    assert matmul == pytest.approx(SUB_CORES * 4096 / device.mma_fp16_flop_per_cycle, rel=0.07)


@pytest.mark.parametrize(
    ("line", "mnk", "flop", "cycles"),
    [
        ("HGMMA.64x128x16.F32 R24, R88, gdesc[UR8].tnspB, R24", (64, 128, 16), 2 * 64 * 128 * 16, 64),
        ("HGMMA.64x128x16.F32 R24, gdesc[UR8], R24", (64, 128, 16), 2 * 64 * 128 * 16, 64),
        ("HGMMA.64x32x16.F32 R24, gdesc[UR8], R24", (64, 32, 16), 2 * 64 * 32 * 16, 24),
        ("HGMMA.64x32x16.F32 R24, R88, gdesc[UR8], R24", (64, 32, 16), 2 * 64 * 32 * 16, 16),
        ("HGMMA.64x64x8.F32.TF32 R24, gdesc[UR8], R24", (64, 64, 8), 2 * 64 * 64 * 8, 32),
        ("QGMMA.64x64x32.F32.E4M3.E4M3 R24, gdesc[UR8], R24", (64, 64, 32), 2 * 64 * 64 * 32, 32),
    ],
)
def test_a_warpgroups_product_takes_half_a_cycle_a_column(
    line: str, mnk: tuple[int, int, int], flop: int, cycles: float
) -> None:
    """Measured on an H200; the small ones with A from shared memory are limited by reading it."""
    matmul = matmul_shape_of(instruction(line))
    assert matmul and (matmul.m, matmul.n, matmul.k) == mnk
    assert (matmul.flop, matmul.warps, tensor_cycles(matmul, 6.0)) == (flop, 4, cycles)
    assert interval(line, 90) == cycles


@pytest.mark.parametrize(
    ("line", "cycles"),
    [
        ("HMMA.16816.F32 R0, R4, R8, R0", 8),
        ("HMMA.1688.F32 R0, R4, R8, R0", 4),
        ("HMMA.1688.F32.TF32 R0, R4, R8, R0", 8),
        ("IMMA.16832.S8.S8 R0, R4, R8, R0", 8),
        ("IMMA.16816.S8.S8 R0, R4, R8, R0", 4),
    ],
)
def test_a_warps_product_takes_time_in_proportion_to_its_bits(line: str, cycles: float) -> None:
    """On an A100, where m16n8k16 takes 8 cycles a sub-core."""
    assert interval(line, 80) == cycles


@pytest.mark.parametrize(
    ("line", "smem_bytes"),
    [
        ("HGMMA.64x128x16.F32 R24, R88, gdesc[UR8], R24", 128 * 32),
        ("HGMMA.64x128x16.F32 R24, gdesc[UR8], R24", (64 + 128) * 32),
        ("HMMA.16816.F32 R0, R4, R8, R0", 0),
    ],
)
def test_a_warpgroups_product_reads_its_operands_from_shared_memory(line: str, smem_bytes: int) -> None:
    """A would not count where it comes from shared memory, or where it does not."""
    matmul = matmul_shape_of(instruction(line))
    assert matmul and matmul.smem_bytes == smem_bytes


@pytest.mark.parametrize("line", ["FFMA R0, R1, R2, R3", "UTCHMMA gdesc[UR4], gdesc[UR6], tmem[UR8], UP0"])
def test_what_names_no_size_is_no_product(line: str) -> None:
    """On sm_100 the size is in a register, and would be made up."""
    assert matmul_shape_of(instruction(line)) is None


@pytest.mark.parametrize(
    ("line", "cycles"),
    [("LDS R0, [R1]", 1), ("LDS.U8 R0, [R1]", 1), ("STS.128 [R1], R4", 4), ("LDSM.16.M88.4 R0, [R1]", 4)],
)
def test_shared_memory_takes_a_cycle_for_128_bytes_of_a_warp(line: str, cycles: float) -> None:
    """Wide accesses would take as long as narrow ones."""
    assert interval(line, 90) == cycles


@pytest.mark.parametrize(
    ("line", "size_bytes"),
    [
        ("RED.E.ADD.F32.FTZ.RN.STRONG.GPU desc[UR8][R2.64], R8", 0),
        ("REDG.E.ADD.F16x2.RN.STRONG.GPU desc[UR8][R2.64], R8", 4),
        ("REDG.E.ADD.F16x4.RN.STRONG.GPU desc[UR8][R2.64], R8", 8),
        ("REDG.E.ADD.BF16x8.RN.STRONG.GPU desc[UR8][R2.64], R8", 16),
        ("REDG.E.ADD.F32x4.FTZ.RN.STRONG.GPU desc[UR8][R2.64], R8", 16),
        ("LDG.E.128 R4, [R2]", 0),
    ],
)
def test_an_atomic_on_several_elements_is_as_wide_as_they_are(line: str, size_bytes: int) -> None:
    """Four halves were taken for 16 B, and a sum that ends with its tensor for one that reaches beyond it."""
    assert vector_bytes(instruction(line)) == size_bytes


def test_the_longest_prefix_of_an_opcode_decides() -> None:
    """Wide products would take as long as narrow ones, or have no rule."""
    assert interval("IMAD.WIDE.U32 R0, R2, R3, RZ", 90) == 2 * interval("IMAD.MOV.U32 R0, RZ, RZ, R3", 90)


def test_unknown_opcodes_are_counted_by_name() -> None:
    """An instruction that no table has would be timed as nothing without a word."""
    code = decode(listing("FFMA R0, R1, R2, R3", "XYZ.32 R0", "XYZ.32 R1", "HGMMA.64x64x16.F32 R0, gdesc[UR4], R0"))
    unknown = lower_code(code, 90, load_device("h200").sm)[1], lower_code(code, 80, load_device("a100-sxm-80gb").sm)[1]
    assert unknown == (Counter({"XYZ.32": 2}), Counter({"XYZ.32": 2, "HGMMA.64x64x16.F32": 1}))


def test_an_architecture_without_a_table_is_refused() -> None:
    """Its code would be timed by another one's table."""
    with pytest.raises(ValueError, match="sm_75: no table of opcodes; must be one of sm_80"):
        rules(75)
