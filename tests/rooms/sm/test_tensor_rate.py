"""Rates of tensor cores: a device's own number decides, whatever the opcodes of its architecture say."""

import pytest
from support.listings import listing
from tilesight.simulator.core.sm.instruction import code_table
from tilesight.simulator.device.device import catalogue, load_device, override
from tilesight.simulator.library.lookup import capability_of
from tilesight.simulator.sass.decode import decode
from tilesight.simulator.sass.matrix import matmul_shape_of
from tilesight.simulator.sass.opcodes import rules
from tilesight.simulator.sm.instructions import lower_code
from tilesight.simulator.sm.tensor_rate import LIKE, rates_of, with_tensor_rates

FP16, FP16_SUMS, TF32, FP8 = "HMMA.16816.F32", "HMMA.16816.F16", "HMMA.1688.F32.TF32", "QMMA.16832.F32.E4M3.E4M3"


def all_sms_flop_per_s(opcode: str, name: str) -> float:
    """What a GPU makes of an instruction's matmuls in a second, each pipe taken without a pause."""
    device = load_device(name)
    instructions = decode(listing(f"{opcode} R4, R8, R12, R4"))
    capability = capability_of(device)
    lowered, _ = lower_code(instructions, capability, device.sm)
    code = with_tensor_rates(code_table(lowered), instructions, rules(capability), device)
    matmul = matmul_shape_of(instructions[0])
    assert matmul is not None
    return 4 * matmul.flop / code["interval_cycles"][0] * device.sms * device.boost_clock_hz


@pytest.mark.parametrize(
    ("name", "opcode", "tflop_per_s"),
    [
        ("rtx-4090", FP16, 165.2),
        ("rtx-4090", FP16_SUMS, 330.3),
        ("rtx-4090", TF32, 82.6),
        ("rtx-4090", FP8, 330.3),
        ("rtx-5090", FP16, 209.5),
        ("rtx-5090", FP16_SUMS, 419.0),
        ("rtx-5090", TF32, 104.8),
        ("rtx-5090", FP8, 419.0),
        ("l40s", FP16, 362.05),
        ("l40s", FP8, 733.0),
        ("a40", FP16, 149.7),
        ("a100-sxm-80gb", FP16, 312.0),
    ],
)
def test_matmuls_of_machine_code_run_at_the_rate_of_the_whitepaper(name: str, opcode: str, tflop_per_s: float) -> None:
    """The opcodes of an architecture gave GeForce cards twice what they have; whitepapers round to 1 %."""
    assert all_sms_flop_per_s(opcode, name) / 1e12 == pytest.approx(tflop_per_s, rel=0.02)


@pytest.mark.parametrize("opcode", [FP16, TF32, FP8])
@pytest.mark.parametrize("name", catalogue())
def test_no_device_exceeds_the_rate_of_its_own_file(name: str, opcode: str) -> None:
    """Nearly equal rates of code and datasheet count as one."""
    device = load_device(name)
    (instruction,) = decode(listing(f"{opcode} R4, R8, R12, R4"))
    rates = {FP16: device.mma_fp16_flop_per_cycle, TF32: device.mma_tf32_flop_per_cycle}
    limit = rates.get(opcode, device.mma_fp8_flop_per_cycle)
    rate, _ = rates_of(instruction, rules(capability_of(device)), device)
    assert rate <= (1.0 + 2.0 * LIKE) * limit or limit == 0.0


def test_a_what_if_of_the_rate_is_answered_by_machine_code() -> None:
    """Of warps and of warpgroups alike."""
    device = override(load_device("h200"), ["mma_fp16_flop_per_cycle=1365", "wgmma_fp16_flop_per_cycle=2048"])
    instructions = decode(
        listing("HMMA.16816.F32 R4, R8, R12, R4", "HGMMA.64x128x16.F32 R24, gdesc[UR4], R24", "FFMA R1, R2, R3, R4")
    )
    lowered, _ = lower_code(instructions, 90, device.sm)
    code = code_table(lowered)
    slowed = with_tensor_rates(code, instructions, rules(90), device)
    assert slowed["interval_cycles"][0] == pytest.approx(12.0, rel=1e-3)
    assert slowed["tensor_cycles"][1] == 2.0 * code["tensor_cycles"][1]
    assert slowed[2] == code[2]
