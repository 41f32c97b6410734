"""Configurations that the compiler makes the same machine code of are named as such."""

import pytest
from tilesight.kernels.launch.availability import missing_package

import tilesight

if missing_package():
    pytest.skip(str(missing_package()), allow_module_level=True)

import torch
import triton
import triton.language as tl


@triton.autotune(
    [triton.Config({"BLOCK": block}, num_stages=stages) for block in (512, 1024) for stages in (1, 2, 3)], key=["n"]
)
@triton.jit
def sums(X, Y, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros((BLOCK,), tl.float32)
    for k in range(0, n, BLOCK):
        total += tl.load(X + row * n + k + tl.arange(0, BLOCK))
    tl.store(Y + row, tl.sum(total, 0))


def test_stages_of_a_loop_without_a_product_change_no_code() -> None:
    """Triton pipelines loads that feed `tl.dot`: six configurations are two codes, one for each block."""
    with tilesight.capture("h200") as launches:
        sums[(256,)](torch.empty(256, 4096, device="cuda"), torch.empty(256, device="cuda"), 4096)
    predicted = tilesight.predict(launches, "h200")
    (_, tried), *_ = predicted.configurations
    assert len({row.code for row in tried}) == 2 and all(row.code for row in tried)
    (row,) = predicted.rows
    (note,) = [note for note in row.notes if "machine codes" in note]
    assert note.startswith("kernel sums: 6 configurations are 2 machine codes: BLOCK: 512, ")
