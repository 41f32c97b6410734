"""Device memory and what L2 keeps of it, measured: streams, what stays of large buffers, what a flush leaves.

Every `measure_*` takes the GPU and returns a record, an object that JSON can hold; `derive` reads it.
"""

from functools import partial
from typing import Any

import numpy as np

from ....simulator.limits import LINE_BYTES
from .gpu import Gpu, attempt
from .lines import Lines, deal, flush, gather, pages_of, probe

Record = dict[str, Any]

STREAM_BYTES = 4 << 30
REPEATS = 7
HISTOGRAM_CYCLES = 8
LARGEST_SIXTEENTH = 24
"""The largest buffer that is swept, in sixteenths of L2."""
HOT_READS = 20


def histogram(latency: Lines) -> dict[str, int]:
    """Latencies as counts: lower end of a bin of 8 cycles -> loads."""
    ends, counts = np.unique(latency // HISTOGRAM_CYCLES * HISTOGRAM_CYCLES, return_counts=True)
    return {str(int(end)): int(count) for end, count in zip(ends, counts, strict=True)}


def stream_bytes(gpu: Gpu) -> int:
    """Size of a large buffer: 4 GiB, or less than a quarter of what is free [B]."""
    size = STREAM_BYTES
    while size > gpu.free_bytes() // 4:
        size //= 2
    return size


def measure_hbm(gpu: Gpu) -> Record:
    """Large streams, by CTAs in flight: seconds of each launch."""
    size = stream_bytes(gpu)
    source, target = np.uint64(gpu.buffer("stream source", size)), np.uint64(gpu.buffer("stream target", size))
    vectors, sink = np.uint64(size // 16), np.uint64(gpu.buffer("sink", 4096))
    arguments: dict[str, list[Any]] = {
        "read": [source, vectors, sink],
        "write": [target, vectors, np.uint32(7)],
        "copy": [source, target, vectors],
    }
    record: Record = {"bytes": size}
    for kind, values in arguments.items():
        record[kind] = {}
        for ctas in (4, 8, 16, 64, 256, 1024):
            launch = gpu.prepared("memory", f"stream_{kind}", ctas * gpu.sms, 256, values)
            record[kind][str(ctas)] = gpu.seconds(launch, REPEATS + 2)[2:]
    gpu.free()
    return record


def measure_knees(gpu: Gpu, sides: list[list[int]]) -> Record:
    """What stays in L2 of a buffer that all SMs sweep: latencies of loads at random places after several sweeps.

    Shared: every line is read by one SM of each side. Private: by one SM in all, and loaded by the same.

    Returns:
        `shared`, `private`: bytes of the buffer -> histogram of latencies; `flush`: see `measure_flush`.
    """
    data = gpu.buffer("lines", 4 * gpu.l2_bytes)
    random = np.random.default_rng(2)
    record: Record = {"shared": {}, "private": {}}
    for kind in ("shared", "private"):
        groups = sides if kind == "shared" else [list(range(gpu.sms))]
        for sixteenth in range(4, LARGEST_SIXTEENTH + 1):
            lines = np.arange(gpu.l2_bytes * sixteenth // 16 // LINE_BYTES, dtype=np.uint32)
            lists: dict[int, Lines] = {}
            for group in groups:
                lists |= deal(lines, group)
            flush(gpu)
            gather(gpu, data, lists, 4)
            picked = {sm: random.choice(mine, 48, replace=False) for sm, mine in lists.items()}
            record[kind][str(len(lines) * LINE_BYTES)] = _latencies(gpu, data, picked)
    attempt(record, "flush", partial(measure_flush, gpu))
    return record


def measure_flush(gpu: Gpu) -> Record:
    """Whether reading other data empties L2 of a quarter of its size that was read before, once or often.

    Returns:
        How it was flushed (`read`: four times the size of L2, `twice`: again, `write`: written before) and how often
        the data had been read -> histogram of the latencies of what is loaded then.
    """
    data = gpu.buffer("lines", 4 * gpu.l2_bytes)
    random = np.random.default_rng(5)
    record: Record = {}
    count = gpu.l2_bytes // 4 // LINE_BYTES
    ways = {"read": (1, False), "twice": (2, False), "write": (1, True)}
    for times in (1, HOT_READS):
        for way, (passes, write) in ways.items():
            # Every case has lines of its own, which neither another case nor a sweep has read.
            lines = np.arange(count, dtype=np.uint32) + (LARGEST_SIXTEENTH // 4 + len(record)) * count
            lists = deal(lines, list(range(gpu.sms)))
            gather(gpu, data, lists, times)
            flush(gpu, passes, write)
            picked = {sm: random.choice(mine, 16, replace=False) for sm, mine in lists.items()}
            record[f"{way}_{times}"] = _latencies(gpu, data, picked)
    return record


def _latencies(gpu: Gpu, data: int, lists: dict[int, Lines]) -> dict[str, int]:
    """Histogram of single loads of lines, one line of each page loaded before."""
    latency = probe(gpu, data, {sm: np.concatenate([pages_of(mine), mine]) for sm, mine in lists.items()})
    return histogram(np.concatenate([latency[sm][-len(mine) :] for sm, mine in lists.items()]))
