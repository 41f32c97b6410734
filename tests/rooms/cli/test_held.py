"""GPUs for which no prediction was ever measured: every answer says so, in the same words."""

import json

import pytest
from tilesight.simulator.device.device import catalogue, load_device

from tilesight.cli.main import main
from tilesight.cli.options import device_notes

SMALL = ["--batch", "1", "--heads", "2", "--head-dim", "64"]
COMMANDS = {
    "simulate": ["simulate", *SMALL, "--seqlen", "256"],
    "explore": ["explore", *SMALL, "--seqlen", "256", "--block-m", "64", "--block-n", "64", "--num-warps", "4"],
    "compare": ["compare", *SMALL, "--schedule", "naive", "--seqlens", "256"],
}


def _notes(command: str, device: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert main([*COMMANDS[command], "--device", device, "--json"]) == 0
    return str(json.loads(capsys.readouterr().out)["notes"])


@pytest.mark.parametrize("command", COMMANDS)
def test_an_answer_for_a_gpu_that_was_not_measured_says_so(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """And one for the H200 does not."""
    (said,) = device_notes("l4", load_device("l4"), None)
    assert said in _notes(command, "l4", capsys)
    assert "held against" not in _notes(command, "h200", capsys)


def test_the_note_counts_what_is_assumed_or_scaled() -> None:
    """Of the device's own numbers, behind what `--set` replaced."""
    device = load_device("l4")
    weak = [origin for origin in device.provenance.values() if origin.kind not in ("datasheet", "measured")]
    first, said = device_notes("l4", device, ["sms=1"])
    assert first == "device changed by --set sms=1"
    assert said.startswith("no prediction for l4 was held against a measurement by this project; ")
    assert f" {len(weak)} of the {len(device.provenance)} numbers " in said


def test_the_two_gpus_that_were_measured_name_where() -> None:
    """No other file claims it, and the page is there."""
    held = {name: load_device(name).held_against for name in catalogue()}
    assert {name for name, page in held.items() if page} == {"h100-sxm", "h200"}
    assert set(held.values()) == {"", "docs/accuracy.md"}
