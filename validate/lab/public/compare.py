"""Public cases: what was predicted of a launch beside what a GPU did with it, quantity by quantity.

    python validate/lab/public/compare.py FOLDER FILE.ndjson.xz

Packs the folder that `measure.py` wrote into a line for each launch, to be kept in validate/data; `page.py` makes the
tables of it and of what `foretell.py` wrote.
"""

import json
import lzma
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tilesight.validate.counters.ncu_output import parse

Row = dict[str, Any]
Pair = tuple[float, float] | None
Quantity = Callable[[Row, Row], Pair]
COUNTED = (".sum", "cycles_elapsed.max")
"""What ncu reports besides, of the device and of the launch, is left out."""
SMALL_BYTES, SMALL_WRITE_BYTES = 1e6, 20e6
"""Below, an error in percent says nothing: read; written."""
DO_BENCH_MORE_MS = 6.4e-3
"""What `do_bench` shows more than ncu counts [ms], for predictions without a time for it: the median over 179 launches
of the first round on an H200, the same for kernels of 20 us to 5 ms. On the second round 5.7 us, on an H100 6.9 us."""
SHORT_MS, DO_BENCH_MORE_SHORT_MS = 12e-3, 2.3e-3
"""Kernels for which it shows less more [ms]: the median of the 25 launches of all rounds that took less than 10 us."""


def lines_of(path: Path) -> Iterator[Row]:
    """The JSON lines of a file, which may be packed."""
    with lzma.open(path, "rt") if path.suffix == ".xz" else path.open(encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)


def counters(path: Path) -> dict[str, dict[str, float]]:
    """Counters by launch: the rows of each table belong to the lines before it, in order."""
    found: dict[str, dict[str, float]] = {}
    waiting: list[Row] = []
    for line in lines_of(path):
        if "order" in line:
            waiting.append(line)
        elif "table" in line:
            rows = parse(line["table"]) if '"ID",' in line["table"] else ()
            for launch, row in zip(waiting, rows, strict=False):
                if tuple(launch["grid"]) != row.grid:
                    raise ValueError(f"{launch['name']}: grid {launch['grid']} was counted as {row.grid}")
                values = {name: value for name, (value, _) in row.metrics.items() if name.endswith(COUNTED)}
                found[key(launch["name"], launch["grid"])] = values
            waiting = []
    return found


def key(name: str, grid: list[int]) -> str:
    """A launch as both sides know it: its case, its kernel and grid; how many were launched before may differ."""
    case, _, launch = name.rpartition("/")
    return f"{case}/{launch.partition(':')[2]}/{'x'.join(map(str, grid))}"


def measured(folder: Path) -> dict[str, Row]:
    """All that was measured, by launch."""
    if folder.is_file():
        return {line["key"]: line for line in lines_of(folder)}
    compiled = (line for line in lines_of(folder / "launches.jsonl") if "registers" in line)
    found = {key(line["name"], line["grid"]): line for line in compiled}
    known = {line["name"]: name for name, line in found.items()}
    for role in ("cold", "warm"):
        if (folder / f"{role}.jsonl").exists():
            for name, values in counters(folder / f"{role}.jsonl").items():
                found.setdefault(name, {})[role] = values
    if (folder / "times.jsonl").exists():
        for line in lines_of(folder / "times.jsonl"):
            if "median_ms" in line:
                found[known[line["name"]]]["median_ms"] = line["median_ms"]
    return found


def pack(rows: dict[str, Row], file: Path) -> None:
    """Write all that was measured as a line for each launch, packed."""
    lines = [json.dumps({"key": name} | row) + "\n" for name, row in sorted(rows.items())]
    file.write_bytes(lzma.compress("".join(lines).encode(), preset=9))


def _counted(role: str, metric: str, predicted: str, least: float = 0.0) -> Quantity:
    def of(told: Row, seen: Row) -> Pair:
        value = seen.get(role, {}).get(metric)
        wanted = told.get(role)
        if value is None or wanted is None or max(value, wanted[predicted]) < least:
            return None
        return wanted[predicted], value

    return of


def _time_ms(told: Row, seen: Row) -> Pair:
    if "median_ms" not in seen or "cold" not in told:
        return None
    if "do_bench_s" in told:
        return told["do_bench_s"] * 1e3, seen["median_ms"]
    sustained_ms = told["cold"]["time_s"] * told["clock_hz"] / told["sustained_clock_hz"] * 1e3
    more_ms = DO_BENCH_MORE_SHORT_MS if sustained_ms < SHORT_MS else DO_BENCH_MORE_MS
    return sustained_ms + more_ms, seen["median_ms"]


def _time_ns(told: Row, seen: Row) -> Pair:
    value = seen.get("cold", {}).get("gpu__time_duration.sum")
    return (told["cold"]["time_s"] * 1e9, value) if value and "cold" in told else None


def _instructions(told: Row, seen: Row) -> Pair:
    value = seen.get("cold", {}).get("smsp__inst_executed.sum")
    return (told["instructions"], value) if value and "cold" in told else None


def _equal(ours: str, theirs: str) -> Quantity:
    return lambda told, seen: (told[ours], seen[theirs]) if ours in told and theirs in seen else None


QUANTITIES: dict[str, Quantity] = {
    "time, ncu": _time_ns,
    "time, do_bench": _time_ms,
    "cycles": _counted("cold", "sm__cycles_elapsed.max", "cycles"),
    "HBM read, cold": _counted("cold", "dram__bytes_read.sum", "hbm_read_bytes", SMALL_BYTES),
    "HBM read, warm": _counted("warm", "dram__bytes_read.sum", "hbm_read_bytes", SMALL_BYTES),
    "HBM written": _counted("cold", "dram__bytes_write.sum", "hbm_write_bytes", SMALL_WRITE_BYTES),
    "bytes into SMs": _counted("cold", "l1tex__m_xbar2l1tex_read_bytes.sum", "smem_fill_bytes", SMALL_BYTES),
    "cycles, warm": _counted("warm", "sm__cycles_elapsed.max", "cycles"),
    "instructions": _instructions,
    "registers": _equal("registers", "registers"),
    "shared memory": _equal("smem_bytes", "shared"),
    "warps": _equal("warps", "warps"),
}


def errors(told: Row, seen: Row) -> dict[str, float]:
    """Errors of a launch [%], by quantity; what has no value on one side is left out."""
    found = {}
    for title, of in QUANTITIES.items():
        pair = of(told, seen)
        if pair is not None:
            predicted, counted = pair
            found[title] = 100 * (predicted / counted - 1) if counted else (0.0 if not predicted else float("inf"))
    return found


def main() -> None:
    """Pack a folder."""
    folder, file = map(Path, sys.argv[1:])
    pack(measured(folder), file)


if __name__ == "__main__":
    main()
