"""Write docs/validation/public-kernels.md from the kept predictions and measurements, and nothing else.

    python validate/lab/public/page.py [--check]

Every figure of the page comes from validate/data; what is known of single errors stands by hand in
docs/validation/public-kernels-errors.md. --check prints nothing and exits 1 where the page is not what the data say.
"""

import csv
import statistics
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compare import errors, key, lines_of, measured

ROOT = Path(__file__).resolve().parents[3]
DATA = ROOT / "validate" / "data"
PAGE = ROOT / "docs" / "validation" / "public-kernels.md"
TIME, DO_BENCH, SMS = "time, ncu", "time, do_bench", "bytes into SMs"
SHOWN = (TIME, DO_BENCH, "HBM read, cold", "HBM read, warm", "HBM written", SMS, "instructions")
"""Quantities that each launch is listed with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """A round of launches that was predicted, then measured.

    Args:
        title: of its section.
        predicted: file of predictions.
        commit: that holds them, made before the measurements were looked at.
        measured: file of measurements.
        date: of the measurements.
        round, device: which lines of `predicted` count, if they are marked blind.
        blind: what nobody had seen when it was predicted.
    """

    title: str
    predicted: str
    commit: str
    measured: str
    date: str
    round: int
    device: str
    blind: str


def _rounds() -> tuple[Round, ...]:
    with (Path(__file__).parent / "predicted_rounds.csv").open(encoding="utf-8", newline="") as rows:
        return tuple(Round(**(row | {"round": int(row["round"])})) for row in csv.DictReader(rows))  # type: ignore[arg-type]


ROUNDS = _rounds()
"""All rounds, in the order of their sections."""

INTRO = """\
# Launches of public libraries, predicted blind

Errors in percent, (predicted - measured) / measured, of kernels that Tilesight has no schedule for:
launches of some 70 public libraries, captured from the libraries' own Python functions on tensors without data,
compiled and traced without a GPU.
Each round was predicted and committed by the model of that day before anybody had seen what was measured of it,
and is kept as it was; what was mended afterwards shows in [the sample predicted again](#predicted-again) alone.
Between rounds the model was developed on the rounds before: none is blind for the model of today.

Measured with driver 580.159.04, torch 2.11.0+cu130, triton 3.6.0, clocks left alone:
counters by `ncu` of one launch on flushed caches (cold) and after the same launch (warm),
and the median of `triton.testing.do_bench`.
An H200 is an `NVIDIA H200`, an H100 an `NVIDIA H100 80GB HBM3`.
`do_bench` is held against the time at the sustained clock and what it shows beyond `ncu`:
6.4 us, 2.3 us where a kernel takes less than 12 us
(medians of launches of these rounds, so this column alone is not blind for them); from the seventh round on
against what `--as do_bench` predicts, which is blind, and do_bench as it is called without options.
Empty: below 1 MB read, 20 MB written, or not measured.

`python validate/lab/public/page.py` writes this page from the data in [`validate/data`](../../validate/lab/README.md).
[`validate/lab/public`](../../validate/lab/public) holds the cases and the program that measures them;
the libraries and their versions stand in [`requirements.txt`](../../validate/lab/public/requirements.txt).
[What is behind the large errors](public-kernels-errors.md), as far as it is known, is a page of its own.
"""

SUMMARY = """\
## Summary

*Launches*: all that were asked for, but for one to three a round that were predicted and did not run on the GPU.
*Not predicted*: refused, beyond a limit of time or memory, or failed.
Means and medians are of the absolute errors of launches that were predicted, outliers included;
*within 12 %* is a share of **all** launches.
"""


@dataclass(frozen=True, slots=True)
class Launch:
    """A launch that was asked for.

    Args:
        told: its line of predictions.
        errors: of each quantity [%]; empty if the launch was not predicted.
    """

    told: dict[str, Any]
    errors: dict[str, float]


def launches_of(chosen: Round) -> list[Launch]:
    """The launches of a round, in order; without the few that were predicted but did not run on the GPU."""
    seen = measured(DATA / f"{chosen.measured}.ndjson.xz")
    found = []
    for told in lines_of(DATA / f"{chosen.predicted}.ndjson.xz"):
        wanted = told.get("round", 1) == chosen.round and told.get("device", "h200") == chosen.device
        if not wanted or not told.get("blind"):
            continue
        row = seen.get(key(told["name"], told["grid"])) if "cold" in told else None
        if row or "cold" not in told:
            found.append(Launch(told, errors(told, row) if row else {}))
    return found


def sizes(launches: Sequence[Launch], quantity: str) -> list[float]:
    """Absolute errors of a quantity, of the launches that have it [%]."""
    return [abs(launch.errors[quantity]) for launch in launches if quantity in launch.errors]


def mean_median(values: Sequence[float]) -> str:
    """Mean and median as a cell."""
    return f"{statistics.mean(values):.1f} ({statistics.median(values):.1f})" if values else ""


def summary_row(chosen: Round, launches: Sequence[Launch]) -> str:
    """A round's line of the summary."""
    predicted = [launch for launch in launches if TIME in launch.errors]
    times = sizes(predicted, TIME)
    worst = max((launch.errors[TIME] for launch in predicted), key=abs)
    fills, instructions = sizes(predicted, SMS), sizes(predicted, "instructions")
    equal = sum(
        all(abs(launch.errors.get(name, 0.0)) == 0.0 for name in ("registers", "shared memory", "warps"))
        for launch in predicted
    )
    cells = (
        chosen.title,
        chosen.date,
        chosen.commit,
        str(len(launches)),
        str(len(launches) - len(predicted)),
        mean_median(times),
        f"{sum(size <= 12 for size in times) / len(launches):.0%}".replace("%", " %"),
        f"{worst:+,.0f}",
        mean_median(sizes(predicted, DO_BENCH)),
        *(mean_median(sizes(predicted, name)) for name in ("HBM read, cold", "HBM read, warm", "HBM written")),
        f"{sum(size <= 1 for size in fills)} of {len(fills)}",
        f"{sum(size <= 0.1 for size in instructions)} of {len(instructions)}",
        f"{equal} of {len(predicted)}",
    )
    return f"| {' | '.join(cells)} |"


SUMMARY_HEAD = (
    "round",
    "measured",
    "predictions",
    "launches",
    "not predicted",
    "time, `ncu`: mean (median)",
    "within 12 %",
    "worst",
    "`do_bench`",
    "HBM read, cold",
    "HBM read, warm",
    "HBM written",
    "into the SMs within 1 %",
    "instructions within 0.1 %",
    "registers, shared memory, warps equal",
)


def head(titles: Sequence[str]) -> list[str]:
    """The first two lines of a table."""
    return [f"| {' | '.join(titles)} |", "|" + "---|" * len(titles)]


def section(chosen: Round, launches: Sequence[Launch]) -> Iterator[str]:
    """A round: every launch, and which were not predicted."""
    yield f"## {chosen.title}"
    yield ""
    yield f"Blind: {chosen.blind}."
    yield ""
    yield from head(("launch", "kind", *SHOWN))
    for launch in launches:
        if launch.errors:
            cells = (f"{launch.errors[name]:+.1f}" if name in launch.errors else "" for name in SHOWN)
            yield f"| `{launch.told['name']}` | {launch.told['kind']} | {' | '.join(cells)} |"
    missing = [launch.told for launch in launches if not launch.errors]
    if missing:
        yield ""
        yield "Not predicted:"
        yield ""
    for told in missing:
        reason = " ".join(str(told.get("refused") or told.get("failed")).split())
        yield f"- `{told['name']}`: {reason}"
    yield ""


def page() -> str:
    """The whole page."""
    rounds = [(chosen, launches_of(chosen)) for chosen in ROUNDS]
    lines = [INTRO, SUMMARY, *head(SUMMARY_HEAD)]
    lines += [summary_row(chosen, launches) for chosen, launches in rounds]
    from again_section import again_section

    lines += ["", *again_section()]
    for chosen, launches in rounds:
        lines += section(chosen, launches)
    return "\n".join(lines).rstrip() + "\n"


def main() -> None:
    """Write the page, or check it."""
    if "--check" in sys.argv[1:]:
        sys.exit(PAGE.read_text(encoding="utf-8") != page())
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
