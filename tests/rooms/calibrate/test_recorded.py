"""What an H200 answered, recorded: each number that is derived from it is held against what else is known of the GPU.

`tests/recorded/calibration-h200.json` is what `tilesight calibrate --json` printed, cut to its records.
"""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tilesight.simulator.device.device import load_device, parse_device
from tilesight.validate.calibrate import calibrate, fit, report
from tilesight.validate.calibrate.micro.gpu import Facts

RECORDED = Path(__file__).parents[2] / "recorded" / "calibration-h200.json"
CALIBRATED: dict[str, Any] = json.loads(RECORDED.read_text("utf-8"))
RECORDS, FACTS = CALIBRATED["records"], Facts(**CALIBRATED["facts"])
BASE = load_device(CALIBRATED["base"])
CALIBRATION = calibrate.settle(RECORDS, FACTS, BASE, calibrate.GROUPS, {})
VALUES = {finding.key: finding.value for finding in CALIBRATION.findings}
needs_pipes = pytest.mark.skipif("pipes" not in RECORDS, reason="no pipes are recorded yet")
needs_misses = pytest.mark.skipif("misses" not in RECORDS["latency"], reason="no misses are recorded yet")
needs_beside = pytest.mark.skipif("beside" not in RECORDS, reason="nothing beside a tensor stream is recorded yet")
needs_crossings = pytest.mark.skipif("across" not in RECORDS["l2"], reason="no crossings are recorded yet")
needs_flush = pytest.mark.skipif("flush" not in RECORDS["knees"], reason="no flush is recorded yet")


def test_nothing_that_was_measured_is_refused() -> None:
    """A limit that a real GPU breaks is a wrong limit."""
    assert CALIBRATION.refused == ()


def test_the_two_sms_of_a_tpc_share_a_side() -> None:
    """SMs 2k and 2k + 1 are built next to each other, which the search for sides does not know; each side has half."""
    sides, _, _ = fit.split_sides(RECORDS["sides"]["first"], RECORDS["sides"]["second"])
    assert [len(side) for side in sides] == [66, 66]
    assert all((sm ^ 1) in side for side in sides for sm in side)


def test_a_crossing_is_what_steps_of_a_pointer_chase_allow() -> None:
    """80 to 210 cycles fit the steps that RRZE-HPC/gpu-benches saw on a GH200."""
    assert 80 <= VALUES["fabric_latency_cycles"] <= 210


def test_lines_are_at_home_on_either_side_in_equal_parts() -> None:
    """In runs of some lines: the hash is far finer than a page."""
    assert RECORDS["homes"]["first_side_fraction"] == pytest.approx(0.5, abs=0.05)
    short = sum(n for length, n in RECORDS["homes"]["runs"].items() if int(length) <= 64)
    assert short > 0.7 * sum(RECORDS["homes"]["runs"].values())


def test_near_lines_and_near_copies_come_equally_fast() -> None:
    """A copy is as good as a home; RRZE-HPC/gpu-benches reads 9.5 to 9.9 TB/s, others less."""
    assert VALUES["l2_near_bytes_per_s"] == pytest.approx(VALUES["l2_copied_bytes_per_s"], rel=0.03)
    for key in ("l2_bytes_per_s", "l2_shared_bytes_per_s"):
        assert 7.5e12 < VALUES[key] < 10.5e12


def test_latencies_are_those_of_the_literature() -> None:
    """Luo et al. 2024 and RRZE-HPC/gpu-benches: 30 to 40 cycles in L1, 200 to 290 in L2."""
    assert 30 <= VALUES["l1_latency_cycles"] <= 40
    assert 200 <= VALUES["l2_latency_cycles"] <= 290
    assert VALUES["smem_latency_cycles"] < VALUES["l1_latency_cycles"]


def test_l2_holds_what_reads_of_attention_kernels_say() -> None:
    """DRAM reads fit 57 to 59 MB, private data misses from 40 to 48 MB on; the file keeps the driver's 60 MiB."""
    assert 56e6 < VALUES["l2_shared_held_bytes"] < 60e6
    assert 40e6 < VALUES["l2_private_held_bytes"] < 48e6
    assert CALIBRATION.device.l2_bytes == FACTS.l2_bytes == 62914560


def test_streams_reach_nine_tenths_of_the_datasheet() -> None:
    """Other kernels on other H200s read 4.45 to 4.60 and wrote 4.24 to 4.29 TB/s."""
    assert 4.4e12 < VALUES["hbm_read_bytes_per_s"] < 4.7e12
    assert 4.2e12 < VALUES["hbm_write_bytes_per_s"] < 4.6e12


@pytest.mark.parametrize("columns", [16, 32, 64, 128, 256])
def test_products_from_shared_memory_take_what_their_operands_take(columns: int) -> None:
    """Luo et al. 2025: N / 2 cycles, and at least N / 4 + 16 since A, 2 KiB, comes at 128 B per cycle with B."""
    expected = max(columns / 2, columns / 4 + 16)
    assert VALUES[f"wgmma_n{columns}_smem_cycles"] == pytest.approx(expected, rel=0.01)


@pytest.mark.parametrize("columns", [32, 64, 128, 256])
def test_products_from_registers_take_half_a_cycle_a_column(columns: int) -> None:
    """A costs nothing there."""
    assert VALUES[f"wgmma_n{columns}_registers_cycles"] == pytest.approx(columns / 2, rel=0.01)


def test_a_wait_is_the_same_whatever_was_waited_for() -> None:
    """From 64 columns on it does not depend on the product; a fit on Triton kernels gave 62 cycles."""
    smem = [VALUES[f"wgmma_wait_4_n{columns}_smem_cycles"] for columns in (64, 128, 256)]
    registers = [VALUES[f"wgmma_wait_4_n{columns}_registers_cycles"] for columns in (64, 128, 256)]
    assert max(smem) - min(smem) < 1
    assert max(registers) - min(registers) < 1
    assert smem[0] == pytest.approx(62, abs=5)
    assert 5 < smem[0] - registers[0] < 15


def test_mma_sync_reaches_the_share_that_was_published() -> None:
    """Luo et al. 2025: 0.63 of the wgmma peak on average over types; fp16 and bf16 run alike, tf32 at half."""
    assert 0.6 < VALUES["mma_fp16_flop_per_cycle"] / VALUES["wgmma_fp16_flop_per_cycle"] < 0.7
    assert VALUES["mma_bf16_flop_per_cycle"] == pytest.approx(VALUES["mma_fp16_flop_per_cycle"], rel=0.01)
    assert VALUES["mma_tf32_flop_per_cycle"] == pytest.approx(VALUES["mma_fp16_flop_per_cycle"] / 2, rel=0.01)


def test_the_clock_falls_with_the_load() -> None:
    """Reading leaves the boost clock, products at full rate bring it to 1.33 to 1.70 GHz, HBM beside them lower yet."""
    assert 1.93e9 < VALUES["memory_clock_hz"] <= 1.981e9
    assert 1.33e9 < VALUES["tensor_clock_hz"] < 1.70e9 < VALUES["tensor_half_clock_hz"]
    assert VALUES["mixed_clock_hz"] < VALUES["tensor_clock_hz"] - 0.1e9


def test_launches_cost_what_an_earlier_day_said() -> None:
    """1.2 cycles from CTA to CTA; 0.87 us from kernel to kernel in a graph of kernels that do a little."""
    assert VALUES["cta_dispatch_cycles"] == pytest.approx(1.2, rel=0.05)
    assert 0.5e-6 < VALUES["launch_bare_graph_s"] < 0.9e-6


@needs_pipes
def test_pipes_reach_the_rates_of_the_programming_guide() -> None:
    """Never more, and not a twentieth less."""
    for key in ("fma_per_cycle", "alu_per_cycle", "mufu_per_cycle", "smem_bytes_per_cycle"):
        assert VALUES[key] == pytest.approx(getattr(BASE, key), rel=0.05)


@needs_misses
def test_a_far_miss_takes_a_crossing_longer() -> None:
    """Two ways to the same number: near copies that are missing, and misses of lines at home across."""
    assert VALUES["hbm_far_extra_cycles"] == pytest.approx(VALUES["fabric_latency_cycles"], abs=40)
    assert 1.0e-7 < VALUES["hbm_latency_s"] < 1.85e-7


@needs_beside
def test_a_stream_keeps_its_pace_alone() -> None:
    """Products with nothing beside take what the stream of the tensor group takes."""
    alone = [products for _, _, products, _ in RECORDS["beside"].values()]
    assert max(alone) < 1.02 * 64


@needs_crossings
def test_lines_that_should_cross_did() -> None:
    """Else copies were read, and the fabric's bandwidth is L2's."""
    assert RECORDS["l2"]["far_fraction"] > 0.75


@needs_flush
def test_a_flush_leaves_less_of_what_was_read_once() -> None:
    """Lines that were read often may stay; nothing is gained by being read less."""
    assert VALUES["l2_left_by_read_after_1_fraction"] <= VALUES["l2_left_by_read_after_20_fraction"] + 0.05


def test_the_device_file_holds_every_number_with_its_source() -> None:
    """What is written loads as the same device; constants stand below as comments, the base's other lines unchanged."""
    text = report.toml_text(CALIBRATION)
    device = parse_device(text, "h200.toml")
    assert device == CALIBRATION.device
    for key, origin in device.provenance.items():
        if key in VALUES:
            assert origin.source.startswith(f"one {FACTS.gpu}, driver {FACTS.driver}, CUDA {FACTS.cuda}, ")
        else:
            assert origin == BASE.provenance[key]
    comments = [line for line in text.splitlines() if line.startswith("# ") and " = " in line]
    assert [line.split()[1] for line in comments] == [
        key for key in VALUES if key not in device.provenance | device.sm.provenance
    ]


def test_numbers_of_the_sm_stand_in_a_table_of_the_file() -> None:
    """Those that were measured, and no other; the model reads them, and they are near what Hopper's file says."""
    sm = parse_device(report.toml_text(CALIBRATION), "h200.toml").sm
    assert sm.barrier_arrival_cycles == pytest.approx(2.0, abs=0.1)
    assert sm.barrier_release_cycles == pytest.approx(12.6, abs=0.5)
    assert sm.wgmma_wait_release_cycles == pytest.approx(54 - 14, abs=1)
    assert sm.wgmma_registers_least_cycles == pytest.approx(13.0, abs=0.1)
    assert 250 < sm.cta_replacement_cycles < 400
    assert {
        key for key, origin in sm.provenance.items() if FACTS.gpu in origin.source and FACTS.date in origin.source
    } == {
        "barrier_arrival_cycles",
        "barrier_release_cycles",
        "cta_replacement_cycles",
        "wgmma_registers_least_cycles",
        "wgmma_wait_release_cycles",
    }
    assert sm.provenance["bsync_cycles"] == BASE.sm.provenance["bsync_cycles"]


def test_a_stream_that_counted_twice_would_be_refused() -> None:
    """Were the buffer half as large as the record says, the bandwidth would exceed the datasheet's."""
    wrong = RECORDS["hbm"] | {"bytes": 2 * RECORDS["hbm"]["bytes"]}
    calibration = calibrate.settle(RECORDS | {"hbm": wrong}, FACTS, BASE, calibrate.GROUPS, {})
    refused = {finding.key for finding, _ in calibration.refused}
    assert refused == {"hbm_read_bytes_per_s", "hbm_write_bytes_per_s", "hbm_copy_bytes_per_s"}
    assert calibration.device.hbm_read_bytes_per_s == BASE.hbm_read_bytes_per_s


def test_an_idle_clock_would_show() -> None:
    """Cycles per byte at 345 MHz are not those at 1.98 GHz: without the group's clock the link would seem faster."""
    slow = replace(FACTS, clock_hz=345e6)
    records = {group: record for group, record in RECORDS.items() if group != "clocks"}
    (true,) = [
        finding.value
        for finding in calibrate.derive(records, FACTS, ["launch"])
        if finding.key == "cta_dispatch_cycles"
    ]
    (wrong,) = [
        finding.value for finding in calibrate.derive(records, slow, ["launch"]) if finding.key == "cta_dispatch_cycles"
    ]
    clocks = {"clocks": {"launch": [FACTS.clock_hz, FACTS.clock_hz]}}
    again = calibrate.derive(records | clocks, slow, ["launch"])
    assert wrong == pytest.approx(true * 345e6 / FACTS.clock_hz)
    assert [finding.value for finding in again if finding.key == "cta_dispatch_cycles"] == [true]
