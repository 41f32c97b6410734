"""Remarks on tiles that are mostly empty, on SMs without work, and on K and V that crowd L2."""

from dataclasses import replace

import numpy as np
import pytest
from tilesight.simulator.device.device import load_device
from tilesight.simulator.dtypes import DTYPES
from tilesight.simulator.explore.explore import explore
from tilesight.simulator.launch.program import Launch, Step, Tensor, Tile, TileProgram
from tilesight.simulator.launch.resources import Resources
from tilesight.simulator.launch.traced import TracedCode
from tilesight.simulator.launch.walk import tally
from tilesight.simulator.prediction.notes import (
    RING,
    few_lines_notes,
    kv_under_way_bytes,
    l2_fit_of,
    not_modelled_notes,
    tile_notes,
)
from tilesight.simulator.problems.attention import AttentionProblem
from tilesight.simulator.problems.softmax import SoftmaxProblem
from tilesight.simulator.schedules.config import Config
from tilesight.simulator.simulate import launches_of, simulate
from tilesight.simulator.sm.machine import WAITING
from tilesight.simulator.traffic import Traffic

H200 = load_device("h200")
DECODE = AttentionProblem(batch=1, heads=32, kv_heads=8, seqlen_q=1, seqlen_k=4096, head_dim=128)
LONG = AttentionProblem(batch=1, heads=16, kv_heads=1, seqlen_q=8192, seqlen_k=8192, head_dim=64, causal=True)
SMALL_L2 = replace(H200, l2_bytes=2 << 20)
"""K and V of `LONG` are 2 MiB, a partition is 1 MiB."""
TILES = {"block_m": 128, "block_n": 64, "num_warps": 4, "num_stages": 2}


def notes(problem: AttentionProblem, schedule: str = "flash2") -> str:
    """All that is said of the tiles of a schedule's default configuration."""
    return "\n".join(tile_notes(launches_of(problem, schedule, None, H200), H200, problem))


def test_tiles_that_hold_few_queries_are_told_with_the_useful_share() -> None:
    """One row of 64 is 1.6 %, 32 are a half."""
    assert "tiles of 64 rows hold 1 query: 1.6 % of the rows" in notes(DECODE)
    assert "tiles of 64 rows hold 32 queries: 50 % of the rows" in notes(replace(DECODE, seqlen_q=32))


def test_few_queries_of_heads_that_share_keys_are_told_to_be_packed() -> None:
    """Four heads a group: their queries fill four rows of 64; where each head has its own keys there is no group."""
    packed = "GQA packing (--schedule flash_decode) puts the 4 query heads that share K and V into one tile"
    assert f"{packed}: 6.2 % of its rows, and K and V are loaded once in place of 4 times" in notes(DECODE)
    assert "GQA" not in notes(replace(DECODE, kv_heads=32))
    several = notes(replace(DECODE, seqlen_q=40))  # more rows than a tile of that schedule has
    assert "GQA packing (--schedule chunked_flash) puts the 4 query heads" in several
    assert "GQA" not in notes(replace(DECODE, seqlen_q=4096))


def test_a_decode_problem_is_told_which_schedule_splits_keys() -> None:
    """With the SMs that are left, and HBM's time for 2 x 8 x 4096 x 128 elements and Q: 16.8 MB at 4.55 TB/s."""
    idle = "32 CTAs leave 100 of 132 SMs idle: split the keys of a query tile over CTAs (--schedule flash_decode)"
    assert idle in notes(DECODE)
    least_s = (2 * 8 * 4096 * 128 + 32 * 128) * 2 / H200.hbm_read_bytes_per_s
    assert f"HBM could deliver all inputs in {least_s * 1e6:.2f} us" in notes(DECODE)


def test_a_prompt_and_a_full_gpu_need_no_remark() -> None:
    """Tiles are full, and CTAs as many as can be expected."""
    prompt = replace(DECODE, seqlen_q=4096)
    assert notes(prompt) == notes(replace(prompt, heads=1, kv_heads=1)) == ""
    assert "idle" not in notes(replace(DECODE, batch=64))


def test_a_predictions_notes_hold_the_remarks() -> None:
    """In Python as on the command line."""
    text = "\n".join(simulate(DECODE).notes)
    assert notes(DECODE) in text


@pytest.mark.parametrize(("order", "heads"), [("m-fast", 1), ("head-fast", 8)])
def test_heads_under_way_are_those_that_running_ctas_read(order: str, heads: int) -> None:
    """Sixteen CTAs at a time: four query tiles of four query heads of a group, or one query tile of 16 heads."""
    problem = AttentionProblem(batch=2, heads=16, kv_heads=8, seqlen_q=1024, seqlen_k=1024, head_dim=64)
    (launch,) = launches_of(problem, "flash2", Config(**TILES, cta_order=order), H200)
    assert kv_under_way_bytes(launch, places=16) == heads * 2 * 1024 * 64 * 2


@pytest.mark.parametrize(
    ("fraction", "excess", "fit"),
    [(0.7, 5.0, ""), (0.8, 5.0, "near"), (1.01, 5.0, "beyond"), (1.01, 1.05, "")],
)
def test_k_and_v_crowd_l2_where_they_fill_a_partition_and_are_read_again(
    fraction: float, excess: float, fit: str
) -> None:
    """Near from three quarters on; what HBM reads once does no harm, however large it is."""
    (launch,) = launches_of(LONG, "flash2", Config(**TILES), H200)
    once = sum(launch.program.tensor(name).size_bytes for name in "QKV")
    under_way = round(fraction * H200.l2_bytes / 2)
    assert l2_fit_of(launch, tally(launch.program), under_way, round(excess * once), H200) == fit


def test_keys_that_are_loaded_once_crowd_nothing() -> None:
    """flash1 reads Q and O again, not K and V: how many heads run at a time is not what HBM reads more for."""
    (launch,) = launches_of(replace(LONG, kv_heads=LONG.heads), "flash1", Config(**TILES), H200)
    assert l2_fit_of(launch, tally(launch.program), 2 * H200.l2_bytes, 10**12, H200) == ""


def test_crowded_l2_is_explained_with_band_and_way_out() -> None:
    """What crowds what, how far off measurements were, and what to try."""
    seen = simulate(LONG, config=Config(**TILES), device=SMALL_L2, cost="tiles")
    (launch,) = seen.launches
    assert launch.l2_fit == seen.l2_fit == "beyond"
    text = "\n".join(seen.notes)
    assert "K and V of the heads in flight (2.00 MiB) exceed a partition of L2 (1.00 MiB)" in text
    assert "22 % too low to 17 % too high" in text
    assert "longest-first" in text


def test_exploring_names_an_order_that_reads_less() -> None:
    """One that was not in the space: it is simulated for the purpose, and really reads less from HBM."""
    exploration = explore(LONG, device=SMALL_L2, cost="tiles", **TILES)
    (best,) = exploration.ranked
    assert best.prediction is not None
    (way,) = (note for note in exploration.notes if "from HBM and takes" in note)
    order = next(name for name in ("m-reversed", "longest-first", "head-fast") if name in way)
    other = simulate(LONG, config=Config(**TILES, cta_order=order), device=SMALL_L2, cost="tiles")
    assert other.total.hbm_read_bytes <= 0.5 * best.prediction.total.hbm_read_bytes


@pytest.mark.parametrize("schedule", ["flash1", "naive"])
def test_a_mask_that_skips_no_tile_is_said_to_save_no_time(schedule: str) -> None:
    """Tiles that it hides are computed, and masked: as long as full, or longer; of that nothing is said."""
    problem = AttentionProblem(batch=1, heads=2, seqlen_q=512, seqlen_k=512, head_dim=64)
    masked = simulate(replace(problem, causal=True), schedule=schedule, cost="tiles")
    full = simulate(problem, schedule=schedule, cost="tiles")
    assert masked.total.executed_flop == full.total.executed_flop and masked.time_s >= full.time_s
    assert any("saves no time" in note for note in masked.notes)
    assert not any("causal" in note for note in full.notes)


def test_a_grid_of_one_wave_is_said_to_wait_for_the_row_that_sees_all_keys() -> None:
    """Its last tile of queries takes as long as without a mask; many waves share the work anew."""
    problem = AttentionProblem(batch=1, heads=4, seqlen_q=1024, seqlen_k=1024, head_dim=64, causal=True)
    assert any("sees all keys" in note for note in simulate(problem, cost="tiles").notes)
    assert not any("mask saves" in note for note in simulate(replace(problem, batch=64), cost="tiles").notes)


def test_a_warm_run_writes_back_what_the_run_before_has_left() -> None:
    """Cold, its own last output stays in L2: HBM writes less, by what L2 keeps, and the note says so."""
    problem = SoftmaxProblem(batch=1, heads=8, seqlen_q=1024, seqlen_k=1024)
    cold, warm = (
        simulate(problem, schedule="online_softmax", l2=l2, device="a100-sxm-80gb") for l2 in ("cold", "warm")
    )
    output_bytes = problem.compulsory.write_bytes
    assert cold.total.hbm_write_bytes < output_bytes / 2
    assert warm.total.hbm_write_bytes == pytest.approx(output_bytes, rel=0.01)
    assert warm.time_s > cold.time_s and any("has left in L2" in note for note in warm.notes)
    assert not any("has left in L2" in note for note in cold.notes)


MIB = 1 << 20


def left_out(mib: float, moved: float, *, local_bytes: int = 0, cost: str = "compiled", classes: int = 1) -> str:
    """What is said of a launch that copies between two arrays of so many MiB, so many times over, in 150 us."""
    array = Tensor(name="X", role="input", slabs=1, rows=1, cols=int(mib * MIB), dtype=DTYPES["u8"])
    code = TracedCode(cta=0, like=(), paths=(), phases=(), executed={}, in_l1={}, issued=np.zeros(0))
    program = TileProgram(
        tensors=(array, replace(array, name="Y", role="output")), variables=(), items=np.zeros_like, item_count=1,
        period_items=1, body=(),
    )  # fmt: skip
    launch = Launch(
        name="copy", grid=(1, 1, 1), num_warps=4, num_stages=1, program=program, dtype="fp32", traced=(code,) * classes,
        resources=Resources(registers_per_thread=32, smem_bytes_per_cta=0, spilled_bytes_per_thread=local_bytes),
    )  # fmt: skip
    traffic = Traffic(time_s=150e-6, l2_read_bytes=int(moved * mib * MIB), l2_write_bytes=int(moved * mib * MIB))
    (predicted,) = simulate(DECODE, schedule="flash2", device=H200).launches
    return "\n".join(not_modelled_notes(launch, replace(predicted, traffic=traffic, cost=cost), H200))


def test_copies_that_nearly_fill_l2_again_and_again_are_said_to_be_too_fast() -> None:
    """20 MiB to 20 MiB of 60, 25 times; not once over, nor 16 MiB, whose time is right within 4 %."""
    assert "fills 67% of it: on an H200 20 MiB to 20 MiB took 178 us, 148 predicted" in left_out(20, 25)
    assert left_out(20, 1) == left_out(16, 25) == left_out(40, 25) == ""


def test_stores_to_local_memory_that_keep_l2_busy_are_said_to_be_too_fast() -> None:
    """0.4 GB in 150 us are more than half of what L2 takes; the same to device memory is modelled, and so are few."""
    assert "stores to local memory slower" in left_out(1, 400, local_bytes=32)
    assert left_out(1, 400) == left_out(1, 100, local_bytes=32) == ""


def test_rings_of_barriers_with_loops_of_unlike_lengths_are_said_to_read_too_little() -> None:
    """Where CTAs are of several classes, and warps were found to wait for ever."""
    assert RING in WAITING
    assert "K and V of a causal attention came out 6.8 % too few" in left_out(1, 1, cost=f"tiles: {WAITING}", classes=2)
    assert left_out(1, 1, cost=f"tiles: {WAITING}") == left_out(1, 1, classes=2) == ""


@pytest.mark.parametrize(
    ("loads", "passes", "part", "said"), [(5, 1, 0.5, True), (5, 1, 0.0, False), (2, 1, 0.5, False), (1, 3, 0.5, False)]
)
def test_stencils_whose_rows_begin_within_sectors_are_said_to_be_off(
    loads: int, passes: int, part: float, said: bool
) -> None:
    """Several loads of a tensor beside stores of parts of sectors; not a copy off a line, nor one load of each pass."""
    image = Tensor(name="X", role="input", slabs=1, rows=1, cols=1 << 28, dtype=DTYPES["u8"])
    read = Tile(tensor="X", slab="slab", rows=1, cols=4096)
    body = tuple(
        Step(name=f"add {number}", loads=(read,) * loads, stores=(replace(read, tensor="Y", part_fraction=part),))
        for number in range(passes)
    )
    program = TileProgram(
        tensors=(image, replace(image, name="Y", role="output")), variables=("slab",), items=np.zeros_like,
        item_count=1, period_items=1, body=body,
    )  # fmt: skip
    launch = Launch(
        name="stencil", grid=(1, 1, 1), num_warps=4, num_stages=1, program=program, dtype="fp32",
        resources=Resources(registers_per_thread=32, smem_bytes_per_cta=0),
    )  # fmt: skip
    (predicted,) = simulate(DECODE, schedule="flash2", device=H200).launches
    notes = not_modelled_notes(launch, predicted, H200)
    assert any("181 and 184 us" in note for note in notes) is said


@pytest.mark.parametrize(
    ("size_bytes", "path", "binding", "said"),
    [(2048, "atomic", "wait", True), (128, "atomic", "wait", False), (1 << 20, "atomic", "wait", False),
     (2048, "plain", "wait", False), (2048, "atomic", "hbm", False)],
)  # fmt: skip
def test_sums_in_few_lines_are_said_to_depend_on_where_these_begin(
    size_bytes: int, path: str, binding: str, said: bool
) -> None:
    """Where they limit; a block lies in one slice, and many lines in all."""
    sums = Tensor(name="Y", role="output", slabs=1, rows=1, cols=size_bytes, dtype=DTYPES["u8"])
    step = Step(name="add", stores=(Tile(tensor="Y", slab="slab", rows=1, cols=4, path=path),))
    program = TileProgram(
        tensors=(sums,), variables=("slab",), items=np.zeros_like, item_count=1, period_items=1, body=(step,)
    )
    resources = Resources(registers_per_thread=32, smem_bytes_per_cta=0)
    launch = Launch(
        name="count", grid=(1, 1, 1), num_warps=4, num_stages=1, program=program, dtype="fp32", resources=resources
    )
    (predicted,) = simulate(DECODE, schedule="flash2", device=H200).launches
    predicted = replace(predicted, causes={"wait": 0.1, "hbm": 0.1} | {binding: 0.8})
    assert bool(few_lines_notes(launch, predicted, H200)) is said
