"""The same function on another device, or on a device that one side changes."""

import json
from pathlib import Path

import pytest
from tilesight.kernels.launch.availability import missing_package
from tilesight.simulator.device.device import load_device
from users_file import DOUBLE

import tilesight
from tilesight.cli.main import main

pytestmark = pytest.mark.skipif(missing_package() is not None, reason=str(missing_package()))

COPY = (
    DOUBLE
    + """

def run():
    x = torch.empty(1 << 26, device="cuda")
    double[(1 << 16,)](x, torch.empty_like(x), 1 << 26, BLOCK=1024)
"""
)
"""512 MB, bound by memory."""


@pytest.fixture(autouse=True)
def copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user's file in the working folder."""
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(COPY, "utf-8")


def test_a_copy_takes_half_the_time_at_twice_the_rate(capsys: pytest.CaptureFixture[str]) -> None:
    """A what-if of one side: the code is the same, the time is not; either side can be the slower one."""
    rates = {name: getattr(load_device("h100-pcie"), f"hbm_{name}_bytes_per_s") for name in ("peak", "read", "write")}
    twice = [f"hbm_{name}_bytes_per_s={2 * rate:.0f}" for name, rate in rates.items()]
    for option, ratio, verdict in (("--new-set", 0.5, "faster"), ("--old-set", 2.0, "slower")):
        what_ifs = [text for setting in twice for text in (option, setting)]
        assert main(["diff", "mine.py:run", "--device", "h100-pcie", *what_ifs, "--json"]) == 0
        answer = json.loads(capsys.readouterr().out)
        assert answer["same_code"] and answer["verdict"] == verdict
        assert answer["change"]["ratio"] == pytest.approx(ratio, rel=0.05)
        assert sorted(answer["settings"].values()) == [[], twice]
        assert any(note.startswith("what-if of one side: nothing is measured there") for note in answer["notes"])


def test_the_same_code_on_another_device_is_predicted(capsys: pytest.CaptureFixture[str]) -> None:
    """By the bandwidths of their memories; between devices that were not both measured a note says so."""
    assert main(["diff", "mine.py:run", "--device", "h100,h200", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    rates = [load_device(name).hbm_read_bytes_per_s for name in ("h100", "h200")]
    assert answer["devices"] == {"old": "h100-sxm", "new": "h200"} and answer["notes"] == []
    assert answer["same_code"] and answer["verdict"] == "faster"
    assert answer["change"]["ratio"] == pytest.approx(rates[0] / rates[1], rel=0.05)
    assert main(["diff", "mine.py:run", "mine.py:run", "--device", "h200,b200"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert text.startswith("mine.py:run on h200 against b200, L2 pipeline: faster, ")
    assert "that between an H100 and an H200, not tested here" in text


def test_a_saved_side_answers_for_its_own_device(capsys: pytest.CaptureFixture[str]) -> None:
    """As the first of two devices, and not as the second."""
    assert main(["predict", "mine.py:run", "--device", "h100", "--save", "kept.json"]) == 0
    assert main(["diff", "kept.json", "mine.py:run", "--device", "h100,h200"]) == 0
    assert "kept.json on h100-sxm against mine.py:run on h200, same code, L2 pipeline: fas" in capsys.readouterr().out
    assert main(["diff", "kept.json", "mine.py:run", "--device", "h200,h100"]) == 2
    assert "is of device h100-sxm (asked for is h200)" in capsys.readouterr().err


def test_python_names_both_devices() -> None:
    """And leaves out the second side where the device is another; where nothing differs a line says so."""
    difference = tilesight.diff("mine.py:run", old_device="h100", device="h200", settings=["l2_bytes=80MiB"])
    assert (difference.old.device, difference.new.device) == ("h100-sxm", "h200")
    assert (difference.old.settings, difference.new.settings) == (("l2_bytes=80MiB",),) * 2
    assert difference.same_code and not difference.unchanged and difference.verdict == "faster"
    assert difference.to_html("page.html") == Path("page.html").read_text("utf-8")
    with pytest.raises(ValueError, match="NEW is missing: name what OLD is compared with"):
        tilesight.diff("mine.py:run")


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ([], "NEW is missing: name what OLD is compared with"),
        (["--device", "h100,h200,b200"], "--device: names 3 devices; OLD and NEW have one each"),
        (["--device", "h100,h100"], "--device h100: is h100-sxm, which is given already"),
        (["--new-set", "l2_byte=1"], "--new-set 'l2_byte=1': key 'l2_byte' is unknown: did you mean l2_bytes"),
        (["--set", "sms=9", "--old-set", "sms=8"], "--old-set sms=8: sms is given by --set for both sides already"),
    ],
)
def test_what_names_no_two_sides_is_told_in_a_line(
    options: list[str], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before anything runs."""
    assert main(["diff", "mine.py:run", *options]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"tilesight: {line}") and said.count("\n") == 1


@pytest.mark.parametrize("command", ["predict", "profile", "tune"])
def test_an_answer_for_a_gpu_that_was_not_measured_says_so(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """For kernels of a user as for schedules (`tests/rooms/cli/test_held.py`)."""
    options = ["--sweep", "BLOCK=512,1024"] if command == "tune" else []
    main([command, "mine.py:run", "--device", "gb10", *options, "--json"])
    assert "no prediction for gb10 was held against a measurement by this project; " in capsys.readouterr().out
