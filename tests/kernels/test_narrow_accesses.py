"""A note names arguments that are multiples of what would make accesses wider, where the compiler does not know."""

import pytest
from tilesight.kernels.launch.availability import missing_package

import tilesight

if missing_package():
    pytest.skip(str(missing_package()), allow_module_level=True)

import torch
import triton
import triton.language as tl

ROWS, NARROW = 64, "accesses of 2 B, not 16"


@triton.jit
def rows(X, Y, stride, BLOCK: tl.constexpr):
    i = tl.program_id(0) * stride + tl.arange(0, BLOCK)
    tl.store(Y + i, tl.load(X + i) * 2)


@triton.jit(do_not_specialize=["stride"])
def unspecialised(X, Y, stride, BLOCK: tl.constexpr):
    i = tl.program_id(0) * stride + tl.arange(0, BLOCK)
    tl.store(Y + i, tl.load(X + i) * 2)


@triton.jit
def told_of_the_argument(X, Y, stride, BLOCK: tl.constexpr):
    stride = tl.multiple_of(stride, 8)
    i = tl.program_id(0) * stride + tl.arange(0, BLOCK)
    tl.store(Y + i, tl.load(X + i) * 2)


@triton.jit
def told_of_the_offset(X, Y, stride, BLOCK: tl.constexpr):
    i = tl.multiple_of(tl.program_id(0) * stride, 8) + tl.arange(0, BLOCK)
    tl.store(Y + i, tl.load(X + i) * 2)


@triton.jit
def constant(X, Y, stride: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * stride + tl.arange(0, BLOCK)
    tl.store(Y + i, tl.load(X + i) * 2)


@triton.jit
def masked(X, Y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(Y + i, tl.load(X + i, mask=i < n) * 2, mask=i < n)


@triton.jit
def masked_by_two(X, Y, n, stride, BLOCK: tl.constexpr):
    i = tl.program_id(0) * stride + tl.arange(0, BLOCK)
    tl.store(Y + i, tl.load(X + i, mask=i < n) * 2, mask=i < n)


def notes(kernel, *numbers: int) -> list[str]:
    """Remarks on the widths of accesses of a kernel over rows of 2-byte elements. Args: numbers: after the tensors."""
    x = torch.empty(ROWS * 8192, device="meta", dtype=torch.float16)
    with tilesight.capture("h200") as launches:
        kernel[(ROWS,)](x, torch.empty_like(x), *numbers, BLOCK=4096)
    (row,) = tilesight.predict(launches, "h200").rows
    return [note for note in row.notes if "accesses of" in note]


@pytest.mark.parametrize(("kernel", "number"), [(rows, 4104), (unspecialised, 4096), (told_of_the_argument, 4104)])
def test_a_stride_that_is_a_multiple_unknown_to_the_compiler_is_named(kernel, number: int) -> None:
    """8 but not 16 elements, or not specialised, or `tl.multiple_of` on the argument itself: 2 B at a time."""
    (note,) = notes(kernel, number)
    assert NARROW in note and f"stride = {number}" in note and "multiples of 8" in note


def test_a_bound_of_the_mask_is_named() -> None:
    """Eight elements share their mask, which nobody told the compiler."""
    (note,) = notes(masked, ROWS * 4096 - 8)
    assert NARROW in note and "n = " in note


@pytest.mark.parametrize(
    ("kernel", "number"),
    [(rows, 4096), (rows, 4100 + 1), (told_of_the_offset, 4104), (constant, 4104), (masked, ROWS * 4096 - 7)],
)
def test_wide_accesses_and_odd_arguments_get_no_note(kernel, number: int) -> None:
    """The compiler knows, or there is nothing that it could be told."""
    assert notes(kernel, number) == []


def test_no_argument_is_blamed_where_another_that_decides_is_odd() -> None:
    """A stride of 8 elements more than 4,096 cannot help where the mask ends anywhere."""
    assert notes(masked_by_two, ROWS * 4096 - 7, 4104) == []
    assert len(notes(masked_by_two, ROWS * 4096 - 8, 4104)) == 1
