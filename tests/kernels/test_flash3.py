"""The flash3 kernel without a GPU: what it takes, how its tiles are shared out, and what the compiler makes of it."""

import re
import subprocess
import sys
from itertools import product

import pytest
from tilesight.kernels.launch.availability import missing_package

if missing_package():
    pytest.skip(str(missing_package()), allow_module_level=True)

import torch
import triton
from support.hopper import Hopper
from tilesight.kernels.differentiable import attention, enough_tiles, takes_flash3
from tilesight.kernels.flash3 import Options, flash3
from tilesight.kernels.flash3.entry import DIMS, DTYPES, TRITON, refused
from tilesight.kernels.flash3.options import check_fits, usual
from tilesight.kernels.flash3.tiles import TILE_COST, key_tiles, shares, table
from tilesight.kernels.launch.launch import problem_of

if not triton.__version__.startswith(f"{TRITON}."):
    pytest.skip(f"written in the Gluon of Triton {TRITON}", allow_module_level=True)

from tilesight.kernels.flash3.call import pack_of, prepare, scale_tensors
from tilesight.kernels.flash3.kernel import flash3_kernel

import tilesight
from tilesight import kernels

CAUSAL = [key_tiles(tile, 128, 4096, 4096, 128, causal=True, window=0) for tile in range(32)]


def visible(query: int, rows: int, keys: int, causal: bool, window: int) -> range:
    """Keys that a query sees, by the definition of the masks."""
    last = query + keys - rows if causal else keys - 1
    return range(max(last - window + 1, 0) if window else 0, min(last, keys - 1) + 1)


@pytest.mark.parametrize(("rows", "keys"), [(1000, 1000), (300, 1111), (1111, 300), (1, 77), (128, 128)])
@pytest.mark.parametrize(("causal", "window"), [(False, 0), (True, 0), (True, 1), (True, 200)])
def test_key_tiles_of_a_tile_are_those_that_its_queries_see(rows: int, keys: int, causal: bool, window: int) -> None:
    """From the first key that any sees to the last, in tiles; one where none sees any."""
    for queries, block_n in ((128, 128), (192, 128), (96, 64)):
        for tile in range(-(-rows // queries)):
            seen = [
                visible(query, rows, keys, causal, window)
                for query in range(tile * queries, min((tile + 1) * queries, rows))
            ]
            tiles = [key // block_n for span in seen for key in span]
            expected = max(tiles) - min(tiles) + 1 if tiles else 1
            assert key_tiles(tile, queries, rows, keys, block_n, causal=causal, window=window) == expected


@pytest.mark.parametrize(
    ("costs", "slabs", "workers"),
    [(CAUSAL, 64, 132), (CAUSAL, 3, 132), ([32] * 32, 64, 132), ([1], 1, 1), ([5, 2], 9, 4)],
)
@pytest.mark.parametrize("balanced", [False, True])
def test_each_tile_is_computed_once(costs: list[int], slabs: int, workers: int, balanced: bool) -> None:
    """The lists of all CTAs together hold every tile of every head, and none twice; none is empty."""
    workers = min(workers, slabs * len(costs))
    lists = shares(costs, slabs, 4, workers, balanced)
    assert sorted(item for items in lists for item in items) == list(range(slabs * len(costs)))
    assert all(lists)
    rows = table(lists)
    assert {len(row) for row in rows} == {max(map(len, lists)) + 2}
    assert all(row[1 : row[0] + 1] == items for row, items in zip(rows, lists, strict=True))


def test_causal_tiles_are_balanced() -> None:
    """The busiest of 132 CTAs has at most one tile more than the mean; head by head it has several percent more."""
    busiest, mean = {}, sum(cost + TILE_COST for cost in CAUSAL) * 64 / 132
    for balanced in (False, True):
        lists = shares(CAUSAL, 64, 4, 132, balanced)
        busiest[balanced] = max(sum(CAUSAL[item % 32] + TILE_COST for item in items) for items in lists)
    assert busiest[True] <= mean * 1.01
    assert busiest[False] > mean * 1.03


def test_heads_are_packed_where_that_saves_tiles() -> None:
    """A decoding step of eight heads a KV head takes one tile for all; long queries are left as they are."""
    assert pack_of(8, 1, 128) == 8
    assert pack_of(8, 4096, 128) == pack_of(1, 1, 128) == pack_of(3, 1, 128) == 1
    assert pack_of(6, 5, 128) == 2
    assert pack_of(8, 1, 128, 4) == 4
    with pytest.raises(ValueError, match=r"^pack = 4: must be one of 1, 2 for 6 heads a KV head$"):
        pack_of(6, 1, 128, 4)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"block_m": 64}, r"^block_m = 64: must be one of 128, 192$"),
        ({"block_n": 256}, r"^block_n = 256: must be one of 64, 128$"),
        ({"stages": 1}, r"^stages = 1: must be one of 2, 3, 4$"),
        ({"pack": 3}, r"^pack = 3: must be one of 0, 1, 2, "),
    ],
)
def test_options_that_there_are_not_are_refused(given: dict[str, int], text: str) -> None:
    """One line with option, value and what is allowed."""
    with pytest.raises(ValueError, match=text):
        Options(**given)


def test_tiles_without_room_are_refused() -> None:
    """In shared memory and in registers, in one line that says what to try; the usual options have room everywhere."""
    with pytest.raises(
        ValueError, match=r"need 295936 B of shared memory at D = 128: must be at most 232448: try fewer"
    ):
        check_fits(Options(stages=3), 128, 128, 2)
    with pytest.raises(ValueError, match=r"^block_m = 192, block_n = 128 need 192 registers a thread .* at most 128"):
        check_fits(Options(block_m=192), 128, 128, 1)
    for (dim, out_dim), element, causal in product(DIMS, DTYPES, (False, True)):
        check_fits(usual(dim, element.itemsize, causal), dim, out_dim, element.itemsize)


def test_what_it_cannot_take_is_refused_with_what_to_use_instead() -> None:
    """Tensors on a CPU, other element types and head dimensions."""
    q, k, v = (torch.zeros(1, 2, 8, 64, dtype=torch.float16) for _ in range(3))
    with pytest.raises(ValueError, match=r"^tensors are on cpu: flash3 needs .* 9\.0: use flash2$"):
        flash3(q, k, v)
    assert refused(torch.float32, 64, 64) == (
        "q has dtype float32: flash3 has float16, bfloat16, float8_e4m3fn: use flash2"
    )
    assert refused(torch.float16, 80, 80).startswith("head_dim is 80, of v 80: flash3 has 64 and 64, 128 and 128")
    assert refused(torch.float16, 192, 128) == ""
    with pytest.raises(ValueError, match=r"^scales are given for torch.float16: only fp8 has scales"):
        scale_tensors(q, k, v, (1.0, 2.0, 1.0))
    narrow = [x.to(torch.float8_e4m3fn) for x in (q, k, v)]
    with pytest.raises(ValueError, match=r"^scale of k is \(2, 2\) torch.float32 on cpu: must be \(1, 2, 1\)"):
        scale_tensors(*narrow, (1.0, torch.ones(2, 2), 1.0))
    assert [x.shape for x in scale_tensors(*narrow, (1.0, torch.ones(1), torch.ones(1, 2, 1)))] == [(1, 2, 1)] * 3


def test_attention_takes_the_faster_kernel_by_a_rule() -> None:
    """From one tile of 128 queries for each SM on; elsewhere, and on other devices, it is flash2's."""
    assert enough_tiles(64, 4096, 132) and enough_tiles(132, 128, 132)
    assert not enough_tiles(131, 255, 132) and not enough_tiles(1000, 127, 132)
    assert not takes_flash3(*(torch.zeros(64, 64, 128, 64, dtype=torch.float16) for _ in range(2)))
    assert kernels.attention is attention


def test_it_compiles_for_hopper_without_a_spill(monkeypatch: pytest.MonkeyPatch) -> None:
    """Causal fp16, D = 128: no local memory, room on an SM, products by warp groups."""
    monkeypatch.setattr(triton.runtime.driver, "_active", Hopper())
    q, k, v = (torch.zeros(1, 2, 1024, 128, dtype=torch.float16) for _ in range(3))
    launch = prepare(q, k, v, problem_of(q, k, v, causal=True), sms=132)
    compiled = flash3_kernel.warmup(*launch.arguments, num_warps=4, grid=launch.grid)
    assert compiled.metadata.shared <= 227 * 1024
    ptx = compiled.asm["ptx"]
    assert ".local" not in ptx and "setmaxnreg.inc.sync.aligned.u32 \t240" in ptx.replace("u32 240", "u32 \t240")
    assert ptx.count("wgmma.mma_async.sync.aligned.m64n128k16") >= 40


def test_a_window_begins_where_the_tile_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups find a tile's first key tile inside their loop over tiles, not as a value that it carries."""
    # Carried, it keeps its first value in Triton 3.6, and a group waits for ever where windows move up its list.
    monkeypatch.setattr(triton.runtime.driver, "_active", Hopper())
    q, k, v = (torch.zeros(1, 2, 1024, 128, dtype=torch.float16) for _ in range(3))
    launch = prepare(q, k, v, problem_of(q, k, v, causal=True, window=17), sms=132)
    text = flash3_kernel.warmup(*launch.arguments, num_warps=4, grid=launch.grid).asm["ttgir"]
    groups = re.split(r"\n +partition\d\(", text)[1:]
    assert len(groups) == 2
    for group in groups:
        first = re.search(r"%(first\w*) = arith\.minsi", group[group.index("scf.for") :])
        assert first is not None and re.search(rf"arith\.subi %\w+, %{first[1]}\b", group)


def test_groups_that_jump_through_a_table_are_followed() -> None:
    """Bytes into the SMs by arithmetic, cycles from its code; that one thread copies is no idle thread."""
    heads, tokens, rows = 32, 1024, 3 * 64  # D = 64 without a mask: three groups find their part through a table
    with tilesight.capture("h200") as recorded:
        flash3(*(torch.zeros(1, heads, tokens, 64, dtype=torch.float16, device="cuda") for _ in range(3)))
    prediction = tilesight.predict(recorded, "h200")
    (row,) = prediction.rows
    assert row.prediction and row.ceiling
    loaded = {tensor.name: tensor.loaded_bytes for tensor in row.ceiling.tensors}
    head_bytes = tokens * 64 * 2
    assert loaded["q_desc"] == heads * head_bytes
    assert loaded["k_desc"] == loaded["v_desc"] == heads * -(-tokens // rows) * head_bytes
    assert row.prediction.cost == "compiled" and "idle threads" not in {advice.cause for advice in prediction.helps}


def test_gluon_is_imported_where_it_is_used() -> None:
    """Another Triton, whose Gluon is another, and the interpreter still import `attention` and what refuses."""
    code = "import sys, tilesight.kernels.differentiable; print([m for m in sys.modules if 'flash3.kernel' in m])"
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert finished.stdout.strip() == "[]"


def test_its_machine_code_is_followed() -> None:
    """Rings, groups and turns: what an SM takes comes from its code, near to 0.1063 ms of an H200; K and V whole."""
    with tilesight.capture("h200") as launches:
        q, k, v = (torch.empty(8, 16, 1024, 128, dtype=torch.float16, device="meta") for _ in range(3))
        prepare(q, k, v, problem_of(q, k, v), sms=132).run()
    prediction = tilesight.predict(launches, "h200")
    assert not prediction.notes
    (row,) = prediction.rows
    tiles, tile_bytes = 8 * 16 * 8, 128 * 128 * 2
    assert row.known_accesses == row.accesses
    assert row.traffic.smem_fill_bytes == pytest.approx(tiles * (1 + 2 * 8) * tile_bytes, rel=1e-4)
    assert row.traffic.time_s == pytest.approx(0.1063e-3, rel=0.16)


def test_causal_tiles_are_loaded_by_each_ctas_own_list() -> None:
    """Lists of unlike tiles are not followed along that of another CTA: each key tile that is seen is loaded once."""
    with tilesight.capture("h200") as launches:
        q, k, v = (torch.empty(2, 16, 1024, 128, dtype=torch.float16, device="meta") for _ in range(3))
        prepare(q, k, v, problem_of(q, k, v, causal=True), sms=132).run()
    (row,) = tilesight.predict(launches, "h200").rows
    heads, tiles, tile_bytes = 2 * 16, 8, 128 * 128 * 2
    assert row.traffic.smem_fill_bytes == pytest.approx(heads * tiles * (1 + tiles + 1) * tile_bytes, rel=1e-3)
