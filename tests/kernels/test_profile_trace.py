"""The timeline of a step as torch's Inductor reads it, where it plans what overlaps by measured times."""

from pathlib import Path

import pytest
from support.steps import kernel, matmul, profiled, tensor, torch_operation
from tilesight.kernels.launch.availability import missing_package
from tilesight.simulator.operations.chrome_trace import TYPES, chrome_trace
from tilesight.simulator.operations.operation import ITEM_BYTES

if missing_package():
    pytest.skip(str(missing_package()), allow_module_level=True)

import torch

estimation = pytest.importorskip(
    "torch._inductor.fx_passes.profile_guided_estimation", reason="this torch estimates nothing by profiles"
)


def test_inductor_finds_what_operations_take(tmp_path: Path) -> None:
    """By name, shapes, strides and type of what they read: all of an operation's kernels, the mean of its calls."""
    attention = torch_operation("_scaled_dot_product_flash_attention", [tensor(1, 8, 512, 64)] * 3)
    operations = [matmul(512, 256, 128), matmul(512, 256, 128), attention]
    profile = profiled(operations, [[kernel(10e-6)], [kernel(30e-6)], [kernel(5e-6), kernel(2e-6)]])
    path = tmp_path / "t.json"
    path.write_text(chrome_trace(profile), encoding="utf-8")
    data = estimation.ProfileData()
    data.load(str(path))
    assert data.op_count == 2
    shapes, strides = ((512, 128), (128, 256)), ((128, 1), (256, 1))
    assert data.lookup_op("aten::mm", shapes, strides, torch.bfloat16) == pytest.approx(0.020)
    same = ((1, 8, 512, 64),) * 3, ((8 * 512 * 64, 512 * 64, 64, 1),) * 3
    name = "aten::_scaled_dot_product_flash_attention"
    assert data.lookup_op(name, *same, torch.bfloat16) == pytest.approx(0.007)


def test_types_are_those_that_inductor_knows() -> None:
    """As far as it knows them."""
    from torch._inductor.analysis.profile_analysis import _dtype_map

    assert set(TYPES) < set(ITEM_BYTES)
    known = {name: _dtype_map[text] for name, text in TYPES.items() if text in _dtype_map}
    assert known == {name: getattr(torch, name) for name in known}
    assert {"bfloat16", "float16", "float32", "int64"} <= set(known)
