"""`tilesight validate --checkpoint` on a machine without a GPU."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from tilesight.cli.main import main

NO_GPU = "no CUDA GPU is visible"


@pytest.mark.parametrize("device", [(), ("--device", "a100-sxm-80gb", "--set", "sms=64")])
def test_the_checkpoint_is_predicted_where_there_is_no_gpu(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, device: Sequence[str]
) -> None:
    """For an H200 or the device that is named, as text, JSON and a page; with what is missing, and exit code 0."""
    monkeypatch.setattr("tilesight.kernels.launch.availability.missing_gpu", lambda: NO_GPU)
    for name, value in (("LENGTHS", (512, 1024)), ("MAP_BATCHES", (1,)), ("MAP_LENGTHS", (512,))):
        monkeypatch.setattr(f"tilesight.validate.experiments.checkpoint.{name}", value)
    page, file = tmp_path / "out.html", tmp_path / "out.json"
    arguments = ["validate", "--checkpoint", "--problem", "heads=2", "--problem", "batch=1", "--workers", "1", *device]
    assert main([*arguments, "--html", str(page), "--json-file", str(file)]) == 0
    text = capsys.readouterr().out
    product = "NVIDIA A100" if device else "NVIDIA H200"
    assert product in text.splitlines()[0]
    assert NO_GPU in " ".join(text.split())
    document = json.loads(file.read_text("utf-8"))
    assert document["unmeasured"].startswith(NO_GPU)
    assert document["device"].startswith(product)
    assert {point["time_s"]["measured"] for point in document["lengths"]} == {None}
    assert all(point["time_s"]["predicted"] > 0 for point in document["lengths"])
    assert "Predictions only" in page.read_text("utf-8")
