"""Rooflines of launches by hand, and tables of their figures at three widths of a terminal."""

from dataclasses import replace

import pytest
from support.made_rows import row_of
from tilesight.simulator.display.render import table
from tilesight.simulator.prediction.ceiling import Ceiling, TensorBytes
from tilesight.simulator.prediction.kernel_row import KernelRow
from tilesight.simulator.prediction.kernel_table import bytes_line, launch_columns
from tilesight.simulator.prediction.kernels import KernelsPrediction

A = TensorBytes(name="A", size_bytes=1 << 20, loaded_bytes=3 << 20, stored_bytes=0)
C = TensorBytes(name="C", size_bytes=1 << 20, loaded_bytes=0, stored_bytes=1 << 20)
CEILING = Ceiling(
    compulsory_read_bytes=600_000,
    compulsory_write_bytes=400_000,
    flop=2_000_000_000,
    hbm_bytes_per_s=1e12,
    l2_bytes_per_s=5e12,
    fabric_bytes_per_s=2e12,
    fill_bytes_per_s=5e12,
    smem_bytes_per_s=3e13,
    flop_per_s=1e15,
    tensors=(A, C),
)


@pytest.fixture
def row() -> KernelRow:
    """A launch with products, of 5 us."""
    made = row_of(5e-6, name="product")
    assert made.prediction is not None
    traffic = replace(made.traffic, matmul_flop=2_000_000_000, hbm_write_bytes=400_000)
    return replace(made, prediction=replace(made.prediction, traffic=traffic), ceiling=CEILING)


def test_the_slower_of_bytes_and_operations_bounds_a_launch() -> None:
    """1 MB at 1 TB/s take 1 us, 2 GFLOP at 1 PFLOP/s take 2 us; four times as many bytes take longer."""
    assert (CEILING.hbm_s, CEILING.tensor_s) == pytest.approx((1e-6, 2e-6))
    assert (CEILING.bound_s, CEILING.limit, CEILING.multiple(5e-6)) == (
        pytest.approx(2e-6),
        "tensor",
        pytest.approx(2.5),
    )
    more = replace(CEILING, compulsory_read_bytes=3_600_000)
    assert (more.bound_s, more.limit) == (pytest.approx(4e-6), "hbm")


def test_nothing_bounds_what_moves_and_multiplies_nothing(row: KernelRow) -> None:
    """All lies in L2: no multiple, and a dash in the table."""
    free = replace(CEILING, compulsory_read_bytes=0, compulsory_write_bytes=0, flop=0, flop_per_s=0.0)
    assert free.multiple(1.0) == 0.0
    assert " - " in table(launch_columns([replace(row, ceiling=free)]), 120).splitlines()[-1]
    assert bytes_line(replace(row, ceiling=free)).startswith("HBM moves nothing; the SMs load A 3.00 times")


def test_bytes_are_told_over_what_must_move(row: KernelRow) -> None:
    """1 MiB read and 0.4 MB written where 1 MB must; a tensor that is only stored is not loaded."""
    assert bytes_line(row) == "HBM moves 1.45 MB, 1.45x what it must; the SMs load A 3.00 times"
    assert f"Bytes    {bytes_line(row)}" in str(KernelsPrediction(device="h200", l2="cold", rows=(row,)))


@pytest.mark.parametrize(
    ("width", "titles", "missing"),
    [
        (80, ("TFLOP/s", "roofline", "time", "bound by"), "grid"),
        (120, ("grid", "spill", "SRAM fill", "CTAs/SM"), "occupancy"),
        (160, ("occupancy", "HBM rate", "smem"), "L2 written"),
    ],
)
def test_a_table_fits_the_terminal(row: KernelRow, width: int, titles: tuple[str, ...], missing: str) -> None:
    """Columns of low rank drop out where it is narrow."""
    text = table(launch_columns([replace(row, grid=(64, 64, 1))] * 2), width)
    head = text.splitlines()[0]
    assert max(map(len, text.splitlines())) <= width
    assert all(title in head for title in titles)
    assert missing not in head


def test_json_and_csv_have_every_figure(row: KernelRow) -> None:
    """The roofline and occupancy as numbers, tensors as objects and in one cell."""
    values = row.to_dict()
    assert (values["roofline_s"], values["roofline_limit"]) == (pytest.approx(2e-6), "tensor")
    assert values["tensors"][0] == {
        "name": "A", "size_bytes": 1 << 20, "loaded_bytes": 3 << 20, "stored_bytes": 0,
    }  # fmt: skip
    (flat,) = KernelsPrediction(device="h200", l2="cold", rows=(row,)).flat_rows()
    assert flat["tensors"].startswith("A: 1048576 B, loaded 3145728, stored 0; C: ")
    assert flat["matmul_flop_per_s"] == pytest.approx(2e9 / 5e-6)
    assert flat["occupancy_limit"] == "registers"
