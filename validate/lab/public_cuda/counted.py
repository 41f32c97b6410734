"""Join times and counters of a measurement: `python counted.py OUT > MEASURED.ndjson`, OUT as `cmd.sh` leaves it."""

import csv
import json
import sys
from math import isfinite
from pathlib import Path

METRICS = {
    "l1tex__m_xbar2l1tex_read_bytes.sum": "smem_fill_bytes",
    "dram__bytes_read.sum": "hbm_read_bytes",
    "dram__bytes_write.sum": "hbm_write_bytes",
    "gpu__time_duration.sum": "counted_ns",
    "sm__cycles_elapsed.max": "cycles",
}


def main() -> None:
    """Print a line for each launch. Of one that ends with an error ncu has no numbers."""
    out = Path(sys.argv[1])
    gpu, driver = (out / "gpu.txt").read_text("utf-8").splitlines()[1].split(", ")[:2]
    times = {row["name"]: row for row in map(json.loads, (out / "times.ndjson").read_text("utf-8").splitlines())}
    names = iter((out / "counted.txt").read_text("utf-8").split())
    counters = {}
    for path in sorted(out.glob("ncu-*.csv")):
        lines = [line for line in path.read_text("utf-8").splitlines() if line.startswith('"')]
        head, *rows = csv.reader(lines)
        rows = rows[1:]  # units
        for row in rows:
            said = dict(zip(head, row, strict=True))
            values = {key: float(said[metric].replace(",", "")) for metric, key in METRICS.items()}
            counters[next(names)] = {key: value for key, value in values.items() if isfinite(value)}
    for name in (out / "begun.txt").read_text("utf-8").split():
        row = times.get(name, {"name": name, "failed": "the launch ends with an error"})
        print(json.dumps(row | counters.get(name, {}) | {"gpu": gpu, "driver": driver, "cuda": "13.0"}))


if __name__ == "__main__":
    main()
