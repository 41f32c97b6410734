"""Products of float32 without tensor cores whose K is short: held against an H200 (torch 2.11, 2026-11-28)."""

import pytest
from support.torch_prices import behind_a_flush, operation, tensor, time_of, transposed
from tilesight.simulator.device.device import load_device
from tilesight.simulator.operations.operation import Operation

H200 = load_device("h200")


def product(batch: int, m: int, n: int, k: int) -> Operation:
    """A batch of products, or one with rows times columns of a transposed matrix."""
    if batch > 1:
        left, right = (tensor(number, batch, *shape, dtype="float32") for number, shape in ((1, (m, k)), (2, (k, n))))
        return operation("bmm", (left, right), (tensor(3, batch, m, n, dtype="float32"),))
    left, right = tensor(1, m, k, dtype="float32"), transposed(tensor(2, n, k, dtype="float32"))
    return operation("mm", (left, right), (tensor(3, m, n, dtype="float32"),))


@pytest.mark.parametrize(
    ("sizes", "measured_us"),
    [
        ((60000, 128, 9, 4), 370.7),
        ((1, 720000, 64, 10), 100.1),
        ((1, 60000, 36, 9), 10.1),
        ((1, 60000, 64, 8), 9.2),
        ((16, 128, 3000, 201), 71.6),
    ],
)
def test_shallow_products_take_as_long_as_on_an_h200(sizes: tuple[int, int, int, int], measured_us: float) -> None:
    """No constant was read off any of these, though the form was chosen beside them; the last ran on an H100."""
    (kernel,) = behind_a_flush(H200, product(*sizes))
    assert 1e6 * kernel.time_s == pytest.approx(measured_us, rel=0.15)


def test_steps_of_k_are_whole() -> None:
    """Nine of K cost as many as sixteen, and more than eight, but for bytes."""
    eight, nine, sixteen = (time_of(H200, product(1, 60000, 64, k)) for k in (8, 9, 16))
    assert eight < 0.9 * nine
    assert nine == pytest.approx(sixteen, rel=0.03)


def test_fewer_columns_cost_no_more() -> None:
    """Batches of 128 x n x 4: from two columns to a tile of 32 nearly alike, but for bytes."""
    times = [time_of(H200, product(6000, 128, columns, 4)) for columns in (2, 4, 8, 9, 16, 17, 32)]
    assert times == sorted(times)
    assert times[-1] < 1.15 * times[0]
