"""What a recorded launch gives back: a kernel that code asks for registers, reads, and launches again."""

from typing import Any

import pytest
from tilesight.kernels.launch.availability import missing_package

if missing_package():
    pytest.skip(str(missing_package()), allow_module_level=True)

import torch
import triton
import triton.language as tl

import tilesight

CONFIGS = [triton.Config({"BLOCK": 256}), triton.Config({"BLOCK": 1024}, num_warps=8)]


@triton.jit
def double(X, Y, n, BLOCK: tl.constexpr) -> None:
    """Twice a vector."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(Y + i, 2 * tl.load(X + i, mask=i < n), mask=i < n)


def vectors() -> tuple[Any, ...]:
    """The arguments of `double`."""
    return torch.empty(4096, device="cuda"), torch.empty(4096, device="cuda"), 4096


@pytest.mark.parametrize("device", ["h200", "a100-sxm-80gb"])
def test_a_warmed_up_kernel_has_the_registers_of_the_target(device: str) -> None:
    """As many as are predicted with; code sizes a persistent grid by them. The warmup is no launch."""
    with tilesight.capture(device) as launches:
        kernel = double.warmup(*vectors(), 1024, num_warps=2, grid=(1,))
        kernel._init_handles()
        resident = 65536 // (kernel.n_regs * 64)
        kernel[(resident, 1, 1)](*vectors(), 1024)
    (row,) = tilesight.predict(launches, device=device).rows
    assert (row.grid, row.prediction.num_warps) == ((resident, 1, 1), 2)
    assert (kernel.n_regs, kernel.n_spills, kernel.metadata.shared) == (row.prediction.registers_per_thread, 0, 0)
    assert kernel.metadata.target.arch == (90 if device == "h200" else 80)


def test_what_a_launch_gives_back_is_launched_again() -> None:
    """With constants or without, as launchers of older versions take arguments; both are recorded."""
    with tilesight.capture() as launches:
        kernel = double[(4,)](*vectors(), BLOCK=1024)
        kernel[(2,)](*vectors())
        kernel[(1,)](*vectors(), 1024)
        assert "st.global" in kernel.asm["ptx"]
    assert [(launch.grid, launch.arguments["BLOCK"]) for launch in launches] == [
        ((4, 1, 1), 1024),
        ((2, 1, 1), 1024),
        ((1, 1, 1), 1024),
    ]


def test_a_launch_by_names_is_refused_as_tritons_is() -> None:
    """A compiled kernel takes its arguments by place; a name that is dropped would launch with another value."""
    with tilesight.capture():
        kernel = double[(4,)](*vectors(), BLOCK=1024)
        with pytest.raises(TypeError, match="BLOCK"):
            kernel[(2,)](*vectors(), BLOCK=256)


def test_an_autotuned_launch_gives_back_its_first_configuration() -> None:
    """As `best_config` is: which is fastest is not known while launches are recorded."""
    tuner = triton.autotune(CONFIGS, key=["n"])(double)
    with tilesight.capture() as launches:
        kernel = tuner[lambda meta: (triton.cdiv(4096, meta["BLOCK"]),)](*vectors())
        kernel[(triton.cdiv(4096, tuner.best_config.kwargs["BLOCK"]),)](*vectors())
    assert [(launch.grid[0], launch.tuned) for launch in launches] == [(16, 0), (4, 0), (16, -1)]
