"""A toy GPU for calibration: kernels of `calibrate/micro` as a few lines of Python each, with numbers planted.

Two L2 partitions of equal size. SMs 0 and 1 read through the first, 2 and 3 through the second, and so on; a line is at
home in the partition that a bit of its scattered number says. What an SM reads leaves a copy in its partition; what it
writes stays at home alone. A partition that holds too much loses lines at random. A lone load takes `NEAR` cycles,
`CROSSING` more from across, `MISS` more from device memory, and `TRANSLATION` more for an SM's first in a page.
Reading another buffer from end to end (a flush) evicts all but what was read `HOT` times or more.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from tilesight.validate.calibrate.micro.compile import GpuFault
from tilesight.validate.calibrate.micro.gpu import Facts

NEAR, CROSSING, MISS, TRANSLATION = 280, 170, 250, 400
HOT = 10
L1, SMEM = 32, 23
ALONE_BYTES_PER_CYCLE, PRIVATE_BYTES_PER_CYCLE, ACROSS_BYTES_PER_CYCLE = 80.0, 32.0, 16.0
CLOCK_HZ = 2e9
SMS = 8
L2_BYTES = 8 << 20
LINE, PAGE = 128, 2 << 20
FACTS = Facts(
    gpu="Toy",
    capability="9.0",
    sms=SMS,
    driver="1",
    cuda="13.0",
    triton="",
    l2_bytes=L2_BYTES,
    hbm_bytes=150 << 30,
    smem_per_cta_bytes=232448,
    free_bytes=2 << 30,
    clock_hz=CLOCK_HZ,
    date="2026-01-01",
)
CYCLES_A_TURN = {
    "ffma_rate": 64.0,
    "lop3_rate": 128.0,
    "ex2_rate": 512.0,
    "mma_f16_latency": 16 * 24.0,
    "barriers": 16 * 20.0,
}
"""Kernel -> cycles of a turn of each sub-core's warps; others take 100."""


class FakeGpu:
    """Answers as `calibrate_gpu.Gpu` does. Args: broken: kernels that cannot be launched; clocks_hz: read in turn."""

    def __init__(self, broken: tuple[str, ...] = (), clocks_hz: tuple[float, ...] = (CLOCK_HZ,)) -> None:
        self.name, self.capability, self.sms = FACTS.gpu, FACTS.capability, FACTS.sms
        self.l2_bytes, self.smem_per_cta_bytes = FACTS.l2_bytes, FACTS.smem_per_cta_bytes
        self.launched: list[str] = []
        self._broken, self._clocks = broken, clocks_hz
        self._names: dict[str, tuple[int, int]] = {}
        self._arrays: dict[int, np.ndarray] = {}
        self._present: dict[int, np.ndarray] = {}
        self._reads: dict[int, np.ndarray] = {}
        self._translated: set[tuple[int, int, int]] = set()
        self._random = np.random.default_rng(0)
        self._spent_s = 0.0
        self.revived = 0

    def facts(self, date: str) -> Facts:
        return replace(FACTS, date=date)

    def free_bytes(self) -> int:
        return FACTS.free_bytes

    def spin_clock_hz(self, warm_up_s: float = 0.2) -> float:
        clock, self._clocks = self._clocks[0], self._clocks[1:] or self._clocks
        return clock

    def buffer(self, name: str, size_bytes: int) -> int:
        address, size = self._names.get(name, (0, 0))
        if size < size_bytes:
            address = (len(self._arrays) + len(self._names) + 1) << 40
            self._names[name] = address, size_bytes
            self._present[address] = np.zeros((2, size_bytes // LINE), bool)
            self._reads[address] = np.zeros(size_bytes // LINE, int)
        return address

    def free(self) -> None:
        self._names.clear()

    def revive(self) -> None:
        self.revived += 1

    def upload(self, address: int, values: np.ndarray) -> None:
        self._arrays[address] = values.ravel().copy()

    def download(self, address: int, dtype: Any, count: int) -> np.ndarray:
        return self._arrays[int(address)].ravel()[:count].astype(dtype)

    def wait(self) -> None:
        pass

    def prepared(
        self, file: str, name: str, grid: int, block: int, arguments: Any = (), smem_bytes: int = 0
    ) -> Callable[[], None]:
        assert smem_bytes <= self.smem_per_cta_bytes
        assert block <= 1024

        def run() -> None:
            if name in self._broken:
                raise GpuFault(f"cuLaunchKernel {name}: CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES")
            self.launched.append(name)
            kernel = getattr(self, f"_{name}", None)
            values = [int(value) for value in arguments]
            if kernel:
                kernel(grid, *values)
            else:
                self._noted(name, block // 32, values)

        return run

    def launch(self, *call: Any) -> None:
        self.prepared(*call)()

    def seconds(self, action: Callable[[], None], repeats: int = 1) -> list[float]:
        spent = []
        for _ in range(repeats):
            self._spent_s = 0.0
            action()
            spent.append(self._spent_s + 1e-6)
        return spent

    def graph(self, action: Callable[[], None]) -> Callable[[], None]:
        return action

    # What the kernels do.

    def _lists(self, lists: int, counts: int, stride: int) -> list[tuple[int, int, np.ndarray]]:
        table = self._arrays[lists].reshape(SMS, stride)
        return [(sm, sm // 2 % 2, table[sm, :count]) for sm, count in enumerate(self._arrays[counts]) if count]

    @staticmethod
    def _homes(lines: np.ndarray) -> np.ndarray:
        return (lines.astype(np.int64) * 0x9E3779B1 >> 20) & 1

    def _evict(self, data: int) -> None:
        for held in self._present[data]:
            excess = int(held.sum()) - L2_BYTES // 2 // LINE
            if excess > 0:
                held[self._random.choice(np.flatnonzero(held), excess, replace=False)] = False

    def _gather(self, grid: int, data: int, lists: int, counts: int, stride: int, repeats: int, cycles: int) -> None:
        work = self._lists(lists, counts, stride)
        rate = PRIVATE_BYTES_PER_CYCLE if len(work) > 2 else ALONE_BYTES_PER_CYCLE
        present, spent = self._present[data], np.zeros(SMS)
        for sm, side, lines in work:
            crosses = ~present[side, lines] & (self._homes(lines) != side)
            spent[sm] = LINE * (np.sum(crosses) / ACROSS_BYTES_PER_CYCLE + np.sum(~crosses) / rate)
            spent[sm] += LINE * (repeats - 1) * len(lines) / rate
        for _, side, lines in work:
            present[side, lines] = True
            present[self._homes(lines), lines] = True
            self._reads[data][lines] += repeats
        self._evict(data)
        self._arrays[cycles] = spent + 700
        self._spent_s = float(spent.max()) / CLOCK_HZ

    def _scatter(self, grid: int, data: int, lists: int, counts: int, stride: int) -> None:
        for _, _, lines in self._lists(lists, counts, stride):
            self._present[data][:, lines] = False
            self._present[data][self._homes(lines), lines] = True

    def _probe(self, grid: int, data: int, lists: int, counts: int, stride: int, latency: int) -> None:
        out, present = np.zeros((SMS, stride)), self._present[data]
        for sm, side, lines in self._lists(lists, counts, stride):
            for i, (line, home) in enumerate(zip(lines, self._homes(lines), strict=True)):
                page = (sm, data, int(line) * LINE // PAGE)
                cycles = NEAR + 0.5 * (i % 5) + (page not in self._translated) * TRANSLATION
                if not present[side, line]:
                    cycles += (home != side) * CROSSING + (not present[home, line]) * MISS
                present[side, line] = present[home, line] = True
                self._translated.add(page)
                out[sm, i] = cycles
        self._arrays[latency] = out

    def _stream(self, kind: str, data: int) -> None:
        lines, flush = (self._names.get(name, (0, 0))[0] for name in ("lines", "flush"))
        if data == flush:
            self._present[lines][:, self._reads[lines] < HOT] = False
        self._spent_s = {"read": 1.0, "write": 1.25, "copy": 2.0}[kind] * 1e-4

    def _stream_read(self, grid: int, data: int, vectors: int, sink: int) -> None:
        self._stream("read", data)

    def _stream_write(self, grid: int, data: int, vectors: int, value: int) -> None:
        self._stream("write", data)

    def _stream_copy(self, grid: int, data: int, target: int, vectors: int) -> None:
        self._stream("copy", data)

    def _chase_smem(self, grid: int, loads: int, out: int, sink: int) -> None:
        self._arrays[out] = np.array([SMEM * loads])

    def _chase_l1(self, grid: int, starts: int, loads: int, out: int, sink: int) -> None:
        assert grid == len(self._arrays[starts]) == SMS
        self._arrays[out] = np.full(grid, L1 * loads)

    def _chase_l2(self, grid: int, starts: int, loads: int, out: int, sink: int) -> None:
        self._arrays[out] = (NEAR + np.arange(grid) - grid / 2 + 0.5) * loads

    def _tile_copies(self, grid: int, data: int, tiles: int, step: int, copies: int, period: int, out: int) -> None:
        ctas = -(-grid // SMS)
        spent = max(period + 20, 500 * ctas)
        self._arrays[out] = np.tile([(400 + 100 * ctas) * copies, spent * copies], grid)

    _bulk_copies = _tile_copies

    def _noted(self, name: str, warps: int, values: list[int]) -> None:
        """Kernels of `pipes.cu` and `hopper.cu`: each warp notes its times."""
        notes = values[0]
        if name.startswith("beside"):
            products, others, window = values[3:6]
            pace = {(1, 0): (512, 0), (0, 1): (0, 600), (1, 1): (1024, 900)}[products, others]
            rows = [[0, window, window // rate if rate else 0] for rate in [pace[0]] * 4 + [pace[1]] * (warps - 4)]
        else:
            turns = values[2] if name.startswith("wgmma") else values[-1]
            cycles = CYCLES_A_TURN.get(name, 100.0)
            if name.startswith("wgmma"):
                cycles = 8 * 64.0 * warps / 4
            if name.startswith("wgmma_wait"):
                cycles = int(name[10]) * 64.0 + 60
            elif name.endswith("rate"):
                cycles *= max(1, warps // 4)
            rows = [[10, 10 + 50 + round(turns * cycles)] for _ in range(warps)]
        self._arrays[notes] = np.array(rows)

    def _nothing(self, grid: int) -> None:
        self._spent_s += 1e-6 + grid * 0.5e-9

    def _turnover(self, grid: int, notes: int, spin: int) -> None:
        rows = [(cta % SMS, 1000 * (cta // SMS), 1000 * (cta // SMS) + 700) for cta in range(grid)]
        self._arrays[notes] = np.array(rows)

    def _load(self, grid: int, out: int, data: int, vectors: int, sink: int, turns: int, _: int, reads: int) -> None:
        # 64 products of each of two warpgroups a turn, 64 cycles each.
        cycles, clock = (turns * 64 * 128, 1.5) if turns else (4e6, 1.9)
        self._arrays[out] = np.tile([cycles, cycles / clock, 1000 if reads else 0], grid)
