"""The GPU side of timing: a gate that lets the host run ahead, an L2 flush, events around runs, the clock.

A lap on the current stream, in order:

    gate | clock | (flush) event run ... run event | (flush) event run ... run event | ... | clock

The *gate* is a kernel that spins until the host has enqueued all the rest. Behind it the GPU never waits for the host,
so single launches are timed without the host's launch overhead, whatever Python does.
(A CUDA graph would do the same, but needs capturable runs, and a flush of its own per sample.)
Whether the gate was still closed at the end is looked up after each lap; if not, the lap is taken again
with a longer gate.
"""

import time
from collections.abc import Callable

import torch

from ...simulator.residency.device_memory import allocated_bytes
from .device_kernels import DISCARD_ELEMENTS, FLUSH_ELEMENTS, discard_kernel, overwrite_kernel, read_clock_kernel
from .sm_clock import Read, window
from .timing import Lap

FLUSH_L2_SIZES = 4
"""Bytes that the flush writes, as a multiple of the L2. Reading would not do: of lines that were read 20 times, 99 %
outlive a read of four times the L2 on an H200, and none a write (docs/calibrate.md)."""
FASTEST_HZ = 2e9
"""Cycles of the gate per second: it lasts longer than asked for where the clock is lower, never less by much."""
SHORTEST_GATE_S, LONGEST_GATE_S = 5e-4, 2.0
GATE_MARGIN = 2.0
"""Length of the next gate, as a multiple of the time that the host last took."""
TRIES = 5
CTAS_PER_SM = 4
"""CTAs of the clock's kernel: enough that every SM gets some."""


class Track:
    """Times runs on one GPU, in its current stream.

    Args:
        device: as torch takes it.
    """

    def __init__(self, device: torch.device | str = "cuda") -> None:
        properties = torch.cuda.get_device_properties(device)
        ctas = CTAS_PER_SM * properties.multi_processor_count
        self._slices = -(-FLUSH_L2_SIZES * properties.L2_cache_size // (4 * FLUSH_ELEMENTS))
        self._flushed = torch.zeros(self._slices * FLUSH_ELEMENTS, dtype=torch.int32, device=device)
        self._reads = [torch.zeros((ctas, 3), dtype=torch.int64, device=device) for _ in range(2)]
        self._gate_s = SHORTEST_GATE_S
        # Compiled now, so that no gate has to wait for a compiler.
        self.nothing()
        self.flush()
        self._note_clock(0)

    @property
    def held_bytes(self) -> int:
        """Device memory that the track itself holds, to be left out of a peak [B]."""
        return allocated_bytes(buffer.nbytes for buffer in (self._flushed, *self._reads))

    def nothing(self) -> None:
        """Launch a kernel that does nothing."""
        torch.cuda._sleep(0)

    def flush(self) -> None:
        """Evict all data from L2, and leave no dirty lines there: what evicted it is dropped."""
        overwrite_kernel[(self._slices,)](self._flushed, elements=FLUSH_ELEMENTS, num_warps=8)
        discard_kernel[(self._slices,)](self._flushed, elements=FLUSH_ELEMENTS, step=DISCARD_ELEMENTS, num_warps=8)

    def lap(self, run: Callable[[], object], *, samples: int, repeats: int, cold: bool) -> Lap:
        """Time a run, as `timing.Track` says."""
        for _ in range(TRIES):
            lap = self._lap(run, samples, repeats, cold)
            if not lap.host_late:
                break
        return lap

    def _lap(self, run: Callable[[], object], samples: int, repeats: int, cold: bool) -> Lap:
        events = [torch.cuda.Event(enable_timing=True) for _ in range(2 * samples)]
        gate_open = torch.cuda.Event()
        torch.cuda.synchronize()
        begin = time.perf_counter()
        torch.cuda._sleep(int(self._gate_s * FASTEST_HZ))
        gate_open.record()
        self._note_clock(0)
        for start, end in zip(events[::2], events[1::2], strict=True):
            if cold:
                self.flush()
            start.record()
            for _ in range(repeats):
                run()
            end.record()
        self._note_clock(1)
        host_late = gate_open.query()
        self._gate_s = min(LONGEST_GATE_S, max(SHORTEST_GATE_S, GATE_MARGIN * (time.perf_counter() - begin)))
        torch.cuda.synchronize()
        seen = window(*([Read(*row) for row in reads.tolist()] for reads in self._reads))
        return Lap(
            samples_s=tuple(
                start.elapsed_time(end) * 1e-3 for start, end in zip(events[::2], events[1::2], strict=True)
            ),
            cycles=seen.cycles,
            span_s=seen.span_s,
            host_late=host_late,
        )

    def _note_clock(self, which: int) -> None:
        reads = self._reads[which]
        read_clock_kernel[(reads.shape[0],)](reads, num_warps=1)
