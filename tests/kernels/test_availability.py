"""What is missing is said in one line."""

import importlib.util
import sys
import tomllib

import pytest
from house import farm
from tilesight.kernels.launch import availability

PIP = f"{sys.executable} -m pip install"
EXTRA = f"; or in a clone, the predict extra: {PIP} '.[predict]' --extra-index-url https://download.pytorch.org/whl/cpu"
TORCH = f"{PIP} 'torch>=2.10,<2.16' --index-url https://download.pytorch.org/whl/cpu"
TRITON = f"{PIP} 'triton>=3.6,<3.10'"


@pytest.mark.parametrize(
    ("missing", "said"),
    [
        (("torch",), f"torch is not installed (no GPU is needed): {TORCH}"),
        (("triton",), f"triton is not installed (no GPU is needed): {TRITON}"),
        (("torch", "triton"), f"torch and triton are not installed (no GPU is needed): {TORCH} && {TRITON}{EXTRA}"),
    ],
)
def test_a_missing_package_is_named(missing: tuple[str, ...], said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the commands that install what does without a GPU; where one is needed, with the extra that brings all."""
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(availability, "find_spec", lambda name: None if name in missing else find_spec("json"))
    assert availability.missing_package() == said
    assert f"install the gpu extra, in a clone: {PIP} '.[gpu]'" in str(availability.missing_gpu())


def test_the_commands_install_what_the_extras_ask_for() -> None:
    """The same ranges, written down twice."""
    extras = tomllib.loads((farm.ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    packages = [availability.TORCH_PACKAGE.strip("'"), availability.TRITON_PACKAGE.strip("'")]
    assert extras["predict"] == packages
    assert set(packages) < set(extras["gpu"])
    for page in ("README.md", "docs/your-kernel.md"):
        text = (farm.ROOT / page).read_text("utf-8")
        assert availability.CPU_INDEX in text and availability.TRITON_PACKAGE in text, page


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
    said = f"triton {installed} is installed: must be 3.6 to 3.9: {TRITON}"
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
