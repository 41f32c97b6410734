"""The section of the public page on launches that were predicted again by a later model."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from compare import errors, key, lines_of, measured
from page import DATA, ROUNDS, SHOWN, SMS, TIME, head, launches_of, mean_median

AGAIN, AGAIN_BY, MOVED = "public-again-2026-11-26", "0ff5408", 2.0
"""What `again.py` wrote; the commit that predicted it; errors of time that differ by more are listed [points]."""


@dataclass(frozen=True, slots=True)
class Again:
    """A launch whose round was predicted, and that was predicted again. Args: title: of its round."""

    title: str
    told: dict[str, Any]
    first: dict[str, float]
    today: dict[str, float]

    @property
    def moved(self) -> float:
        """By how much the error of its time differs [points]."""
        return abs(self.today[TIME] - self.first[TIME])


def predicted_again() -> list[Again]:
    """The launches of the sample that were predicted again."""
    told = {(line["commit"], line["name"]): line for line in lines_of(DATA / f"{AGAIN}.ndjson.xz") if "cold" in line}
    found = []
    for chosen in ROUNDS:
        seen = measured(DATA / f"{chosen.measured}.ndjson.xz")
        for launch in launches_of(chosen):
            line = told.get((chosen.commit, launch.told["name"])) if TIME in launch.errors else None
            if line:
                today = errors(line, seen[key(launch.told["name"], launch.told["grid"])])
                found.append(Again(chosen.title, line, launch.errors, today))
    return found


def again_section() -> Iterator[str]:
    """The sample: means of both, and the launches that moved."""
    found = predicted_again()
    missing = sum("cold" not in line for line in lines_of(DATA / f"{AGAIN}.ndjson.xz"))
    yield "## Predicted again"
    yield ""
    yield (
        f"{len(found)} launches by the model of {AGAIN_BY}: the first of 72 that `validate/lab/public/again.py` drew "
        "at random from all that were predicted and measured (seed 20261126), without those of libraries that "
        f"`pip install --no-deps` alone does not install, or that do not capture; {missing} more not predicted, "
        "the others not reached in the time that there was."
    )
    yield "None is blind any more: the model was developed on these rounds. Mean (median) of the absolute errors:"
    yield ""
    yield from head(("predicted", *SHOWN))
    for title, side in (("first, blind", "first"), ("again", "today")):
        by_name = ([abs(getattr(one, side)[name]) for one in found if name in getattr(one, side)] for name in SHOWN)
        yield f"| {title} | {' | '.join(map(mean_median, by_name))} |"
    moved = sorted((one for one in found if one.moved > MOVED), key=lambda one: -one.moved)
    yield ""
    yield f"Time moved by more than {MOVED:g} points of error in {len(moved)} of them:"
    yield ""
    yield from head(("launch", "round", "time, `ncu`, first", "again", "bytes into SMs, first", "again"))
    for one in moved:
        cells = (
            f"{side[name]:+.1f}" if name in side else "" for name in (TIME, SMS) for side in (one.first, one.today)
        )
        yield f"| `{one.told['name']}` | {one.title} | {' | '.join(cells)} |"
    yield ""
