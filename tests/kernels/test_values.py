"""Small tensors of whole numbers on the GPU have the values that they would have there; nothing else is made up."""

from collections.abc import Callable
from typing import Any

import pytest
from tilesight.kernels.launch.availability import missing_package

import tilesight

if missing_package():
    pytest.skip(str(missing_package()), allow_module_level=True)

import torch
import triton
import triton.language as tl
from tilesight.kernels.capture.stores import stored_parameters
from tilesight.kernels.capture.values import NoValues


@triton.jit
def gather(X, IDS, Y, D: tl.constexpr):
    row = tl.load(IDS + tl.program_id(0))
    i = tl.arange(0, D)
    tl.store(Y + tl.program_id(0) * D + i, tl.load(X + row * D + i))


@triton.jit
def count(IDS, COUNTS, BLOCK: tl.constexpr):
    ids = tl.load(IDS + tl.arange(0, BLOCK))
    places = COUNTS + ids
    tl.atomic_add(places, 1)


def values_of(ids: torch.Tensor) -> Any:
    """What a kernel finds in a tensor."""
    x = torch.empty(1024, 16, device="cuda")
    with_ids = gather[(ids.numel(),)]
    with_ids(x, ids, torch.empty(ids.numel(), 16, device="cuda"), D=16)


def recorded(make: Callable[[], torch.Tensor]) -> torch.Tensor | None:
    """The same, of a tensor that a function makes while it is recorded."""
    with tilesight.capture() as launches:
        values_of(make())
    return launches[0].tensors["IDS"].values


def test_a_routing_table_is_what_the_same_code_makes_on_a_cpu() -> None:
    """Logits, top-k, sort by expert, ends of each expert's rows, the way back: as people write it, with `cuda`."""

    def route(device: str) -> dict[str, torch.Tensor]:
        torch.manual_seed(7)
        logits = torch.randn(256, 8, device=device)
        ids = torch.topk(logits.softmax(-1), 2).indices
        flat = ids.flatten()
        order = flat.argsort(stable=True)
        ends = torch.zeros(9, dtype=torch.int32, device=device)
        ends[1:] = torch.bincount(flat, minlength=8).cumsum(0)
        back = torch.empty_like(order)
        back[order] = torch.arange(512, device=device)
        return {"order": order, "ends": ends, "back": back, "first": (flat == 0).nonzero().flatten()}

    right = route("cpu")
    with tilesight.capture() as launches:
        made = route("cuda")
        assert all(tensor.device.type == "cuda" and tensor.is_cuda for tensor in made.values())
        for ids in made.values():
            values_of(ids)
    for launch, name in zip(launches, right, strict=True):
        values = launch.tensors["IDS"].values
        assert values is not None and torch.equal(values, right[name]), name


def test_seeded_code_makes_the_same_values_again() -> None:
    """With a generator of the GPU's, and with the seed of all."""

    def drawn() -> torch.Tensor:
        return torch.randperm(64, device="cuda", generator=torch.Generator(device="cuda").manual_seed(3))

    def seeded() -> torch.Tensor:
        torch.manual_seed(0)
        return torch.randint(0, 1024, (64,), device="cuda")

    for make in (drawn, seeded):
        first, second = recorded(make), recorded(make)
        assert first is not None and second is not None and torch.equal(first, second) and first.unique().numel() > 32


def test_values_are_those_at_the_launch() -> None:
    """What code writes to a tensor later does not change what the kernel found there."""
    with tilesight.capture() as launches:
        ids = torch.zeros(8, dtype=torch.int64, device="cuda")
        for step in range(3):
            ids += step
            values_of(ids)
    at_launch = [launch.tensors["IDS"].values for launch in launches]
    assert [values is not None and values.tolist() for values in at_launch] == [[0] * 8, [1] * 8, [3] * 8]
    assert [(operation.name, operation.count) for operation in launches.operations] == [("add", 3)]


def test_what_has_no_values_gets_none() -> None:
    """Tensors that are allocated, floats without data, and what is computed from them; the tensor says from what."""
    assert recorded(lambda: torch.empty(8, dtype=torch.int32, device="cuda")) is None
    assert recorded(lambda: torch.empty(64, 8, device="cuda").argmax(0)) is None
    assert recorded(lambda: torch.zeros(8, dtype=torch.int32, device="meta")) is None
    counts = torch.zeros(8, dtype=torch.int64)

    def scattered() -> torch.Tensor:
        counts.scatter_add_(0, torch.empty(64, 8, device="cuda").argmax(1), torch.ones(64, dtype=torch.int64))
        return counts

    assert recorded(scattered) is None
    with tilesight.capture("h200") as launches:
        values_of(torch.empty(64, 8, device="cuda").argmax(0) + 1)
    reason = tilesight.predict(launches).rows[0].refused or ""
    assert (
        "tensor IDS, whose values are not known (made by torch.argmax of a tensor without values (test_values.py:"
        in (reason)
    )


def test_a_tensor_that_is_filled_has_values_again() -> None:
    """In one go, or in parts that leave nothing out."""

    def in_parts(parts: int) -> torch.Tensor:
        made = torch.empty(4, 4, dtype=torch.int32, device="cuda")
        for row in range(parts):
            made[row] = row
        return made.flatten()

    assert recorded(lambda: torch.empty(4, dtype=torch.int32, device="cuda").fill_(3)) is not None
    assert recorded(lambda: in_parts(3)) is None
    whole = recorded(lambda: in_parts(4))
    assert whole is not None and whole.tolist() == [row for row in range(4) for _ in range(4)]


def test_what_a_kernel_would_write_is_not_read() -> None:
    """The kernel does not run: counts that it makes are not the zeros that it was given."""
    with tilesight.capture():
        ids, counts = torch.arange(8, device="cuda"), torch.zeros(8, dtype=torch.int32, device="cuda")
        count[(1,)](ids, counts, BLOCK=8)
        assert ids.tolist() == list(range(8))
        with pytest.raises(NoValues, match="written by kernel count, which does not run, asked for at"):
            counts.tolist()
        assert counts.zero_().tolist() == [0] * 8


def test_parameters_that_a_kernel_stores_to_are_read_from_its_source() -> None:
    """By way of other names; where what is loaded decides the place, the place is loaded from and not stored to."""
    assert stored_parameters(gather) - {"D"} == {"Y"} and stored_parameters(count) == {"COUNTS"}


@pytest.mark.parametrize("ask", ["int", "nonzero", "tolist", "numpy"])
def test_values_that_are_missing_are_named(ask: str) -> None:
    """In one line: what made the tensor, and where it is asked for."""
    asks: dict[str, Callable[[Any], Any]] = {
        "int": lambda ids: int(ids.max()),
        "nonzero": torch.nonzero,
        "tolist": lambda ids: ids.tolist(),
        "numpy": lambda ids: ids.cpu().numpy(),
    }
    with tilesight.capture(), pytest.raises(NoValues, match="argmax of a tensor without values") as error:
        asks[ask](torch.empty(64, 8, device="cuda").argmax(0))
    assert "test_values.py:" in str(error.value) and "\n" not in str(error.value)


def test_modules_on_the_gpu_run_forward_and_backward() -> None:
    """Whether they are moved there or not, whatever their parameters hold."""
    with tilesight.capture() as launches:
        block = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.RMSNorm(64)).to("cuda", torch.bfloat16)
        x = torch.randn(4, 64, device="cuda", dtype=torch.bfloat16, requires_grad=True)
        block(x).sum().backward()
        torch.nn.Linear(64, 8)(torch.empty(4, 64, device="cuda")).sum().backward()
        torch.nn.RMSNorm(8).to(device="meta")(torch.empty(2, 8, device="meta"))
        assert x.grad is not None and block[1].weight.grad is not None and block[1].weight.dtype == torch.bfloat16
    names = {operation.name for operation in launches.operations}
    assert {"matmul", "rms_norm"} <= names


class Scaled(torch.autograd.Function):
    """A function of the user's, whose gradients are allocated on the device of its input, or hold values."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, times: int, w: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x, w)
        return torch.empty_like(x)

    @staticmethod
    def backward(ctx: Any, dy: torch.Tensor) -> tuple[torch.Tensor, None, torch.Tensor]:  # type: ignore[override]
        x, w = ctx.saved_tensors
        values_of(torch.arange(8, device="cuda"))
        made = torch.empty if w.numel() == 64 else torch.zeros
        return torch.empty(x.shape, device=x.device), None, made(w.shape, device=x.device)


@pytest.mark.parametrize("width", [64, 128])
@pytest.mark.parametrize("x_has_values", [False, True])
@pytest.mark.parametrize("w_has_values", [False, True])
def test_functions_with_gradients_of_their_own_take_tensors_with_values(
    w_has_values: bool, x_has_values: bool, width: int
) -> None:
    """Where autograd has noted the CPU (`requires_grad_` and `Parameter` leave small tensors there), and where not."""
    with tilesight.capture() as launches:
        x = torch.randn(32, width, device="cuda", requires_grad=not x_has_values).requires_grad_()
        w = torch.ones(width, device="cuda", requires_grad=not w_has_values)
        w = torch.nn.Parameter(w) if w_has_values else w
        Scaled.apply(Scaled.apply(x, 2, w), 2, w).mean().backward()
        assert x.grad is not None and w.grad is not None and w.grad.device.type == "cuda"
        torch.optim.AdamW([w]).step()
    assert [launch.name for launch in launches] == ["gather", "gather"]


def test_a_product_too_large_to_compute_has_gradients_of_parameters_with_values() -> None:
    """Its result has no data, and neither have its operands where autograd looks."""
    with tilesight.capture():
        x = torch.randn(512, 1024, device="cuda").requires_grad_()
        w = torch.nn.Parameter(torch.randn(1024, 1024, device="cuda"))
        wide, tall = torch.randn(64, 16384, device="cuda").requires_grad_(), torch.ones(16384, 64, device="cuda")
        ((x @ w).sum() + (tall @ wide).sum()).backward()
        assert x.grad is not None and w.grad is not None and wide.grad is not None and w.grad.shape == w.shape
