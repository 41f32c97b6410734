"""Memory that operations have for themselves, beside the allocator's peaks on an H100 (torch 2.11, 2026-11-27)."""

from dataclasses import replace

import pytest
from support.torch_prices import operation, tensor
from tilesight.simulator.device.device import load_device
from tilesight.simulator.operations.operation import Operation, RecordedStep
from tilesight.simulator.operations.price import price_step
from tilesight.simulator.operations.workspaces import peak_bytes, workspace_bytes

H100 = load_device("h100")


def peak(work: Operation) -> int:
    """Most memory of a step of one operation [B]."""
    step = RecordedStep(operations=(work,), mode="eager", peak_bytes=work.live_bytes)
    return peak_bytes(step, price_step(step, H100, {}), H100)


def test_deviations_of_columns_leave_sixteen_bytes_a_thread_and_output() -> None:
    """65,536 x 1,024 floats and their centred copy: 1,090.5 MB, twice what the tensors take."""
    columns = operation(
        "std", (tensor(1, 65536, 1024, dtype="float32"),), (tensor(2, 1024, dtype="float32"),), dim=(0,)
    )
    assert peak(replace(columns, live_bytes=536_875_008)) == pytest.approx(1_090.5e6, rel=1e-3)


def test_sums_of_gradients_leave_four_bytes_a_thread_and_output() -> None:
    """A bias of 128 columns, 32,768 rows: 33.5 MB beside the tensors."""
    assert peak(operation("sum", (tensor(1, 32768, 128),), (tensor(2, 128),), dim=(0,))) == 32 << 20


def test_copies_in_the_order_of_dimensions_are_memory() -> None:
    """A softmax of a turned matrix: as large as the matrix."""
    scores = tensor(1, 8192, 8192, dtype="float32")
    turned = replace(scores, strides=(1, 8192))
    assert peak(operation("_log_softmax", (turned,), (tensor(2, 8192, 8192, dtype="float32"),), dim=1)) == scores.bytes
    assert not peak(operation("_log_softmax", (scores,), (tensor(2, 8192, 8192, dtype="float32"),), dim=1))


def test_sorts_of_some_long_rows_take_four_times_their_output() -> None:
    """64 x 32,000 floats among 41.0 MB: 108.3 MB."""
    source, values, indices = (
        tensor(number, 64, 32000, dtype=dtype) for number, dtype in ((1, "float32"), (2, "float32"), (3, "int64"))
    )
    work = operation("sort", (source,), (values, indices), dim=-1)
    assert peak(replace(work, live_bytes=40_960_000)) == pytest.approx(108.3e6, rel=0.02)


@pytest.mark.parametrize(("gpu", "kib"), [("a100", 8320), ("a40", 8320), ("h100", 32768), ("b200", 32768)])
def test_products_keep_a_workspace_by_architecture(gpu: str, kib: int) -> None:
    """From Hopper on 32 MiB, before 8 MiB and 128 KiB; once for all products, and none without any."""
    product = operation("mm", (tensor(1, 64, 64), tensor(2, 64, 64)), (tensor(3, 64, 64),))
    device = load_device(gpu)
    assert workspace_bytes([product, product], device) == kib << 10
    assert workspace_bytes([operation("add", (tensor(1, 64),), (tensor(2, 64),))], device) == 0
