"""Measure every launch of the public cases on the GPU of this machine: one command, what can be had in its time.

    python validate/lab/public/measure.py OUT [--round 5 6 7] [--seconds 280] [--cases NAME ...] [--seed 0]

Writes to the folder OUT, as it goes, a line for each launch: `launches.jsonl` (what was compiled), `cold.jsonl`
(counted with caches flushed; the tables of Nsight Compute stand among the lines), `times.jsonl` (medians), `warm.jsonl`
(counted after the same launch), and `log.txt`. In this order, so that cold counters exist first. A case that fails is
left out of what follows.

Needs torch, triton, ncu, and the libraries on PYTHONPATH; nothing of Tilesight.
"""

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

from rounds import ROUNDS, cases_of

ESSENTIAL = (
    "dram__bytes_read.sum",
    "dram__bytes_write.sum",
    "sm__cycles_elapsed.max",
    "gpu__time_duration.sum",
)
FULL = (
    *ESSENTIAL,
    "l1tex__m_xbar2l1tex_read_bytes.sum",
    "lts__t_sectors_srcunit_tex_op_read.sum",
    "lts__t_sectors_srcunit_tex_op_write.sum",
    "lts__t_sectors_srcunit_ltcfabric.sum",
    "smsp__inst_executed.sum",
)
MOST = (
    *FULL,
    "l1tex__m_l1tex2xbar_write_bytes.sum",
    "lts__t_sectors_srcunit_tex_op_read_lookup_hit.sum",
    "l1tex__t_sectors_pipe_lsu_mem_local_op_ld.sum",
    "l1tex__t_sectors_pipe_lsu_mem_local_op_st.sum",
)
WORKERS, CHUNK, SHARDS = 15, 2, 3
COMPILE_S, SHARE_COLD, SHARE_TIMES = 110.0, 0.75, 0.45
"""Seconds for compiling at most; of what is left, the part for cold counters; of what is left then, that for times."""


def main() -> None:
    """Role by the first argument: `work` in the processes that the driver starts, else the driver."""
    if sys.argv[1:2] == ["work"]:
        work(sys.argv[2], Path(sys.argv[3]), sys.argv[4:])
        return
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("--round", type=int, nargs="+", choices=sorted(ROUNDS), default=sorted(ROUNDS))
    parser.add_argument("--seconds", type=float, default=280.0)
    parser.add_argument("--cases", nargs="*", default=[])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--list", action="store_true", help="name the cases and end")
    options = parser.parse_args()
    names = list(cases_of(options.round, options.cases))
    if options.list:
        print("\n".join(names))
        return
    random.Random(options.seed).shuffle(names)
    Driver(options.out, time.monotonic() + options.seconds).run(names)


class Driver:
    """Starts the processes that compile, count and time, and keeps to the time. Args: deadline_s: of `monotonic`."""

    def __init__(self, out: Path, deadline_s: float) -> None:
        self.out, self.deadline_s = out, deadline_s
        out.mkdir(parents=True, exist_ok=True)
        os.environ.setdefault("TRITON_CACHE_DIR", "/tmp/triton-public")

    def run(self, names: list[str]) -> None:
        """All steps."""
        self.log(f"{len(names)} cases, {self.left():.0f} s")
        self.compile(names, min(COMPILE_S, 0.45 * self.left()))
        good = [name for name in names if name in self.done("launches.jsonl", "registers")]
        self.log(f"compiled: {len(good)} of {len(names)} cases; {self.left():.0f} s left")
        self.count("cold", good, SHARE_COLD * self.left(), MOST)
        self.log(f"cold: {len(self.done('cold.jsonl', 'order'))} cases; {self.left():.0f} s left")
        self.step("times", good, SHARE_TIMES * self.left())
        self.log(f"times: {len(self.done('times.jsonl', 'median_ms'))} cases; {self.left():.0f} s left")
        self.count("warm", good, self.left() - 3, ESSENTIAL)
        self.log(f"warm: {len(self.done('warm.jsonl', 'order'))} cases; {self.left():.0f} s left")

    def compile(self, names: list[str], limit_s: float) -> None:
        """Run each case once, many at a time, which fills Triton's cache."""
        until = time.monotonic() + limit_s
        chunks = [names[at : at + CHUNK] for at in range(0, len(names), CHUNK)]

        def of(chunk: list[str]) -> None:
            while chunk and time.monotonic() < until:
                self.process(["work", "launches", str(self.out), *chunk], until - time.monotonic())
                ended = self.done("launches.jsonl", "case")
                rest = [name for name in chunk if name not in ended]
                if len(rest) == len(chunk):
                    self.write("launches.jsonl", {"case": chunk[0], "error": "the process died, or time ran out"})
                    rest = rest[1:]
                chunk = rest

        with ThreadPoolExecutor(WORKERS) as pool:
            list(pool.map(of, chunks))

    def step(self, role: str, names: list[str], limit_s: float) -> None:
        """One process for all cases; where it dies, another for what is left, without the case it died of."""
        until, rest = time.monotonic() + limit_s, names
        while rest and time.monotonic() + 5 < until:
            self.process(["work", role, str(self.out), *rest], until - time.monotonic())
            rest = self.remaining(role, rest)

    def remaining(self, role: str, names: list[str]) -> list[str]:
        """Cases behind the last that was begun."""
        begun = self.done(f"{role}.jsonl", "case")
        last = max((at for at, name in enumerate(names) if name in begun), default=-1)
        return names[last + 1 :] if last >= 0 else []

    def count(self, role: str, names: list[str], limit_s: float, metrics: tuple[str, ...]) -> None:
        """Counters, some cases at a time: what ncu has read it prints at its end alone."""
        until, rest, ncu = time.monotonic() + limit_s, names, ncu_path()
        size = -(-len(names) // SHARDS)
        while rest and time.monotonic() + 15 < until:
            table = self.out / f"{role}.part"
            part, left_s = rest[:size], until - time.monotonic()
            command = [ncu, "--csv", "--page", "raw", "--print-units", "base", "--clock-control", "none"]
            command += ["--cache-control", "all" if role == "cold" else "none", "--profile-from-start", "off"]
            command += [
                "--target-processes",
                "application-only",
                "--log-file",
                str(table),
                "--metrics",
                ",".join(metrics),
            ]
            begun = time.monotonic()
            self.process(["work", role, str(self.out), *part], left_s, command, stop_s=left_s - 10)
            text = table.read_text(errors="replace") if table.exists() else ""
            self.write(f"{role}.jsonl", {"table": text})
            table.unlink(missing_ok=True)
            if '"ID",' not in text:
                self.log(f"{role}: ncu gave no table after {time.monotonic() - begun:.0f} s: {text[-600:]}")
                if metrics != ESSENTIAL:
                    metrics = FULL if metrics == MOST else ESSENTIAL
                    continue
            behind = self.remaining(role, part)
            rest = behind + rest[size:] if behind != part else rest[size:]

    def process(self, words: list[str], limit_s: float, before: list[str] | None = None, stop_s: float = 1e9) -> None:
        """Run this file again in a role. Args: before: what it runs under; stop_s: when it is to end by itself."""
        command = [*(before or []), sys.executable, str(Path(__file__).resolve()), *words]
        environment = os.environ | {"STOP_S": f"{stop_s:.1f}"}
        try:
            ended = subprocess.run(command, capture_output=True, text=True, timeout=max(limit_s, 1), env=environment)
        except subprocess.TimeoutExpired:
            self.log(f"{words[1]}: out of time: {words[3:6]}")
            return
        if ended.returncode:
            self.log(f"{words[1]} {words[3:6]}: status {ended.returncode}: {(ended.stdout + ended.stderr)[-800:]}")

    def done(self, file: str, field: str) -> set[str]:
        """Names of the cases that a file holds with a field."""
        return {line["case"] for line in lines_of(self.out / file) if field in line and "case" in line}

    def left(self) -> float:
        """Seconds left."""
        return self.deadline_s - time.monotonic()

    def write(self, file: str, line: dict[str, Any]) -> None:
        """Add a line to a file."""
        write(self.out / file, line)

    def log(self, text: str) -> None:
        """Say something, and keep it."""
        print(text, flush=True)
        with (self.out / "log.txt").open("a", encoding="utf-8") as file:
            file.write(f"{self.left():.0f} s left: {text}\n")


def lines_of(file: Path) -> Iterator[dict[str, Any]]:
    """The JSON lines of a file; one that is cut off is none."""
    for line in file.read_text(errors="replace").splitlines() if file.exists() else ():
        with suppress(ValueError):
            yield json.loads(line)


def write(file: Path, line: dict[str, Any]) -> None:
    """Add a JSON line to a file, at once."""
    with file.open("a", encoding="utf-8") as out:
        out.write(json.dumps(line) + "\n")


def ncu_path() -> str:
    """The ncu of this machine."""
    places = ["/usr/local/cuda/bin/ncu", *map(str, sorted(Path("/opt/nvidia/nsight-compute").glob("*/ncu")))]
    return shutil.which("ncu") or next((place for place in places if Path(place).exists()), "ncu")


def work(role: str, out: Path, names: list[str]) -> None:
    """In a process of its own: compile, count or time the launches of some cases."""
    import torch
    from launching import kept, ran

    cases, file, begun = cases_of(sorted(ROUNDS)), out / f"{role}.jsonl", time.monotonic()
    stop_s = float(os.environ.get("STOP_S", "1e9"))
    for name in names:
        if time.monotonic() - begun > stop_s:
            return
        if role != "launches":
            write(file, {"case": name, "begun": True})
        try:
            torch.manual_seed(0)
            with ran() as launches:
                cases[name].make("cuda")()
            torch.cuda.synchronize()
            for launch_name, launch in kept(launches).items():
                write(file, {"case": name, "name": f"{name}/{launch_name}", **ROLES[role](launch)})
            launches.clear()
            del launches
        except Exception as error:
            place = " ".join(
                f"{Path(at.filename).name}:{at.lineno}" for at in traceback.extract_tb(error.__traceback__)[-3:]
            )
            write(file, {"case": name, "error": f"{type(error).__name__}: {error}"[:600], "at": place})
            if "CUDA" in str(error):  # the context is lost
                raise
        torch.cuda.empty_cache()


def compiled(launch: Any) -> dict[str, Any]:
    """What the compiler says of a launch."""
    kernel = launch.kernel
    kernel._init_handles()
    meta = kernel.metadata
    return {
        "grid": launch.grid,
        "registers": kernel.n_regs,
        "spills": kernel.n_spills,
        "shared": meta.shared,
        "warps": meta.num_warps,
        "stages": meta.num_stages,
    }


def timed(launch: Any) -> dict[str, Any]:
    """The median that do_bench shows where nothing is asked of it [ms]; rounds before the seventh: of shorter runs."""
    import triton

    return {"median_ms": triton.testing.do_bench(launch.again, return_mode="median")}


def counted(launch: Any) -> dict[str, Any]:
    """One launch between the profiler's marks."""
    import torch

    counted.order += 1  # type: ignore[attr-defined]
    torch.cuda.synchronize()
    torch.cuda.cudart().cudaProfilerStart()
    launch.again()
    torch.cuda.synchronize()
    torch.cuda.cudart().cudaProfilerStop()
    return {"order": counted.order, "grid": launch.grid, "process": os.getpid()}  # type: ignore[attr-defined]


counted.order = -1  # type: ignore[attr-defined]


def counted_warm(launch: Any) -> dict[str, Any]:
    """The same after the same launch."""
    launch.again()
    return counted(launch)


ROLES = {"launches": compiled, "cold": counted, "times": timed, "warm": counted_warm}

if __name__ == "__main__":
    main()
