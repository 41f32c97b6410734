"""Numbers that were read off one shape: which kernels use them, and what an answer says of it."""

from support.torch_prices import kernels_of, operation, tensor
from tilesight.simulator.device.device import load_device
from tilesight.simulator.device.what_if import override
from tilesight.simulator.display.render import percent
from tilesight.simulator.operations.cost_model import KernelCostModel
from tilesight.simulator.operations.operation import RecordedStep
from tilesight.simulator.operations.price import price
from tilesight.simulator.operations.profile import profile_of

H200 = load_device("h200")
SERIES = operation("special_i0e", (tensor(1, 64, 4096),), (tensor(2, 64, 4096),))
ADDED = operation("add", (tensor(1, 64, 4096), tensor(3, 64, 4096)), (tensor(4, 64, 4096),))


def test_a_kernel_names_the_numbers_that_it_uses() -> None:
    """Those that were read off one shape: of a series one, of an addition none."""
    (series,), (added,) = kernels_of(H200, SERIES), kernels_of(H200, ADDED)
    assert series.one_shape == ("elementwise.series_instructions",)
    assert added.one_shape == ()


def test_a_number_that_is_not_in_the_time_is_not_named() -> None:
    """Rows that begin anywhere: a product in old tiles, whose time is theirs; a transform without odd factors."""
    (product,) = kernels_of(
        H200, operation("mm", (tensor(1, 8192, 2048), tensor(2, 2048, 50257)), (tensor(3, 8192, 50257),))
    )
    assert product.note and product.one_shape == ()
    lines = tensor(1, 64, 4096, dtype="complex64")
    (transform,) = kernels_of(H200, operation("_fft_c2c", (lines,), (lines,), dim=[1]))
    assert transform.one_shape == ("fft.point_bit_instructions", "fft.pass_cycles")


def test_an_answer_says_in_one_line_how_much_rests_on_one_shape() -> None:
    """Share of the time, and the numbers; an answer without such numbers says nothing."""
    gpu = KernelCostModel(H200)
    step = RecordedStep(operations=(SERIES, ADDED), mode="eager", peak_bytes=0)
    priced = [price(work, gpu) for work in step.operations]
    profile = profile_of(step, priced, H200, "h200", subject="s")
    (note,) = profile.notes
    share = priced[0][0].time_s / profile.time_s
    text = "of the time rests on numbers that were read off one shape each: elementwise.series_instructions"
    assert note == f"{percent(share)} {text}"
    alone = RecordedStep(operations=(ADDED,), mode="eager", peak_bytes=0)
    assert profile_of(alone, [price(ADDED, KernelCostModel(H200))], H200, "h200", subject="s").notes == ()


def test_a_what_if_reaches_a_price() -> None:
    """Twice the instructions of a kernel that waits for nothing else: nearly twice its time, and no one shape more."""
    large = operation("special_i0e", (tensor(1, 4096, 32000),), (tensor(2, 4096, 32000),))
    (before,) = kernels_of(H200, large)
    (after,) = kernels_of(override(H200, ["elementwise.series_instructions=240"]), large)
    assert before.bound_by == "instructions"
    assert 1.9 < after.time_s / before.time_s < 2.1
    assert after.one_shape == ()
