"""Padding of products, which torch's compiler decides by timing on a GPU: here by prices."""

import pytest
from tilesight.kernels.launch.availability import missing_package
from tilesight.simulator.device.device import load_device

if missing_package():
    pytest.skip(str(missing_package()), allow_module_level=True)

import torch
from tilesight.kernels.pytorch.padding import PADDED, padding_for


def pads(m: int, n: int, k: int, *batch: int) -> tuple[bool, list[str]]:
    """Whether a product in bf16 is padded on an H100, and what is noted."""
    notes: dict[str, None] = {}
    left = torch.empty(*batch, m, k, device="meta", dtype=torch.bfloat16)
    right = torch.empty(*batch, k, n, device="meta", dtype=torch.bfloat16)
    return padding_for(load_device("h100"), notes)(None, left, right, torch.ops.aten.mm), list(notes)


def test_large_products_of_unaligned_rows_are_padded_and_it_is_noted() -> None:
    """A vocabulary of 50,257, alone and in a batch: without alignment tensor cores take twice as long and more."""
    assert pads(4096, 50257, 768) == (True, [PADDED])
    assert pads(2048, 1001, 2048, 4)[0]


def test_products_that_memory_bounds_are_left_alone() -> None:
    """A row of weights that are read once is as fast without; and nothing is noted."""
    assert pads(1, 50257, 768) == (False, [])


def test_aligned_products_are_left_alone() -> None:
    """Nothing would be added."""
    assert not pads(4096, 50304, 768)[0]
