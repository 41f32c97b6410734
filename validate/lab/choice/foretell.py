"""Predict every configuration of every cell, with no GPU.

    python validate/lab/choice/foretell.py FILE [--device h100] [--families gemm rows ...] [--cells NAME] [--limit 120]

Adds a JSON line for each to FILE; those that it holds are left out, so that the same command goes on; cells take turns
and those of a cell come in no order, so that a part stands for all. Each is predicted in a fork of this process, on an
empty L2, with a limit on time [s] and memory.
"""

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

from cells import CELLS, Cell, sliced
from families import FAMILIES

import tilesight

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from ahead import compile_ahead, limited, write

SMALL = "softmax-4096x1000"
"""Cell that is predicted first by the process itself: what that loads, each fork has."""
TRAFFIC = ("hbm_read_bytes", "hbm_write_bytes", "smem_fill_bytes", "l2_read_bytes", "fabric_bytes", "cycles", "time_s")


def predicted(launch: Any, device: str) -> dict[str, Any]:
    """What is predicted of a launch: time [us], traffic [B], resources; or why it is refused."""
    begun = time.process_time()
    row = tilesight.predict([launch], device, l2="cold", time_limit_s=None).rows[0]
    if row.prediction is None:
        return {"refused": row.refused}
    prediction = row.prediction
    fields = {name: getattr(prediction.traffic, name) for name in TRAFFIC}
    fields |= {"us": prediction.traffic.time_s * 1e6, "bound": prediction.bottleneck, "clock_hz": prediction.clock_hz}
    fields |= {"registers": prediction.registers_per_thread, "spilled_bytes": prediction.spilled_bytes_per_thread}
    fields["cpu_s"] = round(time.process_time() - begun, 2)
    return fields | {"smem_bytes": prediction.smem_bytes_per_cta, "known": [row.known_accesses, row.accesses]}


def recorded(cell: Cell, indices: list[int], device: str, file: Path) -> list[tuple[dict[str, Any], Any]]:
    """Launches of some configurations of a cell, each with what its line begins with."""
    pairs, tensors = [], cell.make("meta")
    for index in indices:
        line = {"cell": cell.name, "family": cell.family, "index": index, "device": device}
        line["config"] = cell.configs[index]
        try:
            with tilesight.capture(device) as launches:
                kernel, grid, args, named = cell.launch(tensors, cell.configs[index])
                kernel[grid](*args, **named)
            pairs.append((line, launches[0]))
        except Exception as error:
            write(file, line | {"failed": f"capture: {type(error).__name__}: {error}"[:400]})
    return pairs


def main() -> None:
    """Write the lines as they come."""
    parser = argparse.ArgumentParser()
    parser.add_argument("file", type=Path)
    parser.add_argument("--device", default="h100")
    parser.add_argument("--families", nargs="+", choices=FAMILIES, default=FAMILIES)
    parser.add_argument("--cells", default="", help="part of names")
    parser.add_argument("--limit", type=int, default=120)
    parser.add_argument("--most", type=int, default=1 << 30, help="configurations, and end")
    options = parser.parse_args()
    lines = options.file.read_text().splitlines() if options.file.exists() else []
    known = {(line["cell"], line["index"]) for line in map(json.loads, lines) if line["device"] == options.device}
    left = options.most
    predicted(recorded(CELLS[SMALL], [0], options.device, options.file)[0][1], options.device)
    for cell, indices in sliced(options.families, options.cells):
        todo = [index for index in indices if (cell.name, index) not in known][:left]
        left -= len(todo)
        if not todo:
            continue
        pairs = recorded(cell, todo, options.device, options.file)
        compile_ahead((launch for _, launch in pairs), options.device)
        for line, launch in pairs:
            limited(options.file, line, lambda launch=launch: predicted(launch, options.device), options.limit)
        print(f"{cell.name}: {len(pairs)} of {len(todo)}", flush=True)


if __name__ == "__main__":
    main()
