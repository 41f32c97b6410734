"""Cells of attention backward compute what torch's derivative does; and what ends early has some of every cell."""

import sys

import pytest
import torch
from support.lab import LAB

sys.path.insert(0, str(LAB / "choice"))

import backward
from cells import CELLS, SLICE, sliced


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("gradients", ["kv", "q"])
def test_gradients_are_those_of_torch(gradients: str, causal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """With rows that fill no block and heads of K and V that are shared; in halves: the interpreter has no bfloat16."""
    monkeypatch.setattr(backward, "HALVES", {(64, causal): torch.float16})
    torch.manual_seed(0)
    cell = backward.cell_of(gradients, 1, 4, 2, 70, 64, causal)
    tensors = cell.make("cpu")
    wanted = cell.reference(tensors)
    for high, wide in ((16, 32), (64, 16)):
        tensors["out"].fill_(float("nan"))
        config = {"BM": high, "BN": wide, "num_warps": 4, "num_stages": 1}
        kernel, grid, args, named = cell.launch(tensors, config)
        kernel[grid](*args, **named)
        torch.testing.assert_close(cell.output(tensors), wanted, atol=4e-3, rtol=4e-3)


def test_turns_name_every_configuration_once_and_every_cell_before_any_again() -> None:
    """Some of each cell, then more of each."""
    families = ("backward_kv", "backward_q")
    turns = sliced(families)
    cells = [name for name, cell in CELLS.items() if cell.family in families]
    assert [cell.name for cell, _ in turns[: len(cells)]] == cells
    assert {len(indices) for _, indices in turns[: len(cells)]} == {SLICE}
    numbers = sorted((cell.name, index) for cell, indices in turns for index in indices)
    assert numbers == sorted((name, index) for name in cells for index in range(len(CELLS[name].configs)))


def test_each_shape_has_forty_configurations_that_shared_memory_holds() -> None:
    """As many buffers as stages, beside two tiles that stay; what is refused beyond is left to the compiler."""
    for cell in [cell for cell in CELLS.values() if cell.family.startswith("backward")]:
        stay, pass_by = ("BN", "BM") if cell.family == "backward_kv" else ("BM", "BN")
        width = cell.shape["D"]
        held = [4 * width * (config[stay] + config["num_stages"] * config[pass_by]) for config in cell.configs]
        assert sum(size + 2048 <= 227 << 10 for size in held) >= 40
