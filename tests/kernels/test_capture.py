"""What users' code launches is recorded wherever torch calls it from; its tensors answer as they would on a GPU."""

from collections.abc import Callable
from typing import Any

import pytest
from tilesight.kernels.launch.availability import missing_package

import tilesight

pytestmark = pytest.mark.skipif(missing_package() is not None, reason=str(missing_package()))

if missing_package() is None:
    import torch
    import triton
    import triton.language as tl

    @triton.jit
    def double(X, Y, n, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(Y + i, 2 * tl.load(X + i, mask=i < n), mask=i < n)

    def doubled(x: torch.Tensor) -> torch.Tensor:
        y = torch.empty_like(x)
        torch.library.wrap_triton(double)[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), BLOCK=256)
        return y

    @torch.library.triton_op("tilesight_test::in_triton_op", mutates_args=())
    def in_triton_op(x: torch.Tensor) -> torch.Tensor:
        return doubled(x)

    @torch.library.custom_op("tilesight_test::in_custom_op", mutates_args=())
    def in_custom_op(x: torch.Tensor) -> torch.Tensor:
        assert x.is_cuda
        return doubled(x)

    @in_custom_op.register_fake
    def _(x: torch.Tensor) -> torch.Tensor:
        return torch.empty_like(x)

    class InBackward(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            return x.clone()

        @staticmethod
        def backward(ctx: Any, dy: torch.Tensor) -> torch.Tensor:
            assert dy.device.type == "cuda" and dy.is_cuda
            return doubled(dy)

    def in_backward(x: torch.Tensor) -> None:
        y = InBackward.apply(x)
        torch.autograd.grad(y, x, torch.empty_like(y))


@pytest.mark.parametrize("name", ["doubled", "in_triton_op", "in_custom_op", "in_backward"])
def test_a_launch_is_recorded_wherever_it_is_made(name: str) -> None:
    """In plain code, in operators that torch knows by their shapes alone, in backward passes."""
    call: Callable[[Any], Any] = globals()[name]
    with tilesight.capture() as launches:
        call(torch.empty(1000, device="meta", requires_grad=name == "in_backward"))
    assert [(launch.name, launch.grid) for launch in launches] == [("double", (4, 1, 1))]


def test_tensors_say_that_they_are_on_the_gpu() -> None:
    """Their `device` is one that new tensors can be made on; outside the block they are what they were."""
    x = torch.empty(8, device="meta")
    with tilesight.capture():
        assert x.device == torch.device("cuda", 0)
        y = torch.empty(8, device=x.device)
        with torch.cuda.device(x.device.index) as _:
            assert torch.cuda.get_device_properties(x.device).multi_processor_count == 132
    assert x.device.type == y.device.type == "meta"


def test_values_on_the_cpu_go_with_tensors_without() -> None:
    """torch mixes no devices; a GPU has both on it. The values that a kernel is called with stay."""
    labels = torch.arange(8)
    with tilesight.capture() as launches:
        assert (torch.empty(8, device="meta") * labels).is_meta
        double[(1,)](labels, torch.empty(8, device="meta"), 8, BLOCK=8)
    values = launches[0].tensors["X"].values
    assert values is not None and values.tolist() == list(range(8))
