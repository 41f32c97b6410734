"""What an L2 keeps: the engine beside what ncu counted of `l2_policy.cu`, launch by launch.

    python validate/lab/l2_policy.py [FILE [DEVICE]]

Without FILE, what was counted on an H200, from `validate/data/`.
Differences are shares of the data that a launch touches. No GPU is needed.
"""

import json
import lzma
import sys
from pathlib import Path
from typing import Any

import numpy as np
from tilesight.simulator.arguments import Settings
from tilesight.simulator.device.device import Device, load_device
from tilesight.simulator.dtypes import DTYPES
from tilesight.simulator.engine.clock import Clocks
from tilesight.simulator.engine.costed import CostedLaunch
from tilesight.simulator.engine.engine import LaunchRun, run_launches
from tilesight.simulator.integers import cdiv
from tilesight.simulator.launch.program import Launch, Loop, Resources, Step, Tensor, Tile, TileProgram, affine
from tilesight.simulator.launch.walk import tally
from tilesight.simulator.residency.residency import residency_of
from tilesight.simulator.sm.step_cost import PIPES, StepCost

COUNTED = Path(__file__).parents[1] / "data" / "l2-h200-2026-11-21.json.xz"
CHUNK_BYTES = 4096
CTAS = 264
BUFFER = Tensor(name="X", role="scratch", slabs=1, rows=500_000, cols=CHUNK_BYTES // 2, dtype=DTYPES["fp16"])
FREE = StepCost(
    pipe_cycles=(0.0,) * len(PIPES),
    critical_path_cycles=50.0,
    smem_read_bytes=0,
    smem_write_bytes=0,
    executed_flop=0,
    other_flop=0,
    exp_count=0,
)
FIGURES = ("hbm_read_bytes", "hbm_write_bytes", "fabric_bytes")


def launch_of(record: dict[str, Any], sms: int) -> Launch:
    """A launch of the program: chunks dealt over the CTAs, or swept by one CTA on every SM."""
    chunks = int(record["megabytes"] * 1e6) // CHUNK_BYTES
    first, to = (int(record.get(key, 0) * 1e6) // CHUNK_BYTES for key in ("from", "to"))
    shared, back = record["kind"] == "shared", record.get("backwards", False)
    ctas, stride = (sms, 1) if shared else (CTAS, CTAS)
    starts = np.zeros(ctas, dtype=np.int64) if shared else np.arange(ctas, dtype=np.int64)
    trips = np.array([cdiv(chunks - start, stride) for start in starts])
    sources = first + (chunks - 1 - starts if back else starts)
    table = np.stack((np.zeros_like(starts), sources, to + starts, trips), axis=1)
    source = Tile(
        tensor="X",
        slab="slab",
        row=affine(source=1, i=-stride if back else stride),
        rows=1,
        cols=BUFFER.cols,
        path="async",
    )
    target = Tile(tensor="X", slab="slab", row=affine(target=1, i=stride), rows=1, cols=BUFFER.cols)
    loads = () if record["kind"] == "write" else (source,)
    stores = {"write": (source,), "copy": (target,)}.get(record["kind"], ())
    return Launch(
        name=record["kind"],
        grid=(ctas, 1, 1),
        num_warps=8,
        num_stages=1,
        program=TileProgram(
            tensors=(BUFFER,),
            variables=("slab", "source", "target", "trips"),
            items=lambda indices: table[indices],
            item_count=ctas,
            period_items=ctas,
            body=(Loop(counter="i", trips="trips", body=(Step(name="move", loads=loads, stores=stores),)),),
        ),
        resources=Resources(registers_per_thread=32, smem_bytes_per_cta=90_000),
        dtype="fp16",
    )


def replay(sequence: dict[str, Any], device: Device) -> list[LaunchRun]:
    """Launches of one sequence, from an empty L2."""
    launches = tuple(launch_of(record, device.sms) for record in sequence["launches"])
    costed = [
        CostedLaunch(
            launch=launch,
            residency=residency_of(launch, device),
            costs={"move": FREE},
            tally=tally(launch.program),
            clocks=Clocks(device.boost_clock_hz, device.boost_clock_hz),
        )
        for launch in launches
    ]
    return run_launches(costed, device, Settings(steady_state=False))


def main(path: str | Path = COUNTED, device_name: str = "h200") -> None:
    """Print a line for each launch, then mean differences."""
    device = load_device(device_name)
    differences = []
    stored = Path(path).read_bytes()
    for sequence in json.loads(lzma.decompress(stored) if str(path).endswith(".xz") else stored)["sequences"]:
        print(f"{sequence['name']}: {sequence['what']}")
        for record, run in zip(sequence["launches"], replay(sequence, device), strict=True):
            pairs = [(getattr(run, name) / 1e6, record[name] / 1e6) for name in FIGURES]
            shown = "  ".join(f"{seen:7.1f} /{real:7.1f}" for seen, real in pairs)
            print(f"  {record['kind']:<7}{record['megabytes']:6.0f} MB  {shown}")
            differences.append([abs(seen - real) / record["megabytes"] for seen, real in pairs])
    means = np.mean(differences, axis=0)
    print("mean difference over size: " + ", ".join(f"{n} {m:.3f}" for n, m in zip(FIGURES, means, strict=True)))


if __name__ == "__main__":
    main(*sys.argv[1:])
