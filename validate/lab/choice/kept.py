"""Files of predictions and measurements: read, and packed to be kept.

    python validate/lab/choice/kept.py OUT.ndjson.xz FILE [FILE ...] [--model COMMIT]

Packs lines without the single times, sorted; of a configuration that was predicted twice the last. --model: of what
predicted them. Needs neither torch nor a GPU.
"""

import argparse
import json
import lzma
from pathlib import Path
from typing import Any

Row = dict[str, Any]
SINGLE_TIMES = ("clean", "dirty", "warm")


def lines_of(file: Path) -> list[Row]:
    """The JSON lines of a file, packed or not."""
    with lzma.open(file, "rt", encoding="utf-8") if file.suffix == ".xz" else file.open(encoding="utf-8") as stream:
        return [json.loads(line) for line in stream if line.startswith("{")]


def main() -> None:
    """Pack."""
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--model")
    options = parser.parse_args()
    rows = [line for file in options.files for line in lines_of(file)]
    if options.model:
        rows = [line | {"model": options.model} for line in rows]
    keys = ("cell", "index", "device", "model", "round")
    last = {tuple(str(line.get(key)) for key in keys): line for line in rows}
    rows = [{name: value for name, value in line.items() if name not in SINGLE_TIMES} for line in last.values()]
    rows.sort(key=lambda line: (line["cell"], line["index"], line.get("round", 0)))
    options.out.write_bytes(lzma.compress("".join(json.dumps(line) + "\n" for line in rows).encode(), preset=9))
    print(f"{options.out}: {len(rows)} lines")


if __name__ == "__main__":
    main()
