"""Kernels of CUDA C++ from their cubins: bytes as counted by hand, times that no device beats, and every command."""

from pathlib import Path

import pytest
from tilesight.kernels.launch.availability import missing_package

if missing_package():
    pytest.skip(str(missing_package()), allow_module_level=True)

import struct

import numpy as np
from support.given_cubins import cubin, launch, source
from tilesight.kernels.compile.cubin import sections_of
from tilesight.kernels.compile.disassemble import disassemble
from tilesight.simulator.device.device import load_device
from tilesight.simulator.prediction.kernel_row import KernelRow
from tilesight.simulator.residency.occupancy import barriers_taken
from tilesight.simulator.sass.opcodes import rules

import tilesight
from tilesight import Launch
from tilesight.cli.main import main as run

H200 = load_device("h200")
N, SIDE, HBM_BYTES_PER_S = 1 << 20, 1024, 4.8e12
SQUARE, ROW = f"tensor:fp32[{SIDE},{SIDE}]", f"tensor:fp32[{N}]"
SHAPE = "bytes:" + (1024).to_bytes(8, "little").hex() * 2 + "0000003f00000000"
HALVES, MAP = f"tensor:fp16[{N}]", f"tma:fp16[{SIDE},{SIDE}],box=64x64"
MEMBERS = [f"in{n}@{8 * n}=tensor:fp32[{N // 8}]" for n in range(8)]
MANY = f"struct:{';'.join(MEMBERS)};out@64=tensor:fp32[{N}];n@72=int32:{N // 8}"
BYTES, RING_CTAS = f"tensor:int8[{4 * N}]", 528
ROWS_OF_96, ROWS_OF_1000 = "tensor:fp32[8192,96]", "tensor:fp32[1024,1000]"
ODD, RING_BYTES = "tensor:fp32[240,240]", f"tensor:int8[{RING_CTAS},64,4096]"
TILES, BLOCK = (SIDE // 32, SIDE // 32), (32, 8)
IN_OUT = {"x": SQUARE, "y": SQUARE, "n": SIDE}
CASES: dict[str, tuple[Launch, float]] = {
    "add": (launch("add", N // 256 + 1, 256, x=ROW, y=ROW, z=ROW, n=N), 12 * N),
    "transpose": (launch("transpose", TILES, BLOCK, **IN_OUT), 8 * SIDE**2),
    "transpose_padded": (launch("transpose_padded", TILES, BLOCK, **IN_OUT), 8 * SIDE**2),
    "transpose_naive": (launch("transpose_naive", TILES, BLOCK, **IN_OUT), 8 * SIDE**2),
    # each of (SIDE / 16)^2 CTAs loads a row and a column of tiles
    "gemm": (
        launch("gemm", (32, 32), (16, 16), a=SQUARE, b=SQUARE, c=SQUARE, m=512, n=512, k=512),
        4 * (2 * 512**2 * 512 / 16 + 512**2),
    ),
    "reduce": (launch("reduce", 256, 256, x=ROW, sums="tensor:fp32[256]", n=N), 4 * (N + 256)),
    "softmax": (launch("softmax", SIDE, 256, smem=4 * SIDE, x=SQUARE, y=SQUARE, columns=SIDE), 8 * SIDE**2),
    "pipeline": (launch("pipeline", 128, 256, x=ROW, y=ROW, tiles=8), 8 * N),
    "scale": (launch("scale", N // 256, 256, x=ROW, y=ROW, shape=SHAPE), 8 * N),
    "many": (launch("many", (N // 2048, 8), 256, file="banks", p=MANY), 8 * N),
    "choose": (launch("choose", N // 256, 256, file="banks", x=ROW, y=ROW, mode=3), 8 * N),
    "choose_twice": (launch("choose", N // 512, 256, file="banks", x=ROW, y=ROW, mode=7), 6 * N),
    "flags": (launch("flags", N // 512, 256, file="banks", x=ROW, y=ROW, both=False, shift=-128, n=N // 2), 4 * N),
    "flags_both": (
        launch("flags", N // 512, 256, file="banks", x=ROW, y=ROW, both=True, shift=0, n=N // 2),
        16 * N // 2,
    ),
    "divide": (launch("divide", N // 256, 256, x=f"tensor:int32[{N}]", y=f"tensor:int32[{N}]", n=N, d=64), 8 * N),
    "call": (launch("call", N // 256, 256, x=f"tensor:fp64[{N}]", y=f"tensor:fp64[{N}]", n=N), 16 * N),
    "stack": (launch("stack", 64, 256, x="tensor:fp32[64,16384]", y=ROW, n=16384, step=3), 4 * 65 * 16384),
    "named": (launch("named", 128, 256, x=ROW, y=ROW, n=64), 8 * N),
    "mma": (
        launch("mma", (16, 16), 128, file="mma", a=HALVES, b=HALVES, c=SQUARE, n=SIDE, k=SIDE),
        2 * 2 * N * 16 + 4 * N,
    ),
    "copy": (
        launch("copy", 16, 128, file="tma", x=MAP, y=HALVES, columns=SIDE, tiles=16),
        4 * N,
    ),
    "bulk": (
        launch("bulk", 64, 128, file="bulk", smem=16384, x=BYTES, y=BYTES, bytes=8192, rows=8),
        2 * 4 * N,
    ),
    "bulk_load": (launch("bulk_load", 512, 256, file="bulk", x=ROW, y=f"tensor:fp32[{N // 8}]"), 4 * (N + N // 8)),
    # each CTA adds all of its row to the one of all
    "bulk_add": (launch("bulk_add", 512, 256, file="bulk", x=ROW, y="tensor:fp32[2048]"), 8 * N),
    "bulk_warps": (launch("bulk_warps", 128, 128, file="bulk", x=BYTES, y=BYTES, rows=8), 2 * 4 * N),
    "matrices": (launch("matrices", 512, 128, file="roles", x=BYTES, y=BYTES), 8 * N),
    "handed": (launch("handed", 128, 128, file="roles", x=ROWS_OF_96, y=ROWS_OF_96, rows=64), 2 * 4 * 128 * 64 * 96),
    "partial": (launch("partial", 1024, 80, file="roles", x=ROWS_OF_1000, y=ROWS_OF_1000, n=1000), 3 * 4096 * 1000),
    "odd": (launch("odd", (16, 24), (15, 10), file="roles", x=ODD, y=ODD, n=240), 8 * 240**2),
    "ring": (
        launch("ring", RING_CTAS, 160, file="roles", x=RING_BYTES, y=f"tensor:fp32[{RING_CTAS},128]", rows=64),
        RING_CTAS * (64 * 4096 + 4 * 128),
    ),
}


@pytest.fixture(scope="module", name="rows")
def _rows() -> dict[str, KernelRow]:
    return {name: tilesight.predict([case], l2="cold").rows[0] for name, (case, _) in CASES.items()}


@pytest.mark.parametrize("name", CASES)
def test_bytes_are_those_counted_by_hand(name: str, rows: dict[str, KernelRow]) -> None:
    """Code of another compiler, and instructions that Triton never makes, would be followed astray."""
    row, asked = rows[name], CASES[name][1]
    assert row.refused is None and row.known_accesses == row.accesses > 0
    assert row.requested_bytes == pytest.approx(asked, rel=1e-3)
    assert row.prediction is not None and row.prediction.cost == "compiled"


@pytest.mark.parametrize("name", CASES)
def test_no_time_is_below_what_memory_takes(name: str, rows: dict[str, KernelRow]) -> None:
    """A kernel cannot take less time than HBM takes for what it must read and write."""
    assert rows[name].roofline_multiple >= 1.0
    assert rows[name].traffic.time_s > rows[name].traffic.hbm_bytes / HBM_BYTES_PER_S


def test_layouts_of_a_transpose_cost_what_they_do(rows: dict[str, KernelRow]) -> None:
    """Columns of a tile of 32 x 32 lie in one bank of shared memory, in 32 where a column is added."""
    padded, plain, naive = (rows[name].traffic for name in ("transpose_padded", "transpose", "transpose_naive"))
    # 32 stores and 32 x 32 turns of loads, against 32 and 32
    assert plain.cycles > 1.5 * padded.cycles
    # each lane stores to a line of its own: 8 words of it by the same warp's CTA
    assert naive.l2_write_bytes >= padded.l2_write_bytes and naive.time_s > 2 * padded.time_s


def test_a_producer_runs_ahead_of_its_readers(rows: dict[str, KernelRow]) -> None:
    """Four CTAs with four rows of 4 KB each hide the latency of HBM; one that waited for its readers would not."""
    # 64 KB an SM, against 4.8 TB/s x 0.6 us / 132 SMs = 22 KB; the compiler has unrolled the producer's loop alone.
    assert 1.0 < rows["ring"].roofline_multiple < 1.5
    assert not rows["ring"].notes and not rows["handed"].notes


def test_ctas_read_the_tensors_that_a_table_of_pointers_gives_them() -> None:
    """Eight tensors among the parameters, each read once from HBM; an H200 took 205 us (160, were they one)."""
    members = ";".join(f"in{number}@{8 * number}=tensor:fp32[8388608]" for number in range(8))
    table = f"struct:{members};out@64=tensor:fp32[67108864];n@72=int32:8388608"
    (row,) = tilesight.predict([launch("many", (32768, 8), 256, file="banks", p=table)], l2="cold").rows
    assert row.traffic.hbm_read_bytes == pytest.approx(8 * 4 * 8388608, rel=0.01)
    assert row.traffic.time_s == pytest.approx(205e-6, rel=0.12)


def test_an_sm_holds_as_many_ctas_as_it_has_named_barriers_for(rows: dict[str, KernelRow]) -> None:
    """Where a register names a barrier the cubin asks for all 16, and an SM of an H200 has 64: four CTAs, not 16."""
    handed = launch("handed", 2048, 128, file="roles", x="tensor:fp32[2048,96]", y="tensor:fp32[2048,96]", rows=1)
    (row,) = tilesight.predict([handed]).rows
    assert row.prediction is not None and row.prediction.ctas_per_sm == 4
    assert row.prediction.occupancy_limit == "barriers"
    assert rows["named"].prediction is not None and rows["named"].prediction.ctas_per_sm == 8


@pytest.mark.parametrize("file", ["basic", "banks", "bulk", "mma", "roles", "tma"])
def test_code_names_the_barriers_that_its_cubin_asks_for(file: str) -> None:
    """In the flags of the section of each kernel's code, bits 20 to 26."""
    read = cubin(file)
    (heads,), (size, count) = struct.unpack_from("<Q", read, 40), struct.unpack_from("<HH", read, 58)
    asked = {
        name.removeprefix(".text."): struct.unpack_from("<Q", read, heads + size * number + 8)[0] >> 20 & 127
        for number, name in enumerate(sections_of(read))
        if name.startswith(".text.")
    }
    assert asked and len(sections_of(read)) == count
    listings = disassemble([(read, 90, kernel) for kernel in asked])
    assert {kernel: barriers_taken(listing.sass) for kernel, listing in zip(asked, listings, strict=True)} == asked


def test_a_row_handed_over_waits_for_its_load() -> None:
    """One warp loads row after row, each after a barrier; the compiler has unrolled the others' loop, not its own."""
    rows = "tensor:fp32[16384,96]"
    asked = [launch("handed", 128, 128, file="roles", x=rows, y=rows, rows=count) for count in (64, 128)]
    few, many = (row.traffic.time_s for row in tilesight.predict(asked, l2="cold").rows)
    # each of 64 rows more comes from HBM: an L2 hit and what HBM takes more; four rows share no wait
    assert many - few > 64 * (H200.l2_latency_cycles / H200.boost_clock_hz + H200.hbm_latency_s)


def test_an_array_in_local_memory_is_gone_round_once_by_each_loop() -> None:
    """Its bytes are those of all threads, stored once and loaded once; a pass that touched all of it took 76 times."""
    threads, words = 1 << 20, 64
    x, y = f"tensor:fp32[{words},{threads}]", f"tensor:fp32[{threads}]"
    (row,) = tilesight.predict([launch("stack", threads // 256, 256, x=x, y=y, n=threads, step=3)], l2="cold").rows
    arrays = 4 * words * threads
    assert arrays <= row.traffic.hbm_read_bytes <= 1.01 * 2 * arrays
    assert row.traffic.hbm_write_bytes <= 1.01 * (arrays + 4 * threads)
    assert row.traffic.time_s > (3 * arrays + 4 * threads - H200.l2_bytes) / HBM_BYTES_PER_S / 1.01


def test_constants_that_differ_by_lane_are_loaded_one_after_the_other() -> None:
    """16 words of a warp take the SM's cache of constants 16 turns, and longer than HBM takes the rest."""
    count = 1 << 24
    shape = "struct:rows@0=int64:4096;columns@8=int64:4096;scale@16=fp32:2"
    x = f"tensor:fp32[{count}]"
    (row,) = tilesight.predict([launch("scale", count // 256, 256, x=x, y=x, shape=shape)], l2="cold").rows
    cycles = 16 * rules(90)["LDC"].interval_cycles * count / 32 / H200.sms
    assert cycles / H200.boost_clock_hz < row.traffic.time_s < 1.1 * cycles / H200.boost_clock_hz


def test_copies_in_bulk_take_as_long_as_those_of_tiles(rows: dict[str, KernelRow]) -> None:
    """The same engine moves the same bytes, both ways, through two stages of 8 KB."""
    assert 0.5 < rows["bulk"].traffic.time_s / rows["copy"].traffic.time_s < 4.0


def queued(kernel: str, tiles: int) -> KernelRow:
    """CTAs that take tiles from a counter."""
    x, y = (f"tensor:fp32[{tiles},16384]" for _ in range(2))
    case = launch(kernel, 132, 256, file="queues", x=x, y=y, next="tensor:int32[8]=0", tiles=tiles)
    return tilesight.predict([case], l2="cold").rows[0]


@pytest.mark.parametrize("kernel", ["dealt", "dealt_warp", "dealt_before"])
def test_tiles_that_are_taken_from_a_counter_are_a_bound(kernel: str) -> None:
    """Persistent kernels would be refused; all of their tiles are loaded once."""
    row = queued(kernel, 1320)
    tile_bytes = 4 * (1024 if kernel == "dealt_warp" else 4096)
    assert row.refused is None and row.known_accesses == row.accesses
    assert row.lower_bound
    assert row.traffic.hbm_read_bytes == pytest.approx(1320 * tile_bytes, rel=0.01)
    assert row.requested_bytes == pytest.approx(2 * 1320 * tile_bytes, rel=0.01)
    assert any("CTAs take tiles from next: taken to come in the order" in note for note in row.notes)


def test_unequal_tiles_are_no_lower_bound() -> None:
    """Who is done first takes the next one: the order of numbers takes longer."""
    row = queued("dealt_unlike", 264)
    assert row.refused is None and not row.lower_bound
    assert any("who is done first takes the next: the time is an upper bound" in note for note in row.notes)


def test_semaphores_in_a_loop_are_no_queue() -> None:
    """What each gives back would be taken for a tile."""
    row = queued("semaphores", 264)
    assert row.refused and "CTA order decides what it gives back, and not a queue of tiles: not modelled" in row.refused


def test_what_is_not_known_is_refused_by_line(tmp_path: Path) -> None:
    """A gather is as fast as its indices say; they can be given."""
    rows = {"x": ROW, "y": ROW, "n": 4096}
    (row,) = tilesight.predict([launch("gather", 16, 256, x=ROW, y=ROW, at="tensor:int32[4096]", n=4096)]).rows
    line = source("basic").splitlines().index("  if (i < n) y[i] = x[at[i]];") + 1
    assert row.refused == (
        f"kernel gather: line {line}: its address depends on tensor at, whose values are not known: give them: "
        "at=tensor:int32[4096]@FILE.npy"
    )
    path = tmp_path / "at.npy"
    np.save(path, np.arange(4096, dtype=np.int32)[::-1])
    given = launch("gather", 16, 256, x=rows["x"], y=rows["y"], at=f"tensor:int32[4096]@{path}", n=4096)
    (row,) = tilesight.predict([given]).rows
    assert row.prediction is not None and row.requested_bytes == 12 * 4096


def test_commands_take_launches_in_plain_data(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One path for all of them: the table, the page, source lines, and what a change does."""
    (tmp_path / "basic.cubin").write_bytes(cubin("basic"))
    (tmp_path / "basic.cu").write_text(source("basic"))
    for name in ("transpose", "transpose_padded"):
        (tmp_path / f"{name}.toml").write_text(
            f'[[launch]]\ncubin = "basic.cubin"\nkernel = "{name}"\ngrid = [32, 32]\nblock = [32, 8]\n'
            f'args = {{ x = "{SQUARE}", y = "{SQUARE}", n = {SIDE} }}\n'
        )
    old, new = (str(tmp_path / f"{name}.toml") for name in ("transpose", "transpose_padded"))
    page, saved = tmp_path / "page.html", tmp_path / "old.json"
    assert run(["predict", old, "--html", str(page)]) == 0
    assert run(["predict", old, "--save", str(saved)]) == 0
    assert "smem" in capsys.readouterr().out and "transpose" in page.read_text()
    args = [word for name in ("x", "y") for word in ("--arg", f"{name}={SQUARE}")]
    file = str(tmp_path / "basic.cubin")
    options = ["--cubin", file, "--kernel", "transpose", "--grid", "32x32", "--block", "32x8", *args, "--arg", "n=1024"]
    assert run(["explain", *options]) == 0
    assert "basic.cu" in capsys.readouterr().out
    assert run(["predict", *options, "--device", "a100"]) == 2
    assert "is compiled for sm_90a, the device executes sm_80" in capsys.readouterr().err
    assert run(["diff", old, new]) == 0
    assert "faster" in capsys.readouterr().out
    assert run(["diff", str(saved), old]) == 0
    assert "same code" in capsys.readouterr().out


def test_lanes_go_round_a_loop_as_often_as_their_data_say() -> None:
    """A lane that is through would load on with the others, or one that began later not at all."""
    draw, rows = np.random.default_rng(0), 1 << 14
    count, first = (draw.integers(0, most, rows).astype(np.int32) for most in (10, 1 << 20))
    tensors = {"x": f"tensor:fp32[{1 << 21}]", "y": f"tensor:fp32[{rows}]"}
    case = launch("uneven", rows // 128, 128, file="lanes", first=first, count=count, **tensors)
    row = tilesight.predict([case], l2="cold").rows[0]
    moved = {tensor["name"]: tensor for tensor in row.to_dict()["tensors"]}
    sectors = 0
    for cta in range(0, rows, 128):
        for j in range(10):
            looping = count[cta : cta + 128] > j
            sectors += len(np.unique((first[cta : cta + 128][looping] + 64 * j) // 8))
    assert row.refused is None and row.known_accesses == row.accesses
    assert moved["x"]["loaded_bytes"] == pytest.approx(32 * sectors, rel=2e-3)
    assert moved["y"]["stored_bytes"] == 4 * rows


def test_rows_of_a_tile_that_begin_within_a_sector_touch_one_more() -> None:
    """Tiles of 16 words that lie 12 apart, from the second on, as those of a stencil with its halo."""
    tensors = {"x": "tensor:fp32[1024,1024]", "y": f"tensor:fp32[{80 * 64 * 256}]"}
    case = launch("halo", (80, 64), (16, 16), file="lanes", **tensors, n=1024)
    row = tilesight.predict([case], l2="cold").rows[0]
    assert row.traffic.smem_fill_bytes == 80 * 64 * 16 * 96


def test_a_loop_that_copies_to_its_end_reads_for_the_code_behind_it() -> None:
    """Of 16 tiles one is copied ahead of the loop, 14 in its 14 iterations, and one, which ends early, behind it."""
    case = launch("peeled", 128, 256, file="peeled", x="tensor:fp32[128,15984]", y=ROW, tiles=16, words=3996)
    row = tilesight.predict([case], l2="cold").rows[0]
    assert row.refused is None and row.traffic.smem_fill_bytes == 128 * 4 * 15984
