"""Write docs/validation/choice-h100.md from the kept predictions and measurements, and nothing else.

    python tests/gpu/choice/page.py [--check]

--check writes nothing and exits 1 where the page is not what the data say. Needs neither torch nor a GPU.
"""

import json
import lzma
import statistics
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
DATA = ROOT / "docs" / "lab" / "data"
PAGE = ROOT / "docs" / "validation" / "choice-h100.md"
MEASURED, PREDICTED = "choice-h100-2026-11-26.jsonl.xz", "choice-predicted-h100-cells-2026-11-26.jsonl.xz"
FIRST, TODAY = "bc89940", "2d6f266"
"""Commits of the model: before anybody had looked at what was measured, and with what was mended then."""
FAMILIES = ("gemm", "decode", "rows", "attention", "experts", "known")
MOST_ERROR = 0.03
"""Outputs that differ from torch's by more are not compared."""
LEAST = 10
"""Configurations of a cell that have to be predicted and measured."""
BEST = 5

Row = dict[str, Any]
INTRO = f"""\
# The choice of a configuration, against an H100

Each cell is a kernel at one shape with 30 to 44 configurations, drawn once and written down before anything was
measured (`tests/gpu/choice`). All were measured on one H100 (`NVIDIA H100 80GB HBM3`, driver 580.159.04, torch
2.11.0, triton 3.6.0, 2026-11-26): medians of 25 launches on a flushed L2, the better of two rounds. `chosen` is the
measured time of the configuration that is predicted fastest, over the fastest measured; `best of 3` the best of the
first three. Configurations whose output is wrong are left out.

The model of {FIRST} was predicted before anybody had looked at these measurements. Two mechanisms were mended then:
rows of tiles that were cut (found by `rms_norm` on this page, a plain fault), and reads of 128 B a row (its
constant is from the experiment `runs`, not from these cells). The second table is of {TODAY}, with both. `known`
are the models of an earlier report: development data. Cells of 2,048 tokens are not predicted whole: a
configuration that takes more than 60 s of CPU counts as not predicted.

"""


def lines_of(name: str) -> list[Row]:
    """Lines of a kept file."""
    with lzma.open(DATA / name, "rt", encoding="utf-8") as stream:
        return [json.loads(line) for line in stream]


@cache
def measured_us() -> dict[tuple[str, int], float]:
    """Cell and number of a configuration -> the better of its medians [us]."""
    best: dict[tuple[str, int], float] = {}
    for line in lines_of(MEASURED):
        key = line["cell"], line["index"]
        if line["family"] in FAMILIES and "clean_us" in line and (line.get("error") or 0.0) <= MOST_ERROR:
            best[key] = min(best.get(key, line["clean_us"]), line["clean_us"])
    return best


@cache
def cells_of(model: str) -> dict[str, list[tuple[Row, float]]]:
    """Cell -> predictions with what was measured of each, the fastest predicted first."""
    times = measured_us()
    cells: dict[str, list[tuple[Row, float]]] = defaultdict(list)
    for line in lines_of(PREDICTED):
        key = line["cell"], line["index"]
        if line["model"] == model and "us" in line and key in times:
            cells[line["cell"]].append((line, times[key]))
    return {
        cell: sorted(pairs, key=lambda pair: (pair[0]["us"], pair[0]["index"]))
        for cell, pairs in sorted(cells.items())
        if len(pairs) >= LEAST
    }


def regrets(cell: str, pairs: Sequence[tuple[Row, float]]) -> tuple[float, float]:
    """Measured time of the one predicted fastest, and of the best of three, over the best measured of the cell."""
    best = min(us for (name, _), us in measured_us().items() if name == cell)
    return pairs[0][1] / best, min(us for _, us in pairs[:3]) / best


def summary(model: str) -> Iterator[str]:
    """A row for each family."""
    yield "| kernels | cells | chosen, mean | worst | best of 3, mean | worst |"
    yield "|---|---|---|---|---|---|"
    cells = cells_of(model)
    for family in FAMILIES:
        of_family = [regrets(cell, pairs) for cell, pairs in cells.items() if pairs[0][0]["family"] == family]
        if of_family:
            columns = [[pair[place] for pair in of_family] for place in (0, 1)]
            figures = (f"{statistics.mean(column):.3f} | {max(column):.3f}" for column in columns)
            yield f"| {family} | {len(of_family)} | {' | '.join(figures)} |"
    yield ""


def details(model: str) -> Iterator[str]:
    """Each cell: the five fastest measured, with the rank given to them."""
    yield f"## Every cell, by {model}"
    yield ""
    yield "The five fastest measured, as measured time over the fastest, and the rank that the prediction gave."
    yield ""
    yield "| cell | predicted of measured | chosen | best of 3 | five fastest: time over the fastest, rank |"
    yield "|---|---|---|---|---|"
    times = measured_us()
    for cell, pairs in cells_of(model).items():
        ranks = {line["index"]: rank for rank, (line, _) in enumerate(pairs, 1)}
        fastest = sorted((us, index) for (name, index), us in times.items() if name == cell)
        chosen, third = regrets(cell, pairs)
        shown = (f"{us / fastest[0][0]:.3f} #{ranks.get(index, '-')}" for us, index in fastest[:BEST])
        yield f"| {cell} | {len(pairs)} of {len(fastest)} | {chosen:.3f} | {third:.3f} | {', '.join(shown)} |"
    yield ""


def page() -> str:
    """The whole page."""
    lines = [INTRO, f"By {FIRST}, blind:", "", *summary(FIRST), f"By {TODAY}:", "", *summary(TODAY), *details(TODAY)]
    return "\n".join(lines).rstrip() + "\n"


def main() -> None:
    """Write the page, or check it."""
    if "--check" in sys.argv[1:]:
        sys.exit(PAGE.read_text(encoding="utf-8") != page())
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
