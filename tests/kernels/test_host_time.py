"""What a call of a kernel takes of its host: the catalogue is read once for a GPU."""

from types import SimpleNamespace
from typing import Any

import pytest
from tilesight.kernels.launch.availability import missing_package
from tilesight.simulator.device.device import load_device

if missing_package():
    pytest.skip(str(missing_package()), allow_module_level=True)

import torch
from tilesight.kernels.launch import launch


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Products that are looked up in the catalogue, while an H200 is there."""
    products: list[str] = []

    def looked_up(product: str) -> str | None:
        products.append(product)
        return "h200" if "H200" in product else None

    monkeypatch.setattr(launch, "interpreted", lambda: False)
    monkeypatch.setattr(launch, "device_of_product", looked_up)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: f"NVIDIA {device.name}")
    return products


def on(name: str) -> Any:
    """A tensor on a GPU."""
    return SimpleNamespace(device=SimpleNamespace(type="cuda", name=name))


def test_the_catalogue_is_read_once_for_a_gpu(read: list[str]) -> None:
    """All calls have one device, by which launches are found that were made before."""
    first, second = launch.device_of(on("H200 once")), launch.device_of(on("H200 once"))
    assert first is second
    assert first == load_device("h200")
    assert read == ["NVIDIA H200 once"]


def test_a_gpu_that_is_not_in_the_catalogue_is_refused_each_time(read: list[str]) -> None:
    """By its name, with what to pass."""
    for _ in range(2):
        with pytest.raises(ValueError, match="GPU 'NVIDIA GT 710' is not in the catalogue: pass device="):
            launch.device_of(on("GT 710"))
