"""What is missing is said in one line."""

import importlib.util

import pytest
from tilesight.kernels.launch import availability


@pytest.mark.parametrize("package", ["torch", "triton"])
def test_a_missing_package_is_named(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With what to install."""
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(availability, "find_spec", lambda name: None if name == package else find_spec("json"))
    expected = f"{package} is not installed: install the gpu extra (pip install 'tilesight[gpu]')"
    assert availability.missing_package() == expected
    assert availability.missing_gpu() == expected


@pytest.mark.parametrize(
    ("installed", "supported"),
    [("3.5.1", False), ("3.6.0", True), ("3.7.1", True), ("3.9.0", True), ("3.9.2+git1a2b", True), ("3.10.0", False)],
)
def test_another_triton_than_is_supported_is_named(
    installed: str, supported: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the versions that are, in place of whatever its inner functions would do; the library answers then."""
    monkeypatch.setattr(availability, "find_spec", lambda name: importlib.util.find_spec("json"))
    monkeypatch.setattr(availability, "version", lambda name: installed)
    said = f"triton {installed} is installed: must be 3.6 to 3.9 (pip install 'tilesight[gpu]')"
    assert availability.missing_package() == (None if supported else said)


@pytest.mark.skipif(availability.missing_package() is not None, reason=str(availability.missing_package()))
def test_an_old_or_missing_gpu_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """With its compute capability and the one that is needed."""
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert availability.missing_gpu() == "no CUDA GPU is visible: torch.cuda.is_available() is False"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: (7, 5))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "Tesla T4")
    assert availability.missing_gpu() == "Tesla T4 has compute capability 7.5: the kernels need 8.0 or newer"
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: (9, 0))
    assert availability.missing_gpu() is None
