"""Tensors, tiles, work and launches: what a kernel says about itself."""

import numpy as np
import pytest
from tilesight.simulator.dtypes import DTYPES
from tilesight.simulator.launch.program import Launch, Matmul, Resources, Tensor, TileProgram, affine


def _program(item_count: int = 12, period_items: int = 4) -> TileProgram:
    return TileProgram(
        tensors=(Tensor(name="Q", role="input", slabs=3, rows=5, cols=16, dtype=DTYPES["fp16"]),),
        variables=("slab",),
        items=lambda indices: np.stack((indices % 3,), axis=1),
        item_count=item_count,
        period_items=period_items,
        body=(),
    )


def test_rows_are_packed_unless_a_pitch_is_given() -> None:
    """The default pitch is the row itself; a larger one costs memory, not row bytes."""
    packed = Tensor(name="Q", role="input", slabs=3, rows=5, cols=24, dtype=DTYPES["fp16"])
    assert (packed.pitch_bytes, packed.row_bytes, packed.size_bytes) == (48, 48, 720)
    pitched = Tensor(name="S", role="scratch", slabs=3, rows=5, cols=24, dtype=DTYPES["fp16"], pitch_bytes=128)
    assert (pitched.pitch_bytes, pitched.row_bytes, pitched.size_bytes) == (128, 48, 1920)


def test_a_product_counts_two_operations_for_each_multiply_add() -> None:
    """2 m n k."""
    assert Matmul(m=64, n=32, k=16).flop == 65536


def test_affine_keeps_variables_and_coefficients() -> None:
    """128 q_tile + j; nothing is 0."""
    assert affine(q_tile=128, j=1) == (("q_tile", 128), ("j", 1))
    assert affine() == ()


def test_a_tensor_is_found_by_its_name() -> None:
    """A name that the program lacks is a KeyError."""
    assert _program().tensor("Q").rows == 5
    with pytest.raises(KeyError, match="K"):
        _program().tensor("K")


def test_a_period_divides_the_items() -> None:
    """12 items have no period of 5."""
    with pytest.raises(ValueError, match="period_items = 5"):
        _program(period_items=5)


def test_a_launch_multiplies_its_grid_and_warps() -> None:
    """CTAs are x times y times z, threads 32 a warp."""
    launch = Launch(
        name="toy",
        grid=(3, 2, 2),
        num_warps=4,
        num_stages=1,
        program=_program(),
        resources=Resources(registers_per_thread=32, smem_bytes_per_cta=0),
        dtype="fp16",
    )
    assert launch.cta_count == 12
    assert launch.threads_per_cta == 128
    assert dict(launch.constants) == {}
