"""What does not compile is said with Triton's pass, the user's line and what to try; so is what was asked in vain."""

import pytest
from tilesight.kernels.launch.availability import missing_package

if missing_package():
    pytest.skip(str(missing_package()), allow_module_level=True)

import inspect

import torch
import triton
import triton.language as tl
from tilesight.simulator.prediction.kernel_row import KernelRow
from triton.tools.tensor_descriptor import TensorDescriptor

import tilesight

M, K, BK = 128, 1024, 64


@triton.jit
def by_pointers(A, B, C, K, BM: tl.constexpr, BK: tl.constexpr):
    """Products in a loop whose loads cannot be given to warps of their own on sm_90."""
    m, k = tl.arange(0, BM), tl.arange(0, BK)
    acc = tl.zeros((BM, BM), tl.float32)
    for s in tl.range(0, K, BK, warp_specialize=True):
        acc = tl.dot(tl.load(A + m[:, None] * K + s + k[None, :]), tl.load(B + (s + k)[:, None] * BM + m[None, :]), acc)
    tl.store(C + m[:, None] * BM + m[None, :], acc)


@triton.jit
def by_descriptors(A, B, C, K, BM: tl.constexpr, BK: tl.constexpr):
    """The same by TMA."""
    m = tl.arange(0, BM)
    acc = tl.zeros((BM, BM), tl.float32)
    for s in tl.range(0, K, BK, warp_specialize=True):
        acc = tl.dot(A.load([0, s]), B.load([s, 0]), acc)
    tl.store(C + m[:, None] * BM + m[None, :], acc)


def line_of(function: triton.JITFunction) -> int:
    """Where its loop stands."""
    lines, first = inspect.getsourcelines(function.fn)
    return next(number for number, line in enumerate(lines, first) if "warp_specialize" in line)


def predicted(device: str, num_warps: int, *, descriptors: bool) -> KernelRow:
    """A row for one of the two kernels."""
    with tilesight.capture(device) as launches:
        a, b, c = (torch.empty(shape, device="meta", dtype=torch.float16) for shape in ((M, K), (K, M), (M, M)))
        if descriptors:
            boxes = TensorDescriptor.from_tensor(a, [M, BK]), TensorDescriptor.from_tensor(b, [BK, M])
            by_descriptors[1,](*boxes, c, K, BM=M, BK=BK, num_warps=num_warps)
        else:
            by_pointers[1,](a, b, c, K, BM=M, BK=BK, num_warps=num_warps)
    (row,) = tilesight.predict(launches, device).rows
    return row


def test_a_failed_pass_is_named_with_the_loop_and_what_to_try() -> None:
    """Triton prints the pass on stderr; its exception says nothing."""
    row = predicted("h200", 4, descriptors=False)
    start = "Triton fails in its pass NVGPUWarpSpecialization, on the loop with warp_specialize=True at line "
    assert row.refused is not None
    assert row.refused.startswith(f"kernel by_pointers: {start}{line_of(by_pointers)}: assertion in WSLowerToken.cpp:")
    assert row.refused.endswith("; try loads by tensor descriptors in it, or warp_specialize=False")


def test_what_is_advised_compiles_into_more_warps() -> None:
    """Loads by descriptors in the same loop: the compiler adds warps, and there is nothing to say."""
    row = predicted("h200", 4, descriptors=True)
    assert row.prediction is not None and row.prediction.num_warps > 4
    assert not any("warp_specialize" in note for note in row.notes)


@pytest.mark.parametrize(("device", "num_warps"), [("h200", 8), ("a100-sxm-80gb", 4)])
def test_a_specialisation_without_effect_is_said(device: str, num_warps: int) -> None:
    """Too few registers for more warps, or a target without: the kernel runs, otherwise than its author thinks."""
    row = predicted(device, num_warps, descriptors=True)
    capability = tilesight.load_device(device).compute_capability.replace(".", "")
    assert row.refused is None and row.prediction is not None and row.prediction.num_warps == num_warps
    assert row.notes[0] == (
        f"kernel by_descriptors: line {line_of(by_descriptors)}: warp_specialize=True has no effect: "
        f"Triton adds no warps for sm_{capability}"
    )


def test_descriptors_become_pointers_where_there_is_no_tma() -> None:
    """On sm_80 the same bytes are loaded, by accesses that are all known."""
    row = predicted("a100-sxm-80gb", 4, descriptors=True)
    assert row.known_accesses == row.accesses > 0
    assert row.traffic.hbm_read_bytes == 2 * M * K * 2
