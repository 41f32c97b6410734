"""Write the launches of public projects' kernels as TOML files beside their cubins, and predict them for an H200.

    python validate/lab/public_cuda/launches.py CUBINS FOLDER [FILE [NAME ...]]

CUBINS: folder of what `build.sh` compiled, which is not kept here. LAUNCHES: what is launched, as `noted.py` tells it.
With FILE each is predicted on a cold L2: a line of JSON each, added; NAME: only these.
"""

import json
import shutil
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np
from tilesight.kernels.given.launch import read_launches
from values import values

import tilesight

LAUNCHES = Path(__file__).with_name("launches.ndjson")
LIMIT_S = 1500.0
FIELDS = ("smem_fill_bytes", "l2_read_bytes", "hbm_read_bytes", "hbm_write_bytes")


def listed() -> list[dict[str, Any]]:
    """All launches, in order."""
    return [json.loads(line) for line in LAUNCHES.read_text("utf-8").splitlines()]


def written(cubins: Path, folder: Path) -> list[Path]:
    """The TOML files, with cubins and data beside them."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for launch in listed():
        if not (folder / launch["cubin"]).exists():
            shutil.copy(cubins / launch["cubin"], folder / launch["cubin"])
        args = json.dumps(launch["args"])
        for name, what in launch["data"].items():
            text = next(part for part in args.split('"') if f"@{name}.npy" in part)
            dtype = text.split(f"@{name}.npy")[0].split("tensor:")[-1].split("[")[0]
            np.save(folder / f"{launch['name']}_{name}.npy", values(what, dtype))
            args = args.replace(f"@{name}.npy", f"@{launch['name']}_{name}.npy")
        filled = ", ".join(f'"{key}" = {json.dumps(value)}' for key, value in json.loads(args).items())
        lines = ["[[launch]]"] + [
            f"{key} = {json.dumps(launch[key])}" for key in ("cubin", "kernel", "grid", "block", "cluster")
        ]
        paths.append(folder / f"{launch['name']}.toml")
        paths[-1].write_text("\n".join((*lines, f"smem = {launch['smem']}", f"args = {{ {filled} }}", "")), "utf-8")
    return paths


def predicted(path: Path) -> dict[str, Any]:
    """What is predicted of a launch."""
    begin = monotonic()
    made: dict[str, Any] = {"name": path.stem}
    try:
        prediction = tilesight.predict(read_launches(path), device="h200", l2="cold", workers=1, time_limit_s=LIMIT_S)
        (row,) = prediction.rows
        made["predicted_us"] = 1e6 * row.traffic.time_s if row.prediction else None
        made |= {field: getattr(row.traffic, field) for field in FIELDS if row.prediction}
        made |= {"notes": list(prediction.notes), "missing_accesses": row.missing_accesses, "refused": row.refused}
    except (ValueError, RuntimeError) as error:
        made["refused"] = str(error)
    return made | {"took_s": round(monotonic() - begin, 1)}


def main() -> None:
    """Write them, and predict them where a file is named."""
    paths = written(Path(sys.argv[1]), Path(sys.argv[2]))
    if len(sys.argv) > 3:
        chosen = [path for path in paths if not sys.argv[4:] or path.stem in sys.argv[4:]]
        with Path(sys.argv[3]).open("a", encoding="utf-8") as file, ProcessPoolExecutor(1) as pool:
            for made in pool.map(predicted, chosen):
                file.write(json.dumps(made) + "\n")
                file.flush()
                print(made, flush=True)


if __name__ == "__main__":
    main()
