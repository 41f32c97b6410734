"""Write a page for each GPU, docs/validation/choice-GPU.md, from the kept predictions and measurements, nothing else.

    python validate/lab/choice/page.py [--check]

--check writes nothing and exits 1 where a page is not what the data say. Needs neither torch nor a GPU.
"""

import statistics
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from kept import Row, lines_of

ROOT = Path(__file__).resolve().parents[3]
DATA, PAGES = ROOT / "validate" / "data", ROOT / "docs" / "validation"
FAMILIES = ("gemm", "decode", "rows", "attention", "backward_kv", "backward_q", "experts", "known")
MOST_ERROR = 0.03
"""Outputs that differ from torch's by more are not compared."""
LEAST = 10
"""Configurations of a cell that have to be predicted and measured."""
BEST = 5

Models = tuple[str, ...]
"""Commits of the model; of each configuration the first that has predicted it counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """What is kept of a GPU. Args: measured, predicted: files; tables: heading and models; says: for readers."""

    name: str
    measured: tuple[str, ...]
    predicted: tuple[str, ...]
    tables: tuple[tuple[str, Models], ...]
    says: str


H100 = Gpu(
    name="H100",
    measured=("choice-h100-2026-11-26.ndjson.xz", "choice-h100-backward-2026-11-26.ndjson.xz"),
    predicted=(
        "choice-predicted-h100-cells-2026-11-26.ndjson.xz",
        "choice-predicted-h100-attention-2026-11-26.ndjson.xz",
        "choice-predicted-h100-experts-2026-11-26.ndjson.xz",
        "choice-predicted-h100-backward-2026-11-26.ndjson.xz",
        "choice-predicted-h100-again-2026-11-26.ndjson.xz",
    ),
    tables=(
        (
            "By bc89940, said blind (committed with the measurements); attention backward by 8117f39, blind:",
            ("bc89940", "8117f39"),
        ),
        ("By 2d6f266:", ("2d6f266",)),
        (
            "Attention, and experts that were missing still, by e5266b0; experts that were missing first by 7df7b24:",
            ("e5266b0", "2d6f266", "7df7b24"),
        ),
    ),
    says="""\
Each cell is a kernel at one shape with 30 to 44 configurations, drawn once and written down before anything was
measured (`validate/lab/choice`). All were measured on one H100 (`NVIDIA H100 80GB HBM3`, driver 580.159.04, torch
2.11.0, triton 3.6.0, 2026-11-26): medians of 25 launches on a flushed L2, the better of two rounds. `chosen` is the
measured time of the configuration that is predicted fastest, over the fastest measured; `best of 3` the best of the
first three. Configurations whose output is wrong are left out.

By the account of whoever measured, the model of bc89940 predicted before anybody had looked at these measurements;
git shows both in one commit (17d53e43). Attention backward was predicted in 26554675 and measured in 053fcf05.
Two mechanisms were mended then:
rows of tiles that were cut (found by `rms_norm` on this page, a plain fault), and reads of 128 B a row (its
constant is from the experiment `runs`, not from these cells). The second table is of 2d6f266, with both. `known`
are the models of an earlier report: development data. Attention with two warps was 12 % too fast in the mean; in
958423e FMA and a warp's matmuls exclude each other, and sub-cores are handed to small CTAs in turn, both from
experiments of their own (`validate/lab/mma_beside.cu`, `warp_places.cu`); attention alone was predicted again.
e5266b0 has a third one: a narrow matmul of a warpgroup holds the register port as long as it runs
(`validate/lab/wgmma_narrow.cu`), found by wrong choices of attention backward on an H200. Backward was measured on
another H100 a day's part later, before anybody had looked at its predictions by either model.

Cells of 512 and 2,048 tokens were not predicted whole: a configuration that took more than 60 s counted as not
predicted. Some of these were predicted later, by the code of a2f9772, which gives each of the 8 configurations that
both have predicted the same answer, bit for bit; more by 7df7b24 (or cac2fbb, which gives the same), which follows
threads that exchange values in a tenth of the time, after these measurements were known. No constant was fitted to
them; what 958423e changed moves two of five such configurations that were tried, by 0.2 and 0.5 %.
""",
)
H200 = Gpu(
    name="H200",
    measured=("choice-h200-2026-11-26.ndjson.xz", "choice-h200-decode-2026-11-26.ndjson.xz"),
    predicted=("choice-predicted-h200-2026-11-26.ndjson.xz",),
    tables=(
        ("By 9251139, said blind (committed with the measurements):", ("9251139",)),
        (
            "By 1584292 and earlier ones, of each configuration the last that could move it, not blind:",
            ("1584292", "e52dd29", "164369a", "958423e", "9251139"),
        ),
    ),
    says="""\
The same cells as [against an H100](choice-h100.md), and attention backward: launches for the gradients of K and V
(`backward_kv`) and of Q (`backward_q`), 8 shapes with 42 to 45 configurations each. All that could be launched were
measured once on an H200 (`NVIDIA H200`, driver 580.159.04, torch 2.11.0, triton 3.6.0, 2026-11-26): medians of 15
launches on a flushed L2. `chosen` is the measured time of the configuration that is predicted fastest, over the
fastest measured; `best of 3` the best of the first three. No output was wrong. `decode` was measured twice more, as
some of its times could not be explained: four of 42 configurations of `decode-128x4x4x3072x128` took 6 to 14 % less
then, near what was predicted; of each configuration the best median counts.

The predictions of 9251139 were made from the device file of the H200 in the same hour as the measurement, before
anybody had looked at it, by the account of whoever measured (git shows both in one commit, 55142a4e); not all cells
were reached in the time (`decode`, `rows`, `gemm`, `experts` and `known` are
parts). That model held a fault, found here and in the code alone: CTAs of one or two warps took up to four times too
long where an SM had fewer of them than would fit (`softmax-128x65536`, one warp: predicted 299 us, measured 84).
Configurations of one and two warps are not in the first table, though each is held against the fastest of all.
The second table has them, and three mechanisms from experiments of their own, none of them fitted on these cells: a
warp's matmul and FMA exclude each other, sub-cores are handed to small CTAs in turn (958423e), and a narrow matmul of
a warpgroup holds the register port as long as it runs (e52dd29, `validate/lab/wgmma_narrow.cu`; the wrong choices of
attention backward in the first table led to it).
""",
)
GPUS = (H100, H200)


@cache
def measured_us(gpu: Gpu) -> dict[tuple[str, int], float]:
    """Cell and number of a configuration -> the better of its medians [us]."""
    best: dict[tuple[str, int], float] = {}
    for line in [line for name in gpu.measured for line in lines_of(DATA / name)]:
        key = line["cell"], line["index"]
        if line["family"] in FAMILIES and "clean_us" in line and (line.get("error") or 0.0) <= MOST_ERROR:
            best[key] = min(best.get(key, line["clean_us"]), line["clean_us"])
    return best


@cache
def cells_of(gpu: Gpu, models: Models) -> dict[str, list[tuple[Row, float]]]:
    """Cell -> predictions with what was measured of each, the fastest predicted first."""
    times, said = measured_us(gpu), {}
    for line in [line for name in gpu.predicted for line in lines_of(DATA / name)]:
        if "us" in line and (line["cell"], line["index"]) in times:
            said[line["cell"], line["index"], line["model"]] = line
    cells: dict[str, list[tuple[Row, float]]] = defaultdict(list)
    for cell, index in sorted({key[:2] for key in said}):
        line = next((said[cell, index, model] for model in models if (cell, index, model) in said), None)
        if line:
            cells[cell].append((line, times[cell, index]))
    return {
        cell: sorted(pairs, key=lambda pair: (pair[0]["us"], pair[0]["index"]))
        for cell, pairs in cells.items()
        if len(pairs) >= LEAST
    }


def regrets(gpu: Gpu, cell: str, pairs: Sequence[tuple[Row, float]]) -> tuple[float, float]:
    """Measured time of the one predicted fastest, and of the best of three, over the best measured of the cell."""
    best = min(us for (name, _), us in measured_us(gpu).items() if name == cell)
    return pairs[0][1] / best, min(us for _, us in pairs[:3]) / best


def summary(gpu: Gpu, models: Models) -> Iterator[str]:
    """A row for each family."""
    yield "| kernels | cells | chosen, mean | worst | best of 3, mean | worst |"
    yield "|---|---|---|---|---|---|"
    cells = cells_of(gpu, models)
    for family in FAMILIES:
        of_family = [regrets(gpu, cell, pairs) for cell, pairs in cells.items() if pairs[0][0]["family"] == family]
        if of_family:
            columns = [[pair[place] for pair in of_family] for place in (0, 1)]
            figures = (f"{statistics.mean(column):.3f} | {max(column):.3f}" for column in columns)
            yield f"| {family} | {len(of_family)} | {' | '.join(figures)} |"
    yield ""


def details(gpu: Gpu, models: Models) -> Iterator[str]:
    """Each cell: the five fastest measured, with the rank given to them."""
    yield f"## Every cell, by {' and '.join(models)}"
    yield ""
    yield "The five fastest measured, as measured time over the fastest, and the rank that the prediction gave."
    yield ""
    yield "| cell | predicted of measured | chosen | best of 3 | five fastest: time over the fastest, rank |"
    yield "|---|---|---|---|---|"
    times = measured_us(gpu)
    for cell, pairs in cells_of(gpu, models).items():
        ranks = {line["index"]: rank for rank, (line, _) in enumerate(pairs, 1)}
        fastest = sorted((us, index) for (name, index), us in times.items() if name == cell)
        chosen, third = regrets(gpu, cell, pairs)
        shown = (f"{us / fastest[0][0]:.3f} #{ranks.get(index, '-')}" for us, index in fastest[:BEST])
        yield f"| {cell} | {len(pairs)} of {len(fastest)} | {chosen:.3f} | {third:.3f} | {', '.join(shown)} |"
    yield ""


def page(gpu: Gpu) -> str:
    """The whole page."""
    lines = [f"# The choice of a configuration, against an {gpu.name}", "", gpu.says, ""]
    for heading, models in gpu.tables:
        lines += [heading, "", *summary(gpu, models)]
    return "\n".join([*lines, *details(gpu, gpu.tables[-1][1])]).rstrip() + "\n"


def main() -> None:
    """Write the pages, or check them."""
    for gpu in GPUS:
        path = PAGES / f"choice-{gpu.name.lower()}.md"
        if "--check" not in sys.argv[1:]:
            path.write_text(page(gpu), encoding="utf-8")
        elif path.read_text(encoding="utf-8") != page(gpu):
            sys.exit(f"{path}: not what the data say")


if __name__ == "__main__":
    main()
