"""Helion's own search by predicted times, where Helion is installed; no GPU is needed."""

import sys

import pytest
from tilesight.kernels.launch.availability import missing_package

import tilesight

if missing_package():
    pytest.skip(str(missing_package()), allow_module_level=True)

import torch

from tilesight.tuning.helion import NoHelion, compiling, predicted


def test_without_helion_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """With what installs it."""
    monkeypatch.setitem(sys.modules, "helion", None)
    monkeypatch.setitem(sys.modules, "helion.autotuner.benchmark_provider", None)
    with pytest.raises(NoHelion, match=r"^Helion is not installed: pip install helion"):
        predicted()


def test_a_search_of_helion_finds_what_is_predicted_fastest() -> None:
    """Of an addition: rows of 4 KiB at a time, not 32 bytes of each of 128 rows."""
    helion = pytest.importorskip("helion", reason="helion is not installed: pip install helion")
    from helion.autotuner import FiniteSearch
    from helion_kernel import add

    wide, narrow = (helion.Config(block_sizes=sizes, num_warps=4) for sizes in ([1, 1024], [128, 8]))
    with tilesight.capture("h100"), compiling():
        tensors = tuple(torch.empty(2048, 1024, device="meta") for _ in range(2))
        bound = add.bind(tensors)
        provider = predicted("h100", workers=1)
        search = FiniteSearch(bound, tensors, [narrow, wide], benchmark_provider_cls=provider)
        best = search.autotune(skip_cache=True)
        times_ms = [result.perf for result in provider(kernel=bound, args=tensors).benchmark([narrow, wide])]
    assert best == wide
    assert times_ms[1] < times_ms[0] < 1.0
