"""The line-exact cache core against pycachesim and libcachesim: one process, the same streams, the same misses.

    pip install pycachesim libcachesim
    python tests/benchmarks/bench_cache.py [--accesses 8000000] [--repeats 5]

Cache: 48 MiB, 16 ways, 128 B lines, LRU, reads only. Streams: four patterns of line numbers.
pycachesim takes the addresses from a list through `iterload`, its fastest call;
libcachesim has no sets, so it is held against one set of all lines, and reads a binary trace from a file;
the core takes an array. Each is timed by itself, best of several runs, building its input not counted.
A competitor that is not installed is left out.
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from tilesight.simulator.engine.cache import run_cache

CAPACITY, WAYS, LINE = 48 << 20, 16, 128
LINES = CAPACITY // LINE
CHUNK_LINES = 64
TRACE = np.dtype([("time", "<u4"), ("id", "<u8"), ("size", "<u4"), ("next", "<i8")])


def streams(accesses: int) -> dict[str, np.ndarray]:
    """Line numbers, int64 of shape (accesses,), per pattern."""
    count = np.arange(accesses, dtype=np.int64)
    return {
        "stream: every line new": count,
        "loop over half the cache": count % (LINES // 2),
        "loop over 1.25 caches": count % (LINES + LINES // 4),
        "random over two caches": np.random.default_rng(1).integers(0, 2 * LINES, accesses),
    }


def best(repeats: int, run: Callable[[], int]) -> tuple[float, int]:
    """Shortest time of several runs [s], and what they return."""
    times, results = [], set()
    for _ in range(repeats):
        begin = time.perf_counter()
        results.add(run())
        times.append(time.perf_counter() - begin)
    (result,) = results
    return min(times), result


def pycachesim(lines: np.ndarray) -> Callable[[], int] | None:
    """Misses of pycachesim on that stream; None where it is not installed."""
    try:
        from cachesim import Cache, CacheSimulator, MainMemory
    except ImportError:
        return None
    addresses = (lines * LINE).tolist()

    def run() -> int:
        memory = MainMemory()
        cache = Cache("L2", LINES // WAYS, WAYS, LINE, "LRU")
        memory.load_to(cache)
        memory.store_from(cache)
        CacheSimulator(cache, memory)
        cache.backend.iterload(iter(addresses), length=1)
        return int(cache.backend.MISS_count)

    return run


def libcachesim(lines: np.ndarray, folder: Path) -> Callable[[], int] | None:
    """Misses of libcachesim (no sets) on that stream; None where it is not installed."""
    try:
        import libcachesim as lcs
    except ImportError:
        return None
    trace = np.zeros(len(lines), dtype=TRACE)
    trace["time"], trace["id"], trace["size"], trace["next"] = np.arange(len(lines)), lines, 1, -2
    path = folder / "stream.oracleGeneral.bin"
    trace.tofile(path)

    def run() -> int:
        reader = lcs.TraceReader(str(path), lcs.TraceType.ORACLE_GENERAL_TRACE)
        miss_ratio, _ = lcs.LRU(LINES).process_trace(reader)
        return round(miss_ratio * len(lines))

    return run


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--accesses", type=int, default=8_000_000)
    parser.add_argument("--repeats", type=int, default=5)
    asked = parser.parse_args()
    run_cache(np.arange(9), capacity_bytes=CAPACITY, ways=WAYS)  # compiles
    run_cache(np.arange(9), capacity_bytes=CAPACITY, ways=0)
    print(f"{asked.accesses} accesses, M/s, best of {asked.repeats}; in brackets: times faster than the other\n")
    heads = f"{'misses':>9s} {'16 ways':>8s} {'pycachesim':>12s} | {'misses':>9s} {'no sets':>8s} {'libcachesim':>12s}"
    print(f"{'pattern':26s} {heads}")
    with tempfile.TemporaryDirectory() as folder:
        for name, lines in streams(asked.accesses).items():
            cells = []
            for ways, other in ((WAYS, pycachesim(lines)), (0, libcachesim(lines, Path(folder)))):
                seconds, misses = best(
                    asked.repeats, lambda w=ways, s=lines: run_cache(s, capacity_bytes=CAPACITY, ways=w).misses
                )
                cells.append(f"{misses:9d} {asked.accesses / seconds / 1e6:8.1f}")
                if other is None:
                    cells.append(f"{'-':>12s}")
                    continue
                others_seconds, others_misses = best(asked.repeats, other)
                if others_misses != misses:
                    raise SystemExit(f"{name}: {misses} misses here, {others_misses} there")
                cells.append(f"{asked.accesses / others_seconds / 1e6:5.1f} ({others_seconds / seconds:4.1f})")
            print(f"{name:26s} {cells[0]} {cells[1]:>12s} | {cells[2]} {cells[3]:>12s}", flush=True)
    print(f"\nchunks of {CHUNK_LINES} lines ({CHUNK_LINES * LINE // 1024} KiB), 16 ways, G line-equivalents/s")
    for name, lines in streams(asked.accesses).items():
        chunks = lines // CHUNK_LINES if "random" in name else lines % max(1, int(lines.max() + 1) // CHUNK_LINES)
        seconds, _ = best(
            asked.repeats,
            lambda c=chunks: run_cache(c, capacity_bytes=CAPACITY, ways=WAYS, chunk_lines=CHUNK_LINES).misses,
        )
        print(f"{name:26s} {len(chunks) * CHUNK_LINES / seconds / 1e9:8.1f}")


if __name__ == "__main__":
    main()
