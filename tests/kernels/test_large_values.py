"""Large index tensors have all of their values, or the answer says which it lacks; one value needs no memory."""

from collections.abc import Callable

import pytest
from tilesight.kernels.launch.availability import missing_package

import tilesight

if missing_package():
    pytest.skip(str(missing_package()), allow_module_level=True)

import torch
import triton
import triton.language as tl
from tilesight.kernels.capture.recorded import RecordedTensor
from tilesight.simulator.emulator.storage import MOST_VALUES_BYTES

ROWS, STEPS, SECTOR_BYTES = 1 << 10, 64, 32


@triton.jit
def look(IDS, Y, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(Y + tl.load(IDS + i), 1.0)


@triton.jit
def chase(X, Y, MASK: tl.constexpr, STEPS: tl.constexpr):
    i = tl.program_id(0) + 1
    for _ in range(STEPS):
        i = (i * 1664525 + 1013904223 + tl.load(X + i)) & MASK
    tl.store(Y, i)


def recorded(make: Callable[[], torch.Tensor]) -> RecordedTensor:
    """What a kernel finds in a tensor that a function makes while it is recorded."""
    with tilesight.capture() as launches:
        look[(1,)](make(), torch.empty(ROWS, device="cuda"), BLOCK=128)
    return launches[0].tensors["IDS"]


@pytest.mark.parametrize("dtype", [torch.int8, torch.bool, torch.int16, torch.int32, torch.int64])
@pytest.mark.parametrize("device", ["cuda", "cpu"])
def test_indices_of_more_than_16_mib_are_those_that_were_drawn(dtype: torch.dtype, device: str) -> None:
    """Of every whole type, on the GPU and on the CPU: as many elements as the docs promise, or bytes as are read."""
    count, high = (1 << 24) + (0 if device == "cuda" else 64), 2 if dtype == torch.bool else 100

    def draw(where: str) -> torch.Tensor:
        return torch.randint(0, high, (count,), dtype=dtype, device=where, generator=torch.Generator().manual_seed(3))

    drawn = recorded(lambda: draw(device)).values
    assert drawn is not None and torch.equal(drawn, draw("cpu"))


def test_a_view_of_large_indices_begins_where_it_does() -> None:
    """Every second of the elements from the sixth on: the storage is kept whole, offset and stride beside it."""
    base = torch.arange(1 << 23, dtype=torch.int32)
    tensor = recorded(lambda: base.cuda()[5::2])
    assert tensor.values is not None and torch.equal(tensor.values, base[5::2])
    assert (tensor.offset_bytes, tensor.strides, tensor.storage_bytes) == (20, (2,), 1 << 25)


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: torch.randint(0, 9, ((1 << 24) + 1,), device="cuda"),
         "16,777,217 elements, of more than 16,777,216 on the GPU none are kept"),
        (lambda: torch.empty(MOST_VALUES_BYTES // 8 + 1, dtype=torch.int64),
         "it takes 268,435,464 B, values are read of up to 268,435,456 B"),
    ],
)  # fmt: skip
def test_indices_beyond_the_limit_are_refused_with_the_limit(make: Callable[[], torch.Tensor], why: str) -> None:
    """On the GPU by elements, on the CPU by bytes: nothing is made up for them."""
    with tilesight.capture() as launches:
        look[(1,)](make(), torch.empty(ROWS, device="cuda"), BLOCK=128)
    (row,) = tilesight.predict(launches).rows
    assert "its address depends on tensor IDS, whose values are not known" in (row.refused or "")
    assert why in (row.refused or "")


@pytest.mark.parametrize(
    ("make", "element"),
    [
        (lambda: torch.zeros(1 << 33, dtype=torch.int32, device="cuda"), torch.tensor([0], dtype=torch.int32)),
        (lambda: torch.full((1 << 33,), 1e7, device="cuda"), torch.tensor([1e7])),
        (lambda: torch.empty(1 << 33, device="cuda").fill_(2), torch.tensor([2.0])),
        (lambda: (torch.ones(1 << 33, dtype=torch.int64, device="cuda") + 4) * 3, torch.tensor([15])),
        (lambda: torch.zeros_like(torch.empty(1 << 33, device="cuda"), dtype=torch.int8).add_(7),
         torch.tensor([7], dtype=torch.int8)),
        (lambda: torch.ones(1 << 33, device="cuda").to(torch.bfloat16), torch.tensor([1], dtype=torch.bfloat16)),
    ],
)  # fmt: skip
def test_one_value_throughout_is_known_whatever_the_size(
    make: Callable[[], torch.Tensor], element: torch.Tensor
) -> None:
    """It takes no memory, and neither does what is computed of it element by element."""
    assert recorded(make).fill == bytes(element.view(torch.uint8).tolist())


@pytest.mark.parametrize(
    "spoil",
    [
        lambda x: x.normal_(),
        lambda x: x[5:6].fill_(1),
        lambda x: x.copy_(torch.empty_like(x)),
        lambda x: x.add_(torch.rand_like(x)),
        lambda x: x.index_put_((torch.tensor([3], device="cuda"),), torch.tensor(2.0, device="cuda")),
    ],
)
def test_what_is_written_over_in_part_is_no_constant(spoil: Callable[[torch.Tensor], object]) -> None:
    """Nothing is known of it any more."""

    def make() -> torch.Tensor:
        made = torch.zeros(1 << 25, device="cuda")
        spoil(made)
        return made

    assert recorded(make).fill == b""


def test_a_walk_through_zeros_of_8_gib_touches_a_sector_a_step() -> None:
    """Each step goes where the last one says: all addresses are known, whatever is guessed of the last steps."""
    with tilesight.capture() as launches:
        words = 1 << 31
        chase[(1,)](
            torch.zeros(words, dtype=torch.int32, device="cuda"),
            torch.empty(1, dtype=torch.int32, device="cuda"),
            words - 1, STEPS, num_warps=1,
        )  # fmt: skip
    (row,) = tilesight.predict(launches).rows
    assert row.prediction and row.traffic and row.refused is None
    assert row.traffic.smem_fill_bytes == STEPS * SECTOR_BYTES
    assert row.known_accesses == row.accesses
