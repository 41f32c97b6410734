"""Prices that a person states: what they are taken for, whom they are of, and texts that state none."""

import pytest
from support.torch_prices import operation, tensor
from tilesight.simulator.device.device import load_device
from tilesight.simulator.operations.operation import Operation, RecordedStep
from tilesight.simulator.operations.price import price_step
from tilesight.simulator.operations.priced import KernelEstimate
from tilesight.simulator.operations.stated import parse_prices, split_prices, unused_notes

H100 = load_device("h100")
SOURCE, MADE = tensor(1, 4096, 4096), tensor(2, 4096, 4096)
GATHERED = tensor(3, 8 * 4096, 4096)


def kernel_of(work: Operation, prices: dict[str, str]) -> KernelEstimate:
    """The one kernel of an operation."""
    step = RecordedStep(operations=(work,), mode="eager", peak_bytes=0)
    ((kernel,),) = price_step(step, H100, {}, parse_prices(prices))
    return kernel


@pytest.mark.parametrize(
    ("name", "inputs", "outputs", "price", "time_us"),
    [
        ("mylib::op", (SOURCE,), (MADE,), {"mylib::op": "12us"}, 12.0),
        ("mylib::op", (SOURCE,), (MADE,), {"op": "1000GB/s"}, 2 * SOURCE.bytes / 1e6),
        ("_c10d_functional::all_reduce", (SOURCE,), (MADE,), {"all_reduce": "450GB/s"}, SOURCE.bytes / 450e3),
        ("_c10d_functional::all_reduce_", (SOURCE,), (SOURCE,), {"all_reduce": "450GB/s"}, SOURCE.bytes / 450e3),
        ("c10d::allreduce_", (SOURCE,), (SOURCE,), {"all_reduce": "450GB/s"}, SOURCE.bytes / 450e3),
        (
            *("_c10d_functional::all_gather_into_tensor", (SOURCE,), (GATHERED,)),
            *({"_c10d_functional.all_gather_into_tensor": "1TB/s"}, GATHERED.bytes / 1e6),
        ),
        ("mm", (SOURCE, SOURCE), (MADE,), {"mm": "1ms"}, 1000.0),
    ],
)
def test_what_is_stated_is_taken(
    name: str, inputs: tuple[object, ...], outputs: tuple[object, ...], price: dict[str, str], time_us: float
) -> None:
    """A time as it is; a bandwidth over all bytes, of collectives over the larger side, as NCCL's tests count them."""
    kernel = kernel_of(operation(name, inputs, outputs), price)  # type: ignore[arg-type]
    assert kernel.source == "stated"
    assert 1e6 * kernel.time_s == pytest.approx(time_us)


def test_others_keep_their_prices_and_hints_how_to_state_them() -> None:
    """A price of one namespace is none of another; refusals name the option; waits for collectives launch nothing."""
    prices = {"other::op": "12us"}
    work = operation("mylib::op", (SOURCE,), (MADE,))
    assert "--price mylib::op=12us" in kernel_of(work, prices).reason
    assert "GB/s" in kernel_of(operation("_c10d_functional::all_reduce", (SOURCE,), (MADE,)), prices).reason
    waits = operation("_c10d_functional::wait_tensor", (SOURCE,), (SOURCE,))
    step = RecordedStep(operations=(work, waits), mode="eager", peak_bytes=0)
    assert price_step(step, H100, {})[1] == ()
    (note,) = unused_notes(parse_prices(prices), step)
    assert "other::op=12us is not used" in note


@pytest.mark.parametrize(
    "text", ["op", "op=", "op=3", "=3us", "op=-1us", "op=0GB/s", "op=3GB", "op=nans", "op=infGB/s"]
)
def test_texts_that_state_nothing_are_told_in_one_line(text: str) -> None:
    """A number without a unit, of bytes, not above 0, no number, no name."""
    with pytest.raises(ValueError, match="must be") as raised:
        parse_prices(split_prices([text]))
    assert "\n" not in str(raised.value)
    with pytest.raises(ValueError, match="has the price 1us already"):
        split_prices(["op=1us", "op=2us"])
