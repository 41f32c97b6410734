"""What changed, in words: what the tables for people and the comment for a pull request share."""

from collections.abc import Sequence

from ...simulator import units
from ...simulator.display.render import Column, bound_text, times
from ..difference import FIGURES, Difference, Pair
from ..side import LaunchSide, Side
from ..source_change import SourceChange
from ..verdict import Change

MOST_FAMILIES = 6
MOST_LINES = 3
LONGEST_SOURCE = 60
BYTES = {"hbm_bytes", "l2_bytes", "smem_fill_bytes"}
KEPT_BYTES = {"spilled_bytes_per_thread", "smem_bytes_per_cta"}


def columns_of(pairs: Sequence[Pair]) -> list[Column]:
    """A row for each launch."""
    return [
        Column("launch", [pair.name for pair in pairs], left=True),
        Column("old", [time_text(pair.old) for pair in pairs]),
        Column("new", [time_text(pair.new) for pair in pairs]),
        Column("change", [change_text(pair.change) for pair in pairs]),
        Column("between", [band_text(pair.change) for pair in pairs], rank=2, left=True),
        Column("verdict", [verdict_text(pair) for pair in pairs], left=True),
        Column("bound by", [bounds_text(pair) for pair in pairs], rank=1, left=True),
    ]


def baseline_columns(difference: Difference) -> list[Column]:
    """What stands beside the time of each new launch that was predicted: its time before, and the change."""
    pairs = [pair for pair in difference.pairs if pair.new and pair.new.row.prediction]
    return [
        Column("was", [time_text(pair.old) or "-" for pair in pairs]),
        Column("change", [_change_or_same(pair) for pair in pairs]),
    ]


def _change_or_same(pair: Pair) -> str:
    return verdict_text(pair) if pair.unchanged or not pair.old else change_text(pair.change) or "-"


def heading_of(number: int, pair: Pair, timed: bool = False) -> str:
    """A launch and its verdict. Args: number: from 1; timed: whether its times and their band are told, too."""
    text = f"Launch {number}, {pair.name}: {verdict_text(pair)}"
    return f"{text}, {_spans(pair.change)}" if timed and pair.change else text


def change_text(change: Change | None) -> str:
    """New time over old one, e.g. `2.00x`; empty where there is none."""
    return times(change.ratio) if change else ""


def band_text(change: Change | None) -> str:
    """Where the truth lies, e.g. `1.68x to 2.38x`; empty where the change is exact or unknown."""
    if change is None or change.at_least or change.low == change.high:
        return ""
    return f"{times(change.low)} to {times(change.high)}"


def verdict_text(pair: Pair) -> str:
    """The verdict on a launch; of the same code that is said, and elsewhere it has a verdict, too."""
    if not pair.same_code:
        return pair.verdict
    return "same code" if pair.unchanged else f"{pair.verdict}, same code"


def time_text(side: LaunchSide | None) -> str:
    """Time of a launch; empty where there is none."""
    if side is None:
        return ""
    if side.row.refused:
        return "refused"
    return side.row.time_text if side.row.prediction else ""


def bounds_text(pair: Pair) -> str:
    """What binds, on both sides where it is another resource."""
    bounds = [bound_text(side.row.prediction) for side in (pair.old, pair.new) if side and side.row.prediction]
    return ", then ".join(bounds[-1:] if pair.unchanged else dict.fromkeys(bounds))


def head_text(difference: Difference) -> str:
    """Both sides, their devices and the verdict, in a line."""
    new = difference.new
    what = sides_text(difference)
    if difference.unchanged:
        return f"{what}: same code, {launches_text(len(new.launches))}"
    return f"{what}{f', L2 {new.l2}' if difference.change else ''}: {change_sentence(difference)}"


def launches_text(count: int) -> str:
    """E.g. `2 launches`."""
    return "1 launch" if count == 1 else f"{count} launches"


def change_sentence(difference: Difference) -> str:
    """The verdict, times, their ratio and its band."""
    return f"{difference.verdict}{f', {_spans(difference.change)}' if difference.change else ''}"


def _spans(change: Change) -> str:
    """E.g. `128 us to 160 us (1.26x; between 1.14x and 1.39x)`."""
    band = f"; between {band.replace(' to ', ' and ')}" if (band := band_text(change)) else ""
    return f"{units.duration(change.old_s)} to {units.duration(change.new_s)} ({change_text(change)}{band})"


def sides_text(difference: Difference) -> str:
    """Both sides, and where they run; what differs in that is said of each."""
    old, new = difference.old, difference.new
    if difference.machines.same:
        return f"{old.title} against {new.title} on {new.device}"
    before, after = (machine_text(side, other) for side, other in ((old, new), (new, old)))
    code = ", same code" if difference.same_code else ""
    return f"{old.title} on {before} against {f'{new.title} on ' if new.title != old.title else ''}{after}{code}"


def machine_text(side: Side, other: Side | None = None) -> str:
    """The device of a side, and its what-ifs, but for those that another has, too."""
    settings = [setting for setting in side.settings if not other or setting not in other.settings]
    return f"{side.device} with {', '.join(settings)}" if settings else side.device


def details_of(pair: Pair) -> list[str]:
    """What differs in a launch: what it takes and moves, what it executes, and at which lines of source."""
    if pair.unchanged or not pair.change:
        return []
    assert pair.old and pair.new
    texts = {name: [figure_text(name, value) for value in values] for name, values in pair.figures.items()}
    figures = [f"{FIGURES[name]} {before} to {after}" for name, (before, after) in _by_growth(texts, pair).items()]
    executed = list(pair.executed.items())
    families = [f"{name} {units.count(before)} to {units.count(after)}" for name, (before, after) in executed]
    left = [f"and {len(families) - MOST_FAMILIES} more"] if len(families) > MOST_FAMILIES else []
    edited = [change for change in pair.sources if change.edited]
    others = [change for change in pair.sources if not change.edited]
    by = ", ".join(str(change.place.number) for change in edited[:MOST_LINES])
    lines = f" (edited: {'line' if len(edited) == 1 else 'lines'} {by})" if 0 < len(edited) <= MOST_LINES else ""
    return [
        *([f"{', '.join(figures)}{lines}"] if figures else []),
        *map(line_text, [*edited, *others][:MOST_LINES]),
        *([f"executed: {', '.join([*families[:MOST_FAMILIES], *left])}"] if families else []),
    ]


def _by_growth(texts: dict[str, list[str]], pair: Pair) -> dict[str, list[str]]:
    """Figures whose texts differ, before and after, those that grew or shrank most first."""

    def growth(name: str) -> float:
        before, after = (value or 0 for value in pair.figures[name])
        return min(before, after) / max(before, after)

    return {name: texts[name] for name in sorted(texts, key=growth) if texts[name][0] != texts[name][1]}


def line_text(change: SourceChange) -> str:
    """A line of source, and what it executes now, e.g. `line 31 "y = x * 2": FFMA 34 to 0, FMUL 0 to 34`."""
    place = change.place
    text = place.text.strip()
    text = text if len(text) <= LONGEST_SOURCE else f"{text[: LONGEST_SOURCE - 1]}…"
    counts = [
        f"{name} {units.count(before)} to {units.count(after)}" for name, (before, after) in change.executed.items()
    ]
    left = [f"and {len(counts) - MOST_FAMILIES} more"] if len(counts) > MOST_FAMILIES else []
    where = f'line {place.number} "{text}"' if place.number else "no line that is known"
    side = "" if change.old and change.new else " (new)" if change.new else " (gone)"
    return f"{where}{side}: {', '.join([*counts[:MOST_FAMILIES], *left])}"


def unmatched(difference: Difference) -> list[str]:
    """Launches that no other answers, a line each."""
    lines = []
    for pair in difference.pairs:
        if pair.new is None:
            lines.append(f"{pair.name}: is launched by {difference.old.title} alone")
        elif pair.old is None:
            lines.append(f"{pair.name}: is launched by {difference.new.title} alone")
    return lines


def remarks(difference: Difference) -> list[str]:
    """What is to be said below: unmatched and refused launches, how functions ended, operations of torch, notes."""
    old, new = difference.old, difference.new
    refusals = [
        *(_refusal(old, pair.old, new, pair.new) for pair in difference.pairs),
        *(_refusal(new, pair.new, old, pair.old) for pair in difference.pairs),
    ]
    ended = [f"{side.title}: incomplete, its code ended in an error: {side.ended}" for side in (old, new) if side.ended]
    lines = filter(None, (*dict.fromkeys(refusals), *ended, difference.torch_note))
    return [*unmatched(difference), *lines, *difference.notes]


def _refusal(side: Side, launch: LaunchSide | None, other: Side, other_launch: LaunchSide | None) -> str:
    """Why a launch is refused, and whether the environment of the other side compiles it; empty where it is not."""
    if launch is None or not launch.row.refused:
        return ""
    if side.environment and other.environment and not launch.code and other_launch and other_launch.code:
        versions = f"{_versions(other, side)}, not with {_versions(side, other)}"
        return f"{launch.row.name}: compiles with {versions}: {launch.row.refused}"
    return f"{side.title}: refused: {launch.row.refused}"


def _versions(side: Side, other: Side) -> str:
    """What a side has of another version than the other, for people."""
    assert side.environment and other.environment
    parts, others = side.environment.text.split(", "), other.environment.text.split(", ")
    return ", ".join(part for part in parts if part not in others) or side.title


def figure_text(name: str, value: int | None) -> str:
    """A figure for people. Args: name: one of `FIGURES`."""
    if value is None:
        return "none"
    if name in BYTES:
        return units.traffic(value)
    if name in KEPT_BYTES:
        return units.capacity(value)
    return units.count(value) if name == "executed_instructions" else str(value)
