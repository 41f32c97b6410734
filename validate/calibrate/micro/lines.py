"""Which SM touches which lines of a buffer: lists of lines dealt out to SMs; read or written in bulk, or loaded singly.

A line is 128 bytes; its number counts from the start of the buffer. An SM without a list does nothing.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ....simulator.limits import LINE_BYTES
from .gpu import Gpu

PAGE_LINES = (2 << 20) // LINE_BYTES
THREADS = 1024

Lines = np.ndarray[Any, Any]


def deal(lines: Lines, sms: Sequence[int], chunk: int = 16) -> dict[int, Lines]:
    """Deal lines out to SMs in turn, so that all walk through the buffer in step. Args: chunk: lines at a time."""
    turn = np.arange(len(lines)) // chunk % len(sms)
    return {sm: lines[turn == i] for i, sm in enumerate(sms)}


def pages_of(lines: Lines) -> Lines:
    """One line of each 2 MiB page that the lines lie in."""
    return np.unique(lines // PAGE_LINES) * PAGE_LINES


def packed(lists: Mapping[int, Lines], sms: int) -> tuple[Lines, Lines, int]:
    """Lists as the kernels take them: entries SM after SM, counts, entries kept for each SM."""
    stride = max([1, *map(len, lists.values())])
    entries = np.zeros((sms, stride), np.uint32)
    counts = np.zeros(sms, np.uint32)
    for sm, lines in lists.items():
        entries[sm, : len(lines)] = lines
        counts[sm] = len(lines)
    return entries, counts, stride


def _upload(gpu: Gpu, lists: Mapping[int, Lines]) -> tuple[list[Any], int]:
    """Lists on the GPU, as the kernels' arguments, and the shared memory that they take [B]."""
    entries, counts, stride = packed(lists, gpu.sms)
    at, counts_at = gpu.buffer("lists", max(entries.nbytes, 8 << 20)), gpu.buffer("counts", counts.nbytes)
    gpu.upload(at, entries)
    gpu.upload(counts_at, counts)
    # More shared memory than half an SM has, so that no SM gets two CTAs.
    smem = max(4 * stride, gpu.smem_per_cta_bytes * 3 // 5)
    return [np.uint64(at), np.uint64(counts_at), np.uint32(stride)], smem


def gather(gpu: Gpu, data: int, lists: Mapping[int, Lines], repeats: int = 1) -> tuple[Lines, float]:
    """Read lines past L1, each SM its own list, all at the same time.

    Args:
        data: address of the buffer; lists: SM -> lines; repeats: times that each list is read.

    Returns:
        Cycles per SM, and the time that the launch takes [s].
    """
    uploaded, smem = _upload(gpu, lists)
    cycles = gpu.buffer("cycles", 8 * gpu.sms)
    arguments = [np.uint64(data), *uploaded, np.int32(repeats), np.uint64(cycles)]
    (seconds,) = gpu.seconds(gpu.prepared("memory", "gather", gpu.sms, THREADS, arguments, smem))
    return gpu.download(cycles, np.uint64, gpu.sms), seconds


def scatter(gpu: Gpu, data: int, lists: Mapping[int, Lines]) -> None:
    """Write zeros to lines, each SM its own list: then they stand in L2 at home, and copies elsewhere are gone."""
    uploaded, smem = _upload(gpu, lists)
    gpu.launch("memory", "scatter", gpu.sms, THREADS, [np.uint64(data), *uploaded], smem)
    gpu.wait()


def probe(gpu: Gpu, data: int, lists: Mapping[int, Lines]) -> dict[int, Lines]:
    """Load lines one after the other, each SM its own list: SM -> latency of each load [cycles].

    Args:
        data: address of a buffer of zeros; lists: SM -> lines.
    """
    uploaded, smem = _upload(gpu, lists)
    stride = int(uploaded[2])
    out = gpu.buffer("latency", max(4 * gpu.sms * stride, 8 << 20))
    gpu.launch("memory", "probe", gpu.sms, 128, [np.uint64(data), *uploaded, np.uint64(out)], smem)
    latency = gpu.download(out, np.uint32, gpu.sms * stride).reshape(gpu.sms, stride)
    return {sm: latency[sm, : len(lines)] for sm, lines in lists.items()}


def first_and_second(gpu: Gpu, data: int, lists: Mapping[int, Lines], touch: int = 0) -> dict[int, tuple[Lines, Lines]]:
    """Load lines twice each, one list after the other: SM -> latencies of the first and of the second loads [cycles].

    Args:
        touch: line of each 2 MiB page that is loaded before, so that address translation is not in what is measured.
    """
    pages = {sm: pages_of(mine) + touch for sm, mine in lists.items()}
    latency = probe(gpu, data, {sm: np.concatenate([pages[sm], mine, mine]) for sm, mine in lists.items()})
    halves = {sm: np.split(latency[sm][len(pages[sm]) :].astype(np.int64), 2) for sm in lists}
    return {sm: (first, second) for sm, (first, second) in halves.items()}


def flush(gpu: Gpu, passes: int = 2, write: bool = False) -> None:
    """Read four times the size of L2, and again: what was in L2 may be gone (see `measure_flush`), no line is dirty.

    Args:
        passes: how often it is read; write: whether as much is written before.
    """
    size = 4 * gpu.l2_bytes // (1 << 20) * (1 << 20)
    data, vectors = np.uint64(gpu.buffer("flush", size)), np.uint64(size // 16)
    if write:
        gpu.launch("memory", "stream_write", 8 * gpu.sms, 256, [data, vectors, np.uint32(0)])
    for _ in range(passes):
        gpu.launch("memory", "stream_read", 8 * gpu.sms, 256, [data, vectors, np.uint64(gpu.buffer("sink", 4096))])
