"""Write the launches of `launches.ndjson` as TOML files with index data, predict them, and plan their measurement.

    python validate/lab/public_kernels/write.py FOLDER [FILE [NAME ...]]

FOLDER: has the cubins, compiled elsewhere from the projects' sources (nvcc 13.0.88, `-cubin -arch=sm_90a -lineinfo`);
gets a TOML file for each launch, and `plan.json` for `../public_cuda/measure.py`.
With a FILE each launch is predicted for an H200 on a cold L2: a line of JSON each, added; NAME: only these.
"""

import json
import re
import subprocess
import sys
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np
from made_data import MAKERS
from tilesight.kernels.given.launch import read_launches

import tilesight

HERE = Path(__file__).parent
LIMIT_S = 600.0
FIELDS = ("smem_fill_bytes", "l2_read_bytes", "l2_write_bytes", "hbm_read_bytes", "hbm_write_bytes")
DATA = re.compile(r"(?:(\w+)@\d+=|^)tensor:\w+\[[\d,]*\]@(\w+)\.npy")
"""A tensor with data: name, where it is within a struct, and file."""


def listed() -> dict[str, dict[str, Any]]:
    """All launches by name, in order."""
    rows = (json.loads(line) for line in (HERE / "launches.ndjson").read_text("utf-8").splitlines())
    return {row["name"]: row for row in rows}


def written(folder: Path) -> list[Path]:
    """The TOML files, those whose cubins are there."""
    for name, maker in MAKERS.items():
        np.save(folder / f"{name}.npy", maker())
    paths = []
    for name, row in listed().items():
        if (folder / row["cubin"]).exists():
            args = ", ".join(f'"{key}" = {json.dumps(value)}' for key, value in row["args"].items())
            said = (f"{key} = {json.dumps(row[key])}" for key in ("cubin", "kernel", "grid", "block", "smem"))
            paths.append(folder / f"{name}.toml")
            paths[-1].write_text("\n".join(("[[launch]]", *said, f"args = {{ {args} }}", "")), "utf-8")
    return paths


def data_of(args: dict[str, Any]) -> dict[str, str]:
    """Tensor of a launch -> file with its data."""
    texts = {key: value for key, value in args.items() if isinstance(value, str)}
    tensors = ((key, member, file) for key, text in texts.items() for member, file in DATA.findall(text))
    return {member or key: f"file:{file}.npy" for key, member, file in tensors}


def predicted(path: Path, row: dict[str, Any]) -> dict[str, Any]:
    """What is predicted of a launch. Args: row: of `launches.ndjson`."""
    begin, made = monotonic(), dict(row)
    prediction = tilesight.predict(read_launches(path), device="h200", l2="cold", workers=1, time_limit_s=LIMIT_S)
    (seen,) = prediction.rows
    made["predicted_us"] = 1e6 * seen.traffic.time_s if seen.prediction else None
    if seen.prediction:
        made |= {field: getattr(seen.traffic, field) for field in FIELDS}
        made |= {"instructions": seen.executed_instructions, "bottleneck": seen.to_dict()["bottleneck"]}
        made |= {"known_accesses": seen.known_accesses, "accesses": seen.accesses, "lower_bound": seen.lower_bound}
    notes = list(dict.fromkeys((*seen.notes, *prediction.notes)))
    made |= {"notes": notes, "refused": seen.refused, "took_s": round(monotonic() - begin, 1)}
    tree = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True, cwd=HERE)
    return made | {"tilesight": tree.stdout.strip()}


def main() -> None:
    """Write them, and predict them where a file is named."""
    sys.path.append(str(HERE.parent / "public_cuda"))
    from plan import planned

    folder, rows = Path(sys.argv[1]), listed()
    paths = written(folder)
    plans = [planned(path, data_of(rows[path.stem]["args"])) for path in paths]
    (folder / "plan.json").write_text(json.dumps(plans), "utf-8")
    chosen = [path for path in paths if not sys.argv[3:] or path.stem in sys.argv[3:]]
    for path in chosen if len(sys.argv) > 2 else ():
        line = json.dumps(predicted(path, rows[path.stem]))
        with Path(sys.argv[2]).open("a", encoding="utf-8") as file:
            file.write(line + "\n")
        print(path.stem, flush=True)


if __name__ == "__main__":
    main()
