"""Calibration from end to end on a toy GPU: what was planted in the toy comes out as the device file's numbers."""

from collections.abc import Callable
from typing import Any

import pytest
from support.fake import gpu as toy
from support.fake.gpu import FakeGpu
from tilesight.simulator.device.device import load_device
from tilesight.validate.calibrate import calibrate
from tilesight.validate.calibrate.micro import launch

GPU_S = 0.9e-6
NO_TRITON = {"stream": [6e-3] * 7, "graph": [GPU_S * 1000] * 7}
Measure = Callable[..., tuple[dict[str, Any], list[str]]]


@pytest.fixture(scope="module")
def measured() -> Measure:
    """Measures groups of a toy; returns records and what the user was told."""

    def run(groups: str, **options: Any) -> tuple[dict[str, Any], list[str]]:
        lines: list[str] = []
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(launch, "triton_launches", lambda sms: NO_TRITON)
            patch.setattr(launch, "sleep", lambda seconds: None)
            records, _ = calibrate.measure(FakeGpu(**options), groups.split(","), lines.append)
        return records, lines

    return run


@pytest.fixture(scope="module")
def values(measured: Measure) -> dict[str, float]:
    """Key -> value, of everything that can be measured on the toy."""
    records, lines = measured(",".join(calibrate.GROUPS))
    assert [line.split(":")[0] for line in lines] == list(calibrate.GROUPS)
    assert not [line for line in lines if "failed" in line]
    return {finding.key: finding.value for finding in calibrate.derive(records, toy.FACTS, calibrate.GROUPS)}


def test_the_sides_and_homes_of_the_toy_come_out(measured: Measure) -> None:
    """SMs 0, 1, 4, 5 read through one partition, the others through the other; each is home of half of the lines."""
    records, _ = measured("l2")
    sides, threshold, crossing = calibrate.fit.split_sides(records["sides"]["first"], records["sides"]["second"])
    assert sides == [[0, 1, 4, 5], [2, 3, 6, 7]]
    assert threshold < crossing == pytest.approx(toy.CROSSING, abs=2)
    assert records["homes"]["first_side_fraction"] == pytest.approx(0.5, abs=0.02)


def test_latencies_come_out(values: dict[str, float]) -> None:
    """A miss counts without the crossing that half of the lines add, and without the translation of a first touch."""
    assert values["l2_latency_cycles"] == toy.NEAR
    assert values["l1_latency_cycles"] == toy.L1
    assert values["smem_latency_cycles"] == toy.SMEM
    assert values["fabric_latency_cycles"] == pytest.approx(toy.CROSSING, abs=2)
    assert values["hbm_latency_s"] * toy.CLOCK_HZ == pytest.approx(toy.MISS, abs=2)
    assert values["hbm_far_extra_cycles"] == pytest.approx(toy.CROSSING, abs=2)
    # First touches cross or not as others do.
    assert values["page_touch_extra_cycles"] == pytest.approx(toy.TRANSLATION, abs=toy.CROSSING)


def test_bandwidths_come_out(values: dict[str, float]) -> None:
    """Launches, first passes and the wait for the first line cancel; what crosses does so at its own rate."""
    every = toy.SMS * toy.CLOCK_HZ
    assert values["l2_bytes_per_s"] == pytest.approx(toy.PRIVATE_BYTES_PER_CYCLE * every, rel=0.01)
    assert values["l2_copied_bytes_per_s"] == pytest.approx(toy.PRIVATE_BYTES_PER_CYCLE * every, rel=0.01)
    assert values["sm_fill_bytes_per_cycle"] == pytest.approx(toy.ALONE_BYTES_PER_CYCLE, rel=0.01)
    assert values["fabric_bytes_per_s"] == pytest.approx(toy.ACROSS_BYTES_PER_CYCLE * every, rel=0.01)
    assert values["fabric_one_way_bytes_per_s"] == pytest.approx(toy.ACROSS_BYTES_PER_CYCLE * every / 2, rel=0.01)


def test_nothing_relies_on_a_flush_that_leaves_hot_lines(measured: Measure) -> None:
    """The toy keeps what was read ten times; still all lines that should cross do, and the flush test shows it."""
    records, _ = measured("l2,knees")
    assert records["l2"]["far_fraction"] == 1.0
    values = {finding.key: finding.value for finding in calibrate.derive(records, toy.FACTS, calibrate.GROUPS)}
    assert values["l2_left_by_read_after_1_fraction"] == 0
    assert values["l2_left_by_read_after_20_fraction"] > 0.5


def test_what_l2_holds_comes_out(values: dict[str, float]) -> None:
    """Two partitions hold shared data twice; the device file keeps the driver's figure."""
    assert values["l2_shared_held_bytes"] == pytest.approx(toy.L2_BYTES, rel=0.05)
    assert values["l2_bytes"] == toy.L2_BYTES


def test_begin_and_end_of_a_kernel_do_not_count(values: dict[str, float]) -> None:
    """The toy adds 50 cycles to every span; rates and waits are free of them."""
    assert values["fma_per_cycle"] == pytest.approx(128)
    assert values["alu_per_cycle"] == pytest.approx(64)
    assert values["mufu_per_cycle"] == pytest.approx(16)
    assert values["mma_latency_cycles"] == pytest.approx(24)
    assert values["wgmma_fp16_flop_per_cycle"] == pytest.approx(4096)
    assert values["wgmma_wait_4_n64_smem_cycles"] == pytest.approx(60)
    assert values["barrier_8_warps_cycles"] == pytest.approx(20)


def test_both_sides_of_beside_are_read_from_the_same_time(values: dict[str, float]) -> None:
    """512 instructions in 600 cycles take 900, products of 64 cycles take 128: half of 900 / 512 were taken."""
    assert values["beside_ffma_smem_1_extra_cycles"] == pytest.approx(300 / 512, rel=0.01)
    assert values["beside_ffma_smem_1_taken_cycles"] == pytest.approx(900 / 512 / 2, rel=0.01)


def test_a_kernel_that_cannot_be_launched_costs_itself_alone(measured: Measure) -> None:
    """Too many registers for its threads, and one line says so; its neighbours are measured."""
    records, lines = measured("pipes,beside", broken=("smem_rate", "beside_smem_fmnmx"))
    reason = "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"
    assert [line for line in lines if "failed" in line] == [
        f"pipes: smem failed and is left out (cuLaunchKernel smem_rate: {reason})",
        f"beside: fmnmx_smem_1 failed and is left out (cuLaunchKernel beside_smem_fmnmx: {reason})",
        f"beside: fmnmx_smem_2 failed and is left out (cuLaunchKernel beside_smem_fmnmx: {reason})",
    ]
    keys = {finding.key for finding in calibrate.derive(records, toy.FACTS, calibrate.GROUPS)}
    assert "smem_bytes_per_cycle" not in keys
    assert "beside_fmnmx_smem_1_extra_cycles" not in keys
    assert {"fma_per_cycle", "barrier_4_warps_cycles", "beside_fmnmx_registers_1_extra_cycles"} <= keys


def test_a_group_that_cannot_begin_costs_itself_alone(measured: Measure) -> None:
    """Without lists of lines there are no sides of L2; pointer chases and pipes go on."""
    records, lines = measured("hbm,l2,tensor", broken=("gather",))
    assert lines[1].startswith("l2: failed and is left out (cuLaunchKernel gather:")
    assert {"hbm", "tensor"} <= set(records)
    assert "l2" not in records


def test_a_clock_that_falls_is_told(measured: Measure) -> None:
    """Each group is measured between two readings of the clock, which the record keeps."""
    records, lines = measured("hbm,pipes", clocks_hz=(2e9, 1.99e9, 2e9, 1.2e9))
    assert records["clocks"] == {"hbm": [2e9, 1.99e9], "pipes": [2e9, 1.2e9]}
    assert [line for line in lines if "clock" in line] == ["pipes: the SM clock fell from 2.00 to 1.20 GHz meanwhile"]


def test_records_of_a_whole_calibration_make_a_device(measured: Measure) -> None:
    """Whatever the toy says, the result is a device whose other numbers are the base's."""
    records, _ = measured("latency,launch,clock")
    base = load_device("h200")
    device = calibrate.settle(records, toy.FACTS, base, calibrate.GROUPS, {}).device
    assert device.launch_stream_s == 6e-6
    assert device.launch_graph_s == GPU_S
    assert device.tensor_clock_hz == 1.5e9
    assert device.provenance["l2_bytes_per_s"] == base.provenance["l2_bytes_per_s"]
