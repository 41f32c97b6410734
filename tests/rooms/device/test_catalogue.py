"""The catalogue: every number names its source, agrees with the datasheet, and stands in the guide."""

import dataclasses
import re
from importlib import resources
from pathlib import Path

import pytest
from tilesight.simulator.closed_form.roofline import tensor_peak_flop_per_s
from tilesight.simulator.device import device as device_room
from tilesight.simulator.device.device import (
    Device,
    catalogue,
    load_device,
    number_fields,
)
from tilesight.simulator.device.numbers import KINDS

# What the vendor prints: dense fp16 tensor rate with fp32 sums, the clock it is computed with, and memory bandwidth.
# Hopper and Blackwell data-centre GPUs have a lower boost clock for tensor work than `boost_clock_hz`.
DATASHEETS = {
    "a100-sxm-40gb": (312e12, 1.41e9, 1555e9, "A100 whitepaper, Table 4"),
    "a100-sxm-80gb": (312e12, 1.41e9, 2039e9, "A100 80 GB datasheet"),
    "h100-sxm": (989.4e12, 1.83e9, 3.35e12, "H100 whitepaper, peak rates and boost clock for tensor core operations"),
    "h100-pcie": (756e12, 1.62e9, 2.0e12, "H100 whitepaper, peak rates and boost clock for tensor core operations"),
    "h200": (989.5e12, 1.83e9, 4.8e12, "H200 datasheet; tensor clock of the H100 SXM"),
    "b200": (2.25e15, 1.835e9, 7.7e12, "Blackwell datasheet, HGX B200, per GPU; tensor clock as OpenXLA records it"),
    "a40": (149.7e12, 1.74e9, 696e9, "A40 datasheet"),
    "l40s": (362.05e12, 2.52e9, 864e9, "L40S datasheet"),
    "rtx-4090": (165.2e12, 2.52e9, 1008e9, "Ada whitepaper v2.02, Appendix A, fp32 accumulate"),
    "rtx-5090": (209.5e12, 2.407e9, 1792e9, "RTX Blackwell whitepaper, Appendix A, fp32 accumulate"),
    "rtx-3090": (71e12, 1.695e9, 936e9, "GA102 whitepaper v2.0, Appendix A, fp32 accumulate"),
    "a10g": (70e12, 1.71e9, 600e9, "AWS, EC2 G5 instances: 70 TFLOP/s fp16, 600 GB/s"),
    "l4": (121e12, 2.04e9, 300e9, "L4 datasheet, half of the rates with sparsity"),
    "l20": (
        119.5e12,
        2.52e9,
        864e9,
        "119.5 TFLOP/s and 864 GB/s as vendors of cards list the L20; no NVIDIA document is public",
    ),
    "h20": (148e12, 1.83e9, 4.0e12, "NVIDIA ai-dynamo/aiconfigurator, h20_sxm.yaml; tensor clock of the H100 SXM"),
    "b300": (
        2.25e15,
        1.835e9,
        7.75e12,
        "Blackwell Ultra datasheet, HGX B300, per GPU; tensor clock as OpenXLA records it",
    ),
    "gb200": (2.5e15, 2.008e9, 8e12, "NVIDIA aiconfigurator-core 0.12.0, gb200.yaml; the clock that its rate takes"),
    "gb300": (2.5e15, 2.008e9, 8e12, "NVIDIA aiconfigurator-core 0.12.0, gb300.yaml; the clock that its rate takes"),
    "rtx-pro-6000": (467.8e12, 2.43e9, 1792e9, "NVIDIA ai-dynamo/aiconfigurator, rtx_pro_6000_server.yaml"),
    "gb10": (
        118.8e12,
        2.418e9,
        273e9,
        "DGX Spark hardware overview: 273 GB/s; no dense fp16 rate is published: that of its file",
    ),
}
INSTRUCTIONS = ("mma", "wgmma", "tcgen05")
GUIDE = (Path(__file__).parents[3] / "docs" / "devices.md").read_text("utf-8")
VENDOR = re.compile(r"NVIDIA|CUDA|nvidia-smi")
ADMITS = {
    "fitted": ("derived from ", "fitted:", "not used:", "scaled from "),
    "assumed": ("assumption:", "estimate:", "taken over from "),
}
ASSUMES = re.compile(r"assumption|estimate|taken over|carried over")


def text_of(name: str) -> str:
    return (resources.files(device_room.__package__) / "catalogue" / f"{name}.toml").read_text("utf-8")


def best_fp16(device: Device) -> float:
    return max(device.tensor_flop_per_cycle(instruction, "fp16") for instruction in INSTRUCTIONS)


def test_catalogue_is_the_gpus_of_the_table() -> None:
    """The catalogue holds the GPUs that the datasheet table knows, and no other."""
    assert catalogue() == sorted(DATASHEETS)


@pytest.mark.parametrize("name", DATASHEETS)
def test_every_number_has_a_source_and_a_kind(name: str) -> None:
    """A number without provenance cannot be loaded; each that is in the file has one."""
    device = load_device(name)
    assert {item.name for item in number_fields() if getattr(device, item.name)} <= set(device.provenance) | {
        "fabric_latency_cycles"
    }
    assert all(origin.kind in KINDS and len(origin.source) > 10 for origin in device.provenance.values())


@pytest.mark.parametrize("name", DATASHEETS)
def test_datasheet_numbers_name_a_vendor_document(name: str) -> None:
    """`datasheet` is said only of what the vendor, or the vendor's driver, says."""
    origins = load_device(name).provenance.items()
    assert not [key for key, origin in origins if origin.kind == "datasheet" and not VENDOR.search(origin.source)]


@pytest.mark.parametrize("name", DATASHEETS)
def test_fitted_and_assumed_numbers_begin_by_admitting_it(name: str) -> None:
    """The source of such a number opens with how it came about, so no estimate passes for a measurement."""
    origins = load_device(name).provenance.items()
    assert not [key for key, origin in origins if not origin.source.startswith(ADMITS.get(origin.kind, ""))]


@pytest.mark.parametrize("name", DATASHEETS)
def test_what_is_assumed_by_its_source_is_of_that_kind(name: str) -> None:
    """Nothing that its source calls an assumption or an estimate, or takes over from elsewhere, is called fitted."""
    device = load_device(name)
    for key, origin in (device.provenance | device.sm.provenance).items():
        assert (origin.kind == "assumed") == bool(ASSUMES.search(origin.source)), key


@pytest.mark.parametrize("name", DATASHEETS)
def test_device_file_has_one_line_a_number(name: str) -> None:
    """A changed number is a one-line diff, in the order of `Device`; costs of kernels stand in tables behind them."""
    lines = text_of(name).partition("\n[")[0].splitlines()
    keys = [line.split(" = ")[0] for line in lines if line and not line.startswith("#")]
    order = [field.name for field in dataclasses.fields(Device) if field.name in keys]
    assert keys == order


@pytest.mark.parametrize("name", DATASHEETS)
def test_peak_tensor_rate_agrees_with_the_datasheet(name: str) -> None:
    """Best fp16 instruction x SMs x the datasheet's clock is the datasheet's TFLOP/s within 3 %."""
    flop_per_s, clock_hz, _, source = DATASHEETS[name]
    device = load_device(name)
    assert best_fp16(device) * device.sms * clock_hz == pytest.approx(flop_per_s, rel=0.03), source
    assert device.tensor_clock_hz <= device.boost_clock_hz
    assert clock_hz <= device.boost_clock_hz


@pytest.mark.parametrize("name", DATASHEETS)
def test_memory_bandwidth_agrees_with_the_datasheet(name: str) -> None:
    """Peak device memory bandwidth is the datasheet's within 3 %; what is achievable lies less than 15 % below."""
    device = load_device(name)
    assert device.hbm_peak_bytes_per_s == pytest.approx(DATASHEETS[name][2], rel=0.03), DATASHEETS[name][3]
    for achievable in (device.hbm_read_bytes_per_s, device.hbm_write_bytes_per_s):
        assert 0.85 < achievable / device.hbm_peak_bytes_per_s < 1.0


@pytest.mark.parametrize("name", DATASHEETS)
def test_lower_precision_is_twice_as_fast(name: str) -> None:
    """For each instruction a GPU has, fp16 runs at twice the rate of tf32, and fp8, where it exists, at twice fp16."""
    device = load_device(name)
    for instruction in INSTRUCTIONS:
        tf32, fp16, fp8 = (device.tensor_flop_per_cycle(instruction, dtype) for dtype in ("fp32", "fp16", "fp8"))
        assert fp16 == 2 * tf32
        assert fp8 in (0, 2 * fp16)
        assert device.tensor_flop_per_cycle(instruction, "bf16") == fp16


TENSOR_RATES = {
    "a100-sxm-80gb": {"int8": 624e12, "fp64": 19.5e12},
    "a40": {"int8": 299.3e12, "fp64": 0.585e12},
    "h100-sxm": {"fp8": 1978.9e12, "int8": 1978.9e12, "fp64": 61.9e12},
    "h100-pcie": {"fp8": 1513e12, "int8": 1513e12, "fp64": 47.3e12},
    "h200": {"fp8": 1979e12, "int8": 1979e12, "fp64": 61.9e12},
    "b200": {"fp8": 4.5e15, "int8": 4.5e15, "mxfp4": 9e15, "fp64": 34.8e12},
    "l40s": {"fp8": 733e12, "int8": 733e12, "fp64": 1.43e12},
    "rtx-4090": {"fp16_acc16": 330.3e12, "fp8": 330.3e12, "fp8_acc16": 660.6e12, "int8": 660.6e12, "fp64": 1.29e12},
    "rtx-3090": {"fp16_acc16": 142e12, "int8": 284e12, "fp64": 0.556e12},
    "l4": {"fp8": 242.5e12, "int8": 242.5e12},
    "h20": {"fp8": 296e12, "int8": 296e12, "fp64": 0.92e12},
    "b300": {"fp8": 4.5e15},
    "gb200": {"fp8": 5e15, "int8": 5e15, "mxfp4": 10e15},
    "gb300": {"fp8": 5e15, "mxfp4": 15e15},
    "rtx-pro-6000": {"fp8": 935.6e12, "int8": 935.6e12, "mxfp4": 1871e12},
    "rtx-5090": {"fp16_acc16": 419e12, "fp8": 419e12, "fp8_acc16": 838e12, "int8": 838e12, "mxfp4": 1676e12},
}
"""Dense rates that the vendor prints, of the clock of `DATASHEETS`; FP64 of Hopper and B200, which the vendor computes
with a faster clock, brought to that."""


@pytest.mark.parametrize("name", TENSOR_RATES)
def test_rates_by_type_of_operands_and_sums_agree_with_the_datasheet(name: str) -> None:
    """Of the fastest instruction of each type, within 3 %."""
    device, clock_hz = load_device(name), DATASHEETS[name][1]
    for kind, flop_per_s in TENSOR_RATES[name].items():
        assert device.fastest_of_kind(kind) * device.sms * clock_hz == pytest.approx(flop_per_s, rel=0.03), kind


@pytest.mark.parametrize(("name", "kind"), [("a100-sxm-80gb", "fp8"), ("h200", "mxfp4"), ("l40s", "mxfp4")])
def test_what_a_device_lacks_has_no_rate(name: str, kind: str) -> None:
    """A rate of 0 is refused in words, and no other type's is taken for it."""
    assert load_device(name).fastest_of_kind(kind) == 0.0


@pytest.mark.parametrize("name", DATASHEETS)
def test_instruction_classes_follow_the_compute_capability(name: str) -> None:
    """Every GPU has mma.sync; wgmma is Hopper's alone, tcgen05 the data-centre Blackwell's alone."""
    device = load_device(name)
    has = {instruction for instruction in INSTRUCTIONS if device.tensor_flop_per_cycle(instruction, "fp16")}
    assert has == {"mma"} | {"9.0": {"wgmma"}, "10.0": {"tcgen05"}, "10.3": {"tcgen05"}}.get(
        device.compute_capability, set()
    )


@pytest.mark.parametrize("name", DATASHEETS)
def test_guide_shows_the_device_as_it_is(name: str) -> None:
    """The row in docs/devices.md is the device file's; a failure prints the row to paste."""
    device, peak_flop_per_s = load_device(name), DATASHEETS[name][0]
    kinds = [origin.kind for origin in device.provenance.values()]
    peaks = f"{peak_flop_per_s / 1e12:.0f} / {tensor_peak_flop_per_s(device, 'fp16') / 1e12:.0f}"
    row = (
        f"| `{name}` | {device.sms} | {device.boost_clock_hz / 1e9:.2f} / {device.tensor_clock_hz / 1e9:.2f} "
        f"| {peaks} | {device.l2_bytes / 2**20:g} ({device.l2_partitions}) "
        f"| {device.l2_bytes_per_s / 1e12:.1f} "
        f"| {device.hbm_read_bytes_per_s / 1e12:.2f} of {device.hbm_peak_bytes_per_s / 1e12:.2f} "
        f"| {kinds.count('fitted')}, {kinds.count('assumed')} of {len(kinds)} |"
    )
    assert row in GUIDE.splitlines()


def test_guide_explains_every_key() -> None:
    """docs/devices.md says of each key what `Device` says of it."""
    assert not [
        item.name for item in number_fields() if f"| `{item.name}` | {item.metadata['doc']} |" not in GUIDE.splitlines()
    ]


def test_geforce_runs_fp32_sums_at_half_rate() -> None:
    """L40S and RTX 4090 share the die; with fp32 sums the GeForce does half the work per cycle."""
    assert best_fp16(load_device("l40s")) == 2 * best_fp16(load_device("rtx-4090"))


def test_a_b200_gives_what_kernels_were_measured_to_take() -> None:
    """SGLang's fused experts in tiles of 64 x 64 x 32: L2 what they load again, HBM weights in pieces of 64 bytes."""
    b200 = load_device("b200")
    # 6,144 tokens by 4 of 128 experts, matrices of 6144 x 768.
    # In 1.745 ms (aiconfigurator-core 0.12.0, moe/sglang/0.5.14, part fit); each tile loads its operands anew.
    rows, hidden, inner, tile, item = 6144 * 4, 6144, 768, 64, 2
    up, down = (rows // tile) * (2 * inner // tile), (rows // tile) * (hidden // tile)
    loaded = 2 * tile * item * (up * hidden + down * inner)
    assert b200.l2_bytes_per_s > loaded / 1.745e-3
    # Weights of 3 to 32 GB, the same table: up to 5.75 TB/s.
    assert b200.hbm_part_line_fraction * b200.hbm_read_bytes_per_s >= 5.75e12
