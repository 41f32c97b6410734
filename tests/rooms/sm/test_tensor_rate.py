"""Rates of tensor cores: a device's own number decides, whatever the opcodes of its architecture say."""

from types import SimpleNamespace

import numpy as np
import pytest
from support.listings import listing
from tilesight.simulator.core.sm.instruction import code_table
from tilesight.simulator.device.device import catalogue, load_device
from tilesight.simulator.device.what_if import override
from tilesight.simulator.sass.decode import decode
from tilesight.simulator.sass.matrix import matmul_shape_of
from tilesight.simulator.sass.opcodes import rules
from tilesight.simulator.sm.instructions import lower_code
from tilesight.simulator.sm.tensor_rate import LIKE, peak_flop_per_cycle, rates_of, with_tensor_rates

FP16, FP16_SUMS, TF32, FP8 = "HMMA.16816.F32", "HMMA.16816.F16", "HMMA.1688.F32.TF32", "QMMA.16832.F32.E4M3.E4M3"
FP8_SUMS, SCALED, FP4 = (
    "QMMA.16832.F16.E4M3.E4M3",
    "QMMA.SF.16832.F32.E4M3.E4M3.E8",
    "OMMA.SF.16864.F32.E2M1.E2M1.UE8.4X",
)
FP4, INT8 = "OMMA.SF.16864.F32.E2M1.E2M1.UE8.4X", "IMMA.16832.S8.S8"
FP64, FP64_LONG = "DMMA.884", "DMMA.16x8x16"
OF_CAPABILITY = {
    "8.0": (FP16, FP16_SUMS, TF32, INT8, FP64),
    "8.6": (FP16, FP16_SUMS, TF32, INT8, FP64),
    "8.9": (FP16, FP16_SUMS, TF32, INT8, FP64, FP8, FP8_SUMS),
    "9.0": (FP16, FP16_SUMS, TF32, INT8, FP64, FP64_LONG),
    "10.0": (FP16, FP16_SUMS, TF32, INT8, FP64),
    "12.0": (FP16, FP16_SUMS, TF32, INT8, FP64, FP8, FP8_SUMS, SCALED, FP4),
}
"""Compute capability -> matmuls of a warp that its machine code has."""
OF_CAPABILITY |= {"10.3": OF_CAPABILITY["10.0"], "12.1": OF_CAPABILITY["12.0"]}


def all_sms_flop_per_s(opcode: str, name: str) -> float:
    """What a GPU makes of an instruction's matmuls in a second, each pipe taken without a pause."""
    device = load_device(name)
    instructions = decode(listing(f"{opcode} R4, R8, R12, R4"))
    capability = device.capability
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
        ("rtx-4090", FP8_SUMS, 660.6),
        ("rtx-4090", INT8, 660.6),
        ("rtx-4090", FP64, 1.29),
        ("rtx-5090", FP16, 209.5),
        ("rtx-5090", FP16_SUMS, 419.0),
        ("rtx-5090", TF32, 104.8),
        ("rtx-5090", FP8, 419.0),
        ("rtx-5090", FP8_SUMS, 838.0),
        ("rtx-5090", INT8, 838.0),
        ("rtx-5090", SCALED, 838.0),
        ("rtx-5090", FP4, 1676.0),
        ("l40s", FP16, 362.05),
        ("l40s", FP8, 733.0),
        ("l40s", INT8, 733.0),
        ("a40", FP16, 149.7),
        ("a40", INT8, 299.3),
        ("a40", FP64, 0.585),
        ("a100-sxm-80gb", FP16, 312.0),
        ("a100-sxm-80gb", INT8, 624.0),
        ("a100-sxm-80gb", FP64, 19.5),
    ],
)
def test_matmuls_of_machine_code_run_at_the_rate_of_the_whitepaper(name: str, opcode: str, tflop_per_s: float) -> None:
    """The opcodes of an architecture gave GeForce cards twice what they have; whitepapers round to 1 %."""
    assert all_sms_flop_per_s(opcode, name) / 1e12 == pytest.approx(tflop_per_s, rel=0.02)


@pytest.mark.parametrize("name", catalogue())
def test_no_device_exceeds_the_rate_of_its_own_file(name: str) -> None:
    """It has one for whatever types of operands and sums; nearly equal ones of code and datasheet count as one."""
    device = load_device(name)
    for opcode in OF_CAPABILITY[device.compute_capability]:
        (instruction,) = decode(listing(f"{opcode} R4, R8, R12, R4"))
        matmul = matmul_shape_of(instruction)
        assert matmul is not None
        limit = device.matmul_flop_per_cycle("mma", matmul.kind)
        rate, _ = rates_of(instruction, rules(device.capability), device)
        assert 0.0 < rate <= (1.0 + 2.0 * LIKE) * limit, opcode


@pytest.mark.parametrize("name", catalogue())
def test_no_matmul_is_faster_than_its_roofline(name: str) -> None:
    """The roofline of int8 on GeForce, and of sums in 16 bits, was half of what the engine, rightly, took."""
    device = load_device(name)
    for opcode in OF_CAPABILITY[device.compute_capability]:
        code = listing(f"{opcode} R4, R8, R12, R4")
        resources = SimpleNamespace(code=SimpleNamespace(sass=code))
        launch = SimpleNamespace(traced=(SimpleNamespace(issued=np.array([4.0])),), resources=resources)
        rate, _ = rates_of(decode(code)[0], rules(device.capability), device)
        assert peak_flop_per_cycle(launch, device) >= rate > 0.0, opcode  # type: ignore[arg-type]


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
