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

    @triton.jit
    def as_typed(X, Y, n, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(Y + i, tl.load(X + i, mask=i < n).to(Y.dtype.element_ty), mask=i < n)

    @triton.jit
    def with_warps(X, num_warps: tl.constexpr):
        tl.store(X + tl.arange(0, 32 * num_warps), 1.0)

    @triton.jit
    def of_another_version(x):
        return tl.dot(x, x, trans_b=True)

    @triton.jit
    def refused(X):
        i = tl.arange(0, 16)
        x = X + 16 * i[:, None] + i[None, :]
        tl.store(x, of_another_version(tl.load(x)))

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

    def in_compiled(x: torch.Tensor) -> torch.Tensor:
        return torch.compile(doubled)(x)

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


@pytest.mark.parametrize("name", ["doubled", "in_triton_op", "in_custom_op", "in_compiled", "in_backward"])
def test_a_launch_is_recorded_wherever_it_is_made(name: str) -> None:
    """In plain and in compiled code, in operators that torch knows by their shapes alone, in backward passes."""
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


def test_values_stay_when_a_tensor_is_moved_to_the_gpu() -> None:
    """However the GPU is named."""
    labels, x = torch.arange(8), torch.empty(8, device="meta")
    with tilesight.capture() as launches:
        for moved in (labels.to("cuda"), labels.to(device=x.device), labels.to(x.device, torch.int32), labels.cuda()):
            double[(1,)](moved, x, 8, BLOCK=8)
    assert len(launches) == 4
    for launch in launches:
        values = launch.tensors["X"].values
        assert values is not None and values.tolist() == list(range(8))


def test_values_on_the_cpu_go_with_tensors_without() -> None:
    """torch mixes no devices; a GPU has both on it. The values that a kernel is called with stay."""
    labels = torch.arange(8)
    with tilesight.capture() as launches:
        assert (torch.empty(8, device="meta") * labels).is_meta
        double[(1,)](labels, torch.empty(8, device="meta"), 8, BLOCK=8)
    values = launches[0].tensors["X"].values
    assert values is not None and values.tolist() == list(range(8))


def test_addresses_tell_tensors_apart() -> None:
    """Libraries choose tile sizes by whether keys and values lie in one place; a view lies where its tensor does."""
    x, y = torch.empty(64, device="meta"), torch.empty(64, device="meta")
    with tilesight.capture() as launches:
        assert x.data_ptr() != y.data_ptr()
        assert x.view(8, 8).data_ptr() == x.data_ptr() == x[4:].data_ptr() - 16
        double[(1,)](y, x, 8, BLOCK=8)
    assert launches[0].tensors["X"].storage == 1 and launches[0].tensors["Y"].storage == 0


def test_a_tensor_that_is_reinterpreted_keeps_its_storage_and_takes_the_type() -> None:
    """Triton's wrapper of a tensor, as kernels of 8-bit floats get it: read and written as any other."""
    x = torch.empty(1000, device="meta", dtype=torch.int8)
    with tilesight.capture() as launches:
        as_typed[(4,)](triton.reinterpret(x, tl.float8e5), torch.empty(1000, device="meta"), 1000, BLOCK=256)
        as_typed[(4,)](torch.empty(1000, device="meta"), triton.reinterpret(x, tl.float8e5), 1000, BLOCK=256)
    assert [launch.tensors[name].storage for launch, name in zip(launches, "XY", strict=True)] == [0, 0]
    ceilings = [row.ceiling for row in tilesight.predict(launches).rows]
    moved = [tensor for ceiling in ceilings if ceiling for tensor in ceiling.tensors]
    sectors = [(tensor.loaded_bytes, tensor.stored_bytes) for tensor in moved if tensor.size_bytes == 1024]
    assert sectors == [(1024, 0), (0, 1024)]


def test_a_parameter_that_is_called_as_an_option_is_one() -> None:
    """Triton compiles for num_warps where it is given by its name, whether or not the kernel reads it too."""
    with tilesight.capture() as launches:
        with_warps[(1,)](torch.empty(1024, device="meta"), num_warps=8)
        with_warps[(1,)](torch.empty(1024, device="meta"), 8)
    assert [row.num_warps for row in tilesight.predict(launches).rows] == [8, 4]


def test_what_triton_refuses_is_told_by_the_line_that_it_stops_at() -> None:
    """Of the function that the kernel calls, where that is where it stops."""
    with tilesight.capture() as launches:
        refused[(1,)](torch.empty(16, 16, device="meta"))
    reason = tilesight.predict(launches).rows[0].refused or ""
    assert reason.startswith("kernel refused: Triton refuses `return tl.dot(x, x, trans_b=True)`: TypeError: ")
    assert "trans_b" in reason and "\n" not in reason


@pytest.mark.parametrize("dtype", ["int8", "float16", "float32", "float64"])
def test_a_view_begins_as_many_bytes_behind_its_storage_as_its_elements_have(dtype: str) -> None:
    """Whatever the type: every address of the view would be wrong."""
    x = torch.empty(64, device="meta", dtype=getattr(torch, dtype))
    with tilesight.capture() as launches:
        double[(1,)](x[5:], x.view(8, 8)[2:, 1:], 8, BLOCK=8)
    given = launches[0].tensors
    assert given["X"].offset_bytes == 5 * x.element_size()
    assert given["Y"].offset_bytes == 17 * x.element_size()
    assert given["X"].storage == given["Y"].storage
    assert given["X"].storage_bytes == x.element_size() * 64


class Pointer:
    """What Triton takes for a tensor: an element type, and an address that code has computed."""

    def __init__(self, base: Any, offset: int) -> None:
        self.dtype = torch.float32
        self._address = base.data_ptr() + 4 * offset

    def data_ptr(self) -> int:
        """Its address."""
        return self._address


def test_whatever_has_an_address_is_a_pointer_into_the_tensor_that_was_asked_for_it() -> None:
    """As wrappers of libraries are, that stand for views which torch has not; bytes are those of the tensor."""
    with tilesight.capture() as launches:
        x, y = torch.empty(8192, device="cuda"), torch.empty(4096, device="cuda")
        double[(16,)](Pointer(x, 4096), Pointer(y, 0), 4096, BLOCK=256)
    assert launches[0].tensors["X"].offset_bytes == 4 * 4096
    predicted = tilesight.predict(launches)
    assert predicted.rows[0].known_accesses == predicted.rows[0].accesses
    (row,) = predicted.to_dict()["launches"]
    assert [(tensor["name"], tensor["loaded_bytes"], tensor["stored_bytes"]) for tensor in row["tensors"]] == [
        ("X", 4 * 4096, 0),
        ("Y", 0, 4 * 4096),
    ]


if missing_package() is None:

    @triton.jit
    def sum_of(Xs, strides, Out, n, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        total = tl.zeros((BLOCK,), tl.float32)
        for number in tl.static_range(len(Xs)):
            total += tl.load(Xs[number] + i * strides[number], mask=i < n)
        tl.store(Out[0] + i, total, mask=i < n)


def test_parts_of_tuples_are_passed_one_by_one() -> None:
    """Tensors and strides, of which one is 1, and so a constant; bytes are those of each tensor."""
    with tilesight.capture() as launches:
        x, wide, y = (torch.empty(4096, width, device="cuda") for width in (1, 4, 1))
        sum_of[(16,)]((x, wide), (x.stride(0), wide.stride(0)), (y,), 4096, BLOCK=256)
    (row,) = tilesight.predict(launches).to_dict()["launches"]
    assert (row["known_accesses"], row["refused"]) == (row["accesses"], None)
    assert {tensor["name"]: tensor["loaded_bytes"] for tensor in row["tensors"]} == {
        "Xs[0]": 4 * 4096,
        "Xs[1]": 16 * 4096,
        "Out[0]": 0,
    }
    assert {tensor["name"]: tensor["stored_bytes"] for tensor in row["tensors"]}["Out[0]"] == 4 * 4096


def test_what_is_stored_to_in_a_tuple_has_no_values_afterwards() -> None:
    """As what is stored to by its own name; what is only read keeps them."""
    with tilesight.capture():
        read, stored = torch.zeros(4096, device="cuda"), torch.zeros(4096, device="cuda")
        sum_of[(16,)]((read,), (1,), (stored,), 4096, BLOCK=256)
        assert read[0].item() == 0.0
        assert stored[0].item() != stored[0].item()
