"""CPU time and peak memory of answers, today's over those of another revision, run in turns on the same machine.

    python tests/benchmarks/bench_beside.py 9bc84fd [--rows int8,scan] [--turns 3] [--kernel-tools torch==2.11.0]

Checks the revision out below `build/`, with an environment of its own (`make install kernel-tools`), and makes today's
as well. Every run begins with an empty store of answers; engines are compiled before, but for the row that asks for
that. CPU seconds and memory are those of all processes of a run. Nothing else should run on the machine.
"""

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from bench_profile import FUNCTION
from bench_tune import KERNEL, adopt_orphans, cpu_s

ROOT = Path(__file__).resolve().parents[2]
KERNELS = Path(__file__).parent / "beside"
README = "explore --device h200 --schedule flash2 --batch 4 --heads 32 --seqlen 4096 --head-dim 64"
TUNE = "tune gemm.py:run --device h100"


@dataclass(frozen=True, kw_only=True)
class Row:
    """A question.

    Args:
        what: for people.
        command: of `tilesight`.
        before: commands of the same store that are not measured.
        compiles: whether the engine is compiled anew.
    """

    what: str
    command: str
    before: tuple[str, ...] = ()
    compiles: bool = False


ROWS = {
    "int8": Row(what="predict, int8 product with scales", command="predict int8_product.py:run --json"),
    "entropy": Row(what="predict, cross entropy in chunks", command="predict cross_entropy.py:run --json"),
    "scan": Row(what="predict, scan of 2,048 steps", command="predict scan.py:run --json"),
    "explore": Row(what="explore, README's 128 configurations", command=README),
    "tune": Row(what="tune, 60 configurations of a product", command=TUNE),
    "shape": Row(what="the same at another shape", command=f"{TUNE} --shapes other.txt", before=(TUNE,)),
    "again": Row(what="the first asked again", command=TUNE, before=(TUNE,)),
    "profile": Row(what="profile, a step of a few operations", command="profile step.py:step"),
    "help": Row(what="--help", command="--help"),
    "engine": Row(what="first simulation: compiling the engine", command="simulate --schedule flash2", compiles=True),
}


def main() -> None:
    """Ask each question of both in turns, and print ratios of today's figures to the other's: median (min, max)."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("revision", help="that today's tree is held against")
    parser.add_argument("--rows", help=f"of {', '.join(ROWS)}; default: all")
    parser.add_argument("--turns", type=int, default=3, help="of each question; default: 3")
    parser.add_argument("--kernel-tools", default="", help="torch and triton to install, as in the Makefile")
    given = parser.parse_args()
    rows = given.rows.split(",") if given.rows else list(ROWS)
    trees = {"then": _checked_out(given.revision), "today": ROOT}
    for tree in trees.values():
        tools = [f"KERNEL_TOOLS={given.kernel_tools}"] if given.kernel_tools else []
        subprocess.run(["make", "-C", tree, "--silent", "install", "kernel-tools", *tools], check=True)
    print(f"{'today / then':40} {'CPU time':>22} {'peak memory':>22}   CPU s, MB", flush=True)
    for name in rows:
        used: dict[str, list[tuple[float, float]]] = {which: [] for which in trees}
        for turn in range(given.turns + 1):
            for which, tree in trees.items():
                figures = measured(tree, ROWS[name])
                if turn > 0 or ROWS[name].compiles:  # the first turn compiles the engine
                    used[which].append(figures)
        ratios = [_ratios(used, column) for column in (0, 1)]
        middle = [tuple(statistics.median(run[column] for run in used[which]) for column in (0, 1)) for which in used]
        absolute = f"{middle[0][0]:.1f} -> {middle[1][0]:.1f}, {middle[0][1]:.0f} -> {middle[1][1]:.0f}"
        print(f"{ROWS[name].what:40} {ratios[0]:>22} {ratios[1]:>22}   {absolute}", flush=True)


def _ratios(used: dict[str, list[tuple[float, float]]], column: int) -> str:
    ratios = [today[column] / then[column] for then, today in zip(used["then"], used["today"], strict=True)]
    return f"{statistics.median(ratios):.2f} ({min(ratios):.2f}, {max(ratios):.2f})"


def _checked_out(revision: str) -> Path:
    tree = ROOT / "build" / f"beside-{revision}"
    if not tree.exists():
        subprocess.run(["git", "-C", ROOT, "worktree", "add", "--detach", tree, revision], check=True)
    return tree


def measured(tree: Path, row: Row) -> tuple[float, float]:
    """CPU time [s] and peak memory [MB] of a question put to a tree, with an empty store of answers."""
    with TemporaryDirectory() as folder:
        for kernel in KERNELS.glob("*.py"):
            shutil.copy(kernel, folder)
        for name, text in (("gemm.py", KERNEL), ("step.py", FUNCTION), ("other.txt", "M=8192, N=2048, K=4096\n")):
            Path(folder, name).write_text(text, encoding="utf-8")
        caches = {name: str(Path(folder, name)) for name in ("TILESIGHT_CACHE_DIR", "TRITON_CACHE_DIR")}
        engine = Path(folder) if row.compiles else tree / "build"
        environment = os.environ | caches | {
            "NUMBA_CACHE_DIR": str(engine / "numba"),
            "PYTHONPATH": str(tree / ".venv" / "kernel-tools"),
        }  # fmt: skip
        program = [str(tree / ".venv" / "bin" / "python"), "-m", "tilesight"]
        for command in row.before:
            subprocess.run([*program, *command.split()], cwd=folder, env=environment, check=True, capture_output=True)
        question = json.dumps([*program, *row.command.split()])
        run = [sys.executable, __file__, "--alone", question]
        done = subprocess.run(run, cwd=folder, env=environment, check=True, capture_output=True, text=True)
        cpu, peak = json.loads(done.stdout)
        return cpu, peak


def run_alone(command: list[str]) -> None:
    """Run a command alone below this process, and print its CPU time [s] and peak memory [MB] as JSON."""
    adopt_orphans()
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    print(json.dumps([cpu_s(), resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1e3]))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--alone"]:
        run_alone(json.loads(sys.argv[2]))
    else:
        main()
