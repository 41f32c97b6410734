"""Latencies, measured: pointer chases, first loads from device memory, tiles on their way to shared memory.

Every `measure_*` takes the GPU and returns a record, an object that JSON can hold; `derive` reads it.
"""

from typing import Any

import numpy as np

from ....simulator.limits import LINE_BYTES
from .gpu import Gpu
from .lines import PAGE_LINES, Lines, probe
from .memory import stream_bytes

Record = dict[str, Any]

CHASE_LOADS = 4096
REPEATS = 7
READERS = 2
"""SMs that load from device memory, on each side of L2."""
PAGES, LINES_A_PAGE = 128, 8
"""Pages of 2 MiB that each of them touches, and lines of each page besides the first."""


def measure_chases(gpu: Gpu) -> Record:
    """Pointer chases in shared memory, by one SM, and in L1 and L2, by a thread of every SM from a place of its own.

    Returns:
        `loads`; `smem`: cycles for so many, several times; `l1`, `l2`: the same of every SM.
    """
    out, sink = np.uint64(gpu.buffer("cycles", 8 * gpu.sms)), np.uint64(gpu.buffer("sink", 4096))
    record: Record = {"loads": CHASE_LOADS, "smem": []}
    for _ in range(REPEATS):
        gpu.launch("memory", "chase_smem", 1, 32, [np.int32(CHASE_LOADS), out, sink])
        record["smem"].append(int(gpu.download(int(out), np.uint64, 1)[0]))
    chain_bytes = {"l1": 16 << 10, "l2": 2 << 20}
    chain, starts = gpu.buffer("chain", max(chain_bytes.values())), gpu.buffer("starts", 8 * gpu.sms)
    for name, size in chain_bytes.items():
        order = np.random.default_rng(3).permutation(size // LINE_BYTES)
        words = np.zeros(size // 8, np.uint64)
        words[order * (LINE_BYTES // 8)] = chain + LINE_BYTES * np.roll(order, -1).astype(np.uint64)
        gpu.upload(chain, words)
        begin = order[np.arange(gpu.sms) * len(order) // gpu.sms]
        gpu.upload(starts, (chain + LINE_BYTES * begin).astype(np.uint64))
        loads = max(CHASE_LOADS, len(order))
        gpu.launch("memory", f"chase_{name}", gpu.sms, 1, [np.uint64(starts), np.int32(loads), out, sink])
        spent = gpu.download(int(out), np.uint64, gpu.sms).astype(float)
        record[name] = (spent * CHASE_LOADS / loads).tolist()
    return record


def measure_misses(gpu: Gpu, sides: list[list[int]]) -> Record:
    """Single loads of untouched lines, so that they come from device memory, and where their home is.

    The buffer is so much larger than L2 that no flush is needed. One line of a page is loaded first (`touch`), then
    others of this page, whose address translation is known by then (`first`), then those again (`second`).
    SMs of the other side load the same lines afterwards: slowly where a line is at home with the first readers.

    Returns:
        `touch`, `first`, `second`: latencies [cycles]; `other_first`, `other_second`: of the other side's loads.
    """
    size = stream_bytes(gpu)
    data = gpu.buffer("stream source", size)
    random = np.random.default_rng(4)
    # The end of the buffer may still be in L2 from when it was cleared.
    most = size // LINE_BYTES // PAGE_LINES * 7 // 8
    order: list[Lines] = []
    for mine in np.array_split(random.permutation(most)[: PAGES * READERS], READERS):
        picked = [page * PAGE_LINES + random.choice(PAGE_LINES, 1 + LINES_A_PAGE, replace=False) for page in mine]
        order.append(np.concatenate([np.concatenate([lines, lines[1:]]) for lines in picked]).astype(np.uint32))
    record: Record = {}
    for prefix, side in zip(("", "other_"), sides, strict=False):
        readers = side[:: max(1, len(side) // READERS)][:READERS]
        seen = probe(gpu, data, dict(zip(readers, order, strict=True)))
        latency = np.concatenate(list(seen.values())).reshape(-1, 1 + 2 * LINES_A_PAGE).astype(int)
        if not prefix:
            record["touch"] = latency[:, 0].tolist()
        record[f"{prefix}first"] = latency[:, 1 : 1 + LINES_A_PAGE].ravel().tolist()
        record[f"{prefix}second"] = latency[:, 1 + LINES_A_PAGE :].ravel().tolist()
    return record


def measure_tiles(gpu: Gpu) -> Record:
    """Time until a 16 KiB tile from L2 is in shared memory, by cp.async and by bulk copy, alone and under load.

    Returns:
        Way of copying -> CTAs per SM (0: one CTA in all) -> period [cycles] -> cycles waited per tile, cycles per tile.
    """
    ways = [("memory", "tile_copies")]
    if gpu.capability == "9.0":
        ways.append(("hopper", "bulk_copies"))
    copies, tiles = 200, gpu.l2_bytes // 8 // 16384
    data, out = gpu.buffer("lines", 4 * gpu.l2_bytes), gpu.buffer("waits", 16 * 8 * gpu.sms)
    record: Record = {"tile_bytes": 16384, "ways": {}}
    for file, name in ways:
        record["ways"][name] = {}
        for ctas in (0, 1, 2, 4):
            by_period: dict[str, list[float]] = {}
            for period in (8000, 4000, 3000, 2000, 1500, 1000, 750, 500, 0) if ctas else (2000,):
                grid = max(1, ctas * gpu.sms)
                values = [np.uint64(data), np.uint32(tiles), np.uint32(37), np.int32(copies), np.int32(period)]
                # As much shared memory as lets exactly so many CTAs in.
                smem = max(16384, (gpu.smem_per_cta_bytes - 4096) // max(1, ctas) - 1536)
                for _ in range(2):
                    gpu.launch(file, name, grid, 128, [*values, np.uint64(out)], smem)
                waited, spent = gpu.download(out, np.uint64, 2 * grid).reshape(grid, 2).T
                by_period[str(period)] = [float(np.mean(waited)) / copies, float(np.mean(spent)) / copies]
            record["ways"][name][str(ctas)] = by_period
    return record
