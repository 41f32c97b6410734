"""CTAs that go more ways through the code than are told apart: what all threads touch, as numpy counts it."""

import pytest
from tilesight.kernels.launch.availability import missing_package

if missing_package():
    pytest.skip(str(missing_package()), allow_module_level=True)

import numpy as np
from support.given_cubins import launch
from tilesight.simulator.prediction.kernel_row import KernelRow
from tilesight.simulator.trace.touch import classes
from tilesight.simulator.trace.touch.scattered import free_paths

import tilesight
from tilesight import Launch

N, SIDE, ROWS = 1 << 18, 512, 1 << 12
WORDS, SQUARE = f"tensor:fp32[{N}]", f"tensor:fp32[{SIDE},{SIDE}]"
UNLIKE = "too many ways through the code"
LENGTHS = np.random.default_rng(0).integers(0, 40, ROWS)
ENDS = np.concatenate(([0], np.cumsum(LENGTHS))).astype(np.int32)
EVEN: dict[str, Launch] = {
    "reduce": launch("reduce", 64, 256, x=WORDS, sums="tensor:fp32[64]", n=N),
    "softmax": launch("softmax", SIDE, 256, smem=4 * SIDE, x=SQUARE, y=SQUARE, columns=SIDE),
    "gemm": launch("gemm", (16, 16), (16, 16), a=SQUARE, b=SQUARE, c=SQUARE, m=256, n=256, k=256),
    "transpose": launch("transpose", (16, 16), (32, 8), x=SQUARE, y=SQUARE, n=SIDE),
}


def row_of(case: Launch) -> KernelRow:
    """What is predicted of a launch that finds nothing in L2."""
    return tilesight.predict([case], l2="cold").rows[0]


def loaded(row: KernelRow) -> dict[str, int]:
    """Bytes that a launch loads, by tensor."""
    return {tensor["name"]: tensor["loaded_bytes"] for tensor in row.to_dict()["tensors"]}


def test_warps_that_sum_rows_of_unequal_length_read_each_once() -> None:
    """Eight rows a CTA, in a loop that is unrolled by 16, 8, 4 and not: hardly any two CTAs go the same way."""
    x = f"tensor:fp32[{ENDS[-1]},32]"
    row = row_of(launch("row_sums", ROWS // 8, 256, file="ragged", ends=ENDS, x=x, y=f"tensor:fp32[{ROWS},32]"))
    assert any(UNLIKE in note for note in row.notes)
    assert row.refused is None and row.known_accesses == row.accesses
    assert loaded(row)["x"] == 128 * ENDS[-1]
    assert row.traffic.smem_fill_bytes == pytest.approx(128 * ENDS[-1] + 4 * ROWS * 9 / 8, rel=0.01)


@pytest.mark.parametrize("name", EVEN)
def test_even_ctas_touch_the_same_where_their_threads_go_their_ways(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Loops, barriers and shared memory included: only how much is told apart is changed."""
    told_apart = row_of(EVEN[name])
    monkeypatch.setattr(classes, "MOST_PATHS", 0)
    row = row_of(EVEN[name])
    assert any(UNLIKE in note for note in row.notes)
    assert not any(UNLIKE in note for note in told_apart.notes)
    assert loaded(row) == loaded(told_apart)
    assert row.executed_instructions == told_apart.executed_instructions
    assert row.traffic.l2_write_bytes == told_apart.traffic.l2_write_bytes


@pytest.mark.parametrize("most", [128, 0])
def test_threads_that_stop_early_read_no_further(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of each word in turn, the sectors that lanes touch which have not come to a negative one."""
    monkeypatch.setattr(classes, "MOST_PATHS", most)
    threads, length = 1 << 13, 50
    words = np.where(np.random.default_rng(1).random((length, threads)) < 0.08, -1, 1).astype(np.int32)
    last = np.where((words < 0).any(axis=0), (words < 0).argmax(axis=0), length - 1)
    sectors = sum(len(np.unique(np.flatnonzero(last >= turn) // 8)) for turn in range(length))
    row = row_of(launch("scan", threads // 256, 256, file="ragged", x=words, y=f"tensor:int32[{threads}]", most=length))
    assert loaded(row)["x"] == 32 * sectors


@pytest.mark.parametrize("most", [128, 0])
def test_words_that_a_lane_reads_one_after_the_other_come_from_l1(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Turn by turn lanes touch nearly eight times as many sectors as a CTA has; a few lines in between lose none."""
    monkeypatch.setattr(classes, "MOST_PATHS", most)
    turns = whole = 0
    for cta in range(0, ROWS, 128):
        first, count = ENDS[cta : cta + 128], LENGTHS[cta : cta + 128]
        turns += sum(len(np.unique((first + turn)[count > turn] // 8)) for turn in range(count.max()))
        whole += len(np.unique(np.arange(first[0], ENDS[cta + 128]) // 8))
    values = f"tensor:fp32[{ENDS[-1]}]"
    case = launch("thread_sums", ROWS // 128, 128, file="ragged", ends=ENDS, values=values, y=f"tensor:fp32[{ROWS}]")
    sectors = loaded(row_of(case))["values"] // 32
    assert whole <= sectors < 1.01 * whole < turns / 7


def test_addresses_that_threads_know_by_themselves_are_known() -> None:
    """Led along the unrolled loop of another CTA, lanes came to words of the index that were not theirs to read."""
    draw, rows, width = np.random.default_rng(0), 1 << 13, 1 << 16
    count = draw.integers(0, 64, rows)
    ends = np.concatenate(([0], np.cumsum(count))).astype(np.int32)
    columns = draw.integers(0, width, ends[-1]).astype(np.int32)
    tensors = {"values": f"tensor:fp32[{ends[-1]}]", "x": f"tensor:fp32[{width}]", "y": f"tensor:fp32[{rows}]"}
    case = launch("sparse_thread", rows // 128, 128, file="ragged", ends=ends, columns=columns, **tensors)
    turns = whole = 0
    for cta in range(0, rows, 128):
        first, of_cta = ends[cta : cta + 128], count[cta : cta + 128]
        read = [columns[(first + turn)[of_cta > turn]] // 8 for turn in range(of_cta.max())]
        turns += sum(len(np.unique(sectors)) for sectors in read)
        whole += len(np.unique(np.concatenate(read)))
    row = row_of(case)
    assert row.known_accesses == row.accesses and not any("computed from values" in note for note in row.notes)
    assert whole <= loaded(row)["x"] // 32 <= turns


def test_of_ctas_that_take_too_long_the_first_stand_for_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Classes are of about equal work, so that bytes stay near to what they are."""
    monkeypatch.setattr(free_paths, "MOST_WORK", 1 << 21)
    x = f"tensor:fp32[{ENDS[-1]},32]"
    row = row_of(launch("row_sums", ROWS // 8, 256, file="ragged", ends=ENDS, x=x, y=f"tensor:fp32[{ROWS},32]"))
    assert any("stand for those of all" in note for note in row.notes)
    assert loaded(row)["x"] == pytest.approx(128 * ENDS[-1], rel=0.05)
    assert loaded(row)["x"] != 128 * ENDS[-1]


def test_a_thread_out_of_bounds_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """By its line, as where CTAs are told apart."""
    monkeypatch.setattr(classes, "MOST_PATHS", 0)
    x = f"tensor:fp32[{ENDS[-1] - 64},32]"
    row = row_of(launch("row_sums", ROWS // 8, 256, file="ragged", ends=ENDS, x=x, y=f"tensor:fp32[{ROWS},32]"))
    assert row.refused and "load reaches" in row.refused and "beyond tensor x" in row.refused
