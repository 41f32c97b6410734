"""Triangular systems: held kernel by kernel against an H200 (torch 2.11, 2026-11-28)."""

from dataclasses import replace

import pytest
from support.torch_prices import behind_a_flush, kernels_of, operation, tensor
from tilesight.simulator.device.device import load_device
from tilesight.simulator.operations.operation import Operand, Operation

H200 = load_device("h200")


def single(number: int, *shape: int) -> Operand:
    """A tensor of float32."""
    return tensor(number, *shape, dtype="float32")


def solved(batch: int, rows: int, columns: int, *, ones: bool = False) -> Operation:
    """`linalg_solve_triangular`, whose result lies in columns."""
    made = replace(single(3, batch, rows, columns), strides=(rows * columns, 1, rows))
    given = (single(1, batch, rows, rows), single(2, batch, rows, columns))
    return operation("linalg_solve_triangular", given, (made,), upper=True, unitriangular=ones)


@pytest.mark.parametrize(
    ("work", "measured_us"),
    [
        (solved(256, 32, 32), [3.0, 0.7, 0.7, 13.8]),
        (solved(64, 128, 128), [8.3, 0.7, 0.7, 1.0, 32.6, 1.1, 6.4, 32.7]),
        (solved(1024, 64, 256, ones=True), [72.8, 0.7, 0.7, 412.6]),
    ],
)
def test_triangles_take_as_long_as_on_an_h200(work: Operation, measured_us: list[float]) -> None:
    """As many kernels; solving alone 8 % off, all together, with copies of right sides, 12 %."""
    kernels = behind_a_flush(H200, work)
    assert len(kernels) == len(measured_us)
    solving = [us for kernel, us in zip(kernels, measured_us, strict=True) if kernel.name == "batch_trsm"]
    made = sum(1e6 * kernel.time_s for kernel in kernels if kernel.name == "batch_trsm")
    assert made == pytest.approx(sum(solving), rel=0.08)
    assert sum(1e6 * kernel.time_s for kernel in kernels) == pytest.approx(sum(measured_us), rel=0.12)


def test_ones_on_the_diagonal_spare_divisions() -> None:
    """In factors of LU of 64 and 32 rows, one right side: 18.7 and 31.3 us, 7.5 and 13.2."""
    for rows, with_ones, divided in ((64, 18.7, 31.3), (32, 7.5, 13.2)):
        for ones, us in ((True, with_ones), (False, divided)):
            *_, kernel = behind_a_flush(H200, solved(64, rows, 1, ones=ones))
            assert 1e6 * kernel.time_s == pytest.approx(us, rel=0.08)


def test_few_large_triangles_have_no_price() -> None:
    """One of 1,024 rows runs other kernels, 32 one after the other; of 256 rows none was measured."""
    for work in (solved(1, 1024, 1024), solved(64, 256, 256)):
        (kernel,) = kernels_of(H200, work)
        assert kernel.source == "refused"
