"""The second door of the flow: launches that no problem and no schedule made."""

import numpy as np
import pytest
from tilesight.simulator.arguments import Settings
from tilesight.simulator.device.device import load_device
from tilesight.simulator.dtypes import DTYPES
from tilesight.simulator.launch.program import Launch, Resources, Step, Tensor, Tile, TileProgram, Work
from tilesight.simulator.problems.attention import AttentionProblem
from tilesight.simulator.simulate import launches_of, simulate
from tilesight.simulator.simulate_launches import simulate_launches

H200 = load_device("h200")
PROBLEM = AttentionProblem(batch=2, heads=8, seqlen_q=1024, seqlen_k=1024, head_dim=64, causal=True)
ROWS, COLS, TILES = 128, 128, 1024
SIZE_BYTES = ROWS * COLS * TILES * 2
ROLES = {"X": "input", "Y": "scratch", "Z": "output"}


def copy_of(source: str, target: str) -> Launch:
    """A kernel that copies 32 MiB, a tile a CTA."""
    names = source, target
    tensors = tuple(
        Tensor(name=name, role=ROLES[name], slabs=1, rows=ROWS * TILES, cols=COLS, dtype=DTYPES["fp16"])
        for name in names
    )
    first, second = (Tile(tensor=name, slab="zero", row=(("row", 1),), rows=ROWS, cols=COLS) for name in names)
    program = TileProgram(
        tensors=tensors,
        variables=("zero", "row"),
        items=lambda items: np.stack((0 * items, ROWS * items), axis=1),
        item_count=TILES,
        period_items=1,
        body=(Step(name="copy", loads=(first,), stores=(second,), work=Work()),),
    )
    return Launch(
        name="copy",
        grid=(TILES, 1, 1),
        num_warps=4,
        num_stages=1,
        program=program,
        resources=Resources(registers_per_thread=64, smem_bytes_per_cta=0),
        dtype="fp16",
    )


def test_launches_of_a_schedule_come_out_as_by_the_first_door() -> None:
    """To the last bit, if what a product is worth is said."""
    launches = launches_of(PROBLEM, "naive", None, H200)
    simulated = simulate_launches(launches, H200, cost="tiles", flop_per_matmul=PROBLEM.flop_per_matmul)
    predicted = simulate(PROBLEM, schedule="naive", device=H200, cost="tiles")
    assert simulated.launches == predicted.launches
    assert simulated.peak_memory_bytes == predicted.peak_memory_bytes
    assert simulated.total == predicted.total


def test_a_kernel_of_nobodys_schedule_moves_what_it_says() -> None:
    """A copy reads and stores its tensor once; it knows no useful products, and takes longer than HBM does."""
    simulated = simulate_launches([copy_of("X", "Z")], H200, cost="tiles")
    assert simulated.total.hbm_read_bytes == SIZE_BYTES
    assert simulated.total.l2_write_bytes == SIZE_BYTES
    assert simulated.total.matmul_flop == 0
    assert simulated.total.time_s > SIZE_BYTES / H200.hbm_read_bytes_per_s
    assert simulated.peak_memory_bytes == 2 * SIZE_BYTES


def test_a_launch_finds_what_the_one_before_left() -> None:
    """The second copy reads what the first has written, and little of it from HBM."""
    _, second = simulate_launches([copy_of("X", "Y"), copy_of("Y", "Z")], H200, cost="tiles").launches
    assert second.traffic.hbm_read_bytes < SIZE_BYTES / 4


@pytest.mark.parametrize(("name", "value"), [("l2", "hot"), ("cost", "guess"), ("overhead", "none")])
def test_a_setting_that_is_not_allowed_is_named(name: str, value: str) -> None:
    """With its value, before anything runs."""
    with pytest.raises(ValueError, match=f"{name} = '{value}': must be one of"):
        simulate_launches([], H200, cost=value) if name == "cost" else Settings(**{name: value})
