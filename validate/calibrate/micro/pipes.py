"""Pipes of one SM, measured: tensor instructions, arithmetic, exponentials, issue, shared memory, barriers, shuffles.

Every `measure_*` takes the GPU and returns a record, an object that JSON can hold; `derive` reads it.
A span is the cycles from the first warp's begin to the last warp's end, the median of several runs.
What a turn takes is the difference of a long and a short span, so that begin and end do not count.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from .gpu import Gpu, attempt

Record = dict[str, Any]

RUNS = 5
TURNS = 256
LONG = 4
"""Turns of the long span over those of the short one."""
PIPES = {
    "ffma_rate": 64,
    "ffma_latency": 64,
    "fmul_rate": 64,
    "fmnmx_rate": 128,
    "lop3_rate": 64,
    "lop3_latency": 64,
    "imad_rate": 64,
    "ex2_rate": 64,
    "ex2_latency": 64,
    "shuffle_rate": 64,
    "shuffle_latency": 64,
    "pack_rate": 64,
    "issue_rate": 66,
}
"""Kernel of `pipes.cu` -> instructions that a warp executes in a turn of its loop."""
MMAS = {
    "mma_f16": 2 * 16 * 8 * 16,
    "mma_bf16": 2 * 16 * 8 * 16,
    "mma_tf32": 2 * 16 * 8 * 8,
    "mma_e4m3": 2 * 16 * 8 * 32,
}
"""mma.sync by type -> operations of one instruction [FLOP]."""
MMAS_A_TURN = 16
COLUMNS = (16, 32, 64, 128, 256)
SOURCES = ("smem", "registers")
WGMMAS_A_TURN = 8
TILES_BYTES = 8192 + 32768 + 1024
BESIDE = {
    "ffma": 64,
    "ffma_half": 64,
    "ffma_quarter": 64,
    "fmul": 64,
    "fmnmx": 128,
    "lop3": 64,
    "lop3_half": 64,
    "ex2": 64,
}
"""Instruction beside a wgmma stream -> how many a warp executes in a turn of the inner loop.

`half` and `quarter`: fewer chains, so that a warp wants the pipe for about that part of the time.
"""
BESIDE_INNER_TURNS = 8
WINDOW_CYCLES = 200_000


def has_fp8_mma(capability: str) -> bool:
    """Whether mma.sync has fp8 operands in hardware; Hopper converts them."""
    return capability == "8.9" or capability.startswith("12.")


Spans = np.ndarray[Any, Any]
Arguments = Callable[[int], list[Any]]
"""Turns -> the kernel's arguments behind the first, where it notes its times."""


def _notes(gpu: Gpu, file: str, name: str, warps: int, arguments: list[Any], smem_bytes: int, columns: int) -> Spans:
    """What each warp noted, runs x warps x columns, the first run dropped."""
    notes = gpu.buffer("notes of warps", 4096)
    launch = gpu.prepared(file, name, 1, 32 * warps, [np.uint64(notes), *arguments], smem_bytes)
    runs = []
    for _ in range(RUNS + 1):
        launch()
        runs.append(gpu.download(notes, np.uint64, columns * warps).astype(np.int64).reshape(warps, columns))
    return np.array(runs[1:])


def _turn(gpu: Gpu, file: str, name: str, warps: int, arguments: Arguments, smem_bytes: int = 0) -> float:
    """Cycles of a turn of a kernel's loop, all warps together."""
    spans = []
    for turns in (TURNS, LONG * TURNS):
        seen = _notes(gpu, file, name, warps, arguments(turns), smem_bytes, 2)
        spans.append(float(np.median(seen[:, :, 1].max(axis=1) - seen[:, :, 0].min(axis=1))))
    return (spans[1] - spans[0]) / ((LONG - 1) * TURNS)


def _operands(gpu: Gpu) -> tuple[np.uint64, np.uint64]:
    """Ten operands near one, and a place for results."""
    values = gpu.buffer("operands", 4096)
    gpu.upload(values, np.linspace(0.9, 1.1, 16, dtype=np.float32))
    return np.uint64(values), np.uint64(gpu.buffer("results", 8192))


def measure_pipes(gpu: Gpu) -> Record:
    """Arithmetic, exponentials, shuffles, issue, shared memory and barriers of one SM.

    Returns:
        Kernel -> warps -> cycles per instruction of a sub-core (rates: of all its warps; latencies: of one chain);
        `smem`: warps -> bytes per cycle; `barrier`: warps -> cycles from one to the next.
    """
    values, results = _operands(gpu)
    record: Record = {}

    def arguments(turns: int) -> list[Any]:
        return [values, results, np.int32(turns)]

    def instruction(name: str) -> Record:
        counts = (1,) if name.endswith("latency") else (4, 8, 16, 32)
        turn = {warps: _turn(gpu, "pipes", name, warps, arguments) for warps in counts}
        return {str(warps): cycles / (max(1, warps // 4) * PIPES[name]) for warps, cycles in turn.items()}

    def smem() -> Record:
        turn = {
            warps: _turn(gpu, "pipes", "smem_rate", warps, lambda turns: [results, np.int32(turns)], 32768)
            for warps in (4, 8, 16, 32)
        }
        return {str(warps): warps * 32 * 512 / cycles for warps, cycles in turn.items()}

    def barrier() -> Record:
        return {
            str(warps): _turn(gpu, "pipes", "barriers", warps, lambda turns: [np.int32(turns)]) / 16
            for warps in (4, 8, 12, 16)
        }

    for name in PIPES:
        attempt(record, name, partial(instruction, name))
    attempt(record, "smem", smem)
    attempt(record, "barrier", barrier)
    return record


def measure_tensor(gpu: Gpu) -> Record:
    """Tensor instructions of one SM.

    Returns:
        mma.sync: name -> warps -> FLOP per cycle, and the latency of one instruction [cycles];
        wgmma: type, columns and source of A -> warps -> cycles per instruction of the SM;
        waits: columns and source -> cycles of a turn of one product and its wait, and of four and their wait.
    """
    values, results = _operands(gpu)
    record: Record = {}

    def mma_turn(name: str, warps: int) -> float:
        return _turn(gpu, "pipes", name, warps, lambda turns: [values, results, np.int32(turns)])

    def rate(name: str) -> Record:
        flop = MMAS[name] * MMAS_A_TURN
        return {str(warps): flop * warps / mma_turn(f"{name}_rate", warps) for warps in (4, 8, 16)}

    def wgmma_turn(name: str, warps: int) -> float:
        kernel = f"wgmma_{name}"
        return _turn(gpu, "hopper", kernel, warps, lambda turns: [results, np.int32(turns), np.int32(0)], TILES_BYTES)

    def streams() -> Record:
        names = [f"f16_n{columns}_{source}" for columns in COLUMNS for source in SOURCES]
        names += ["bf16_n128_smem", "tf32_n128_smem", "e4m3_n128_smem"]
        return {
            name: {str(warps): wgmma_turn(name, warps) / (WGMMAS_A_TURN * warps // 4) for warps in (4, 8)}
            for name in names
        }

    def waits() -> Record:
        kinds = [f"n{columns}_{source}" for columns in COLUMNS for source in SOURCES]
        return {kind: [wgmma_turn(f"wait{count}_{kind}", 4) for count in (1, 4)] for kind in kinds}

    for name in MMAS:
        if name != "mma_e4m3" or has_fp8_mma(gpu.capability):
            attempt(record, name, partial(rate, name))
    attempt(record, "mma_latency", lambda: mma_turn("mma_f16_latency", 1) / MMAS_A_TURN)
    if gpu.capability == "9.0":
        attempt(record, "wgmma", streams)
        attempt(record, "waits", waits)
    return record


def measure_beside(gpu: Gpu) -> Record:
    """Instructions of some warps beside a stream of m64n128k16 products of four others; A from either source.

    Both sides go on for the same time, each as fast as the other lets it.

    Returns:
        Instruction, source of A and warps per sub-core -> [alone, beside, products alone, products beside]: cycles per
        instruction of a sub-core, and per product.
    """
    record: Record = {}
    if gpu.capability != "9.0":
        return record
    values, results = _operands(gpu)

    def pace(kernel: str, warps: int, products: bool, others: bool, instructions: int) -> tuple[float, float]:
        """Cycles per product, and per instruction of a sub-core; 0 for a side that rests."""
        arguments = [values, results, *(np.int32(number) for number in (products, others, WINDOW_CYCLES, 1))]
        seen = _notes(gpu, "hopper", kernel, warps, arguments, TILES_BYTES, 3)
        # Where a side is starved its last turn may end long after the window: turns over its own time is its pace.
        turns_per_cycle = np.median(seen[:, :, 2] / (seen[:, :, 1] - seen[:, :, 0]), axis=0)
        product, other = turns_per_cycle[:4].mean() * WGMMAS_A_TURN, turns_per_cycle[4:].sum() / 4 * instructions
        return (float(1 / product) if products else 0.0), (float(1 / other) if others else 0.0)

    def together(name: str, source: str, extra: int) -> list[float]:
        kernel, warps = f"beside_{source}_{name}", 4 + 4 * extra
        run = partial(pace, kernel, warps, instructions=BESIDE[name] * BESIDE_INNER_TURNS)
        products_beside, beside = run(True, True)
        return [run(False, True)[1], beside, run(True, False)[0], products_beside]

    for name in BESIDE:
        for source in SOURCES:
            for extra in (1, 2):
                attempt(record, f"{name}_{source}_{extra}", partial(together, name, source, extra))
    return record
