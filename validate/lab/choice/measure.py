"""Measure configurations of cells on the GPU of this machine: what can be had in its time.

    python validate/lab/choice/measure.py OUT [--families gemm rows ...] [--seconds 540] [--repeats 25] [--rounds 2]
        [--count 60] [--dry]

Attention backward alone, on an H100 in about 150 s; and all that there is to choose from, on whatever GPU there is:

    python validate/lab/choice/measure.py "$OUT" --families backward_kv backward_q --seconds 200
    python validate/lab/choice/measure.py "$OUT" --seconds 560 --repeats 15 \
        --families gemm decode rows attention backward_kv backward_q experts known

Goes in turns, some configurations of each cell and then more, so that whatever ends it leaves some of every cell; what
was not compiled in time is not measured. Writes to the folder OUT, as it comes, `measured.jsonl.xz`: a line for each
configuration and round with the times [us] by CUDA events,
`dirty` after zeroing 256 MiB as `do_bench` does (L2 holds what is yet to be written back), `clean` after reading as
much besides; what was compiled; and the error of what was written.
`machine.json`: versions, clocks, and what an empty kernel shows. `clocks.csv`: nvidia-smi, each 0.5 s. `counters.csv`:
Nsight Compute on `count` configurations of the experiments, caches flushed; `counted.jsonl`: which. `log.txt`.

All are compiled first, by processes that share Triton's cache on disk. Needs torch, triton and, for counters, ncu;
nothing of Tilesight. --dry: lists what would be done.
"""

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from cells import CELLS, Cell, sliced
from families import EXPERIMENTS, FAMILIES
from timing import Timer, machine, time_some, write

WORKERS = 16
METRICS = (
    "dram__bytes_read.sum", "dram__bytes_write.sum", "dram__cycles_active.avg", "dram__cycles_elapsed.avg",
    "sm__cycles_elapsed.max", "gpu__time_duration.sum", "l1tex__m_xbar2l1tex_read_bytes.sum",
    "lts__t_sectors_srcunit_tex_op_read.sum", "lts__t_sectors_srcunit_tex_op_read_lookup_hit.sum",
    "lts__t_sectors_srcunit_ltcfabric.sum", "lts__t_sectors_op_read.sum", "smsp__inst_executed.sum",
)  # fmt: skip
SHARE_COMPILE, SHARE_COUNT = 0.45, 0.3
"""Parts of the time for compiling, at most, and for counters."""


def chosen(families: list[str]) -> list[tuple[Cell, int]]:
    """All configurations of some families, in turns."""
    return [(cell, at) for cell, indices in sliced(families) for at in indices]


def compile_part(out: Path, families: list[str], part: int, until_s: float) -> None:
    """In a process of its own: compile every 16th of the codes, each where all shapes that share it are.

    Writes to the folder which it has tried.
    """
    made: dict[str, Any] = {}
    done = failed = 0
    order: dict[str, list[tuple[Cell, int]]] = {}
    for cell, at in chosen(families):
        order.setdefault(cell.family + json.dumps(cell.configs[at], sort_keys=True), []).append((cell, at))
    for group in list(order.values())[part::WORKERS]:
        for cell, at in group:
            if time.time() > until_s:
                print(f"part {part}: out of time after {done}", flush=True)
                return
            try:
                tensors = made.get(cell.name) or made.setdefault(cell.name, cell.make("meta"))
                kernel, grid, args, named = cell.launch(tensors, cell.configs[at])
                kernel.warmup(*args, grid=grid, **named)
                done += 1
            except Exception as error:
                failed += 1
                print(f"{cell.name} {at}: {type(error).__name__}: {error}"[:300], flush=True)
            write(out / f"tried-{part}.jsonl", {"cell": cell.name, "index": at})
    print(f"part {part}: {done} compiled, {failed} not", flush=True)


def count(out: Path, most: int, left_s: float) -> str:
    """Run this file again under ncu. Returns: what it said last."""
    places = ["/usr/local/cuda/bin/ncu", *map(str, sorted(Path("/opt/nvidia/nsight-compute").glob("*/ncu")))]
    ncu = shutil.which("ncu") or next((place for place in places if Path(place).exists()), "ncu")
    table = out / "counters.csv"
    command = [ncu, "--csv", "--page", "raw", "--print-units", "base", "--clock-control", "none"]
    command += ["--cache-control", "all", "--profile-from-start", "off", "--target-processes", "application-only"]
    command += [
        "--log-file",
        str(table),
        "--metrics",
        ",".join(METRICS),
        sys.executable,
        __file__,
        str(out),
        "--role",
        "count",
    ]
    command += ["--count", str(most)]
    command += ["--until", str(time.time() + left_s - 10)]
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=max(1.0, left_s))
    except subprocess.TimeoutExpired:
        return "ncu: out of time"
    return f"ncu: status {ended.returncode}: {(ended.stdout + ended.stderr)[-300:]}"


def count_some(out: Path, most: int, until_s: float) -> None:
    """Under ncu: one launch of some configurations of the experiments between the profiler's marks."""
    import torch

    picked = chosen(list(EXPERIMENTS))
    random.Random(0).shuffle(picked)
    tensors = {name: CELLS[name].make("cuda") for name in EXPERIMENTS}
    for order, (cell, at) in enumerate(picked[:most]):
        if time.time() > until_s:
            return
        kernel, grid, args, named = cell.launch(tensors[cell.name], cell.configs[at])
        kernel[grid](*args, **named)
        torch.cuda.synchronize()
        torch.cuda.cudart().cudaProfilerStart()
        kernel[grid](*args, **named)
        torch.cuda.synchronize()
        torch.cuda.cudart().cudaProfilerStop()
        write(out / "counted.jsonl", {"cell": cell.name, "index": at, "order": order, "grid": list(grid)})


def drive(options: argparse.Namespace) -> None:
    """Compile, time, count."""
    out, begun = options.out, time.time()
    until_s = begun + options.seconds
    out.mkdir(parents=True, exist_ok=True)

    def log(text: str) -> None:
        print(f"{time.time() - begun:5.0f} s: {text}", flush=True)
        with (out / "log.txt").open("a", encoding="utf-8") as file:
            file.write(f"{time.time() - begun:5.0f} s: {text}\n")

    work = Path(tempfile.mkdtemp())
    picked = chosen(options.families)
    log(f"{len(picked)} configurations of {len({cell.name for cell, _ in picked})} cells")
    compile_s = begun + SHARE_COMPILE * options.seconds
    common = [sys.executable, __file__, str(work), "--families", *options.families, "--role", "compile"]
    parts = [
        subprocess.Popen([*common, "--part", str(part), "--until", str(compile_s)], stdout=subprocess.PIPE, text=True)
        for part in range(WORKERS)
    ]
    for part in parts:
        said = part.communicate()[0].strip().splitlines()
        log(said[-1] if said else f"a compiler ended with status {part.returncode} and said nothing")
    tried = {
        (line["cell"], line["index"])
        for file in work.glob("tried-*.jsonl")
        for line in map(json.loads, file.read_text().splitlines())
    }
    wanted = "timestamp,clocks.sm,clocks.mem,power.draw,temperature.gpu,clocks_event_reasons.active"
    command = ["nvidia-smi", f"--query-gpu={wanted}", "--format=csv,noheader,nounits", "-lms", "500"]
    smi = subprocess.Popen(command, stdout=(out / "clocks.csv").open("w"))
    try:
        timer = Timer(options.repeats)
        (out / "machine.json").write_text(json.dumps(machine(timer), indent=1))
        count_s = SHARE_COUNT * options.seconds if options.count else 0.0
        for round_ in range(options.rounds):
            for cell, indices in sliced(options.families):
                ready = [at for at in indices if (cell.name, at) in tried]
                done = time_some(cell, ready, timer, out, round_, until_s - count_s - 5)
                log(f"round {round_}, {cell.name}: {done} of {len(indices)}")
        del timer
        if options.count:
            import torch

            torch.cuda.empty_cache()
            log(count(out, options.count, until_s - time.time() - 3))
        log(json.dumps(json.loads((out / "machine.json").read_text())))
    finally:
        smi.terminate()
    log("end")


def main() -> None:
    """Role by --role."""
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("--families", nargs="+", choices=FAMILIES, default=list(FAMILIES))
    parser.add_argument("--seconds", type=float, default=540.0)
    parser.add_argument("--repeats", type=int, default=25)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--count", type=int, default=0)
    parser.add_argument("--role", choices=("drive", "compile", "count"), default="drive")
    parser.add_argument("--part", type=int, default=0)
    parser.add_argument("--until", type=float, default=0.0)
    parser.add_argument("--dry", action="store_true")
    options = parser.parse_args()
    os.environ.setdefault("TRITON_CACHE_DIR", "/tmp/triton-choice")
    if options.dry:
        for cell in CELLS.values():
            if cell.family in options.families:
                print(cell.family, cell.name, len(cell.configs))
    elif options.role == "compile":
        compile_part(options.out, options.families, options.part, options.until)
    elif options.role == "count":
        count_some(options.out, options.count, options.until)
    else:
        drive(options)


if __name__ == "__main__":
    main()
