"""Calibration without a GPU: planted records become findings, findings a device file, nonsense a refusal."""

from dataclasses import replace
from importlib import resources

import pytest
from tilesight.simulator.device.device import catalogue, load_device, parse_device
from tilesight.simulator.device.numbers import Provenance
from tilesight.simulator.device.what_if import override
from tilesight.validate.calibrate import calibrate, report
from tilesight.validate.calibrate.calibrate import refusal
from tilesight.validate.calibrate.fit import Finding
from tilesight.validate.calibrate.micro import gpu
from tilesight.validate.calibrate.micro.compile import NoGpu
from tilesight.validate.calibrate.micro.gpu import Facts
from tilesight.validate.calibrate.report import device_toml

from tilesight.cli.main import main

H200 = load_device("h200")
FACTS = Facts(
    gpu="NVIDIA H200",
    capability="9.0",
    sms=132,
    driver="580.159.04",
    cuda="13.0",
    triton="3.6.0",
    l2_bytes=62914560,
    hbm_bytes=150110011392,
    smem_per_cta_bytes=232448,
    free_bytes=149000000000,
    clock_hz=1.98e9,
    date="2026-11-21",
)
SIZE = 4 << 30
HBM = {
    "bytes": SIZE,
    "read": {"4": [SIZE / 4.0e12] * 7, "8": [SIZE / 4.5e12] * 6 + [1.0]},
    "write": {"4": [SIZE / 4.2e12] * 7},
    "copy": {"4": [SIZE / 2.1e12] * 7},
}
LAUNCH = {
    "launches": 1000,
    "stream": [2.5e-3] * 7,
    "graph": [0.7e-3] * 7,
    "triton": {"stream": [6e-3] * 6 + [1.0], "graph": [0.9e-3] * 7},
    "ctas": {"132": [2.08e-6] * 7, "13200": [10e-6] * 7, "132000": [82e-6] * 7},
    "turnover": [600, 610, 9000],
}


def settled(records: dict[str, object] | None = None) -> calibrate.Calibration:
    given = {"hbm": HBM, "launch": LAUNCH} if records is None else records
    return calibrate.settle(given, FACTS, H200, calibrate.GROUPS, {"hbm": 1.0})


def value_of(key: str) -> float:
    (value,) = [finding.value for finding in settled().findings if finding.key == key]
    return value


def test_streams_count_the_best_grid_by_its_median_launch() -> None:
    """One slow launch moves nothing, and a copy counts what it reads and what it writes."""
    assert value_of("hbm_read_bytes_per_s") == pytest.approx(4.5e12)
    assert value_of("hbm_write_bytes_per_s") == pytest.approx(4.2e12)
    assert value_of("hbm_copy_bytes_per_s") == pytest.approx(4.2e12)


def test_launches_are_counted_one_by_one() -> None:
    """CTAs come at the slope, so that what a launch costs at all does not count."""
    assert value_of("launch_stream_s") == pytest.approx(6e-6)
    assert value_of("launch_graph_s") == pytest.approx(0.9e-6)
    assert value_of("launch_driver_s") == pytest.approx(2.5e-6)
    assert value_of("launch_bare_graph_s") == pytest.approx(0.7e-6)
    assert value_of("cta_dispatch_cycles") == pytest.approx(1.98e9 * 0.606e-9, rel=0.01)
    assert value_of("cta_replacement_cycles") == 610


def test_without_triton_the_base_says_what_a_launch_costs() -> None:
    """The driver's launches are another thing, so they replace nothing."""
    bare = {name: value for name, value in LAUNCH.items() if name != "triton"}
    device = settled({"launch": bare}).device
    assert device.provenance["launch_stream_s"] == H200.provenance["launch_stream_s"]
    assert device.provenance["launch_graph_s"] == H200.provenance["launch_graph_s"]
    assert device.provenance["cta_dispatch_cycles"].kind == "measured"


def test_cycles_and_seconds_meet_at_the_clock_of_their_group() -> None:
    """A group that ran while the clock was low is read with that clock, not with the one of the start."""
    low = settled({"launch": LAUNCH, "clocks": {"launch": [1.0e9, 0.98e9]}}).device
    assert low.cta_dispatch_cycles == pytest.approx(settled().device.cta_dispatch_cycles / 2, rel=1e-3)


def test_findings_replace_the_base_and_say_so() -> None:
    """Measured numbers are of that kind, with GPU, driver and date; all others keep value, kind and source."""
    device = settled().device
    assert device.name == "NVIDIA H200"
    assert device.hbm_write_bytes_per_s == 4.2e12
    origin = device.provenance["hbm_write_bytes_per_s"]
    assert origin.kind == "measured"
    assert "driver 580.159.04, CUDA 13.0, triton 3.6.0, 2026-11-21" in origin.source
    changed = {
        "hbm_read_bytes_per_s",
        "hbm_write_bytes_per_s",
        "launch_stream_s",
        "launch_graph_s",
        "cta_dispatch_cycles",
    }
    # The catalogue's own numbers come from a calibration too, whose words are the same.
    assert {key for key in H200.provenance if device.provenance[key] != H200.provenance[key]} <= changed
    assert (
        {"hbm_read_bytes_per_s"}
        <= {key for key in H200.provenance if getattr(device, key) != getattr(H200, key)}
        <= changed
    )


def test_what_no_gpu_can_have_is_refused_and_the_base_stays() -> None:
    """A stream faster than the datasheet's peak is a mistake; the others are taken."""
    broken = HBM | {"read": {"4": [SIZE / 9e12] * 7}}
    calibration = settled({"hbm": broken})
    ((finding, reason),) = calibration.refused
    assert finding.key == "hbm_read_bytes_per_s"
    assert reason == "hbm_read_bytes_per_s = 9e+12: must be from 1e+10 to 4.8e+12"
    assert calibration.device.hbm_read_bytes_per_s == H200.hbm_read_bytes_per_s
    assert calibration.device.provenance["hbm_read_bytes_per_s"] == H200.provenance["hbm_read_bytes_per_s"]
    assert calibration.device.hbm_write_bytes_per_s == 4.2e12


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("issue_per_cycle", 4.5),
        ("smem_bytes_per_cycle", 256.0),
        ("l2_latency_cycles", 20.0),
        ("l2_bytes_per_s", float("inf")),
        ("l2_bytes_per_s", float("nan")),
        ("l2_bytes_per_s", -1e12),
        ("tensor_clock_hz", 2.5e9),
        ("l2_partitions", 3),
        ("wgmma_fp16_flop_per_cycle", 1e6),
        ("wgmma_wait_n64_smem_cycles", -50.0),
        ("launch_graph_s", 0.0),
    ],
)
def test_nonsense_is_refused(key: str, value: float) -> None:
    """With key, value and range; a likely number of the same key is not."""
    finding = Finding(key=key, value=value, how="planted")
    assert refusal(finding, H200).startswith(f"{key} = {value:g}: must be from ")
    likely = getattr(H200, key, 30.0)
    assert refusal(replace(finding, value=likely), H200) == ""


@pytest.mark.parametrize("name", catalogue())
def test_a_device_file_loads_back(name: str) -> None:
    """Every number, kind and source of every catalogue device survives; the same device gives the same text."""
    device = load_device(name)
    text = device_toml(device)
    again = parse_device(text, "again.toml")
    assert again == device
    assert again.provenance == device.provenance
    assert device_toml(again) == text


def test_a_device_file_has_the_catalogue_layout() -> None:
    """One line a number in the order of the catalogue, so that a diff against it shows numbers alone."""
    written = device_toml(H200).splitlines()
    catalogued = (resources.files("tilesight.simulator.device") / "catalogue" / "h200.toml").read_text("utf-8")
    keys = [line.split(" = ")[0] for line in catalogued.splitlines()]
    assert [line.split(" = ")[0] for line in written] == keys


@pytest.mark.parametrize("capability", ["9.0", "8.0", "11.0"])
def test_a_file_of_any_architecture_loads_back_with_the_numbers_of_its_sm(capability: str) -> None:
    """Also of one that the catalogue has no device of: the file then names whose numbers it takes."""
    device = override(replace(H200, compute_capability=capability), ["bsync_cycles=40"])
    ranks = tuple(reversed(device.sm.clock_cluster_ranks))
    ours = dict.fromkeys(("bsync_cycles", "clock_cluster_ranks"), Provenance("measured", "our card"))
    sm = replace(device.sm, clock_cluster_ranks=ranks, provenance=device.sm.provenance | ours)
    text = device_toml(replace(device, sm=sm))
    again = parse_device(text, "again.toml")
    assert (again.sm, again.sm.bsync_cycles, again.sm.clock_cluster_ranks) == (sm, 40, ranks)
    assert again.sm.provenance["bsync_cycles"] == Provenance("measured", "our card")
    assert ("base = " in text) == (capability == "11.0")


def test_costs_of_kernels_that_are_the_devices_own_stand_in_its_file() -> None:
    """In tables of their families; those of the architecture do not."""
    kernels = H200.torch_kernels.with_number("softmax.row_s", 1e-6, Provenance("measured", "our card"))
    text = device_toml(replace(H200, torch_kernels=kernels))
    assert "[torch_kernels.softmax]\nrow_s = " in text
    assert "round_s" not in text
    assert parse_device(text, "again.toml").torch_kernels == kernels


def test_constants_without_a_key_are_comments() -> None:
    """The file still loads, and they can be read in it."""
    text = report.toml_text(settled())
    assert parse_device(text, "x.toml") == settled().device
    assert "# hbm_copy_bytes_per_s = 4.2e12  (copying 4.3 GB, bytes read and written)" in text.splitlines()


@pytest.mark.parametrize(
    ("facts", "name"),
    [
        (FACTS, "h200"),
        (replace(FACTS, hbm_bytes=85_000_000_000), "h100-sxm"),
        (replace(FACTS, sms=114, hbm_bytes=85_000_000_000), "h100-pcie"),
        (replace(FACTS, capability="8.0", sms=108, hbm_bytes=42_000_000_000), "a100-sxm-40gb"),
        (replace(FACTS, capability="8.9", sms=128, hbm_bytes=25_000_000_000), "rtx-4090"),
    ],
)
def test_the_base_is_the_most_similar_catalogue_device(facts: Facts, name: str) -> None:
    """By compute capability, then SMs, then memory."""
    assert calibrate.nearest_base(facts) == name


def test_the_table_shows_both_and_their_ratio() -> None:
    """Measured, base, ratio; what was refused stands below with its reason."""
    lines = report.calibration_text(settled({"hbm": HBM | {"read": {"4": [SIZE / 9e12]}}}), "h200", 100).splitlines()
    (row,) = [line.split() for line in lines if line.startswith("hbm_write_bytes_per_s")]
    assert row[:6] == ["hbm_write_bytes_per_s", "4.20", "TB/s", "4.49", "TB/s", "0.935"]
    assert lines[-1].startswith("refused: hbm_read_bytes_per_s = 9e+12: must be from ")


def test_json_holds_records_to_derive_from_again() -> None:
    """The same findings come out of the records of the JSON object."""
    document = report.calibration_dict(settled(), "h200")
    again = calibrate.settle(document["records"], Facts(**document["facts"]), H200, calibrate.GROUPS, {})  # type: ignore[arg-type]
    assert again.findings == settled().findings


def test_without_a_gpu_there_is_one_line_with_the_remedy(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 1, nothing on stdout."""

    def missing() -> None:
        raise NoGpu("cuda.bindings is not installed: pip install cuda-bindings")

    monkeypatch.setattr(gpu, "Gpu", missing)
    assert main(["calibrate"]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == "tilesight: cuda.bindings is not installed: pip install cuda-bindings\n"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--only", "hbm,l3"], "--only 'hbm,l3': 'l3' is unknown; allowed are hbm, l2, "),
        (["--base", "h2000"], "--base 'h2000': device 'h2000' is unknown: did you mean h200"),
        (["--output", "/nowhere/x.toml"], "--output '/nowhere/x.toml': cannot be written"),
    ],
)
def test_bad_options_are_named(arguments: list[str], expected: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Before anything is measured; exit code 2."""
    assert main(["calibrate", *arguments]) == 2
    assert expected in capsys.readouterr().err
